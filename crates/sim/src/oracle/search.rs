//! The search for one segment's best setting.

use super::SegmentPlan;
use super::segments::Segment;
use crate::load::{Load, LoadError, Pattern, Phase, Senders};
use crate::plant::limits;
use crate::run::{Run, RunSettings};
use crate::summary::Summary;
use std::collections::BTreeMap;
use wattio_law::{Action, BackgroundAction, DriveAction, Fixed, GroupAction, GroupLimits, Limits};
use wattio_plant::Server;
use wattio_units::{Hertz, Seconds};

/// The statistic of latency that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The 99th percentile.
    P99,
}

/// The bound on latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OracleBound {
    /// Tolerated growth over native.
    pub plf: f64,
    /// Of which statistic.
    pub statistic: Statistic,
}

/// What the oracle may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OracleSettings {
    /// The bound.
    pub bound: OracleBound,
    /// Least background work and I/O, as a share of native's.
    pub floor: f64,
    /// How long a steady phase is simulated for each candidate, in seconds.
    pub trial_s: f64,
    /// Seed of the simulations.
    pub seed: u64,
}

/// A setting and what it gives.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The setting.
    pub action: Action,
    /// Mean power in watts.
    pub power_w: f64,
    /// Latency over native's; `None` where there were no requests.
    pub latency_ratio: Option<f64>,
}

/// Cores of each group, and what they give.
type Found = (Vec<u32>, Candidate);

/// What the trials of one frequency have in common.
struct Trials<'a> {
    segment: &'a Segment,
    native: &'a Summary,
    frequency: Hertz,
    /// The cores of each group without which the work does not fit.
    least: Vec<u32>,
}

/// Looks for settings; remembers what it found for segments that are alike.
pub struct Search<'a> {
    server: &'a Server,
    limits: Limits,
    settings: OracleSettings,
    known: BTreeMap<String, SegmentPlan>,
    simulated: u32,
}

/// Frequencies to try where the cores can run at any.
const FREQUENCIES: u32 = 8;
/// A trial begins with this long a warm-up, in seconds, for steady phases.
const WARMUP_S: f64 = 0.2;

impl<'a> Search<'a> {
    pub fn new(server: &'a Server, settings: &OracleSettings) -> Self {
        Self {
            limits: limits(server),
            server,
            settings: *settings,
            known: BTreeMap::new(),
            simulated: 0,
        }
    }

    /// The best setting found for a segment.
    pub fn segment(&mut self, segment: &Segment) -> Result<SegmentPlan, LoadError> {
        let key = segment.key();
        let known = key.as_ref().and_then(|key| self.known.get(key));
        if let Some(plan) = known {
            return Ok(SegmentPlan { span_s: segment.span_s(), ..plan.clone() });
        }
        self.simulated = 0;
        let native = self.trial(segment, &self.limits.full_speed())?;
        let best = self.best(segment, &native)?;
        let plan = SegmentPlan {
            span_s: segment.span_s(),
            best,
            native_power_w: native.power_w_mean,
            simulated: self.simulated,
        };
        if let Some(key) = key {
            self.known.insert(key, plan.clone());
        }
        Ok(plan)
    }

    fn best(&mut self, segment: &Segment, native: &Summary) -> Result<Candidate, LoadError> {
        let mut best = Candidate {
            action: self.limits.full_speed(),
            power_w: native.power_w_mean,
            latency_ratio: native.latency_us_mean.map(|_| 1.0),
        };
        let mut start: Option<(Hertz, Found)> = None;
        let mut worse = 0;
        for frequency in self.frequencies() {
            let least = self.least_cores(native, frequency);
            if self.power_at_least(native, &least, frequency) >= best.power_w {
                continue;
            }
            let guess =
                start.as_ref().map(|(faster, found)| self.scaled(found, *faster, frequency));
            let trials = Trials { segment, native, frequency, least };
            let Some(found) = self.best_at(&trials, guess)? else {
                // Every task takes longer at a lower frequency: none below can keep the bound.
                break;
            };
            // Power over frequency has one valley; two steps up its far side are enough.
            let rises =
                start.as_ref().is_some_and(|(_, before)| found.1.power_w > before.1.power_w);
            worse = if rises { worse + 1 } else { 0 };
            if found.1.power_w < best.power_w {
                best = found.1.clone();
            }
            start = Some((frequency, found));
            if worse == 2 {
                break;
            }
        }
        Ok(best)
    }

    /// The cores that do at a lower frequency what `found` did at a higher one, about.
    fn scaled(&self, found: &Found, faster: Hertz, slower: Hertz) -> Vec<u32> {
        let cores = &self.server.cores;
        let longer = cores.stretch(slower) / cores.stretch(faster);
        let scale = |(&count, limits): (&u32, &GroupLimits)| {
            ((f64::from(count) * longer).ceil() as u32).min(limits.cores_max)
        };
        found.0.iter().zip(&self.limits.groups).map(scale).collect()
    }

    /// The best number of cores at a frequency; `None` when all cores are too few.
    fn best_at(
        &mut self,
        trials: &Trials<'_>,
        guess: Option<Vec<u32>>,
    ) -> Result<Option<Found>, LoadError> {
        let full: Vec<u32> = self.limits.groups.iter().map(|group| group.cores_max).collect();
        let guess = guess.unwrap_or_else(|| trials.least.clone());
        let mut found = self.confirm(trials, &guess)?.map(|candidate| (guess.clone(), candidate));
        if found.is_none() {
            let Some(candidate) = self.confirm(trials, &full)? else { return Ok(None) };
            found = Some((full.clone(), candidate));
            // All groups together, by bisection between the guess and all cores ...
            let (mut fails, mut holds) = (0.0, 1.0_f64);
            while holds - fails > 1.0 / 32.0 {
                let share = f64::midpoint(holds, fails);
                let between = |(&low, &high): (&u32, &u32)| {
                    low + (f64::from(high - low) * share).round() as u32
                };
                let tried: Vec<u32> = guess.iter().zip(&full).map(between).collect();
                match self.confirm(trials, &tried)? {
                    Some(candidate) => {
                        holds = share;
                        found = Some((tried, candidate));
                    }
                    None => fails = share,
                }
            }
        }
        // ... then core by core, group by group, while one can still go.
        let Some(mut found) = found else { return Ok(None) };
        for group in 0..full.len() {
            while found.0[group] > trials.least[group] {
                let mut tried = found.0.clone();
                tried[group] -= 1;
                let Some(candidate) = self.confirm(trials, &tried)? else { break };
                found = (tried, candidate);
            }
        }
        Ok(Some(found))
    }

    /// Simulates a setting; `None` when it breaks the bound or does too little work.
    fn confirm(
        &mut self,
        trials: &Trials<'_>,
        cores: &[u32],
    ) -> Result<Option<Candidate>, LoadError> {
        let Trials { segment, native, frequency, .. } = *trials;
        let background = if self.server.background.is_some() {
            let due = self.server.groups.iter().map(|group| group.background_cores).sum::<f64>();
            // A little above the floor, which noise would else break.
            vec![BackgroundAction::of((self.settings.floor + 0.005).min(1.0) * due)]
        } else {
            Vec::new()
        };
        let groups = cores.iter().map(|&cores| GroupAction { cores, frequency }).collect();
        let drives = DriveAction::Own;
        let action = self.limits.clamp(&Action { groups, drives, background });
        let trial = self.trial(segment, &action)?;
        let of = |summary: &Summary| match self.settings.bound.statistic {
            Statistic::Mean => summary.latency_us_mean,
            Statistic::P99 => summary.latency_us_p99,
        };
        let latency_ratio = of(&trial).zip(of(native)).map(|(ours, theirs)| ours / theirs);
        let floor = self.settings.floor;
        let holds = latency_ratio.is_none_or(|ratio| ratio <= 1.0 + self.settings.bound.plf)
            && trial.ios as f64 >= floor * native.ios as f64
            && trial.background_rate_mean >= floor * native.background_rate_mean;
        Ok(holds.then_some(Candidate { action, power_w: trial.power_w_mean, latency_ratio }))
    }

    fn trial(&mut self, segment: &Segment, action: &Action) -> Result<Summary, LoadError> {
        self.simulated += 1;
        let (load, warmup_s, duration_s) = match segment {
            Segment::Phase { .. } => (segment.load(), WARMUP_S, self.settings.trial_s),
            // A trace without a request would end before it began.
            Segment::Records { records, .. } if records.is_empty() => {
                let pattern = Pattern { read_fraction: 1.0, random_fraction: 1.0, io_bytes: 4096 };
                let phases =
                    vec![Phase { span_s: self.settings.trial_s, iops: Some(0.0), pattern }];
                (Load::Phases { senders: Senders::Open, phases }, WARMUP_S, self.settings.trial_s)
            }
            Segment::Records { trial_s, .. } => (segment.load(), 0.0, *trial_s),
        };
        let settings = RunSettings {
            warmup_s,
            duration_s: Some(duration_s),
            window_s: 0.5,
            seed: self.settings.seed,
        };
        let law = Box::new(Fixed { action: action.clone(), period: Seconds(0.001) });
        let mut run = Run::new(self.server, law, load, settings)?;
        run.finish()?;
        Ok(run.summary())
    }

    /// The frequencies to try, highest first.
    fn frequencies(&self) -> Vec<Hertz> {
        let cores = &self.server.cores;
        if !cores.frequency_steps.is_empty() {
            return cores.frequency_steps.iter().rev().copied().collect();
        }
        let (least, most) = (cores.frequency_min, cores.frequency_max);
        let step = (most - least) / f64::from(FREQUENCIES - 1);
        (0..FREQUENCIES).map(|at| most - step * f64::from(at)).collect()
    }

    /// The cores of each group without which the work does not fit.
    fn least_cores(&self, native: &Summary, frequency: Hertz) -> Vec<u32> {
        let stretch = self.server.cores.stretch(frequency);
        let has_background = f64::from(u8::from(self.server.background.is_some()));
        let groups = self.server.groups.iter().zip(&native.cores_busy_clients);
        groups
            .map(|(group, clients)| {
                let due = group.background_cores * has_background;
                // At saturation native does not do all that is due, and less is asked for.
                let background = due.min(f64::from(group.cores) - clients).max(0.0);
                let work = clients * self.settings.floor + background * self.settings.floor;
                ((work * stretch).ceil() as u32).clamp(group.cores_min, group.cores)
            })
            .collect()
    }

    /// A power that no setting at this frequency with at least these cores can go below.
    fn power_at_least(&self, native: &Summary, least: &[u32], frequency: Hertz) -> f64 {
        let cores = &self.server.cores;
        let idle_w = cores.power_idle(frequency).0;
        let busy = native.utilisation_mean * native.cores_active_mean;
        let busy = busy * self.settings.floor * cores.stretch(frequency);
        let running_extra_w = (cores.power_running(frequency).0 - idle_w).max(0.0);
        let powered: u32 = least.iter().sum();
        let rest_w = native.power_w_mean - native.energy_by_component_j.cores / native.duration_s;
        // Slower service leaves the drives' work as it is; 1 % for what sleep might change.
        0.99 * rest_w + f64::from(powered) * idle_w + busy * running_extra_w
    }
}
