//! Every knob, and the sources that read the kernel's counters, against one body of conformance
//! (`crates/governor/tests/conformance`): on folders shaped like a host, on a mounted tree
//! (`tests/fuse`), and on the host itself.
//!
//! What needs root or hardware is skipped with its reason where that is missing. The binary needs
//! nothing but a kernel when it is linked statically, so that it runs in a guest too:
//!
//! ```text
//! RUSTFLAGS="-C target-feature=+crt-static" cargo test -p wattio-host --test conformance_knobs \
//!     --no-run --target x86_64-unknown-linux-gnu
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its host has failed")]

mod conformance;
