//! The choice: for each group the cores and the frequency of least power and priced latency.
//!
//! Power and extra latency are sums over the groups, so each group is searched by itself; nothing
//! is lost by that, and all settings of a group are looked at.

use std::array;
use wattio_law::{GroupAction, GroupLimits};
use wattio_model::Station;
use wattio_units::Hertz;

/// A frequency with what it does to power and time.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub frequency: Hertz,
    /// Time of a task over its time at the highest frequency.
    pub stretch: f64,
    pub running_w: f64,
    pub idle_w: f64,
}

/// What a group can be set to: its cores, and its frequencies from the lowest on.
#[derive(Clone, Debug)]
pub struct Menu {
    pub cores_min: u32,
    pub cores_max: u32,
    pub points: Vec<Point>,
}

/// What is assumed of a host that does not tell.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    pub frequency_bound_share: f64,
    pub core_running_w: f64,
    pub core_static_share: f64,
    pub core_sleeping_share: f64,
}

/// Frequencies that are looked at where the cores can run at any.
const FREQUENCIES: u32 = 10;
/// Dynamic power grows with the frequency and the square of a voltage that grows with it: between
/// this power's 1 (constant voltage) and 3.
const ASSUMED_EXPONENT: f64 = 2.2;

impl Menu {
    pub fn new(limits: &GroupLimits, assumed: &Assumed) -> Self {
        let share = limits.frequency_bound_share.unwrap_or(assumed.frequency_bound_share);
        let most = limits.frequency_max;
        let (steps, span) = (&limits.frequency_steps, most - limits.frequency_min);
        let evenly = |at: u32| match at + 1 {
            FREQUENCIES => most,
            _ => limits.frequency_min + span * (f64::from(at) / f64::from(FREQUENCIES - 1)),
        };
        let frequencies: Vec<Hertz> =
            if steps.is_empty() { (0..FREQUENCIES).map(evenly).collect() } else { steps.clone() };
        let point = |frequency: Hertz| {
            let (running_w, idle_w) = power(limits, frequency, assumed);
            let stretch = 1.0 - share + share * (most / frequency);
            Point { frequency, stretch, running_w, idle_w }
        };
        let mut points: Vec<_> = frequencies.into_iter().map(point).collect();
        points.dedup_by(|a, b| a.frequency == b.frequency);
        Self { cores_min: limits.cores_min, cores_max: limits.cores_max, points }
    }

    /// Without the choice of cores, or of frequency.
    pub fn without(mut self, cores: bool, frequency: bool) -> Self {
        if cores {
            self.cores_min = self.cores_max;
        }
        if frequency {
            self.points.drain(..self.points.len().saturating_sub(1));
        }
        self
    }

    /// All cores at the highest frequency.
    pub fn full(&self) -> GroupAction {
        let frequency = self.points.last().map_or(Hertz(0.0), |point| point.frequency);
        GroupAction { cores: self.cores_max, frequency }
    }

    /// The point that a frequency is at or below.
    pub fn at(&self, frequency: Hertz) -> usize {
        let reached = self.points.iter().position(|p| p.frequency.0 >= frequency.0 * (1.0 - 1e-6));
        reached.unwrap_or(self.points.len() - 1)
    }
}

/// Power of a running and of an idle core, from the table of the host or assumed.
fn power(limits: &GroupLimits, frequency: Hertz, assumed: &Assumed) -> (f64, f64) {
    let table = &limits.power;
    let above = table.iter().position(|p| p.frequency.0 >= frequency.0).unwrap_or(table.len());
    let between = |low: f64, high: f64, share: f64| low + (high - low) * share;
    match (above.checked_sub(1).and_then(|below| table.get(below)), table.get(above)) {
        (Some(a), Some(b)) => {
            let share = (frequency - a.frequency) / (b.frequency - a.frequency);
            (between(a.running.0, b.running.0, share), between(a.idle.0, b.idle.0, share))
        }
        (Some(only), None) | (None, Some(only)) => (only.running.0, only.idle.0),
        (None, None) => {
            let fixed = assumed.core_static_share;
            let phi = frequency / limits.frequency_max;
            let running_w =
                assumed.core_running_w * (fixed + (1.0 - fixed) * phi.powf(ASSUMED_EXPONENT));
            let sleeping_w = assumed.core_running_w * assumed.core_sleeping_share;
            (running_w, if limits.idle_cores_sleep { sleeping_w } else { running_w })
        }
    }
}

/// What the requests of a group cost, at the highest frequency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// Core-seconds of clients for each request.
    pub work_s: f64,
    /// Times that a request comes to the group.
    pub visits: f64,
    /// Clients' work in cores' worth that no request explains.
    pub others: f64,
    /// Cores for it, over what it fills.
    pub others_room: f64,
    /// Background work in cores' worth.
    pub background: f64,
    /// Mean time left of a running slice of it, in seconds.
    pub slice_left_s: f64,
    /// Mean time left of a running client's task over its mean time.
    pub task_left: f64,
}

/// Requests that come at some rate.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// At which rate they come, in requests a second.
    pub rate: f64,
    /// How many there are of them, in requests a second of the window.
    pub weight: f64,
    /// How long a rate beyond the cores would last, in seconds.
    pub overload_s: f64,
    /// How many others come about when a request comes, beyond those that do by chance.
    pub crowd: f64,
}

/// How many turns a request waits for others of its crowd, if they come at once: of `crowd` others
/// half are before it, `cores` are served in a turn, and few others find cores of their own.
fn turns(crowd: f64, cores: u32) -> f64 {
    let n = f64::from(cores);
    0.5 * (crowd / n) * (crowd / (crowd + n))
}

/// What a request's latency has of the setting, in microseconds, before the weights that are
/// learned: the time in service above that at full speed, waiting, and the time that all cores
/// together need for half of those that come about when a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Features(pub [f64; 3]);

impl Features {
    pub fn plus(self, other: Self) -> Self {
        Self([0, 1, 2].map(|at| self.0[at] + other.0[at]))
    }

    pub fn times(self, factor: f64) -> Self {
        Self(self.0.map(|feature| feature * factor))
    }

    /// With these weights, in microseconds.
    pub fn weighed(self, weights: [f64; 3]) -> f64 {
        self.0.iter().zip(weights).map(|(feature, weight)| feature * weight).sum()
    }
}

impl Demand {
    fn station(&self, rate: f64) -> Station {
        Station {
            clients: rate * self.work_s + self.others,
            background: self.background,
            task_left_s: self.work_s / self.visits * self.task_left,
            slice_left_s: self.slice_left_s,
        }
    }

    fn features(&self, stretch: f64, wait_s: f64, turns: f64) -> Features {
        Features([
            self.work_s * (stretch - 1.0) * 1e6,
            wait_s * self.visits * 1e6,
            self.work_s * stretch * turns * 1e6,
        ])
    }

    /// The mean features over the requests of some scenes at one setting.
    pub fn at(&self, menu: &Menu, setting: GroupAction, scenes: &[Scene]) -> Features {
        let stretch = menu.points[menu.at(setting.frequency)].stretch;
        let cores = setting.cores.clamp(1, menu.cores_max);
        let (mut sum, mut weight) = (Features::default(), 0.0);
        for scene in scenes {
            let wait_s = self.station(scene.rate).wait_s(stretch, cores, scene.overload_s);
            let features = self.features(stretch, wait_s, turns(scene.crowd, cores));
            sum = sum.plus(features.times(scene.weight));
            weight += scene.weight;
        }
        if weight > 0.0 { sum.times(1.0 / weight) } else { sum }
    }
}

/// What a choice goes by.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub scenes: &'a [Scene],
    /// Requests a second that power is reckoned with.
    pub rate: f64,
    /// Weights of the features.
    pub weights: [f64; 3],
    /// Watts for each request that is under way for longer.
    pub price_w: f64,
    /// No group's cores shall be busier.
    pub utilisation_max: f64,
    /// What a burst may come to, and how much its requests may lose in each group, in
    /// request-microseconds.
    pub risk: Option<(Scene, f64)>,
    /// No group shall be slower than full speed by more than this factor.
    pub slowdown_max: f64,
}

/// A setting, and what the choice was made by.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub setting: GroupAction,
    pub cost_w: f64,
}

/// Points that are looked at together.
const TOGETHER: usize = 4;
/// What latency costs at some points, in watts.
pub type Priced = [f64; TOGETHER];

/// The setting of least cost. `priced` is room for one entry for each core.
pub fn best(menu: &Menu, demand: &Demand, terms: &Terms, priced: &mut Vec<Priced>) -> Choice {
    let mut best: Option<Choice> = None;
    let busy = terms.rate * demand.work_s + demand.others + demand.background;
    let most = menu.cores_max;
    // What does not fit at all goes on all cores; the price sees to the frequency.
    let trusted = |point: &Point| f64::from(most) * point.stretch / terms.slowdown_max;
    let least = |point: &Point| {
        // Nobody tells how long the others wait.
        let room = demand.others * (demand.others_room - 1.0) * point.stretch;
        let used = busy * point.stretch;
        let least = ((used + room) / terms.utilisation_max).max(trusted(point) - 1e-9).ceil();
        (least as u32).clamp(menu.cores_min, most)
    };
    // The lowest frequencies come first.
    let too_slow = |point: &&Point| trusted(point) > f64::from(most) * (1.0 + 1e-9);
    let slow = menu.points.iter().take_while(too_slow).count();
    for points in menu.points[slow..].chunks(TOGETHER) {
        let fewest = points.iter().map(least).fold(most, u32::min);
        price(menu, demand, terms, points, fewest, priced);
        for (at, point) in points.iter().enumerate() {
            let used = busy * point.stretch;
            let crowded = (used - f64::from(most) * terms.utilisation_max).max(0.0);
            for cores in least(point)..=most {
                let n = f64::from(cores);
                let running = used.min(n);
                let power_w = running * point.running_w + (n - running) * point.idle_w;
                let cost_w = power_w + priced[cores as usize - 1][at] + crowded * CROWDED_W;
                if best.is_none_or(|best| cost_w < best.cost_w) {
                    let setting = GroupAction { cores, frequency: point.frequency };
                    best = Some(Choice { setting, cost_w });
                }
            }
        }
    }
    best.unwrap_or(Choice { setting: menu.full(), cost_w: 0.0 })
}

/// What latency costs at some points with each number of cores from `fewest` on.
fn price(
    menu: &Menu,
    demand: &Demand,
    terms: &Terms,
    points: &[Point],
    fewest: u32,
    priced: &mut Vec<Priced>,
) {
    priced.clear();
    priced.resize(menu.cores_max as usize, [0.0; TOGETHER]);
    let stretches = array::from_fn(|at| points[at.min(points.len() - 1)].stretch);
    let priced = &mut priced[fewest as usize - 1..];
    for scene in terms.scenes {
        let per_us = terms.price_w * scene.weight * 1e-6;
        add_costs(demand, scene, menu.cores_max, stretches, priced, |features| {
            features.weighed(terms.weights) * per_us
        });
    }
    if let Some((scene, limit_us)) = &terms.risk {
        let harmless = demand.at(menu, menu.full(), &[*scene]).times(-1.0);
        let full_w = f64::from(menu.cores_max) * menu.points.last().map_or(0.0, |p| p.running_w);
        add_costs(demand, scene, menu.cores_max, stretches, priced, |features| {
            let lost_us = features.plus(harmless).weighed(terms.weights);
            let over = lost_us * scene.weight / limit_us.max(1e-3) - 1.0;
            full_w * over.clamp(0.0, 1e3)
        });
    }
}

/// Adds what the requests of a scene cost at so many stretches, with all numbers of cores up to
/// `cores_max` that there are entries for.
#[inline]
fn add_costs(
    demand: &Demand,
    scene: &Scene,
    cores_max: u32,
    stretches: [f64; TOGETHER],
    priced: &mut [Priced],
    cost_w: impl Fn(Features) -> f64,
) {
    let mut priced = priced.iter_mut();
    let cores = cores_max + 1 - priced.len() as u32..=cores_max;
    demand.station(scene.rate).waits(stretches, cores, scene.overload_s, |cores, waits_s| {
        let turns = turns(scene.crowd, cores);
        for ((sum, stretch), wait_s) in
            priced.next().into_iter().flatten().zip(stretches).zip(waits_s)
        {
            *sum += cost_w(demand.features(stretch, wait_s, turns));
        }
    });
}

/// Cost of a core's worth of work that does not fit: more than any core could save.
const CROWDED_W: f64 = 1e4;

#[cfg(test)]
mod tests;
