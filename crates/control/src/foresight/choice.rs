//! The choice: for each group, the number of cores and the frequency that minimise power plus
//! priced latency.
//!
//! Power and extra latency are sums over the groups, so searching each group separately loses
//! nothing. All settings of a group are compared.

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
    /// The same where all cores are awake: those that are not would have to wake for full speed first.
    pub overload_awake_s: f64,
    /// How many others come about when a request comes, beyond those that do by chance.
    pub crowd: f64,
}

impl Scene {
    /// How long a rate beyond so many cores of so many would last, in seconds.
    fn lasts_s(&self, cores: u32, most: u32) -> f64 {
        if cores < most { self.overload_s } else { self.overload_awake_s }
    }

    /// The same where no core has to wake.
    fn with_all_awake(self) -> Self {
        Self { overload_s: self.overload_awake_s, ..self }
    }

    /// The same where cores have to wake, whatever the setting.
    pub fn with_waking(self) -> Self {
        Self { overload_awake_s: self.overload_s, ..self }
    }

    /// Whether it lasts until there is full speed, and only the setting in force when it begins is to
    /// blame for what it costs.
    fn ends_at_full_speed(&self) -> bool {
        self.overload_awake_s < self.overload_s
    }
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
        self.mean(stretch, cores, scenes, |_, scene| {
            self.station(scene.rate).wait_s(stretch, cores, scene.lasts_s(cores, menu.cores_max))
        })
    }

    /// What a scene costs at full speed.
    fn harmless(&self, menu: &Menu, scene: &Scene) -> Harmless {
        let at_full_speed = |scene: Scene| self.at(menu, menu.full(), &[scene]).times(-1.0);
        Harmless {
            waking: at_full_speed(scene.with_waking()),
            awake: at_full_speed(scene.with_all_awake()),
            part: if scene.ends_at_full_speed() {
                scene.overload_awake_s / scene.overload_s
            } else {
                1.0
            },
        }
    }

    /// The same where the wait in each scene is known.
    fn mean(
        &self,
        stretch: f64,
        cores: u32,
        scenes: &[Scene],
        wait_s: impl Fn(usize, &Scene) -> f64,
    ) -> Features {
        let (mut sum, mut weight) = (Features::default(), 0.0);
        for (at, scene) in scenes.iter().enumerate() {
            let features = self.features(stretch, wait_s(at, scene), turns(scene.crowd, cores));
            sum = sum.plus(features.times(scene.weight));
            weight += scene.weight;
        }
        if weight > 0.0 { sum.times(1.0 / weight) } else { sum }
    }
}

/// What a scene that lasts until there is full speed costs at full speed, negative.
#[derive(Clone, Copy, Debug)]
struct Harmless {
    /// Where cores have to wake.
    waking: Features,
    /// Where none has.
    awake: Features,
    /// The part of its requests that comes in the meantime then.
    part: f64,
}

impl Default for Harmless {
    fn default() -> Self {
        Self { waking: Features::default(), awake: Features::default(), part: 1.0 }
    }
}

impl Harmless {
    /// For a setting with so many cores, with the part of the scene's requests that meet it.
    fn at(&self, cores: u32, menu: &Menu) -> (Features, f64) {
        if cores < menu.cores_max { (self.waking, 1.0) } else { (self.awake, self.part) }
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
/// Something for each of these points.
type Each = [f64; TOGETHER];

/// What a group's settings come to, but for the price: worked out once for all the prices that are
/// tried. Entries are by points that are looked at together, and by cores from 1 on.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// How long a task waits, in seconds, by scene.
    waits_s: Vec<Each>,
    /// What the requests of all scenes cost, in requests under way, with the weights of the terms.
    under_way: Vec<Each>,
    /// What the risk costs, in watts.
    risk_w: Vec<Each>,
}

impl Outlook {
    /// Works it out: for what requests cost the group, and what those of a burst do.
    pub fn fill(&mut self, menu: &Menu, demand: &Demand, in_burst: &Demand, terms: &Terms) {
        self.waits_s.clear();
        self.under_way.clear();
        self.under_way.resize(entries(menu), [0.0; TOGETHER]);
        self.risk_w.clear();
        self.risk_w.resize(entries(menu), [0.0; TOGETHER]);
        for scene in terms.scenes {
            let harmless = match scene.ends_at_full_speed() {
                true => demand.harmless(menu, scene),
                false => Harmless::default(),
            };
            let mut sums = self.under_way.iter_mut();
            each_setting(menu, demand, scene, |cores, wait_s, features| {
                self.waits_s.push(wait_s);
                let (less, part) = harmless.at(cores, menu);
                let weight = scene.weight * part * 1e-6;
                for (sum, one) in sums.next().into_iter().flatten().zip(features) {
                    *sum += one.plus(less).weighed(terms.weights) * weight;
                }
            });
        }
        if let Some((scene, limit_us)) = &terms.risk {
            let harmless = in_burst.harmless(menu, scene);
            let most_w =
                f64::from(menu.cores_max) * menu.points.last().map_or(0.0, |p| p.running_w);
            let cost_w = |features: Features, less: Features, part: f64| {
                let lost_us = features.plus(less).weighed(terms.weights) * part;
                let over = lost_us * scene.weight / limit_us.max(1e-3) - 1.0;
                most_w * over.clamp(0.0, 1e3)
            };
            let mut risks_w = self.risk_w.iter_mut();
            each_setting(menu, in_burst, scene, |cores, _, features| {
                let (less, part) = harmless.at(cores, menu);
                for (risk_w, one) in risks_w.next().into_iter().flatten().zip(features) {
                    *risk_w = cost_w(one, less, part);
                }
            });
        }
    }

    /// [`Demand::at`] for the first of the scenes.
    pub fn at(
        &self,
        menu: &Menu,
        demand: &Demand,
        setting: GroupAction,
        scenes: &[Scene],
    ) -> Features {
        let point = menu.at(setting.frequency);
        let cores = setting.cores.clamp(1, menu.cores_max);
        let entry = point / TOGETHER * menu.cores_max as usize + cores as usize - 1;
        demand.mean(menu.points[point].stretch, cores, scenes, |at, _| {
            self.waits_s[at * entries(menu) + entry][point % TOGETHER]
        })
    }
}

/// Entries of a scene.
fn entries(menu: &Menu) -> usize {
    menu.points.len().div_ceil(TOGETHER) * menu.cores_max as usize
}

/// Tells `each` the waits and the features of a scene at all settings of a group.
#[inline]
fn each_setting(
    menu: &Menu,
    demand: &Demand,
    scene: &Scene,
    mut each: impl FnMut(u32, Each, [Features; TOGETHER]),
) {
    let station = demand.station(scene.rate);
    for points in menu.points.chunks(TOGETHER) {
        let stretches: Each = array::from_fn(|at| points[at.min(points.len() - 1)].stretch);
        let most = menu.cores_max;
        let mut tell = |cores, waits_s: Each| {
            let turns = turns(scene.crowd, cores);
            let features = |at: usize| demand.features(stretches[at], waits_s[at], turns);
            each(cores, waits_s, array::from_fn(features));
        };
        station.waits(stretches, 1..=most, |cores| scene.lasts_s(cores, most), &mut tell);
    }
}

/// The setting of least cost, by an outlook for the same menu, demand, scenes and weights.
pub fn best(menu: &Menu, demand: &Demand, terms: &Terms, outlook: &Outlook) -> Choice {
    let mut best: Option<Choice> = None;
    let busy = terms.rate * demand.work_s + demand.others + demand.background;
    for (at, point) in menu.points.iter().enumerate() {
        let used = busy * point.stretch;
        let most = menu.cores_max;
        // What does not fit at all goes on all cores; the price sees to the frequency.
        let trusted = f64::from(most) * point.stretch / terms.slowdown_max;
        // Nobody tells how long the others wait.
        let room = demand.others * (demand.others_room - 1.0) * point.stretch;
        let least = ((used + room) / terms.utilisation_max).max(trusted - 1e-9).ceil();
        if trusted > f64::from(most) * (1.0 + 1e-9) {
            continue;
        }
        let least = (least as u32).clamp(menu.cores_min, most);
        let crowded = (used - f64::from(most) * terms.utilisation_max).max(0.0);
        let of_point = at / TOGETHER * most as usize;
        for cores in least..=most {
            let n = f64::from(cores);
            let running = used.min(n);
            let power_w = running * point.running_w + (n - running) * point.idle_w;
            let entry = of_point + cores as usize - 1;
            let priced_w = terms.price_w * outlook.under_way[entry][at % TOGETHER];
            let risk_w = outlook.risk_w[entry][at % TOGETHER];
            let cost_w = power_w + priced_w + risk_w + crowded * CROWDED_W;
            if best.is_none_or(|best| cost_w < best.cost_w) {
                let setting = GroupAction { cores, frequency: point.frequency };
                best = Some(Choice { setting, cost_w });
            }
        }
    }
    best.unwrap_or(Choice { setting: menu.full(), cost_w: 0.0 })
}

/// Cost of a core's worth of work that does not fit: more than any core could save.
const CROWDED_W: f64 = 1e4;

#[cfg(test)]
mod tests;
