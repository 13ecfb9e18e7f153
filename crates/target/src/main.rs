//! Serves crash-safe volumes over NBD.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
