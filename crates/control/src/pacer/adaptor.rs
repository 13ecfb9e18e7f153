//! The core adaptor and the frequency adaptor (section IV-C).
//!
//! As printed, both integrate the same error at the same time, and where they settle depends on
//! their gains. Here one acts at a time. If there is room below the bound, the adaptor that saves
//! more for the latency it costs goes first ([`super::order`]), and the other one once the first
//! has settled. The frequency falls only as long as that does not require cores to come back. If
//! there is no room, they give back in the reverse order. A step that overshoots is undone and not
//! repeated for a while ([`super::tried`]). `coordinated = false` gives the printed behaviour, with
//! the sign of the frequency step corrected: as printed (plus), the law would speed up when there
//! is room.

use super::order::{Knob, costs_less};
use super::settings::PacerSettings;
use super::tried::{Blame, Tried, Verdict};
use wattio_law::{Action, DriveAction, GroupAction, GroupObservation, Limits, Observation};
use wattio_units::{Hertz, Seconds};

/// The two adaptors of all groups.
#[derive(Clone, Debug)]
pub struct Adaptor {
    /// `u_des` of each group.
    utilisation_desired: Vec<f64>,
    /// Frequency as a share of each group's highest.
    frequency_share: f64,
    tried: Tried,
}

/// How far latency is from its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The loss distance of section IV-C, times the windows that it stands for.
    pub loss: f64,
    /// Which steps are to blame, where the last one went too far.
    pub blames: Option<Blame>,
    /// The time that the sample took.
    pub span: Seconds,
    /// Whether the last few samples as one keep the bounds themselves, below which the law steers.
    pub is_kept: bool,
}

/// The share of its cores that a group keeps in any one step: the last few cost the most, and a
/// step that stands for many windows must not take them unseen.
const CORES_KEPT: f64 = 0.7;

/// Far more than products and quotients lose, and far less than any core's work.
const HAIR: f64 = 1e-9;

impl Adaptor {
    pub fn new(groups: usize) -> Self {
        let utilisation_desired = vec![0.0; groups];
        Self { utilisation_desired, frequency_share: 1.0, tried: Tried::default() }
    }

    /// Begins at full speed: the desired utilisation is the one that is seen.
    pub fn begin(&mut self, seen: &Observation, limits: &Limits) {
        self.frequency_share = 1.0;
        self.utilisation_desired.clear();
        let utilisation = |group: &GroupObservation| group.utilisation().max(0.0);
        self.utilisation_desired.extend(seen.groups.iter().map(utilisation));
        self.utilisation_desired.resize(limits.groups.len(), 0.0);
    }

    /// Lets time pass.
    pub fn grow_older(&mut self, dt: Seconds) {
        self.tried.grow_older(dt);
    }

    /// The load is another one: what went too far before may do now.
    pub fn forget_tries(&mut self) {
        self.tried.clear();
    }

    /// The last step down went much too far; whether there was one, be it one that is not to blame.
    pub fn blame(&mut self, limits: &Limits, settings: &PacerSettings) -> bool {
        settings.coordinated
            && self.tried.blame(Blame::CoarseStep, limits, settings) != Verdict::NoStep
    }

    /// What was blamed is undone.
    pub fn undo(
        &mut self,
        seen: &Observation,
        limits: &Limits,
        settings: &PacerSettings,
    ) -> Action {
        self.frequency_share = self.frequency_share.max(self.tried.frequency_floor());
        self.unwind_down(seen, settings);
        self.action(seen, limits, settings)
    }

    /// One step at a loss distance, from what is in force.
    pub fn step(
        &mut self,
        distance: Distance,
        held: &[GroupAction],
        seen: &Observation,
        limits: &Limits,
        settings: &PacerSettings,
    ) -> Action {
        let loss = distance.loss;
        if !settings.coordinated {
            self.step_cores(loss, settings);
            self.step_frequency(loss, limits, settings);
            return self.action(seen, limits, settings);
        }
        // Dear to tell, and not always asked for.
        let cores_first = |share: f64| costs_less(share, seen, limits, settings) == Knob::Cores;
        let blames = distance.blames;
        let verdict = blames.map(|blames| self.tried.blame(blames, limits, settings));
        // Of a step that is not to blame nothing would be undone, and nothing given back.
        if verdict == Some(Verdict::Blamed) {
            return self.undo(seen, limits, settings);
        }
        if loss >= 0.0 {
            self.unwind_up(seen, limits, settings);
            let cores_go =
                !self.cores_at_rest(seen, limits, settings) && cores_first(self.frequency_share);
            if cores_go || !self.lower_frequency(loss, seen, limits, settings) {
                self.step_cores(loss, settings);
            }
        } else if self.gives_back_frequency(cores_first, seen, settings) {
            self.give_back_frequency(distance, held, limits, settings);
        } else {
            self.unwind_down(seen, settings);
            self.step_cores(loss, settings);
        }
        let action = self.action(seen, limits, settings);
        self.tried.ask(held, &action.groups, distance.span);
        action
    }

    /// Lowers the frequency, unless it is at its end, cores would have to come back for it, or it
    /// went too far not long ago.
    fn lower_frequency(
        &mut self,
        distance: f64,
        seen: &Observation,
        limits: &Limits,
        settings: &PacerSettings,
    ) -> bool {
        let before = self.frequency_share;
        self.step_frequency(distance, limits, settings);
        self.frequency_share = self.frequency_share.max(self.tried.frequency_floor().min(before));
        let fits = fits(seen, before / self.frequency_share, limits, settings);
        if !fits {
            self.frequency_share = before;
        }
        fits && self.frequency_share < before
    }

    /// Whether it is the frequency that gives back: what goes last comes back first.
    fn gives_back_frequency(
        &self,
        cores_first: impl Fn(f64) -> bool,
        seen: &Observation,
        settings: &PacerSettings,
    ) -> bool {
        let lowered = settings.adapt_frequency && self.frequency_share < 1.0;
        let gated = |(group, &desired): (&GroupObservation, &f64)| desired > group.utilisation();
        let cores_gave =
            settings.adapt_cores && seen.groups.iter().zip(&self.utilisation_desired).any(gated);
        lowered && (!cores_gave || cores_first(self.frequency_share))
    }

    /// Raises the frequency. Where the next one is far above, it is only taken to keep the bound itself, and
    /// what broke it is left alone for a while: the law steered between the two for ever.
    fn give_back_frequency(
        &mut self,
        distance: Distance,
        held: &[GroupAction],
        limits: &Limits,
        settings: &PacerSettings,
    ) {
        let before = self.frequency_share;
        self.step_frequency(distance.loss, limits, settings);
        match Tried::leap(self.frequency_share, held, limits) {
            Some(_) if distance.is_kept => self.frequency_share = before,
            Some(share) => {
                self.frequency_share = share;
                self.tried.leave_alone(share, distance.span, limits, settings);
            }
            None => {}
        }
    }

    /// Before cores come back: a group whose cores are fewer than it could have at `u_des`, held
    /// by the limits, by clients' work or by whoever took them off more slowly, has run up a
    /// desire that nothing follows. It begins at what its cores really make of it.
    fn unwind_down(&mut self, seen: &Observation, settings: &PacerSettings) {
        for (desired, group) in self.utilisation_desired.iter_mut().zip(&seen.groups) {
            let real = settings.alpha * group.utilisation();
            if real >= 0.0 {
                *desired = desired.min(real);
            }
        }
    }

    /// Before cores go: likewise for a group that has all its cores and would want more.
    fn unwind_up(&mut self, seen: &Observation, limits: &Limits, settings: &PacerSettings) {
        let groups = seen.groups.iter().zip(&limits.groups);
        for (desired, (group, limits)) in self.utilisation_desired.iter_mut().zip(groups) {
            let real = settings.alpha * group.utilisation();
            if group.cores >= limits.cores_max && real <= settings.utilisation_max {
                *desired = desired.max(real);
            }
        }
    }

    /// `u_des = u_des_old + beta d`.
    fn step_cores(&mut self, distance: f64, settings: &PacerSettings) {
        for desired in &mut self.utilisation_desired {
            *desired = (*desired + settings.beta * distance).clamp(0.01, settings.utilisation_max);
        }
    }

    /// `f_des = f_cur - gamma d`.
    fn step_frequency(&mut self, distance: f64, limits: &Limits, settings: &PacerSettings) {
        if settings.adapt_frequency {
            let least = limits.groups.iter().map(|group| group.frequency_min / group.frequency_max);
            let least = least.fold(1.0, f64::min);
            let share = self.frequency_share - settings.gamma * distance;
            self.frequency_share = share.clamp(least, 1.0);
        }
    }

    /// Whether more room would take no more cores away.
    fn cores_at_rest(&self, seen: &Observation, limits: &Limits, settings: &PacerSettings) -> bool {
        if !settings.adapt_cores {
            return true;
        }
        let pairs = seen.groups.iter().zip(&limits.groups).zip(&self.utilisation_desired);
        pairs.into_iter().enumerate().all(|(at, ((group, limits), &desired))| {
            let least = limits.cores_min.max(self.tried.cores_floor(at));
            desired >= settings.utilisation_max || group.cores <= least
        })
    }

    /// `n_des = ceil(alpha n u / u_des)` for each group, and the frequency.
    fn action(&self, seen: &Observation, limits: &Limits, settings: &PacerSettings) -> Action {
        let groups = limits.groups.iter().enumerate().map(|(at, limits)| {
            let cores = match seen.groups.get(at) {
                Some(group) if settings.adapt_cores => {
                    let work = settings.alpha * f64::from(group.cores);
                    let for_all = work * group.utilisation() / self.utilisation_desired[at];
                    let for_clients =
                        work * group.utilisation_clients / settings.utilisation_clients_max;
                    // Sums with what is not a number are none, and fail towards all cores.
                    let desired = for_all + (for_clients - for_all).max(0.0);
                    // A utilisation that cannot be must not look like no work at all. Asked before
                    // the ceiling, for that of -0.6 is -0.0.
                    let desired = if desired >= 0.0 { up(desired) } else { limits.cores_max };
                    let kept = (f64::from(group.cores) * CORES_KEPT).ceil() as u32;
                    let kept = kept.min(group.cores.saturating_sub(1));
                    let fewest = if settings.coordinated { kept } else { 0 };
                    desired.max(self.tried.cores_floor(at)).max(fewest.min(limits.cores_max))
                }
                _ => limits.cores_max,
            };
            let frequency = Hertz(limits.frequency_max.0 * self.frequency_share);
            limits.clamp(GroupAction { cores, frequency })
        });
        Action { groups: groups.collect(), drives: DriveAction::Own, background: Vec::new() }
    }
}

/// The next whole number of cores. Less than a hair above one is that one: `alpha n u / (alpha u)`
/// is `n`, whatever the last bit says.
fn up(cores: f64) -> u32 {
    (cores * (1.0 - HAIR)).ceil() as u32
}

/// Whether every group's utilisation stays within limits when tasks take `stretch` times as long.
fn fits(seen: &Observation, stretch: f64, limits: &Limits, settings: &PacerSettings) -> bool {
    seen.groups.iter().zip(&limits.groups).all(|(group, limits)| {
        let margin = if settings.adapt_cores && group.cores > limits.cores_min {
            settings.alpha
        } else {
            1.0
        };
        group.utilisation() * stretch * margin <= settings.utilisation_max
            && group.utilisation_clients * stretch * margin <= settings.utilisation_clients_max
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Settings;
    use proptest::prelude::*;
    use wattio_law::GroupLimits;

    const CORES: u32 = 64;

    fn settings() -> PacerSettings {
        let resolved = crate::policy("pacer").unwrap().resolve(&Settings::new()).unwrap();
        PacerSettings { adapt_frequency: false, ..PacerSettings::from_resolved(&resolved) }
    }

    fn limits() -> Limits {
        Limits::of(vec![GroupLimits {
            cores_min: 1,
            cores_max: CORES,
            frequency_min: Hertz(3e9),
            frequency_max: Hertz(3e9),
            frequency_steps: vec![],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        }])
    }

    fn seen(cores: u32, utilisation: f64) -> Observation {
        let group = GroupObservation {
            cores,
            frequency: Hertz(3e9),
            utilisation_clients: utilisation,
            utilisation_background: 0.0,
            queued: None,
            waited_for_drives: false,
        };
        let (latency, background) = (None, Vec::new());
        Observation { latency, groups: vec![group], background, power: None, alarm: false }
    }

    fn at(loss: f64, blames: Option<Blame>) -> Distance {
        Distance { loss, blames, span: Seconds(0.5), is_kept: false }
    }

    /// A window went too far after a step that was too small to be blamed for it. The step was undone
    /// all the same, which gave nothing back, and the window's own answer was lost.
    #[test]
    fn a_step_that_is_not_to_blame_keeps_no_cores_from_coming_back() {
        let (settings, limits) = (settings(), limits());
        let mut adaptor = Adaptor::new(1);
        adaptor.begin(&seen(CORES, 0.3), &limits);
        let mut held = vec![limits.groups[0].full()];
        let mut step = |adaptor: &mut Adaptor, distance| {
            let now = seen(held[0].cores, 0.3 * f64::from(CORES) / f64::from(held[0].cores));
            held = adaptor.step(distance, &held, &now, &limits, &settings).groups;
            held[0].cores
        };
        // Room until a step takes cores, and less than a tenth of them.
        let mut before = CORES;
        let taken = loop {
            let cores = step(&mut adaptor, at(0.05, None));
            if cores < before {
                break cores;
            }
            before = cores;
        };
        assert!(f64::from(taken) > f64::from(before) * 0.9, "{before} -> {taken}");
        let given = step(&mut adaptor, at(-1.0, Some(Blame::CoarseStep)));
        assert!(given > taken, "{before} -> {taken} -> {given}");
    }

    #[test]
    fn a_coarse_step_is_undone_and_not_taken_again() {
        let (settings, limits) = (settings(), limits());
        let mut adaptor = Adaptor::new(1);
        adaptor.begin(&seen(CORES, 0.1), &limits);
        let full = [limits.groups[0].full()];
        let now = seen(CORES, 0.1);
        let taken = adaptor.step(at(1.0, None), &full, &now, &limits, &settings).groups;
        assert!(taken[0].cores < 58, "{taken:?}");
        let now = seen(taken[0].cores, 0.2);
        let blames = Some(Blame::CoarseStep);
        let undone = adaptor.step(at(-1.0, blames), &taken, &now, &limits, &settings);
        assert_eq!(undone.groups, full);
    }

    proptest! {
        /// `alpha n u / (alpha u)` was rounded up to `n + 1` where the last bit said so.
        #[test]
        fn what_is_unwound_asks_for_the_cores_that_there_are(
            cores in 1u32..=CORES,
            utilisation in 0.01f64..0.6,
        ) {
            let mut adaptor = Adaptor::new(1);
            adaptor.utilisation_desired[0] = 1.0;
            let undone = adaptor.undo(&seen(cores, utilisation), &limits(), &settings());
            prop_assert_eq!(undone.groups[0].cores, cores);
        }
    }
}
