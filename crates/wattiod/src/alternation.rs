//! Measures the saving on this host: stretches of governing alternate with stretches at full speed.
//!
//! An estimate by the power model depends on the model. Here both kinds are measured on the same
//! host under its own load. A pair is one stretch of each kind, back to back, in random order, so
//! that neither a drift nor a cycle of the load can pass for an effect. The beginning of a stretch
//! is left out, because the previous one still affects it.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use wattio_governor::Interval;
use wattio_units::splitmix64;

/// Why full speed is forced in one of the two.
pub const AT_FULL_SPEED: &str = "alternation: full speed by turns";
/// The share of a stretch that is left out at its beginning, and the most that is.
const SETTLING: (f64, Duration) = (0.1, Duration::from_secs(60));
/// The shortest stretch: laws need some windows to come to a setting.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// Shares of time under governing that can be asked for.
pub const SHARES: std::ops::RangeInclusive<f64> = 0.001..=0.999;

/// How to alternate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How long the shorter of the two stretches lasts.
    pub stretch: Duration,
    /// The share of time under governing.
    pub governed: f64,
    /// Of the order.
    pub seed: u64,
}

impl Plan {
    /// As the command line says it.
    pub fn options(&self) -> Vec<String> {
        let stretch = format!("{} s", self.stretch.as_secs_f64());
        let governed = format!("{} %", self.governed * 100.0);
        ["--alternate", &stretch, "--governed-share", &governed].map(str::to_owned).into()
    }

    /// How long a stretch lasts.
    fn length(&self, condition: Condition) -> Duration {
        let share = match condition {
            Condition::Governed => self.governed,
            Condition::FullSpeed => 1.0 - self.governed,
        };
        self.stretch.mul_f64((share / self.governed.min(1.0 - self.governed)).max(1.0))
    }

    /// Whether the governed stretch is the first of a pair.
    fn governed_first(&self, pair: u64) -> bool {
        splitmix64(self.seed, pair) & 1 == 1
    }
}

/// What a stretch is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The law acts.
    Governed,
    /// Full speed is forced.
    FullSpeed,
}

/// A window of the law, as far as it counts here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Its length.
    pub dt_s: f64,
    /// Requests, and their mean latency.
    pub requests: u64,
    /// Absent without requests.
    pub latency_us_mean: Option<f64>,
    /// By the meter.
    pub measured_w: Option<f64>,
    /// By the model.
    pub estimated_w: Option<f64>,
}

/// Sums over a stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    span_s: f64,
    requests: f64,
    latency_us: f64,
    measured: Power,
    estimated: Power,
}

/// Energy, and the time that it is known of.
#[derive(Clone, Copy, Debug, Default)]
struct Power {
    energy_j: f64,
    span_s: f64,
}

impl Power {
    fn add(&mut self, power_w: Option<f64>, dt_s: f64) {
        if let Some(power_w) = power_w {
            self.energy_j += power_w * dt_s;
            self.span_s += dt_s;
        }
    }

    fn mean_w(self) -> Option<f64> {
        (self.span_s > 0.0).then(|| self.energy_j / self.span_s)
    }
}

impl Sums {
    fn add(&mut self, window: &Window) {
        self.span_s += window.dt_s;
        if let Some(latency_us) = window.latency_us_mean {
            self.requests += window.requests as f64;
            self.latency_us += window.requests as f64 * latency_us;
        }
        self.measured.add(window.measured_w, window.dt_s);
        self.estimated.add(window.estimated_w, window.dt_s);
    }

    fn latency_us_mean(&self) -> Option<f64> {
        (self.requests > 0.0).then(|| self.latency_us / self.requests)
    }

    fn requests_per_s(&self) -> Option<f64> {
        (self.span_s > 0.0).then(|| self.requests / self.span_s)
    }
}

/// A stretch at full speed and one under governing.
#[derive(Clone, Copy, Debug)]
struct Pair {
    full: Sums,
    governed: Sums,
}

/// Alternates.
#[derive(Clone, Debug)]
pub struct Alternation {
    plan: Plan,
    pairs: Vec<Pair>,
    /// How many pairs have begun, those that do not count among them.
    begun: u64,
    /// Which stretch of the pair it is.
    is_second: bool,
    sums: [Sums; 2],
    is_spoiled: bool,
    since: Duration,
}

impl Alternation {
    /// The first stretch begins now.
    #[must_use]
    pub fn new(plan: Plan, now: Duration) -> Self {
        Self {
            plan,
            pairs: Vec::new(),
            begun: 0,
            is_second: false,
            sums: [Sums::default(); 2],
            is_spoiled: false,
            since: now,
        }
    }

    /// What it is under now.
    #[must_use]
    pub fn condition(&self) -> Condition {
        if self.plan.governed_first(self.begun) == self.is_second {
            Condition::FullSpeed
        } else {
            Condition::Governed
        }
    }

    /// When the stretch ends.
    #[must_use]
    pub fn until(&self) -> Duration {
        self.since.saturating_add(self.plan.length(self.condition()))
    }

    /// Goes on to the next stretch when it is time; whether it is another.
    pub fn advance(&mut self, now: Duration) -> bool {
        if now < self.until() {
            return false;
        }
        if self.is_second {
            let [full, governed] = std::mem::take(&mut self.sums);
            // A stretch of which nothing is known tells nothing.
            if !self.is_spoiled && full.span_s > 0.0 && governed.span_s > 0.0 {
                self.pairs.push(Pair { full, governed });
            }
            self.begun += 1;
            self.is_spoiled = false;
        }
        self.is_second = !self.is_second;
        self.since = now;
        true
    }

    /// Takes in a window that ends now, unless a part of it is left out.
    pub fn window(&mut self, now: Duration, window: &Window) {
        let length = self.plan.length(self.condition());
        let settled = self.since + length.mul_f64(SETTLING.0).min(SETTLING.1);
        if now.as_secs_f64() - window.dt_s < settled.as_secs_f64() {
            return;
        }
        match self.condition() {
            Condition::FullSpeed => self.sums[0].add(window),
            Condition::Governed => self.sums[1].add(window),
        }
    }

    /// The pair does not count: an operator did something else meanwhile.
    pub fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    /// What was found so far.
    #[must_use]
    pub fn status(&self) -> AlternationStatus {
        let pairs = &self.pairs;
        let mean_s = |condition| self.plan.length(condition).as_secs_f64();
        let measured = self.power(|sums| sums.measured);
        let power = measured.map(|power| (power, false));
        let power = power.or_else(|| self.power(|sums| sums.estimated).map(|power| (power, true)));
        let latency: Vec<_> =
            pairs.iter().filter_map(|pair| change(pair, Sums::latency_us_mean)).collect();
        let rate: Vec<_> =
            pairs.iter().filter_map(|pair| change(pair, Sums::requests_per_s)).collect();
        AlternationStatus {
            condition: self.condition(),
            stretch_s_governed: mean_s(Condition::Governed),
            stretch_s_full_speed: mean_s(Condition::FullSpeed),
            seed: self.plan.seed,
            pairs: pairs.len() as u64,
            pairs_left_out: self.begun - pairs.len() as u64,
            power_w_full_speed: power.map(|(power, _)| power.0),
            power_w_saved: power.and_then(|(power, _)| power.1),
            power_is_estimate: power.is_some_and(|(_, estimate)| estimate),
            latency_change: Interval::of(&latency),
            requests_per_s_change: Interval::of(&rate),
        }
    }

    /// Mean power at full speed and what is saved, over pairs in which both are known.
    fn power(&self, of: impl Fn(&Sums) -> Power) -> Option<(f64, Option<Interval>)> {
        let known: Vec<(f64, f64)> = self
            .pairs
            .iter()
            .filter_map(|pair| of(&pair.full).mean_w().zip(of(&pair.governed).mean_w()))
            .collect();
        if known.is_empty() {
            return None;
        }
        let full_w = known.iter().map(|pair| pair.0).sum::<f64>() / known.len() as f64;
        let saved: Vec<f64> = known.iter().map(|(full, governed)| full - governed).collect();
        Some((full_w, Interval::of(&saved)))
    }
}

/// How much more under governing than at full speed, as a share of the latter.
fn change(pair: &Pair, of: impl Fn(&Sums) -> Option<f64>) -> Option<f64> {
    let (full, governed) = (of(&pair.full)?, of(&pair.governed)?);
    (full > 0.0).then(|| governed / full - 1.0)
}

/// What alternation has found. Intervals are absent before there are two pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlternationStatus {
    /// What the host is under now.
    pub condition: Condition,
    /// How long a stretch under governing lasts.
    pub stretch_s_governed: f64,
    /// How long one at full speed lasts.
    pub stretch_s_full_speed: f64,
    /// Of the order.
    pub seed: u64,
    /// Pairs that are over and count.
    pub pairs: u64,
    /// Pairs that are over and do not: paused by an operator, or nothing was measured.
    pub pairs_left_out: u64,
    /// Mean power at full speed.
    pub power_w_full_speed: Option<f64>,
    /// Power at full speed less that under governing.
    pub power_w_saved: Option<Interval>,
    /// Whether both are the model's, since no meter was there.
    pub power_is_estimate: bool,
    /// Mean latency under governing over that at full speed, less 1.
    pub latency_change: Option<Interval>,
    /// The same of requests per second.
    pub requests_per_s_change: Option<Interval>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { stretch: Duration::from_secs(100), governed: 0.5, seed: 7 };

    /// A host that draws `power` and answers within `latency`, by condition and second, for so many
    /// pairs; windows of a second.
    fn run(
        plan: Plan,
        pairs: u64,
        mut load: impl FnMut(Condition, u64) -> Window,
    ) -> (Alternation, Vec<(Condition, u64)>) {
        let mut found = Alternation::new(plan, Duration::ZERO);
        let mut order = vec![(found.condition(), 0)];
        for second in 1.. {
            let now = Duration::from_secs(second);
            found.window(now, &load(found.condition(), second));
            if found.advance(now) {
                order.push((found.condition(), second));
            }
            if found.begun == pairs {
                break;
            }
        }
        (found, order)
    }

    fn window(power_w: f64, latency_us: f64) -> Window {
        Window {
            dt_s: 1.0,
            requests: 1000,
            latency_us_mean: Some(latency_us),
            measured_w: Some(power_w),
            estimated_w: Some(1.0),
        }
    }

    #[test]
    fn what_is_saved_is_found_under_a_drift_that_is_larger() {
        let (found, _) = run(PLAN, 40, |condition, second| {
            let drift = second as f64 / 100.0;
            match condition {
                Condition::FullSpeed => window(60.0 + drift, 200.0),
                Condition::Governed => window(51.0 + drift, 212.0),
            }
        });
        let status = found.status();
        let saved = status.power_w_saved.unwrap();
        assert_eq!((status.pairs, status.pairs_left_out), (40, 0));
        assert!((saved.mean - 9.0).abs() < saved.half_width.max(1e-9), "{saved:?}");
        assert!(saved.is_significant() && saved.half_width < 0.5, "{saved:?}");
        let latency = status.latency_change.unwrap();
        assert!((latency.mean - 0.06).abs() < 1e-9, "{latency:?}");
        assert!(!status.power_is_estimate);
        assert!(!status.requests_per_s_change.unwrap().is_significant());
    }

    #[test]
    fn without_an_effect_none_is_found() {
        let (found, order) = run(PLAN, 12, |_, second| {
            let noise = f64::from((second as u32).wrapping_mul(2_654_435_761) >> 20) / 4096.0;
            window(60.0 + 5.0 * noise, 200.0 + 50.0 * noise)
        });
        assert!(!found.status().power_w_saved.unwrap().is_significant());
        let first = order.chunks_exact(2).filter(|pair| pair[0].0 == Condition::Governed).count();
        assert!((2..=10).contains(&first), "the order is drawn: {first} of 12");
    }

    /// A load that comes round with the pairs would pass for an effect if their order were fixed.
    #[test]
    fn a_load_that_comes_round_with_the_pairs_is_no_effect() {
        let (found, _) = run(PLAN, 60, |_, second| {
            let high = (second - 1) % 200 < 100;
            window(if high { 80.0 } else { 40.0 }, 200.0)
        });
        assert!(!found.status().power_w_saved.unwrap().is_significant());
    }

    #[test]
    fn a_share_of_the_time_is_governed() {
        let plan = Plan { stretch: Duration::from_secs(20), governed: 0.05, seed: 1 };
        let (found, order) = run(plan, 10, |_, _| window(1.0, 1.0));
        let status = found.status();
        assert!((status.stretch_s_governed - 20.0).abs() < 1e-6);
        assert!((status.stretch_s_full_speed - 380.0).abs() < 1e-6, "{status:?}");
        let spans = order.windows(2).filter(|pair| pair[0].0 == Condition::Governed);
        let governed: u64 = spans.map(|pair| pair[1].1 - pair[0].1).sum();
        let all = order.last().unwrap().1;
        assert!((governed as f64 / all as f64 - 0.05).abs() < 0.01, "{governed} of {all}");
        let told = ["--alternate", "20 s", "--governed-share", "5 %"];
        assert_eq!(plan.options(), told);
        let most = Plan { governed: 0.9, ..PLAN };
        assert_eq!(most.length(Condition::FullSpeed), PLAN.stretch);
        assert!((most.length(Condition::Governed).as_secs_f64() - 900.0).abs() < 1e-6);
    }

    #[test]
    fn the_beginning_of_a_stretch_is_left_out() {
        let mut since = 0;
        let mut before = None;
        let (found, _) = run(PLAN, 4, |condition, second| {
            if before != Some(condition) {
                before = Some(condition);
                since = second;
            }
            // What the stretch before leaves behind.
            window(if second - since < 8 { 1e6 } else { 50.0 }, 200.0)
        });
        assert_eq!(found.status().power_w_full_speed, Some(50.0));
    }

    #[test]
    fn a_pair_in_which_an_operator_paused_does_not_count() {
        let mut found = Alternation::new(PLAN, Duration::ZERO);
        for second in 1..=600 {
            let now = Duration::from_secs(second);
            found.window(now, &window(60.0, 200.0));
            if second == 250 {
                found.spoil();
            }
            found.advance(now);
        }
        let status = found.status();
        assert_eq!((status.pairs, status.pairs_left_out), (2, 1));
    }

    #[test]
    fn without_a_meter_power_is_called_an_estimate() {
        let (found, _) = run(PLAN, 3, |condition, _| Window {
            measured_w: None,
            estimated_w: Some(if condition == Condition::Governed { 40.0 } else { 50.0 }),
            ..window(0.0, 200.0)
        });
        let status = found.status();
        assert!(status.power_is_estimate);
        assert!((status.power_w_saved.unwrap().mean - 10.0).abs() < 1e-9);
        let (none, _) = run(PLAN, 3, |_, _| Window::default());
        assert_eq!(none.status().power_w_saved, None);
    }
}
