//! `check` and `doctor`: read-only.

use super::{CONFIG, say};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wattio_host::Root;
use wattio_host::ledger::power_model;
use wattio_host::processes::pollers::Threads;
use wattio_units::Seconds;
use wattiod::application::{NO_PERCENTILES, unjudged};
use wattiod::doctor::{examine, pollers};
use wattiod::govern::read;
use wattiod::log::{complain, printable_line};

/// How long threads are watched for polling.
const POLLERS_WATCHED: Duration = Duration::from_secs(1);

/// A check.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod check nas.toml")]
pub struct Check {
    /// The configuration.
    #[arg(default_value = CONFIG)]
    config: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A look at the host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wattiod doctor            what this host offers
  wattiod doctor nas.toml   also whether this configuration works here")]
pub struct Doctor {
    /// A configuration: also check whether this host has everything that it needs. Default:
    /// /etc/wattiod.toml, if it exists.
    config: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(&self) -> Result<ExitCode> {
        let source = read(&self.config)?;
        // It may be checked before it lies where it is to be: a model that is not there yet is no error.
        let model = source.config.power.model.as_deref();
        let model = model.and_then(|name| power_model(name, &self.config).err());
        if self.json {
            let found = json!({"file": self.config, "ok": true, "name": source.config.name});
            say(&found.to_string());
        } else {
            say(&format!("{}: ok", printable_line(&self.config.display().to_string())));
            for group in source.config.fixed_groups() {
                say(&format!(
                    "but group {group:?} has nothing to set: no core of it may leave, and there is no knob \
                     cpu.frequency"
                ));
            }
            if let Some(error) = model {
                say(&format!("but {error}; run and observe need it"));
            }
            for bound in source.config.unjudged_bounds() {
                say(&format!("but {}", unjudged(&bound.to_string(), "its source", NO_PERCENTILES)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Doctor {
    pub fn run(&self, root: &Root) -> Result<ExitCode> {
        let default = Path::new(CONFIG);
        let path = self.config.as_deref().or_else(|| default.exists().then_some(default));
        let source = path.map(read).transpose()?;
        let (earlier, began) = (Threads::look(root), Instant::now());
        std::thread::sleep(POLLERS_WATCHED);
        let mut findings = examine(root, source.as_ref());
        let span = Seconds(began.elapsed().as_secs_f64());
        findings.push(pollers(&earlier, &Threads::look(root), span));
        if self.json {
            say(&json!({"findings": findings}).to_string());
        } else {
            findings.iter().for_each(|finding| say(&finding.line()));
        }
        // A host need not have everything; a configuration must get what it asks for.
        let asked = findings.iter().filter(|finding| finding.what.starts_with('['));
        let missing = asked.filter(|finding| !finding.ok).count();
        if missing > 0 && self.config.is_none() && !self.json {
            // Nobody named it: the package brings an example there, which fits few hosts.
            complain(&format!(
                "{CONFIG} does not fit this host: mend what is named above, or have `wattiod init --out \
                 {CONFIG} --force` put a proposal in its place"
            ));
        }
        Ok(ExitCode::from(u8::from(missing > 0)))
    }
}
