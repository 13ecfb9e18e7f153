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
    assert!(complaint.contains("'observe'"), "{complaint}");
    let (code, _, complaint) = said(&[]);
    assert_eq!(code, 2);
    assert!(complaint.contains("Usage: wattiod"), "{complaint}");
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
    assert!(complaint.contains("'much'"), "{complaint}");
    let (code, _, complaint) = said(&["set", "plf", "nan"]);
    assert!(code == 2 && complaint.contains("such as 0.1"), "{complaint}");
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
