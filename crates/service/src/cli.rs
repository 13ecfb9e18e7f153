//! What the commands of programs print to stdout.

use crate::log::printable;
use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints one line or several, fit for a terminal whatever names are in it; a closed pipe is not an
/// error.
pub fn say(text: &str) {
    if say_to(&mut io::stdout(), text).is_err() {
        std::process::exit(0);
    }
}

fn say_to(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable(text))
}

/// Prints what a shell completes the words of a program with.
#[must_use]
pub fn complete(shell: Shell, command: &mut Command) -> ExitCode {
    let (mut script, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, command, name, &mut script);
    match io::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `wattio-target check` printed names as they were.
    #[test]
    fn what_is_said_steers_no_terminal() {
        let mut said = Vec::new();
        say_to(&mut said, "\u{1b}]0;x\u{7}.vol: ok\nit was closed").unwrap();
        assert_eq!(said, b"\\u001b]0;x\\u0007.vol: ok\nit was closed\n");
    }
}
