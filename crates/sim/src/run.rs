//! A run: the engine, the loop around a law, and their results.

use crate::background::BackgroundWork;
use crate::engine::{Answered, new_histogram};
use crate::histograms::{Bucket, WindowHistograms};
use crate::load::{Load, LoadError, SPAN_S_MAX};
use crate::observe::Reading;
use crate::plant::{SimulatedServer, limits};
use crate::queue::Nanoseconds;
use crate::rows::Row;
use crate::summary::Summary;
use hdrhistogram::Histogram;
use std::time::Duration;
use wattio_law::{Account, Bound, Driver, DriverSettings, Law, Stepped};
use wattio_plant::Server;

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
    plant: SimulatedServer,
    driver: Driver<Box<dyn Law>>,
    network_s: f64,
    warmup_ns: Nanoseconds,
    window_ns: Nanoseconds,
    end_ns: Option<Nanoseconds>,
    next_row: Nanoseconds,
    row_reading: Reading,
    base: Option<Reading>,
    rows: Vec<Row>,
    histograms: WindowHistograms,
    whole: Histogram<u64>,
    steps: Option<Vec<Stepped>>,
    finished: bool,
}

impl Run {
    /// Prepares a run of `server` under `load` with `law`, which steers by its own bounds.
    ///
    /// # Errors
    /// [`LoadError`] when the load or the settings cannot be used.
    pub fn new(
        server: &Server,
        law: Box<dyn Law>,
        load: Load,
        settings: RunSettings,
    ) -> Result<Self, LoadError> {
        Self::with_bounds(server, law, &[], load, settings)
    }

    /// The same with bounds that the law is told of, and that are accounted whether it can steer
    /// by them or not.
    ///
    /// # Errors
    /// [`LoadError`] when the load or the settings cannot be used.
    pub fn with_bounds(
        server: &Server,
        law: Box<dyn Law>,
        bounds: &[Bound],
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
        let mut plant = SimulatedServer::new(server, load, settings.seed, settings.warmup_s)?;
        let limits = limits(server);
        let driver = Driver::new(law, limits, bounds, DriverSettings::default(), Duration::ZERO);
        let start = plant.read();
        let window_ns = nanoseconds(settings.window_s);
        Ok(Self {
            network_s: server.network.0,
            warmup_ns,
            window_ns,
            end_ns: duration_s.map(|span| warmup_ns + nanoseconds(span)),
            next_row: if warmup_ns > 0 { warmup_ns } else { window_ns },
            base: (warmup_ns == 0).then(|| start.clone()),
            row_reading: start,
            rows: Vec::new(),
            histograms: WindowHistograms::default(),
            whole: Histogram::new_from(&new_histogram()),
            steps: None,
            finished: false,
            plant,
            driver,
        })
    }

    /// Simulates `seconds` more; returns the share of the run that is done, 1 at its end.
    ///
    /// # Errors
    /// When the trace turns out to be damaged.
    pub fn advance(&mut self, seconds: f64) -> Result<f64, LoadError> {
        let pause = self.plant.now() + (seconds * 1e9) as u64;
        while !self.finished && self.plant.now() < pause {
            let end = self.end_ns.unwrap_or(Nanoseconds::MAX);
            let look = self.driver.next_look(&self.plant);
            let look_ns = u64::try_from(look.as_nanos()).unwrap_or(Nanoseconds::MAX);
            self.plant.run(look_ns.min(self.next_row).min(end))?;
            self.close_windows(look, look_ns)?;
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
    pub fn steps(&self) -> &[Stepped] {
        self.steps.as_deref().unwrap_or_default()
    }

    /// Keeps every request that is answered from now on, for [`Run::answers`].
    pub fn record_answers(&mut self) {
        self.plant.engine.answers.get_or_insert_default();
    }

    /// The recorded requests, warm-up included, in the order of their answers. Twins of an open load
    /// or a trace get the same arrivals, so the requests of both, sorted, are pairs.
    #[must_use]
    pub fn answers(&self) -> &[Answered] {
        self.plant.engine.answers.as_deref().unwrap_or_default()
    }

    /// Gives out the recorded steps and forgets them.
    pub(crate) fn take_steps(&mut self) -> Vec<Stepped> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Gives out the rows and their histograms and forgets them, so that a long run stays small.
    pub(crate) fn take_rows(&mut self) -> (Vec<Row>, WindowHistograms) {
        (std::mem::take(&mut self.rows), std::mem::take(&mut self.histograms))
    }

    /// From now on there is always background work that is due, however much a law asks for.
    pub(crate) fn fill_backlog(&mut self) {
        self.plant.engine.background.iter_mut().for_each(BackgroundWork::fill);
    }

    /// Requests that have arrived and are not answered.
    pub(crate) fn requests_under_way(&self) -> u64 {
        self.plant.engine.totals.arrivals - self.plant.engine.totals.answered
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
            self.plant.rest_w,
            self.network_s,
            self.driver.account(),
            self.modes(),
        )
    }

    /// What the law did and how its bounds fared since the end of the warm-up, by what the law
    /// knows.
    #[must_use]
    pub fn account(&self) -> &Account {
        self.driver.account()
    }

    /// The law's modes, which [`Row::mode`] names.
    #[must_use]
    pub fn modes(&self) -> &'static [&'static str] {
        self.driver.law().modes()
    }

    fn share_done(&self) -> f64 {
        if self.finished {
            return 1.0;
        }
        let share = match (self.end_ns, self.plant.engine.load_share_read()) {
            (Some(end), _) => self.plant.now() as f64 / end.max(1) as f64,
            (None, share) => share.unwrap_or(0.0),
        };
        share.min(0.999)
    }

    fn close_windows(&mut self, look: Duration, look_ns: Nanoseconds) -> Result<(), LoadError> {
        let now = self.plant.now();
        if let (None, Some(last)) = (self.end_ns, self.plant.engine.exhausted_at()) {
            // A trace ends with the latency window in which its last request arrived.
            let windows = last.saturating_sub(self.warmup_ns) / self.window_ns + 1;
            self.end_ns = Some(self.warmup_ns + windows * self.window_ns);
        }
        if now == self.next_row || Some(now) == self.end_ns {
            self.close_row();
        }
        if now == look_ns
            && let Some(step) = self.driver.advance(&mut self.plant, look)?
            && let Some(steps) = &mut self.steps
        {
            steps.push(step);
        }
        if now == self.warmup_ns {
            // The step just made belongs to the window before.
            self.driver.reset_account();
        }
        self.finished = self.end_ns.is_some_and(|end| now >= end);
        Ok(())
    }

    fn close_row(&mut self) {
        self.plant.engine.settle_drives();
        let reading = self.plant.read();
        self.next_row = reading.at + self.window_ns;
        if reading.at == self.warmup_ns && self.base.is_none() {
            self.base = Some(reading.clone());
            self.plant.engine.forget_delays();
        } else {
            let window = &self.plant.engine.latencies;
            let mode = self.driver.insight().mode;
            let rest_w = self.plant.rest_w;
            let mut row = Row::between(&self.row_reading, &reading, window, rest_w, mode);
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
        if !self.plant.engine.latencies.is_empty() {
            self.plant.engine.latencies.reset();
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
