//! The programs that a configuration names, and whether it is safe for root to run them.

use crate::config::DaemonConfig;
use crate::machine::command::user;
use crate::sources::power::{MeterConfig, SourceConfig};
use crate::sources::{CpuConfig, LatencyConfig};
use crate::trust::{self, Untrusted};
use crate::{Root, knobs::KnobConfig};
use rustix::process::geteuid;
use std::path::Path;
use thiserror::Error;

/// A program that root must not run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{key} = {program:?}: {error}")]
pub struct UntrustedProgram {
    key: &'static str,
    program: String,
    error: Untrusted,
}

/// A program of a configuration: its key, its arguments, and the user it runs as.
type Named<'a> = (&'static str, Vec<&'a str>, Option<&'a str>);

/// Programs that run the file that their first argument names.
const INTERPRETERS: [&str; 10] =
    ["sh", "bash", "dash", "ksh", "zsh", "python", "perl", "ruby", "node", "lua"];

/// Checks that only trusted users (root, the caller, and the user each program runs as) may write a
/// configuration's programs and the scripts given to interpreters. Only root's daemon checks: a
/// user's own can do nothing that the user could not.
///
/// # Errors
/// [`UntrustedProgram`] names the key and the file.
pub fn check(config: &DaemonConfig, root: &Root) -> Result<(), UntrustedProgram> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let users = root.read("/etc/passwd").unwrap_or_default();
    for (key, words, name) in named(config) {
        let owner = name.and_then(|name| user(&users, name)).map(|(uid, _)| uid);
        for file in files(&words) {
            trust::check(Path::new(file), owner).map_err(|error| UntrustedProgram {
                key,
                program: file.to_owned(),
                error,
            })?;
        }
    }
    Ok(())
}

/// Every program that a configuration names.
fn named(config: &DaemonConfig) -> Vec<Named<'_>> {
    fn words(argv: &[String]) -> Vec<&str> {
        argv.iter().map(String::as_str).collect()
    }
    let mut found: Vec<Named<'_>> = Vec::new();
    for application in config.applications() {
        if let LatencyConfig::Exec(exec) = application.latency {
            found.push(("latency.command", words(&exec.command), Some(&exec.user)));
        }
        if let CpuConfig::Exec(exec) = application.cpu {
            found.push(("cpu.command", words(&exec.command), Some(&exec.user)));
        }
    }
    if let Some(MeterConfig::Source(SourceConfig::Exec(exec))) = &config.power.meter {
        found.push(("power.meter.command", words(&exec.command), Some(&exec.user)));
    }
    for knob in &config.knobs {
        for command in knob.commands() {
            let user = Some(command.user.as_str());
            found.push(("pause", words(&command.pause), user));
            found.push(("resume", words(&command.resume), user));
            found.extend(command.is_paused.as_ref().map(|argv| ("is_paused", words(argv), user)));
        }
        if let KnobConfig::Nvme(drives) = knob
            && drives.power_state.is_some()
        {
            found.push(("program", vec![&drives.program], None));
        }
    }
    found
}

/// The program, and the script where it is an interpreter.
fn files<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let Some((&program, arguments)) = words.split_first() else { return Vec::new() };
    let name = program.rsplit('/').next().unwrap_or(program);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let script = arguments.iter().find(|word| !word.starts_with('-'));
    let script = script.filter(|word| {
        INTERPRETERS.contains(&plain) && word.starts_with('/') && Path::new(word).is_file()
    });
    [program].into_iter().chain(script.copied()).filter(|file| file.starts_with('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    fn config(command: &str) -> DaemonConfig {
        let text = format!(
            "name = 'test'\n[latency]\nkind = 'exec'\ncommand = {command}\nuser = 'nobody'\n\
             [[group]]\nname = 'all'\ncores = '0'\n"
        );
        DaemonConfig::from_toml(&text).unwrap()
    }

    #[test]
    fn scripts_are_the_first_arguments_of_interpreters() {
        let here = std::env::current_exe().unwrap();
        let here = here.to_str().unwrap();
        assert_eq!(files(&["/bin/sh", here]), ["/bin/sh", here]);
        assert_eq!(files(&["/usr/bin/python3.11", "-u", here]), ["/usr/bin/python3.11", here]);
        assert_eq!(files(&["/usr/bin/tail", "-F", here]), ["/usr/bin/tail"], "a file to read");
        assert_eq!(files(&["/bin/sh", "-c", "exit 1"]), ["/bin/sh"]);
        assert!(files(&[]).is_empty());
    }

    /// A script that everybody may write ran as root.
    #[test]
    fn root_runs_no_script_that_others_may_write() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir(root.path("/etc")).unwrap();
        fs::write(root.path("/etc/passwd"), "nobody:x:65534:65534::/:/bin/false\n").unwrap();
        let script = folder.path().join("measure.sh");
        fs::write(&script, "exit 0").unwrap();
        let set = |mode| fs::set_permissions(&script, fs::Permissions::from_mode(mode)).unwrap();
        let name = script.to_str().unwrap();
        for command in [format!("['/bin/sh', '{name}']"), format!("['{name}']")] {
            let config = config(&command);
            set(0o755);
            assert_eq!(check(&config, &root), Ok(()));
            set(0o777);
            let message = check(&config, &root).unwrap_err().to_string();
            assert!(message.starts_with("latency.command = ") && message.contains("others may"));
            set(0o755);
            chown(&script, Some(65534), None).unwrap();
            assert_eq!(check(&config, &root), Ok(()), "his own, as himself");
            chown(&script, Some(65533), None).unwrap();
            assert!(check(&config, &root).is_err());
            chown(&script, Some(0), None).unwrap();
        }
    }
}
