//! The daemon: watches a storage host, says what it would save, and saves it.

fn main() {}
