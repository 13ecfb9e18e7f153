//! What the commands of programs print to stdout.

use crate::log::{printable, tell};
use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;
use wattio_files::plain;

/// Prints one line or several, fit for a terminal whatever names are in it. Whoever reads may stop
/// early: the command goes on, and its exit code says what it found. Any other error exits with 1.
pub fn say(text: &str) {
    if let Err(error) = say_to(&mut io::stdout(), text)
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        unwritable(&error);
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
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => unwritable(&error),
        _ => ExitCode::SUCCESS,
    }
}

fn unwritable(error: &io::Error) -> ! {
    tell(&format!("cannot write to standard output: {}\n", plain(error)));
    std::process::exit(1);
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
