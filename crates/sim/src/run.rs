//! A run: the engine, the loop around a law, and what they leave behind.

use crate::engine::{Engine, Stopped, new_histogram};
use crate::histograms::{Bucket, WindowHistograms};
use crate::load::{Load, LoadError, SPAN_S_MAX};
use crate::observe::{Reading, observe};
use crate::queue::Nanoseconds;
use crate::rows::Row;
use crate::sender::Sender;
use crate::summary::Summary;
use hdrhistogram::Histogram;
use wattio_law::{
    Action, GroupLimits, Law, Limits, Loop, LoopSettings, Observation, OperatingState,
};
use wattio_plant::{IdleKind, Server};
use wattio_units::Seconds;

/// How long a run is and how it is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSettings {
    /// Simulated first and not counted, in seconds.
    pub warmup_s: f64,
    /// Counted, in seconds; `None`: to the end of the load's phases or of the trace.
    pub duration_s: Option<f64>,
    /// Length of a latency window in seconds.
    pub window_s: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A simulated run.
pub struct Run {
    engine: Engine,
    control: Loop<Box<dyn Law>>,
    rest_w: f64,
    network_s: f64,
    slice_s: f64,
    warmup_ns: Nanoseconds,
    window_ns: Nanoseconds,
    end_ns: Option<Nanoseconds>,
    next_law: Nanoseconds,
    /// Until when requests are counted for the law's alarm.
    next_count: Nanoseconds,
    /// Requests that had arrived when the count began.
    counted_from: u64,
    next_row: Nanoseconds,
    law_reading: Reading,
    row_reading: Reading,
    base: Option<Reading>,
    rows: Vec<Row>,
    histograms: WindowHistograms,
    whole: Histogram<u64>,
    steps: Option<Vec<Step>>,
    finished: bool,
}

/// One step of the law: what it saw, and what the loop made of its answer.
#[derive(Clone, Debug)]
pub struct Step {
    /// Length of the window.
    pub dt: Seconds,
    /// What the law saw.
    pub observation: Observation,
    /// What was put into force.
    pub action: Action,
    /// The law's state afterwards.
    pub state: Option<OperatingState>,
}

/// The limits of a server's core groups.
#[must_use]
pub fn limits(server: &Server) -> Limits {
    let cores = &server.cores;
    let groups = server.groups.iter().map(|group| GroupLimits {
        cores_min: group.cores_min,
        cores_max: group.cores,
        frequency_min: cores.frequency_min,
        frequency_max: cores.frequency_max,
        frequency_steps: cores.frequency_steps.clone(),
        idle_cores_sleep: cores.idle == IdleKind::CStates,
    });
    Limits { groups: groups.collect() }
}

impl Run {
    /// Prepares a run of `server` under `load` with `law`.
    ///
    /// # Errors
    /// [`LoadError`] when the load or the settings cannot be used.
    pub fn new(
        server: &Server,
        law: Box<dyn Law>,
        load: Load,
        settings: RunSettings,
    ) -> Result<Self, LoadError> {
        settings.check()?;
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
        let span_s = match &load {
            Load::Phases { phases, .. } => Some(phases.iter().map(|phase| phase.span_s).sum()),
            Load::Trace(_) => None,
        };
        let warmup_ns = nanoseconds(settings.warmup_s);
        let duration_s = settings.duration_s.or(span_s);
        RunSettings { duration_s, ..settings }.check()?;
        let sender = Sender::new(load, server, settings.seed, settings.warmup_s)?;
        let limits = limits(server);
        let slice_s = server.background.as_ref().map_or(0.0, |work| work.slice.0);
        let mut engine = Engine::new(server, &limits, sender, settings.seed);
        let control = Loop::new(law, limits, LoopSettings::default());
        let start = Reading::take(&mut engine, slice_s);
        let window_ns = nanoseconds(settings.window_s);
        let mut run = Self {
            rest_w: server.rest_power.0,
            network_s: server.network.0,
            slice_s,
            warmup_ns,
            window_ns,
            end_ns: duration_s.map(|span| warmup_ns + nanoseconds(span)),
            next_law: nanoseconds(control.period().0),
            next_count: 0,
            counted_from: 0,
            next_row: if warmup_ns > 0 { warmup_ns } else { window_ns },
            law_reading: start.clone(),
            base: (warmup_ns == 0).then(|| start.clone()),
            row_reading: start,
            rows: Vec::new(),
            histograms: WindowHistograms::default(),
            whole: Histogram::new_from(&new_histogram()),
            steps: None,
            finished: false,
            engine,
            control,
        };
        let first = run.control.held().clone();
        run.engine.apply(&first);
        Ok(run)
    }

    /// Simulates `seconds` more; returns the share of the run that is done, 1 at its end.
    ///
    /// # Errors
    /// When the trace turns out to be damaged.
    pub fn advance(&mut self, seconds: f64) -> Result<f64, LoadError> {
        let pause = self.engine.now + (seconds * 1e9) as u64;
        while !self.finished && self.engine.now < pause {
            let end = self.end_ns.unwrap_or(Nanoseconds::MAX);
            let until = self.next_law.min(self.next_row).min(end);
            let alarm = self.control.alarm_requests();
            if alarm.is_some() && self.engine.now >= self.next_count {
                self.next_count = self.engine.now + self.alarm_span_ns();
                self.counted_from = self.engine.totals.arrivals;
            }
            let alarm = alarm.map(|requests| self.counted_from.saturating_add(requests));
            let counted = if alarm.is_some() { until.min(self.next_count) } else { until };
            let stopped = self.engine.run(counted, alarm)?;
            if stopped == Stopped::Alarm {
                self.next_count = self.engine.now;
            }
            self.close_windows(stopped == Stopped::Alarm);
        }
        Ok(self.share_done())
    }

    /// Simulates to the end.
    ///
    /// # Errors
    /// When the trace turns out to be damaged.
    pub fn finish(&mut self) -> Result<(), LoadError> {
        while self.advance(3600.0)? < 1.0 {}
        Ok(())
    }

    /// Keeps every step of the law from now on, for [`Run::steps`].
    pub fn record_steps(&mut self) {
        self.steps.get_or_insert_default();
    }

    /// The recorded steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        self.steps.as_deref().unwrap_or_default()
    }

    /// The rows of the latency windows so far.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The histogram of each row.
    #[must_use]
    pub fn histograms(&self) -> &WindowHistograms {
        &self.histograms
    }

    /// The histogram of all latencies, in nanoseconds.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.whole
    }

    /// The totals since the end of the warm-up.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let base = self.base.as_ref().unwrap_or(&self.row_reading);
        Summary::between(
            base,
            &self.row_reading,
            &self.whole,
            self.rest_w,
            self.network_s,
            self.control.accounting(),
        )
    }

    fn share_done(&self) -> f64 {
        if self.finished {
            return 1.0;
        }
        let share = match (self.end_ns, self.engine.load_share_read()) {
            (Some(end), _) => self.engine.now as f64 / end.max(1) as f64,
            (None, share) => share.unwrap_or(0.0),
        };
        share.min(0.999)
    }

    fn alarm_span_ns(&self) -> Nanoseconds {
        (self.control.alarm_span().0 * 1e9).round().max(1.0) as u64
    }

    fn close_windows(&mut self, alarm: bool) {
        let now = self.engine.now;
        if let (None, Some(last)) = (self.end_ns, self.engine.exhausted_at()) {
            // A trace ends with the latency window in which its last request arrived.
            let windows = last.saturating_sub(self.warmup_ns) / self.window_ns + 1;
            self.end_ns = Some(self.warmup_ns + windows * self.window_ns);
        }
        if now == self.next_row || Some(now) == self.end_ns {
            self.close_row();
        }
        if alarm || now >= self.next_law {
            let reading = Reading::take(&mut self.engine, self.slice_s);
            let observation =
                observe(&self.engine, &self.law_reading, &reading, self.slice_s, alarm);
            let dt = Seconds(reading.since(&self.law_reading));
            self.law_reading = reading;
            let seen = self.steps.is_some().then(|| observation.clone());
            let action = self.control.step(observation, dt);
            self.engine.apply(&action);
            if let (Some(steps), Some(observation)) = (&mut self.steps, seen) {
                steps.push(Step { dt, observation, action, state: self.control.state() });
            }
            self.next_law = now + (self.control.period().0 * 1e9).round().max(1.0) as u64;
        }
        if now == self.warmup_ns {
            // The step just made belongs to the window before.
            self.control.reset_accounting();
        }
        self.finished = self.end_ns.is_some_and(|end| now >= end);
    }

    fn close_row(&mut self) {
        self.engine.settle_drives();
        let reading = Reading::take(&mut self.engine, self.slice_s);
        self.next_row = reading.at + self.window_ns;
        if reading.at == self.warmup_ns && self.base.is_none() {
            self.base = Some(reading.clone());
        } else {
            let window = &self.engine.latencies;
            let state = self.control.state();
            let mut row = Row::between(&self.row_reading, &reading, window, self.rest_w, state);
            row.start_s = (self.row_reading.at - self.warmup_ns) as f64 * 1e-9;
            // A histogram has thousands of buckets: an empty one is not worth looking through.
            let recorded = (row.ios > 0).then(|| window.iter_recorded());
            let whole = &mut self.whole;
            self.histograms.push(recorded.into_iter().flatten().map(|recorded| {
                let latency_ns = recorded.value_iterated_to();
                let count = recorded.count_since_last_iteration();
                whole.saturating_record_n(latency_ns, count);
                Bucket { latency_ns, count }
            }));
            self.rows.push(row);
        }
        if !self.engine.latencies.is_empty() {
            self.engine.latencies.reset();
        }
        self.row_reading = reading;
    }
}

impl RunSettings {
    /// Whether every span can be simulated.
    fn check(&self) -> Result<(), LoadError> {
        let spans = [
            ("warmup", Some(self.warmup_s), 0.0, "0 s"),
            ("duration", self.duration_s, 1e-3, "1 ms"),
            ("window", Some(self.window_s), 1e-3, "1 ms"),
        ];
        for (key, span_s, least_s, least) in spans {
            if span_s.is_some_and(|span_s| !(least_s..=SPAN_S_MAX).contains(&span_s)) {
                let message = format!("allowed is {least} to {SPAN_S_MAX:e} s");
                return Err(LoadError::Value { key: key.to_owned(), message });
            }
        }
        Ok(())
    }
}
