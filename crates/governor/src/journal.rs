//! A run's records, in the run format: the configuration, the machine, and every window and event
//! as it happened. `wattio report` draws them.

use crate::event::Severity;
use crate::parts::Stepped;
use serde::{Deserialize, Serialize};
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
    /// Their 99th percentile, if the source reports it; absent where it lies in the first bucket of
    /// the histogram and may be anything below that one's edge.
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

/// The powers of one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowPower {
    /// By the meter.
    pub measured_w: Option<f64>,
    /// By the model, for the setting in force (in shadow mode: that would be).
    pub estimated_w: Option<f64>,
    /// By the model, at full speed under the same load.
    pub estimated_full_speed_w: Option<f64>,
}

/// When a window ended, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Since 1970 in UTC.
    pub utc_ns: u64,
    /// On the monotonic clock.
    pub monotonic_ns: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// Nanoseconds since 1970 in UTC.
    pub utc_ns: u64,
    /// `info`, `warning`, `error`.
    pub severity: Severity,
    /// What happened.
    pub message: String,
}

impl EventRow {
    /// With the system's words without their number.
    #[must_use]
    pub fn new(utc_ns: u64, severity: Severity, message: String) -> Self {
        Self { utc_ns, severity, message: wattio_files::plain(message) }
    }
}

impl WindowRow {
    /// A step of the law. `turns_frequency` says of each group whether a knob turns its frequency.
    #[must_use]
    pub fn of(
        step: &Stepped,
        at: Stamp,
        turns_frequency: impl IntoIterator<Item = bool>,
        power: WindowPower,
    ) -> Self {
        let sample = step.sample.as_ref();
        let truth = &step.truth.groups;
        let histogram = sample.and_then(|sample| sample.histogram.as_ref());
        let edge = |&(edge, count): &(f64, u64)| (edge.is_finite().then_some(edge), count);
        let settings = step.action.groups.iter().zip(turns_frequency);
        Self {
            utc_ns: at.utc_ns,
            monotonic_ns: at.monotonic_ns,
            dt_s: step.dt.0,
            requests: sample.map(|sample| sample.requests),
            latency_us_mean: sample.and_then(|sample| sample.latency_us_mean),
            latency_us_p99: histogram.and_then(|histogram| histogram.shown_us(0.99)),
            histogram: histogram.map(|h| h.buckets.iter().map(edge).collect()),
            latency_us_seen: step.seen.latency.as_ref().and_then(|latency| latency.latency_us_mean),
            baseline_us: step.insight.baseline_us,
            bound_us: step.insight.bound_us,
            state: step.insight.mode,
            reason: step.insight.reason,
            forced: step.forced.clone(),
            cores: step.action.groups.iter().map(|group| group.cores).collect(),
            frequency_hz: settings
                .map(|(group, turns)| turns.then_some(group.frequency.0))
                .collect(),
            utilisation_clients: truth.iter().map(|group| group.utilisation_clients).collect(),
            utilisation_background: truth
                .iter()
                .map(|group| group.utilisation_background)
                .collect(),
            background_pace: step.background_share,
            power_w_measured: power.measured_w,
            power_w_estimated: power.estimated_w,
            power_w_full_speed_estimated: power.estimated_full_speed_w,
        }
    }
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
    /// Creates `<results>/<name>/<stamp>/`, or `<stamp>-2` and so on where that is there already: of a
    /// run that began in the same second, or before the clock was set back.
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
        let folder = new_folder(&results.join(name), stamp)?;
        let begin = || {
            for part in ["raw", "samples", "report"] {
                fs::create_dir(folder.join(part))?;
            }
            fs::write(folder.join("study.toml"), config)?;
            fs::write(folder.join("machine.json"), format!("{machine:#}\n"))?;
            let windows = BufWriter::new(File::create(folder.join("raw/windows.jsonl"))?);
            Ok((windows, File::create(folder.join("raw/events.jsonl"))?))
        };
        // On a full disk there would be the start of a result, which is none.
        let (windows, events) = begin().inspect_err(|_: &io::Error| {
            let _ = fs::remove_dir_all(&folder);
        })?;
        Ok(Self { folder, windows, events, rows: 0 })
    }

    /// Its path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records a window; now and then the status too, as the summary so far.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn window(&mut self, row: &WindowRow, status: &impl Serialize) -> io::Result<()> {
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
    pub fn event(&mut self, event: &EventRow) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.events.write_all(&line)
    }

    /// Writes what is pending, and the status as the summary so far.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn keep(&mut self, status: &impl Serialize) -> io::Result<()> {
        self.windows.flush()?;
        let beside = self.folder.join("raw/.summary.json.part");
        let text = format!("{:#}\n", serde_json::to_value(status)?);
        let written = fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, self.folder.join("raw/summary.json")));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }
}

/// Makes a folder that was not there.
fn new_folder(within: &Path, stamp: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(within)?;
    let mut folder = within.join(stamp);
    let mut number = 1;
    loop {
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| folder),
        }
        folder = within.join(format!("{stamp}-{number}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::LatencySample;
    use wattio_law::{
        Action, DriveAction, GroupAction, GroupObservation, Insight, LatencyHistogram, Observation,
    };
    use wattio_units::{Hertz, Seconds};

    fn step(sample: Option<LatencySample>) -> Stepped {
        let group = GroupObservation {
            cores: 3,
            frequency: Hertz(2e9),
            utilisation_clients: 0.5,
            utilisation_background: 0.125,
            queued: None,
            waited_for_drives: false,
        };
        let truth = Observation {
            latency: None,
            groups: vec![group; 2],
            background: Vec::new(),
            power: None,
            alarm: false,
        };
        let groups = vec![GroupAction { cores: 3, frequency: Hertz(2e9) }; 2];
        Stepped {
            dt: Seconds(0.5),
            sample,
            seen: truth.clone(),
            truth,
            action: Action { groups, drives: DriveAction::Own, background: Vec::new() },
            background_share: 0.25,
            insight: Insight {
                reason: "there is room",
                mode: Some("stable"),
                ..Insight::default()
            },
            forced: None,
        }
    }

    fn sample() -> LatencySample {
        let buckets = vec![(100.0, 98), (200.0, 2), (f64::INFINITY, 0)];
        LatencySample {
            at: Seconds(1.0),
            requests: 100,
            arrived: None,
            in_flight: None,
            latency_us_mean: Some(60.0),
            bytes_mean: None,
            read_share: None,
            histogram: Some(LatencyHistogram { buckets }),
        }
    }

    const AT: Stamp = Stamp { utc_ns: 7, monotonic_ns: 5 };

    /// A window without a sample was kept with the tail of the one before.
    #[test]
    fn what_a_window_does_not_tell_is_null() {
        let row = |sample| {
            let row = WindowRow::of(&step(sample), AT, [true, false], WindowPower::default());
            serde_json::to_value(row).unwrap()
        };
        let told = row(Some(sample()));
        assert_eq!((&told["requests"], &told["latency_us_p99"]), (&100.into(), &150.0.into()));
        assert_eq!(told["histogram"][2], serde_json::json!([null, 0]));
        assert_eq!(told["frequency_hz"], serde_json::json!([2e9, null]));
        let silent = row(None);
        for key in ["requests", "latency_us_mean", "latency_us_p99", "histogram"] {
            assert!(silent[key].is_null(), "{key}");
        }
    }

    /// A daemon that was started again within a second began the records of the one before anew.
    #[test]
    fn a_run_never_writes_over_another() {
        let place = tempfile::tempdir().unwrap();
        let facts = serde_json::json!({"kind": "governor"});
        for (config, folder) in [("x = 1\n", "now"), ("x = 2\n", "now-2"), ("x = 3\n", "now-3")] {
            let journal = Journal::create(place.path(), "a", "now", config, &facts).unwrap();
            assert_eq!(journal.folder(), place.path().join("a").join(folder));
        }
        let first = fs::read_to_string(place.path().join("a/now/study.toml")).unwrap();
        assert_eq!(first, "x = 1\n");
    }

    /// On a full disk the start of a result was left, and the beginning of a summary.
    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let facts = serde_json::json!({"kind": "governor"});
        // A file cannot have this name.
        let (config, long) = ("x = 1\n", "x".repeat(300));
        Journal::create(place.path(), "a", &long, config, &facts).map(drop).unwrap_err();
        assert_eq!(fs::read_dir(place.path().join("a")).unwrap().count(), 0);
        let mut journal = Journal::create(place.path(), "a", "now", config, &facts).unwrap();
        let raw = place.path().join("a/now/raw");
        fs::create_dir(raw.join("summary.json")).unwrap();
        journal.keep(&facts).unwrap_err();
        assert!(!raw.join(".summary.json.part").exists());
    }

    #[test]
    fn an_event_has_the_systems_words_alone() {
        let error = io::Error::from_raw_os_error(2);
        let event = EventRow::new(1, Severity::Error, format!("a: {error}: full speed"));
        assert_eq!(event.message, "a: No such file or directory: full speed");
    }

    #[test]
    fn a_folder_holds_lines_as_they_come_and_the_last_status() {
        let place = tempfile::tempdir().unwrap();
        let facts = serde_json::json!({"kind": "governor"});
        let mut journal = Journal::create(place.path(), "a", "now", "x = 1\n", &facts).unwrap();
        let read = |name: &str| fs::read_to_string(place.path().join("a/now").join(name)).unwrap();
        let row = WindowRow::of(&step(Some(sample())), AT, [true; 2], WindowPower::default());
        for window in 0..ROWS_PER_FLUSH {
            journal.window(&row, &serde_json::json!({"windows": window + 1})).unwrap();
        }
        assert_eq!(read("raw/windows.jsonl").lines().count() as u64, ROWS_PER_FLUSH);
        assert!(read("raw/summary.json").contains(&format!("\"windows\": {ROWS_PER_FLUSH}")));
        let event = EventRow { utc_ns: 1, severity: Severity::Warning, message: "b\nc".to_owned() };
        journal.event(&event).unwrap();
        let expected = r#"{"utc_ns":1,"severity":"warning","message":"b\nc"}"#;
        assert_eq!(read("raw/events.jsonl"), format!("{expected}\n"));
        assert_eq!(
            (read("study.toml"), journal.folder()),
            ("x = 1\n".to_owned(), &*place.path().join("a/now"))
        );
    }
}
