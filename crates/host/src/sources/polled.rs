//! A source that may block, polled in its own thread.

use super::worker::Worker;
use crate::Stopwatch;
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// The shortest time between two polls.
pub(super) const INTERVAL_MIN: Seconds = Seconds(0.001);
/// The default interval of polls.
const INTERVAL_DEFAULT: Seconds = Seconds(0.25);

/// How often to poll: as configured, else twice a window and at least four times a second.
///
/// # Errors
/// When the configured time is too short.
pub(super) fn interval(
    source_name: &str,
    configured: Option<Seconds>,
    period: Seconds,
) -> Result<Seconds, SourceError> {
    let interval = configured.unwrap_or(if period.0 / 2.0 < INTERVAL_DEFAULT.0 {
        Seconds((period.0 / 2.0).max(INTERVAL_MIN.0))
    } else {
        INTERVAL_DEFAULT
    });
    at_least(source_name, "interval", interval, INTERVAL_MIN)
}

/// Checks how often a source asks and how long it waits, before there is a host.
///
/// # Errors
/// The key, and what is allowed.
pub(super) fn check_times(
    interval: Option<Seconds>,
    timeout: Option<Seconds>,
) -> Result<(), (&'static str, String)> {
    for (key, span) in [("interval", interval), ("timeout", timeout)] {
        if let Some(span) = span.filter(|span| *span < INTERVAL_MIN) {
            return Err((key, format!("is {span}; allowed is at least {INTERVAL_MIN}")));
        }
    }
    Ok(())
}

/// A configured time that must not be too short.
///
/// # Errors
/// When it is too short.
pub(super) fn at_least(
    source_name: &str,
    key: &str,
    span: Seconds,
    least: Seconds,
) -> Result<Seconds, SourceError> {
    if span >= least {
        return Ok(span);
    }
    Err(SourceError::new(source_name, format!("{key} = {span} is too short; at least {least}")))
}

/// A source in a thread of its own: fetching its samples never blocks.
///
/// A sample is as old as the poll that it answers, so a slow answer is an old one. Samples that
/// were not fetched are merged. An error is returned until a poll succeeds again.
pub struct Polled {
    name: String,
    latency_us_resolution: f64,
    interval: Seconds,
    stopwatch: Stopwatch,
    worker: Worker<Latest>,
}

/// The source's last answer and note.
#[derive(Debug, Default)]
struct Latest {
    slot: Slot,
    note: Option<String>,
}

/// The last answer.
#[derive(Debug, Default)]
pub(super) struct Slot {
    sample: Option<LatencySample>,
    error: Option<SourceError>,
}

impl Polled {
    /// Polls the source now and every `interval`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        mut source: impl LatencySource + 'static,
        interval: Seconds,
        stopwatch: Stopwatch,
    ) -> Result<Self, SourceError> {
        let name = source.name().to_owned();
        let latency_us_resolution = source.latency_us_resolution();
        let theirs = stopwatch.clone();
        let ask = move || (source.sample(theirs()), source.note());
        let post = |latest: &mut Latest, (answer, note): (_, Option<String>)| {
            latest.slot.post(answer);
            latest.note = note.or(latest.note.take());
        };
        let worker = Worker::start(&name, interval, Latest::default(), ask, post)?;
        Ok(Self { name, latency_us_resolution, interval, stopwatch, worker })
    }
}

impl Slot {
    /// Merges a sample with the one that nobody fetched, and remembers an error.
    pub(super) fn post(&mut self, answer: Result<Option<LatencySample>, SourceError>) {
        match answer {
            Ok(newest) => {
                self.error = None;
                self.sample = match (self.sample.take(), newest) {
                    (Some(held), Some(newest)) => Some(held.merge(newest)),
                    (held, newest) => newest.or(held),
                };
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Returns what there is; `now` is on the governor's clock and `ticked` on the thread's, which
    /// have different origins.
    pub(super) fn fetch(
        &mut self,
        now: Seconds,
        ticked: Seconds,
    ) -> Result<Option<LatencySample>, SourceError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let at = |taken: Seconds| now - Seconds((ticked - taken).0.max(0.0));
        Ok(self.sample.take().map(|sample| LatencySample { at: at(sample.at), ..sample }))
    }
}

impl LatencySource for Polled {
    fn name(&self) -> &str {
        &self.name
    }

    fn interval(&self) -> Option<Seconds> {
        Some(self.interval)
    }

    fn latency_us_resolution(&self) -> f64 {
        self.latency_us_resolution
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        if self.worker.is_dead() {
            return Err(SourceError::new(&self.name, "its thread died; this is a bug"));
        }
        let ticked = (self.stopwatch)();
        self.worker.with(|latest| latest.slot.fetch(now, ticked))
    }

    fn note(&mut self) -> Option<String> {
        self.worker.with(|latest| latest.note.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    type Answer = Result<Option<LatencySample>, SourceError>;

    /// Answers what the test sends; reports when it is asked and when it is dropped.
    struct Scripted {
        answers: Receiver<Answer>,
        asked: Sender<Seconds>,
        notes: Vec<String>,
    }

    impl LatencySource for Scripted {
        fn name(&self) -> &str {
            "scripted"
        }
        fn sample(&mut self, now: Seconds) -> Answer {
            let _ = self.asked.send(now);
            let answer = self.answers.recv().unwrap_or(Ok(None))?;
            Ok(answer.map(|sample| LatencySample { at: now, ..sample }))
        }
        fn note(&mut self) -> Option<String> {
            self.notes.pop()
        }
    }

    fn requests(requests: u64) -> Answer {
        Ok(Some(LatencySample {
            at: Seconds(f64::NAN),
            requests,
            arrived: None,
            in_flight: None,
            latency_us_mean: Some(100.0),
            bytes_mean: None,
            read_share: None,
            histogram: None,
        }))
    }

    struct Bench {
        // Before the source, so that the thread does not wait for an answer for ever.
        answers: Sender<Answer>,
        polled: Polled,
        asked: Receiver<Seconds>,
        time: Arc<Mutex<f64>>,
    }

    /// Longer than anything here takes on a busy machine.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

    impl Bench {
        fn new() -> Self {
            let ((answers, theirs), (says, asked)) = (channel(), channel());
            let time = Arc::new(Mutex::new(1_000.0));
            let told = Arc::clone(&time);
            let stopwatch: Stopwatch = Arc::new(move || Seconds(*told.lock().unwrap()));
            let source = Scripted { answers: theirs, asked: says, notes: vec!["odd".to_owned()] };
            let polled = Polled::start(source, Seconds(1e-6), stopwatch).unwrap();
            asked.recv_timeout(PATIENCE).unwrap();
            Self { answers, polled, asked, time }
        }

        /// Answers the pending question, and waits for the next one.
        fn answer(&self, answer: Answer) {
            self.answers.send(answer).unwrap();
            self.asked.recv_timeout(PATIENCE).unwrap();
        }
    }

    #[test]
    fn samples_are_merged_and_as_old_as_the_question() {
        let mut bench = Bench::new();
        assert_eq!(bench.polled.sample(Seconds(7.0)), Ok(None));
        bench.answer(requests(2));
        bench.answer(requests(3));
        assert_eq!(bench.polled.note().as_deref(), Some("odd"));
        assert_eq!(bench.polled.note(), None, "told once");
        *bench.time.lock().unwrap() += 0.5;
        let sample = bench.polled.sample(Seconds(7.5)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.at), (5, Seconds(7.0)));
        assert_eq!(bench.polled.sample(Seconds(8.0)), Ok(None));
    }

    #[test]
    fn an_error_holds_until_an_answer_and_loses_no_sample() {
        let mut bench = Bench::new();
        bench.answer(requests(2));
        bench.answer(Err(SourceError::new("scripted", "gone")));
        assert!(bench.polled.sample(Seconds(1.0)).is_err());
        bench.answer(Err(SourceError::new("scripted", "gone")));
        bench.answer(requests(3));
        assert_eq!(bench.polled.sample(Seconds(2.0)).unwrap().unwrap().requests, 5);
    }

    #[test]
    fn dropping_ends_the_thread() {
        let Bench { polled, answers, asked, .. } = Bench::new();
        drop(answers);
        drop(polled);
        // The thread's end of the channel is gone with it.
        while asked.recv().is_ok() {}
    }

    #[test]
    fn the_interval_follows_the_window_and_has_a_least() {
        assert_eq!(interval("x", None, Seconds(0.5)), Ok(Seconds(0.25)));
        assert_eq!(interval("x", None, Seconds(5.0)), Ok(Seconds(0.25)));
        assert_eq!(interval("x", None, Seconds(0.05)), Ok(Seconds(0.025)));
        let error = interval("x", Some(Seconds(0.0)), Seconds(1.0)).unwrap_err().to_string();
        assert!(error.contains("interval = 0") && error.contains("at least 1 ms"), "{error}");
    }
}
