//! The arguments of a program's command line, and the one message for those that are wrong.

use crate::cli::say;
use crate::log::{complain, printable_line};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error, Parser};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// The arguments of this process; or its exit code, if it was only asked for help (0) or if the
/// arguments are wrong (2), which has been said.
///
/// # Errors
/// The exit code.
pub fn arguments<P: Parser>() -> Result<P, ExitCode> {
    read(std::env::args_os().collect()).map_err(|ended| match ended {
        Ended::Asked(text) => {
            say(text.trim_end());
            ExitCode::SUCCESS
        }
        Ended::Wrong(message) => {
            complain(P::command().get_name(), &message);
            ExitCode::from(2)
        }
    })
}

/// Whether a path that was named cannot be used, however often it is tried: its folder is missing, is
/// not a folder or takes no file from this user, or its name is too long. A full disk is none of these.
#[must_use]
pub fn is_bad_path(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    )
}

/// Why there are no arguments.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The help or the version was asked for: this.
    Asked(String),
    /// What is wrong, and what is allowed.
    Wrong(String),
}

/// Reads the words of a command line; the first one is the program.
fn read<P: Parser>(words: Vec<OsString>) -> Result<P, Ended> {
    let command = P::command();
    let words = joined(words, &taking_values(&command));
    P::try_parse_from(&words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ended::Asked(error.to_string()),
        _ => Ended::Wrong(printable_line(&message(&command, &words, &error))),
    })
}

/// The options that take a value, with their dashes, of a command and those below it.
fn taking_values(command: &Command) -> BTreeSet<String> {
    let all = command.get_subcommands().chain([command]).flat_map(Command::get_arguments);
    let taking = all.filter(|one| one.get_action().takes_values());
    taking.filter_map(Arg::get_long).map(|name| format!("--{name}")).collect()
}

/// Words with negative quantities bound to their options: `--duration=-5 s`. They would be taken for
/// an option otherwise, and what is wrong with them would not be said.
fn joined(words: Vec<OsString>, taking: &BTreeSet<String>) -> Vec<OsString> {
    let mut found: Vec<OsString> = Vec::new();
    let mut is_over = false;
    for word in words {
        is_over |= word == "--";
        let option =
            found.last_mut().filter(|last| last.to_str().is_some_and(|last| taking.contains(last)));
        match option.filter(|_| !is_over && is_negative(&word)) {
            Some(option) => {
                option.push("=");
                option.push(word);
            }
            None => found.push(word),
        }
    }
    found
}

/// Whether a word begins as a negative number does, which no option does.
fn is_negative(word: &OsStr) -> bool {
    let text = word.to_string_lossy().to_lowercase();
    text.strip_prefix('-').is_some_and(|rest| {
        let digits = rest.strip_prefix('.').unwrap_or(rest);
        digits.starts_with(|first: char| first.is_ascii_digit())
            || rest.starts_with("inf")
            || rest.starts_with("nan")
    })
}

/// What is wrong, what is allowed, and where to read on.
fn message(command: &Command, words: &[OsString], error: &Error) -> String {
    let called = called(command, words);
    let help = format!("see {called} --help");
    let argument = named(error, ContextKind::InvalidArg).join(" and ");
    let value = texts(error, ContextKind::InvalidValue).concat();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            format!("no command; allowed: {}; {help}", commands(command))
        }
        ErrorKind::InvalidSubcommand => {
            let unknown = texts(error, ContextKind::InvalidSubcommand).concat();
            let close = suggested(&texts(error, ContextKind::SuggestedSubcommand));
            let allowed = commands(command);
            format!("unknown command {unknown:?}; {close}allowed: {allowed}; {help}")
        }
        ErrorKind::UnknownArgument if is_negative(OsStr::new(&argument)) => {
            let mut word = words.iter().map(|word| word.to_string_lossy());
            let word = word.rfind(|word| word.starts_with(&argument));
            format!("{:?} is neither a number nor an option; {help}", word.unwrap_or_default())
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let mut close = texts(error, ContextKind::SuggestedArg);
            close.retain(|name| is_shown(command, name));
            let close = close.first().map(|name| format!("did you mean {name}? "));
            let close = close.unwrap_or_default();
            format!("unknown option {argument}; {close}{called} --help lists what there is")
        }
        ErrorKind::UnknownArgument => {
            let word = texts(error, ContextKind::InvalidArg).concat();
            format!("{word:?}: {called} takes no more arguments; {help}")
        }
        ErrorKind::TooManyValues if !argument.starts_with('-') => {
            format!("{value:?}: {called} takes no more arguments; {help}")
        }
        ErrorKind::TooManyValues => {
            format!("{argument} takes no value, and was given {value:?}; {help}")
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{argument} needs a value; {help}")
        }
        ErrorKind::InvalidValue => {
            let allowed = texts(error, ContextKind::ValidValue).join(", ");
            let close = suggested(&texts(error, ContextKind::SuggestedValue));
            format!("{argument}: unknown value {value:?}; {close}allowed: {allowed}; {help}")
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            let quoted = format!("{value:?}");
            match why.contains(&quoted) {
                true => format!("{argument}: {why}; {help}"),
                false => format!("{argument}: {quoted}: {why}; {help}"),
            }
        }
        ErrorKind::ArgumentConflict => {
            let others = named(error, ContextKind::PriorArg);
            match others.is_empty() || others.contains(&argument) {
                true => format!("{argument} is given twice; once is allowed; {help}"),
                false => {
                    let others = others.join(", ");
                    format!("{argument} cannot be used together with {others}; {help}")
                }
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = named(error, ContextKind::InvalidArg);
            match missing.iter().any(|name| is_optional(command, name)) {
                true => format!("{argument} is missing: an option that is given needs it; {help}"),
                false if missing.len() == 1 => format!("{argument} is missing; {help}"),
                false => format!("{argument} are missing; {help}"),
            }
        }
        ErrorKind::InvalidUtf8 => {
            let word = words.iter().find(|word| word.to_str().is_none());
            let word = word.map(|word| word.to_string_lossy()).unwrap_or_default();
            format!("{word:?}: is not text in UTF-8, as all but paths must be; {help}")
        }
        _ => {
            let first = error.to_string();
            let first = first.lines().next().unwrap_or_default().trim_start_matches("error: ");
            format!("{first}; {help}")
        }
    }
}

/// The program and the command that is called, as far as it is known.
fn called(command: &Command, words: &[OsString]) -> String {
    let taking = taking_values(command);
    let mut is_value = false;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if word.starts_with('-') {
            is_value = taking.contains(word);
            continue;
        }
        return match command.find_subcommand(word) {
            Some(found) => format!("{} {}", command.get_name(), found.get_name()),
            None => break,
        };
    }
    command.get_name().to_owned()
}

/// The commands of a program that its help shows.
fn commands(command: &Command) -> String {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    shown.map(Command::get_name).collect::<Vec<_>>().join(", ")
}

/// Whether an option is one that some help shows.
fn is_shown(command: &Command, name: &str) -> bool {
    name == "--help" || options(command, name).any(|one| !one.is_hide_set())
}

/// Whether an option is needed only where others are given.
fn is_optional(command: &Command, name: &str) -> bool {
    options(command, name).any(|one| !one.is_required_set())
}

/// The options of this name, with its dashes, of a command and those below it.
fn options<'a>(command: &'a Command, name: &'a str) -> impl Iterator<Item = &'a Arg> {
    let all = command.get_subcommands().chain([command]).flat_map(Command::get_arguments);
    let name = name.strip_prefix("--");
    all.filter(move |one| name.is_some() && one.get_long() == name)
}

fn suggested(close: &[String]) -> String {
    close.last().map(|name| format!("did you mean {name:?}? ")).unwrap_or_default()
}

/// What an error says of this kind.
fn texts(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// The arguments that an error names, without what clap puts around them: `--size` of `--size
/// <SIZE>`, `PATH` of `<PATH>...`.
fn named(error: &Error, kind: ContextKind) -> Vec<String> {
    let bare = |text: &String| match text.starts_with('-') {
        true => text.split([' ', '=', '[']).next().unwrap_or_default().to_owned(),
        false => text.trim_matches(['<', '>', '[', ']', '.']).to_owned(),
    };
    texts(error, kind).iter().map(bare).collect()
}

/// A whole number within a range, as clap reads it.
///
/// # Errors
/// What is allowed.
pub fn whole_number(text: &str, allowed: RangeInclusive<usize>) -> Result<usize, String> {
    let found = text.parse().ok().filter(|number| allowed.contains(number));
    let (least, most) = (allowed.start(), allowed.end());
    found.ok_or_else(|| format!("{text:?} is not a whole number from {least} to {most}"))
}

/// A share, such as a latency tolerance, as clap reads it. Its range is for whoever is told it.
///
/// # Errors
/// What is allowed.
pub fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|number: &f64| number.is_finite());
    found.ok_or_else(|| format!("{text:?} is not a number such as 0.1, for 10 %"))
}

/// An IP address with a port, as clap reads it.
///
/// # Errors
/// What is allowed.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not an IP address with a port from 0 (any free one) to 65535, such as \
             127.0.0.1:10809 or [::1]:10809"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Subcommand};
    use proptest::prelude::*;

    #[derive(Debug, Parser)]
    #[command(name = "prog", version)]
    struct Arguments {
        #[command(subcommand)]
        command: Called,
        #[arg(long, global = true, hide = true)]
        root: Option<String>,
        #[arg(long, global = true)]
        verbose: bool,
    }

    #[derive(Debug, Subcommand)]
    enum Called {
        Run(Run),
        Set {
            #[arg(value_parser = share, allow_negative_numbers = true)]
            value: f64,
        },
        #[command(hide = true)]
        Secret,
    }

    #[derive(Debug, Args)]
    struct Run {
        #[arg(num_args = 1..=2, conflicts_with = "disk")]
        path: Vec<std::path::PathBuf>,
        #[arg(long, value_parser = |text: &str| whole_number(text, 1..=64))]
        count: Option<usize>,
        #[arg(long)]
        disk: Option<String>,
        #[arg(long, requires = "count")]
        share: Option<f64>,
        #[arg(long, value_parser = ["a", "b"])]
        kind: Option<String>,
        #[arg(long, value_parser = address)]
        page: Option<SocketAddr>,
    }

    fn told(words: &[&str]) -> Result<String, Ended> {
        let words = ["prog"].iter().chain(words).map(OsString::from).collect();
        read::<Arguments>(words).map(|read| format!("{read:?}"))
    }

    /// They were several lines in the words of the library that reads them.
    #[test]
    fn what_is_wrong_is_one_message_with_what_is_allowed() {
        let (program, run) = ("see prog --help", "see prog run --help");
        for (words, message) in [
            (&[][..], format!("no command; allowed: run, set; {program}")),
            (
                &["rin"],
                format!(
                    "unknown command \"rin\"; did you mean \"run\"? allowed: run, set; {program}"
                ),
            ),
            (&["\u{1b}x"], format!("unknown command \"\\u{{1b}}x\"; allowed: run, set; {program}")),
            (&["--nosuch"], "unknown option --nosuch; prog --help lists what there is".to_owned()),
            (
                &["run", "--dusk", "a"],
                "unknown option --dusk; did you mean --disk? prog run --help lists what there is"
                    .to_owned(),
            ),
            (
                &["--root", "set", "run", "--roo\u{1b}\n"],
                "unknown option --roo\\u001b\\u000a; prog run --help lists what there is"
                    .to_owned(),
            ),
            (&["run", "a", "b", "c"], format!("\"c\": prog run takes no more arguments; {run}")),
            (
                &["set", "1", "2"],
                "\"2\": prog set takes no more arguments; see prog set --help".to_owned(),
            ),
            (&["run", "--disk"], format!("--disk needs a value; {run}")),
            (
                &["run", "--count", "-5 s"],
                format!("--count: \"-5 s\" is not a whole number from 1 to 64; {run}"),
            ),
            (
                &["run", "--count", "65"],
                format!("--count: \"65\" is not a whole number from 1 to 64; {run}"),
            ),
            (&["run", "--share", "x"], format!("--share: \"x\": invalid float literal; {run}")),
            (
                &["run", "--share", "1"],
                format!("--count is missing: an option that is given needs it; {run}"),
            ),
            (&["run", "--kind", "c"], format!("--kind: unknown value \"c\"; allowed: a, b; {run}")),
            (
                &["run", "--page", "127.0.0.1:999999"],
                format!(
                    "--page: \"127.0.0.1:999999\" is not an IP address with a port from 0 (any free \
                     one) to 65535, such as 127.0.0.1:10809 or [::1]:10809; {run}"
                ),
            ),
            (
                &["run", "a", "--disk", "b"],
                format!("PATH cannot be used together with --disk; {run}"),
            ),
            (
                &["run", "--disk", "b", "--disk", "c"],
                format!("--disk is given twice; once is allowed; {run}"),
            ),
            (
                &["run", "--verbose=3"],
                format!("--verbose takes no value, and was given \"3\"; {run}"),
            ),
            (&["set"], "VALUE is missing; see prog set --help".to_owned()),
            (
                &["set", "-5%"],
                "\"-5%\" is neither a number nor an option; see prog set --help".to_owned(),
            ),
            (
                &["set", "much"],
                "VALUE: \"much\" is not a number such as 0.1, for 10 %; see prog set --help"
                    .to_owned(),
            ),
        ] {
            assert_eq!(told(words), Err(Ended::Wrong(message)), "{words:?}");
        }
    }

    #[test]
    fn what_is_right_is_read_and_help_is_no_fault() {
        for words in [
            &["run", "a"][..],
            &["run", "--disk=-x"],
            &["set", "-0.5"],
            &["set", "--verbose", "-0.5"],
        ] {
            assert!(told(words).is_ok(), "{words:?}");
        }
        let asked = |words| matches!(told(words), Err(Ended::Asked(text)) if text.contains("prog"));
        assert!(asked(&["--help"]) && asked(&["--version"]) && asked(&["run", "--help"]));
        assert!(asked(&["help", "run"]));
    }

    /// A file name may be any bytes; the name of a disk, for one, may not.
    #[test]
    fn bytes_that_are_no_text_are_told_of() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = OsString::from_vec(b"a\xff\x1b".to_vec());
        let words = |more: &[&str]| {
            let words = ["prog", "run"].iter().chain(more).map(OsString::from);
            words.chain([bytes.clone()]).collect::<Vec<_>>()
        };
        assert!(read::<Arguments>(words(&[])).is_ok());
        let message = "\"a\u{fffd}\\u{1b}\": is not text in UTF-8, as all but paths must be; see prog \
                       run --help";
        let found = read::<Arguments>(words(&["--disk"])).unwrap_err();
        assert_eq!(found, Ended::Wrong(message.to_owned()));
    }

    proptest! {
        #[test]
        fn no_words_panic_or_steer_the_terminal(
            words in prop::collection::vec("run|set|-{0,2}[a-z=]{0,5}|--(count|disk|share)|\\PC*|.{0,4}", 0..6)
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Err(Ended::Wrong(message)) = told(&words) {
                prop_assert!(!message.chars().any(char::is_control), "{message:?}");
                prop_assert!(message.contains("--help"), "{message}");
            }
        }
    }
}
