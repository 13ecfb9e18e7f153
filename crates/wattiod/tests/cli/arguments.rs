//! Help, unknown commands and arguments, and nobody who answers.

use super::support::{GOOD, Place, said};

const COMMANDS: [&str; 10] =
    ["check", "init", "doctor", "observe", "run", "status", "set", "pause", "resume", "restore"];

#[test]
fn the_help_shows_every_command_with_an_example() {
    let (code, help, _) = said(&["--help"]);
    assert_eq!(code, 0);
    for part in ["Examples:", "Exit codes: 0 done, 1 found a problem, 2 bad input"] {
        assert!(help.contains(part), "{help}");
    }
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
        let (code, help, _) = said(&[command, "--help"]);
        assert_eq!(code, 0, "{command}");
        assert!(help.contains(&format!("Usage: wattiod {command}")), "{help}");
        assert!(help.contains(&format!("\n  wattiod {command}")), "{command}, an example: {help}");
    }
}

#[test]
fn a_missing_file_and_an_unknown_command_are_bad_input() {
    let place = Place::new(GOOD);
    let missing = place.text("missing.toml");
    for command in ["check", "observe", "run"] {
        let (code, _, complaint) = said(&[command, &missing]);
        assert_eq!(code, 2, "{command}: {complaint}");
        assert!(complaint.contains(&missing) && complaint.contains("No such file"), "{complaint}");
    }
    let (code, _, complaint) = said(&["obsrve"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("did you mean \"observe\"? allowed: check, init"), "{complaint}");
    let (code, _, complaint) = said(&[]);
    assert_eq!(code, 2);
    assert!(complaint.starts_with("wattiod: no command; allowed: check, init"), "{complaint}");
}

#[test]
fn nobody_to_ask_is_a_problem_and_says_where_it_was_looked_for() {
    let place = Place::new(GOOD);
    let socket = place.text("socket");
    for command in [&["status"][..], &["set", "plf", "0.1"], &["pause"], &["resume"]] {
        let arguments = [command, &["--socket", &socket]].concat();
        let (code, text, complaint) = said(&arguments);
        assert_eq!((code, text.as_str()), (1, ""), "{command:?}: {complaint}");
        let why = format!("no wattiod answers on {socket}");
        assert!(complaint.contains(&why) && complaint.contains("is it running"), "{complaint}");
    }
}

#[test]
fn what_cannot_be_set_says_what_can() {
    let (code, _, complaint) = said(&["set", "plff", "0.1"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("\"plff\"") && complaint.contains("plf can"), "{complaint}");
    let (code, _, complaint) = said(&["set", "plf", "much"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("VALUE: \"much\" is not a number such as 0.1"), "{complaint}");
    let (code, _, complaint) = said(&["set", "plf", "nan"]);
    assert!(code == 2 && complaint.contains("such as 0.1"), "{complaint}");
}

/// A negative span was taken for an option, and with `=` for one that never ends.
#[test]
fn options_say_what_is_allowed_in_one_line() {
    for (arguments, message) in [
        (
            &["observe", "--duration", "-5 s"][..],
            "--duration: \"-5 s\" is too short; allowed: above 0 s",
        ),
        (&["observe", "--duration=-5 s"], "--duration: \"-5 s\" is too short; allowed: above 0 s"),
        (&["run", "--duration", "-5"], "--duration: \"-5\" is not a time: it has no unit"),
        (
            &["run", "--alternate", "-1 min"],
            "--alternate: \"-1 min\" is too short; allowed: 5 s or more",
        ),
        (
            &["run", "--alternate", "10 s", "--governed-share", "-1%"],
            "--governed-share: \"-1%\" is not a share of the time; allowed: 0.1% to 99.9%",
        ),
        (
            &["observe", "a", "--disk", "\u{1b}[2J", "x\n"],
            "\"x\\n\": wattiod observe takes no more",
        ),
        (&["doctor", "--root", "/nowhere\u{1b}"], "--root /nowhere\\u001b: is not a folder"),
        (&["restore", "--root", "/dev/null"], "--root /dev/null: is not a folder"),
    ] {
        let (code, text, complaint) = said(arguments);
        assert_eq!((code, text.as_str()), (2, ""), "{arguments:?}: {complaint}");
        assert!(complaint.starts_with(&format!("wattiod: {message}")), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn a_configuration_that_is_not_text_is_told_with_its_place() {
    let place = Place::new("");
    let file = place.text("wattiod.toml");
    std::fs::write(&file, b"name = 'nas'\n# \xe4\n").unwrap();
    for command in ["check", "doctor", "observe", "run"] {
        let (code, _, complaint) = said(&[command, &file]);
        let message = format!("{file}: line 2: is not text in UTF-8 (byte 3 of the line)");
        assert!(code == 2 && complaint.contains(&message), "{command}: {complaint}");
    }
}

/// The second line passed for one about another file.
#[test]
fn a_name_of_two_lines_is_told_on_one() {
    let place = Place::new("");
    let file = place.text("a\n\u{1b}b.toml");
    std::fs::write(&file, GOOD).unwrap();
    let (code, text, _) = said(&["check", &file]);
    assert!(code == 0 && text.ends_with("/a\\u000a\\u001bb.toml: ok\n"), "{text}");
}

#[test]
fn shells_are_told_how_to_complete_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = said(&["completions", shell]);
        assert_eq!(code, 0, "{shell}");
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(said(&["completions", "ksh"]).0, 2);
}
