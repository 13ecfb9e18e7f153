//! A run's records, in the run format: the configuration, the machine, every window and every event
//! as it came. `wattio report` draws it.

use crate::status::{EventStatus, Status};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// One window of the law. Absent means not known.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WindowRow {
    /// End of the window, nanoseconds since 1970 in UTC.
    pub utc_ns: u64,
    /// End of the window on the monotonic clock.
    pub monotonic_ns: u64,
    /// Its length.
    pub dt_s: f64,
    /// Requests that completed.
    pub requests: Option<u64>,
    /// Their measured mean latency.
    pub latency_us_mean: Option<f64>,
    /// Their 99th percentile, if the source reports it.
    pub latency_us_p99: Option<f64>,
    /// Upper edges in microseconds (none: no upper edge) and requests.
    pub histogram: Option<Vec<(Option<f64>, u64)>>,
    /// What the law saw: measured, or in shadow mode estimated.
    pub latency_us_seen: Option<f64>,
    /// The latency of this load at full speed.
    pub baseline_us: Option<f64>,
    /// The bound.
    pub bound_us: Option<f64>,
    /// The law's state.
    pub state: Option<&'static str>,
    /// Why it decided as it did.
    pub reason: &'static str,
    /// Why full speed was forced.
    pub forced: Option<String>,
    /// Active cores of each group; in shadow mode, those that would be active.
    pub cores: Vec<u32>,
    /// Their frequency, where a knob turns it.
    pub frequency_hz: Vec<Option<f64>>,
    /// Measured use by clients.
    pub utilisation_clients: Vec<f64>,
    /// Measured use by background tasks.
    pub utilisation_background: Vec<f64>,
    /// Pace of background work.
    pub background_pace: f64,
    /// By the meter.
    pub power_w_measured: Option<f64>,
    /// Estimated for the setting.
    pub power_w_estimated: Option<f64>,
    /// Estimated at full speed.
    pub power_w_full_speed_estimated: Option<f64>,
}

/// The open files of a result folder.
pub struct Journal {
    folder: PathBuf,
    windows: BufWriter<File>,
    events: File,
    rows: u64,
}

/// Rows between two writes to disk: a kill loses half a minute at most.
const ROWS_PER_FLUSH: u64 = 60;

impl Journal {
    /// Creates `<results>/<name>/<stamp>/`.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn create(
        results: &Path,
        name: &str,
        stamp: &str,
        config: &str,
        machine: &serde_json::Value,
    ) -> io::Result<Self> {
        let folder = results.join(name).join(stamp);
        for part in ["raw", "samples", "report"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("study.toml"), config)?;
        fs::write(folder.join("machine.json"), format!("{machine:#}\n"))?;
        let windows = BufWriter::new(File::create(folder.join("raw/windows.jsonl"))?);
        let events = File::create(folder.join("raw/events.jsonl"))?;
        Ok(Self { folder, windows, events, rows: 0 })
    }

    /// Its path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records a window; now and then the status too.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn window(&mut self, row: &WindowRow, status: &Status) -> io::Result<()> {
        serde_json::to_writer(&mut self.windows, row)?;
        self.windows.write_all(b"\n")?;
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_FLUSH) {
            self.keep(status)?;
        }
        Ok(())
    }

    /// Records an event at once.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn event(&mut self, event: &EventStatus) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.events.write_all(&line)
    }

    /// Writes what is pending, and the status as the summary so far.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn keep(&mut self, status: &Status) -> io::Result<()> {
        self.windows.flush()?;
        let beside = self.folder.join("raw/.summary.json.part");
        fs::write(&beside, format!("{:#}\n", serde_json::to_value(status)?))?;
        fs::rename(beside, self.folder.join("raw/summary.json"))
    }
}
