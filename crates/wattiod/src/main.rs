//! The daemon: watches a storage host, reports what it would save, and saves it.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
