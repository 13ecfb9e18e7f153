//! `restore`: after a kill -9, or from systemd's `ExecStopPost=`.

use super::{CONFIG, path_of, say};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_governor::{Restored, Severity};
use wattio_host::config::ServiceConfig;
use wattio_host::lock::{LockError, is_live};
use wattio_host::{Root, takeover};
use wattiod::assembly::BadInput;
use wattiod::govern::read_trusted;
use wattiod::keeper;
use wattiod::log::{log, printable_line};
use wattiod::state;

/// A restore.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod restore                      according to /etc/wattiod.toml
  wattiod restore --state /tmp/state   what a daemon with this service.state left")]
pub struct Restore {
    /// The configuration. Only its commands and its state folder are used; if the file is wrong or
    /// missing, everything else is restored all the same.
    #[arg(default_value = CONFIG)]
    config: PathBuf,
    /// The state folder, if it is not the one in the configuration.
    #[arg(long)]
    state: Option<PathBuf>,
    /// First wait for this process to end, as a daemon's keeper does.
    #[arg(long, value_name = "PID", hide = true, requires = "state")]
    after: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub fn run(&self, root: &Root) -> Result<ExitCode> {
        if let (Some(daemon), Some(state)) = (self.after, &self.state) {
            keeper::wait_for_end(daemon, state)?;
            if !takeover::is_held(state) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let (source, problem) = match read_trusted(&self.config, root) {
            Ok(source) => (Some(source), None),
            // Without a configuration the defaults hold; with a broken one, whatever can be read of
            // it.
            Err(_) if self.config == Path::new(CONFIG) && !self.config.exists() => (None, None),
            Err(error) => (None, Some(error)),
        };
        let config = source.as_ref().map(|source| &source.config);
        let said = config.map(|config| config.service.state.clone());
        // Named in the file, even if other keys are wrong.
        let named = || path_of(&self.config, "state").ok()?;
        let folder = self.state.clone().or(said).or_else(named);
        let folder = match (folder, &problem) {
            (Some(folder), _) => folder,
            (None, None) => ServiceConfig::default().state,
            (None, Some(error)) => {
                return Err(BadInput::new(format!(
                    "{error:#}; say with --state where the old values are kept"
                ))
                .into());
            }
        };
        if let Some(error) = &problem {
            let going_on = format!("{error:#}; going on with {}", folder.display());
            log(Severity::Warning, &going_on);
        }
        // Looking for old values must not create the folder. One that was named but does not exist may
        // be a typo, and what has to be restored elsewhere.
        let there = folder.is_dir();
        if !there && (self.state.is_some() || problem.is_some()) {
            let what = if folder.exists() { "is not a folder" } else { "there is no such folder" };
            let shown = folder.display();
            return Err(BadInput::new(format!("{shown}: {what}; nothing was restored")).into());
        }
        let restored = if there {
            let locks = match state::take_locks(&folder, root) {
                // The next daemon began, and has restored. Whoever else holds a lock has not.
                Err(LockError::Held { holder: Some(pid), .. })
                    if self.after.is_some() && is_live(pid) =>
                {
                    return Ok(ExitCode::SUCCESS);
                }
                locks => locks.map_err(state::StateError::from)?,
            };
            let (_hands, restored) = state::take_over(&folder, config, root, &locks)?;
            restored
        } else {
            Restored::default()
        };
        if self.after.is_some() {
            let well = restored.left.is_empty();
            let severity = if well { Severity::Warning } else { Severity::Error };
            for line in state::describe(&restored) {
                log(severity, &format!("of a daemon that was killed: {line}"));
            }
        } else if self.json {
            let place = |saved: &wattio_governor::Saved| json!({"address": saved.address, "value": saved.value, "knob": saved.knob});
            let left = restored.left.iter().map(|left| {
                json!({"place": place(&left.saved), "message": left.message, "mend": left.restore_command})
            });
            let object = json!({
                "restored": restored.restored.iter().map(place).collect::<Vec<_>>(),
                "foreign": restored.foreign,
                "left": left.collect::<Vec<_>>(),
            });
            say(&object.to_string());
        } else if restored == Restored::default() {
            let none = if there { "" } else { ": there is no such folder" };
            let folder = printable_line(&folder.display().to_string());
            say(&format!("nothing to restore in {folder}{none}"));
        } else {
            state::describe(&restored).iter().for_each(|line| say(line));
        }
        Ok(ExitCode::from(u8::from(!restored.left.is_empty())))
    }
}
