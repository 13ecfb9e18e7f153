//! Power from a command that measures: lines with `"power_w"`, the mean since the line before.

use super::means::Means;
use crate::Root;
use crate::Stopwatch;
use crate::sources::exec::line::Line;
use crate::sources::exec::{BACK_OFF, Config, Listener};
use wattio_governor::{PowerSource, SourceError};
use wattio_units::{Seconds, Watts};

/// The command and its output.
pub(super) struct ExecMeter {
    name: String,
    stopwatch: Stopwatch,
    listener: Listener<EnergySlot>,
}

/// Energy since the last fetch: each line adds that since the one before.
#[derive(Debug)]
pub(super) struct EnergySlot {
    energy: Means,
    joules: f64,
    at: Option<Seconds>,
    error: Option<SourceError>,
}

impl Default for EnergySlot {
    fn default() -> Self {
        let energy = Means::of_energy(1.0, None, Seconds(0.0));
        Self { energy, joules: 0.0, at: None, error: None }
    }
}

impl EnergySlot {
    pub(super) fn post(&mut self, said: Result<(Seconds, f64), SourceError>) {
        match said {
            Ok((at, power_w)) => {
                if let Some(before) = self.at.replace(at) {
                    self.joules += power_w * (at - before).0.max(0.0);
                }
                let taken = self.energy.take(at, self.joules);
                self.error = taken.err().map(|message| SourceError::new("exec", message));
            }
            Err(error) => {
                self.energy.miss();
                (self.at, self.error) = (None, Some(error));
            }
        }
    }

    pub(super) fn fetch(&mut self, name: &str, now: Seconds) -> Result<Option<Watts>, SourceError> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => self.energy.tell(now).map_err(|message| SourceError::new(name, message)),
        }
    }
}

impl ExecMeter {
    /// Starts the command.
    ///
    /// # Errors
    /// When the configuration makes no sense. A command that ends is started again.
    pub fn open(config: &Config, root: &Root, stopwatch: Stopwatch) -> Result<Self, SourceError> {
        let (name, clock) = (config.name(), stopwatch.clone());
        let command = config.build(root)?;
        let read = move |line: Result<Line, String>| {
            Ok((clock(), line?.power_w.ok_or("it has no power_w")?))
        };
        let listener = Listener::start(&name, command, BACK_OFF, read, EnergySlot::post)?;
        Ok(Self { name, stopwatch, listener })
    }
}

impl PowerSource for ExecMeter {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, _: Seconds) -> Result<Option<Watts>, SourceError> {
        self.listener.lock().fetch(&self.name, (self.stopwatch)())
    }
}
