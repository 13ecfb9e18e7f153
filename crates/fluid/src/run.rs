//! A fluid server under a law, from the start to the end of its load.

use crate::plant::{FluidServer, PlantState};
use crate::sums::Sums;
use crate::tail;
use serde::Serialize;
use std::time::Duration;
use wattio_law::{Account, Action, BoundAccount, Driver, Law, Plant};

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSettings {
    /// Run first and not counted, in seconds; it ends with the law's step.
    pub warmup_s: f64,
    /// All of it, in seconds.
    pub end_s: f64,
    /// Whether stretches in which nothing changes are accounted in one go.
    pub skip: bool,
}

/// The totals of a run; a name is quantity, unit, statistic. What does not exist is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Counted time.
    pub duration_s: f64,
    /// Requests answered.
    pub ios: f64,
    /// Requests that came and were not answered at the end.
    pub ios_waiting_end: f64,
    /// Mean latency.
    pub latency_us_mean: Option<f64>,
    /// The 99th percentile, where tails were asked for: an approximation.
    pub latency_us_p99: Option<f64>,
    /// Mean power.
    pub power_w_mean: f64,
    /// Energy.
    pub energy_j: f64,
    /// That of cores.
    pub energy_cores_j: f64,
    /// That of drives.
    pub energy_drives_j: f64,
    /// That of everything else.
    pub energy_rest_j: f64,
    /// Background work done, core-seconds at the highest frequency a second.
    pub background_rate_mean: f64,
    /// Background work that became due, likewise.
    pub background_rate_due: f64,
    /// Background work that is due and not done at the end, core-seconds at the highest frequency.
    pub background_backlog_core_s_end: f64,
    /// Cores that drew power.
    pub cores_active_mean: f64,
    /// Share of powered core time in tasks.
    pub utilisation_mean: f64,
    /// Windows of the law.
    pub windows: u64,
    /// Those among them that were accounted without stepping the law.
    pub windows_skipped: u64,
    /// Windows that an alarm closed early.
    pub windows_alarmed: u64,
    /// Steps of the law that changed cores, frequencies or drives.
    pub knob_changes: u64,
    /// How the bounds fared by what the law knows.
    pub bounds: Vec<BoundAccount>,
}

/// A run.
pub struct FluidRun<L> {
    plant: FluidServer,
    driver: Driver<L>,
    settings: RunSettings,
    base: Option<Sums>,
    latencies_base: Vec<f64>,
    seen: Option<Trace>,
    /// Steps since then, and the number at which another is chosen.
    steps: u64,
    reach: u64,
    skipped: u64,
}

/// How things stood after a step of the law.
struct Trace {
    state: PlantState,
    action: Action,
    account: Account,
    sums: Sums,
    latencies: Vec<f64>,
    at_ns: u64,
}

impl<L: Law> FluidRun<L> {
    /// Prepares a run; the driver was started at time 0.
    #[must_use]
    pub fn new(plant: FluidServer, driver: Driver<L>, settings: RunSettings) -> Self {
        let base = (settings.warmup_s <= 0.0).then(Sums::default);
        Self {
            latencies_base: vec![0.0; plant.latencies.len()],
            plant,
            driver,
            settings,
            base,
            seen: None,
            steps: 0,
            reach: 1,
            skipped: 0,
        }
    }

    /// Runs to the end, or for as long as `goes_on`.
    pub fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        let end_ns = (self.settings.end_s * 1e9).round() as u64;
        let warmup_ns = (self.settings.warmup_s * 1e9).round() as u64;
        let skips =
            self.settings.skip && !self.plant.is_noisy() && self.driver.law().is_memoryless();
        // Two windows have to be seen before a third can be passed over.
        let least_ns = (self.driver.law().period().0 * 3e9) as u64;
        let mut looks = 0_u32;
        loop {
            let look = self.driver.next_look(&self.plant);
            let look_ns = u64::try_from(look.as_nanos()).unwrap_or(u64::MAX);
            if look_ns > end_ns {
                break;
            }
            let Ok(step) = self.driver.advance(&mut self.plant, look);
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(4096) && !goes_on() {
                return;
            }
            if step.is_none() {
                continue;
            }
            if self.base.is_none() && self.plant.now_ns >= warmup_ns {
                self.base = Some(self.plant.totals);
                self.latencies_base.clone_from(&self.plant.latencies);
                self.driver.reset_account();
                self.seen = None;
            }
            let left_ns = self.plant.constant_until_ns().saturating_sub(self.plant.now_ns);
            if skips && self.base.is_some() && left_ns > least_ns {
                self.skip_to(end_ns);
            }
        }
        let Ok(_) = self.plant.advance(Duration::from_nanos(end_ns));
        self.plant.close();
    }

    /// Passes over whole periods for as long as the load does not change, when things stand as
    /// they stood some steps ago: with a law that knows the last window only, all that follows is
    /// what followed then. Periods of any length are found by holding what stands against one step
    /// of the past, which is chosen anew after 1, 2, 4, 8 ... steps (R. Brent, 1980).
    fn skip_to(&mut self, end_ns: u64) {
        let state = self.plant.state();
        let like = self
            .seen
            .as_ref()
            .filter(|then| then.state.is_like(&state) && then.action == *self.driver.in_force());
        if let Some(then) = like {
            let period_ns = self.plant.now_ns - then.at_ns;
            let until_ns = self.plant.constant_until_ns().min(end_ns);
            // The window that ends with the stretch already tells of what comes.
            let times = (until_ns - 1).saturating_sub(self.plant.now_ns) / period_ns;
            if times > 0 {
                let span_ns = period_ns * times;
                self.skipped += (self.driver.account().windows - then.account.windows) * times;
                self.driver.repeat(&then.account, times, Duration::from_nanos(span_ns));
                self.plant.repeat(&then.state, &then.sums, &then.latencies, times, span_ns);
            }
            (self.seen, self.reach, self.steps) = (None, 1, 0);
            return;
        }
        self.steps += 1;
        if self.seen.as_ref().is_none_or(|then| !then.state.is_at(&state)) {
            (self.seen, self.reach, self.steps) = (None, 1, 0);
        }
        if self.seen.is_none() || self.steps == self.reach {
            (self.reach, self.steps) = (self.reach * 2, 0);
            self.seen = Some(Trace {
                state,
                action: self.driver.in_force().clone(),
                account: self.driver.account().clone(),
                sums: self.plant.totals,
                latencies: self.plant.latencies.clone(),
                at_ns: self.plant.now_ns,
            });
        }
    }

    /// The totals since the end of the warm-up.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let groups = self.plant.server().groups.len();
        let mut sums = self.plant.totals;
        sums.add(&self.base.unwrap_or(self.plant.totals), -1.0, groups);
        let pairs = self.plant.latencies.iter().zip(&self.latencies_base);
        let latencies: Vec<f64> = pairs.map(|(now, base)| now - base).collect();
        let span_s = sums.span_s.max(1e-9);
        let of_groups = |of: &[f64]| of[..groups].iter().sum::<f64>();
        let powered_s = of_groups(&sums.powered);
        let busy_s = of_groups(&sums.clients) + of_groups(&sums.background);
        let rest_j = self.plant.server().rest_power.0 * sums.span_s;
        let energy_j = rest_j + sums.cores_j + sums.drives_j;
        let account = self.driver.account();
        Totals {
            duration_s: sums.span_s,
            ios: sums.completed,
            ios_waiting_end: self.plant.waiting,
            latency_us_mean: (sums.completed > 0.0).then(|| sums.latency_s / sums.completed * 1e6),
            latency_us_p99: tail::quantile_us(&latencies, 0.99),
            power_w_mean: energy_j / span_s,
            energy_j,
            energy_cores_j: sums.cores_j,
            energy_drives_j: sums.drives_j,
            energy_rest_j: rest_j,
            background_rate_mean: sums.done / span_s,
            background_rate_due: sums.due / span_s,
            background_backlog_core_s_end: self.plant.backlog_core_s(),
            cores_active_mean: powered_s / span_s,
            utilisation_mean: if powered_s > 0.0 { busy_s / powered_s } else { 0.0 },
            windows: account.windows,
            windows_skipped: self.skipped,
            windows_alarmed: account.windows_alarmed,
            knob_changes: account.knob_changes,
            bounds: account.bounds.clone(),
        }
    }
}
