//! `restore`: after a kill -9, or from systemd's `ExecStopPost=`.

use super::CONFIG;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wattio_host::Root;
use wattio_host::config::ServiceConfig;
use wattio_host::lock::Lock;
use wattiod::govern::read;
use wattiod::state;

/// A restore.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod restore                      as /etc/wattiod.toml says
  wattiod restore --state /tmp/state   what a daemon with this service.state left")]
pub struct Restore {
    /// The configuration; only its commands and state folder are needed. A wrong or missing file
    /// does not keep the rest from being restored.
    #[arg(default_value = CONFIG)]
    config: PathBuf,
    /// The state folder, where it is not that of the configuration.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Restore {
    pub fn run(&self, root: &Root) -> Result<ExitCode> {
        let source = match read(&self.config) {
            Ok(source) => Some(source),
            Err(error) if self.config != Path::new(CONFIG) || self.config.exists() => {
                eprintln!("wattiod: warning: {error:#}; going on without it");
                None
            }
            Err(_) => None,
        };
        let config = source.as_ref().map(|source| &source.config);
        let default = ServiceConfig::default();
        let service = config.map_or(&default, |config| &config.service);
        let folder = self.state.as_ref().unwrap_or(&service.state);
        let lock = Lock::take(folder)?;
        let (hands, restored) = state::take_hold(folder, config, root, &lock)?;
        drop(hands);
        if self.json {
            let place = |saved: &wattio_governor::Saved| json!({"address": saved.address, "value": saved.value, "knob": saved.knob});
            let left = restored.left.iter().map(|left| {
                json!({"place": place(&left.saved), "message": left.message, "mend": left.mend})
            });
            let object = json!({
                "restored": restored.restored.iter().map(place).collect::<Vec<_>>(),
                "foreign": restored.foreign,
                "left": left.collect::<Vec<_>>(),
            });
            println!("{object}");
        } else if restored.restored.is_empty() && restored.left.is_empty() {
            println!("nothing to restore");
        } else {
            state::describe(&restored).iter().for_each(|line| println!("{line}"));
        }
        Ok(ExitCode::from(u8::from(!restored.left.is_empty())))
    }
}
