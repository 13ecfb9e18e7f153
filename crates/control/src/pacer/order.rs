//! Which adaptor goes first: the one that saves more watts for the latency that it costs.
//!
//! The power of cores and frequencies is given in the limits. Their cost in latency is estimated by
//! modelling each group as an M/M/n queue, with Sakasegawa's approximation (H. Sakasegawa, 1977): a
//! task waits `rho^(sqrt(2 (n + 1)) - 1) / (n (1 - rho))` service times, and a lower frequency
//! stretches waiting and service by `1 - c + c f/f'`. Only the order of two costs is taken from
//! this; how far to go follows from the measured latency.

use super::settings::PacerSettings;
use std::cell::OnceCell;
use wattio_law::{CorePower, GroupLimits, GroupObservation, Limits, Observation};
use wattio_units::Hertz;

/// What an adaptor turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// The number of cores.
    Cores,
    /// Their frequency.
    Frequency,
}

/// What one small step down brings: watts saved and latency added, in core-seconds of clients' work
/// a second.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    saves_w: f64,
    costs: f64,
}

/// The knob that goes first when there is room, and comes back last when there is none.
///
/// Where nobody tells what cores draw: cores where idle ones poll, the frequency where they sleep.
pub fn costs_less(
    frequency_share: f64,
    seen: &Observation,
    limits: &Limits,
    settings: &PacerSettings,
) -> Knob {
    let known = limits.groups.iter().all(|group| !group.power.is_empty());
    let compared = known.then(|| {
        let (mut cores, mut slow) = (Step::default(), Step::default());
        for (group, limits) in seen.groups.iter().zip(&limits.groups) {
            let wait = Wait::of(group);
            cores = cores + core_less(group, &wait, limits, settings);
            slow = slow + slower(&wait, limits, frequency_share, settings);
        }
        prefer_cores(cores, slow)
    });
    let sleep = limits.groups.iter().all(|group| group.idle_cores_sleep);
    if compared.flatten().unwrap_or(!sleep) { Knob::Cores } else { Knob::Frequency }
}

/// Whether the cores save more for what they cost; `None` where that cannot be told.
fn prefer_cores(cores: Step, slower: Step) -> Option<bool> {
    // Of two ratios without dividing by a cost that may be none.
    let (cores, slower) = (cores.saves_w * slower.costs, slower.saves_w * cores.costs);
    (cores.is_finite() && slower.is_finite() && cores != slower).then_some(cores > slower)
}

impl std::ops::Add for Step {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { saves_w: self.saves_w + other.saves_w, costs: self.costs + other.costs }
    }
}

/// A group's work, and what a client's task waits now; worked out when it is first asked for.
struct Wait {
    load: Load,
    cores: f64,
    now: OnceCell<f64>,
}

impl Wait {
    fn of(group: &GroupObservation) -> Self {
        let cores = f64::from(group.cores);
        Self { load: Load::of(group), cores, now: OnceCell::new() }
    }

    fn now(&self) -> f64 {
        *self.now.get_or_init(|| self.load.wait(self.cores))
    }
}

/// A core of a group less: it no longer idles, and tasks wait longer.
fn core_less(
    group: &GroupObservation,
    wait: &Wait,
    limits: &GroupLimits,
    settings: &PacerSettings,
) -> Step {
    if !settings.adapt_cores || group.cores <= limits.cores_min || group.cores < 2 {
        return Step::default();
    }
    let Wait { load, cores, .. } = wait;
    let costs = load.clients * (load.wait(cores - 1.0) - wait.now());
    Step { saves_w: draws(&limits.power, group.frequency).idle.0, costs }
}

/// The frequency one step lower, or as much lower as a whole loss distance makes it.
fn slower(
    wait: &Wait,
    limits: &GroupLimits,
    frequency_share: f64,
    settings: &PacerSettings,
) -> Step {
    let now = limits.frequency_max * frequency_share;
    let aimed = limits.frequency_max * (frequency_share - settings.gamma).max(0.0);
    let below = limits.frequency_steps.iter().rev().find(|step| step.0 < now.0 * (1.0 - 1e-9));
    let next = match below {
        Some(&step) if step.0 < aimed.0 => step,
        _ => aimed,
    };
    let next = if next.0 < limits.frequency_min.0 { limits.frequency_min } else { next };
    if !settings.adapt_frequency || next.0 >= now.0 * (1.0 - 1e-9) {
        return Step::default();
    }
    let bound_share = limits.frequency_bound_share.unwrap_or(1.0);
    let stretch = 1.0 - bound_share + bound_share * (now / next);
    let &Wait { load, cores, .. } = wait;
    let power = |frequency: Hertz, stretch: f64| {
        let draws = draws(&limits.power, frequency);
        let busy = ((load.clients + load.background) * stretch).min(cores);
        busy * draws.running.0 + (cores - busy) * draws.idle.0
    };
    let slow = Load { clients: load.clients * stretch, background: load.background * stretch };
    let costs = slow.clients * (1.0 + slow.wait(cores)) - load.clients * (1.0 + wait.now());
    Step { saves_w: power(now, 1.0) - power(next, stretch), costs }
}

/// A group's work, in cores' worth.
#[derive(Clone, Copy)]
struct Load {
    clients: f64,
    background: f64,
}

/// A queue is not believed to be fuller than this.
const LOAD_MAX: f64 = 0.98;
/// A background task is so many times as long as a client's: who waits for a core that runs one
/// waits for longer. 250 us beside 14 to 22 us, and 200 us beside 17 to 131 us, on the servers that
/// are described.
const BACKGROUND_TASK: f64 = 4.0;

impl Load {
    fn of(group: &GroupObservation) -> Self {
        let cores = f64::from(group.cores);
        Self {
            clients: group.utilisation_clients.max(0.0) * cores,
            background: group.utilisation_background.max(0.0) * cores,
        }
    }

    /// What a client's task waits for a core, in its own service times.
    fn wait(&self, cores: f64) -> f64 {
        let all = self.clients + self.background;
        if all <= 0.0 {
            return 0.0;
        }
        let occupied = (all / cores).min(LOAD_MAX);
        // Clients go before background tasks, but not before one that runs.
        let ahead = (self.clients / cores).min(LOAD_MAX);
        let task = (self.clients + self.background * BACKGROUND_TASK) / all;
        task * occupied.powf((2.0 * (cores + 1.0)).sqrt() - 1.0) / (cores * (1.0 - ahead))
    }
}

/// What a core draws at a frequency, between the two nearest ones of the table.
pub fn draws(table: &[CorePower], frequency: Hertz) -> CorePower {
    let above = table.partition_point(|point| point.frequency.0 < frequency.0);
    let (low, high) = match (above.checked_sub(1).and_then(|at| table.get(at)), table.get(above)) {
        (Some(low), Some(high)) => (low, high),
        (Some(one), None) | (None, Some(one)) => return CorePower { frequency, ..*one },
        (None, None) => unreachable!("asked for only where there is a table"),
    };
    let part = (frequency - low.frequency) / (high.frequency - low.frequency);
    CorePower {
        frequency,
        running: low.running + (high.running - low.running) * part,
        idle: low.idle + (high.idle - low.idle) * part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_units::Watts;

    fn point(ghz: f64, running: f64, idle: f64) -> CorePower {
        let frequency = Hertz(ghz * 1e9);
        CorePower { frequency, running: Watts(running), idle: Watts(idle) }
    }

    fn limits(power: Vec<CorePower>) -> Limits {
        Limits::of(vec![GroupLimits {
            cores_min: 1,
            cores_max: 16,
            frequency_min: Hertz(0.8e9),
            frequency_max: Hertz(3.0e9),
            frequency_steps: vec![],
            idle_cores_sleep: true,
            power,
            frequency_bound_share: Some(0.6),
        }])
    }

    fn first(cores: u32, busy: f64, limits: &Limits) -> Knob {
        let group = GroupObservation {
            cores,
            frequency: Hertz(3.0e9),
            utilisation_clients: 0.5 * busy / f64::from(cores),
            utilisation_background: 0.5 * busy / f64::from(cores),
            queued: None,
            waited_for_drives: false,
        };
        let seen = Observation {
            latency: None,
            groups: vec![group],
            background: vec![],
            power: None,
            alarm: false,
        };
        let settings = crate::registry::policy("pacer").unwrap().resolve(&Default::default());
        costs_less(1.0, &seen, limits, &PacerSettings::from_resolved(&settings.unwrap()))
    }

    #[test]
    fn cores_that_nobody_needs_go_first_and_those_that_somebody_does_last() {
        let sleeping = limits(vec![point(0.8, 1.9, 0.4), point(3.0, 7.2, 0.4)]);
        assert_eq!(first(16, 2.0, &sleeping), Knob::Cores);
        assert_eq!(first(3, 2.0, &sleeping), Knob::Frequency);
        // Polling cores draw as much idle as running, so that they go for longer.
        let polling = limits(vec![point(0.8, 2.6, 2.6), point(3.0, 2.8, 2.8)]);
        assert_eq!(first(3, 2.0, &polling), Knob::Cores);
        assert_eq!(first(1, 0.5, &polling), Knob::Frequency, "there is one core left");
    }

    #[test]
    fn without_a_table_it_is_by_whether_idle_cores_sleep() {
        assert_eq!(first(16, 2.0, &limits(vec![])), Knob::Frequency);
    }
}
