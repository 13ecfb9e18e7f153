//! Combines what the laws of one or several applications ask for into one setting for the machine.
//!
//! Some of what knobs change belongs to one application (its cores), some is shared: a frequency
//! domain, a socket, drives. For anything shared, the application that needs most decides, so the
//! tightest bound wins.

use crate::actuator::Actuator;
use crate::cpus::Cpus;
use crate::knob::{GroupSetting, Setting};
use crate::parts::CoreGroup;
use crate::snapshot::SnapshotError;
use crate::writer::{Applied, Note, Restored};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wattio_law::DriveAction;
use wattio_units::Hertz;

/// What all applications ask for, and what turns the machine to it.
struct Arbiter {
    actuator: Option<Actuator>,
    /// Of each application.
    asked: Vec<Setting>,
    /// What becomes of that, until somebody asks for something else: with a hundred domains it takes
    /// longer than anything else that is done in each window.
    merged: Setting,
    /// Cores that change frequency together.
    domains: Vec<Cpus>,
    /// The setting that knobs were turned to last, and when.
    turned: Option<(Setting, Duration)>,
}

/// One application's access to the machine.
///
/// If one is dropped by a panic, the machine is restored at once.
pub struct Requester {
    arbiter: Arc<Mutex<Arbiter>>,
    at: usize,
}

impl Arbiter {
    /// Takes in what one asks for.
    fn ask(&mut self, at: usize, setting: Setting) {
        if self.asked[at] != setting {
            self.asked[at] = setting;
            self.merged = self.merge();
        }
    }

    /// One setting that gives every application what it asked for, or more.
    fn merge(&self) -> Setting {
        let all_full = self.asked.iter().all(|asked| asked.full_speed);
        let at_full = self.asked.iter().filter(|asked| asked.full_speed && !all_full);
        let groups = self.asked.iter().flat_map(|asked| asked.groups.iter().cloned()).collect();
        Setting {
            groups: self.raised(groups),
            drives: self.drives(),
            background: self.asked.iter().flat_map(|a| a.background.iter().copied()).collect(),
            background_share: self.asked.iter().map(|a| a.background_share).fold(1.0, f64::min),
            full_speed: all_full,
            at_full: at_full
                .flat_map(|asked| &asked.groups)
                .fold(Cpus::default(), |all, group| all.or(&group.active)),
            held_back: self.asked.iter().flat_map(|a| a.held_back.iter().copied()).collect(),
        }
    }

    /// Groups with cores in one domain run at the highest frequency that any of them needs.
    fn raised(&self, mut groups: Vec<GroupSetting>) -> Vec<GroupSetting> {
        // One that spans several domains passes its frequency on, over as many steps as there are
        // groups at most.
        for _ in 0..groups.len() {
            let before = groups.clone();
            for domain in &self.domains {
                let within = |group: &&mut GroupSetting| group.active.meets(domain);
                let highest = groups.iter_mut().filter(within).map(|group| group.frequency.0);
                // No number is left to the knob, which fails towards full speed.
                let highest = highest.fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
                for group in groups.iter_mut().filter(|group| group.active.meets(domain)) {
                    group.frequency = Hertz(highest);
                }
            }
            if groups == before {
                break;
            }
        }
        groups
    }

    /// Drives sleep once all let them; one that wants them awake has its way.
    fn drives(&self) -> DriveAction {
        let mut wishes = self.asked.iter().map(|asked| asked.drives);
        if wishes.clone().any(|drives| drives == DriveAction::Awake) {
            DriveAction::Awake
        } else if wishes.all(|drives| drives == DriveAction::Asleep) {
            DriveAction::Asleep
        } else {
            DriveAction::Own
        }
    }
}

impl Requester {
    /// For each application, given by its groups of cores, its access to the machine. All are at
    /// full speed. Without an `actuator` nothing is turned. Cores in one of the `domains` have one
    /// frequency.
    #[must_use]
    pub fn of(
        actuator: Option<Actuator>,
        applications: &[&[CoreGroup]],
        domains: Vec<Cpus>,
    ) -> Vec<Self> {
        let full = |group: &CoreGroup| GroupSetting {
            active: group.cores.iter().copied().collect(),
            frequency: group.limits.frequency_max,
        };
        let asked = |groups: &&[CoreGroup]| Setting {
            groups: groups.iter().map(full).collect(),
            drives: DriveAction::Own,
            background: Vec::new(),
            background_share: 1.0,
            full_speed: true,
            at_full: Cpus::default(),
            held_back: Vec::new(),
        };
        let none = asked(&[].as_slice());
        let asked = applications.iter().map(asked).collect();
        let mut arbiter = Arbiter { actuator, asked, merged: none, domains, turned: None };
        arbiter.merged = arbiter.merge();
        let arbiter = Arc::new(Mutex::new(arbiter));
        (0..applications.len()).map(|at| Self { arbiter: Arc::clone(&arbiter), at }).collect()
    }

    /// Access for the only application, whose cores each have a frequency of their own.
    #[must_use]
    pub fn alone(actuator: Option<Actuator>, groups: &[CoreGroup]) -> Self {
        let asked = Self::of(actuator, &[groups], Vec::new()).pop();
        asked.unwrap_or_else(|| unreachable!("one for each application"))
    }

    /// Whether anything is turned.
    pub(crate) fn acts(&self) -> bool {
        self.lock().actuator.is_some()
    }

    /// Asks for a setting. `None`: the machine is set so already, and was looked at less than
    /// `refresh` ago.
    pub(crate) fn request(
        &mut self,
        setting: Setting,
        faster: bool,
        now: Duration,
        refresh: Duration,
    ) -> Option<Applied> {
        let at = self.at;
        let mut arbiter = self.lock();
        arbiter.ask(at, setting);
        let turned_at = arbiter.turned.as_ref().filter(|(turned, _)| *turned == arbiter.merged);
        let turned_at = turned_at.map(|(_, at)| *at);
        if turned_at.is_some_and(|at| now.saturating_sub(at) < refresh) {
            return None;
        }
        let merged = arbiter.merged.clone();
        let applied = arbiter
            .actuator
            .as_mut()
            .map(|actuator| actuator.turn(&merged, faster, turned_at.is_some()))
            .unwrap_or_default();
        arbiter.turned = (!applied.failed()).then_some((merged, now));
        Some(applied)
    }

    /// Has all knobs turned at the next request, whatever it is.
    pub(crate) fn distrust(&mut self) {
        self.lock().turned = None;
    }

    /// The frequency of each of its groups, which may be higher than it asked for.
    pub(crate) fn frequencies(&self) -> Vec<Hertz> {
        let arbiter = self.lock();
        let before: usize = arbiter.asked[..self.at].iter().map(|asked| asked.groups.len()).sum();
        let own = arbiter.asked[self.at].groups.len();
        let merged = arbiter.merged.groups.iter().map(|group| group.frequency);
        merged.skip(before).take(own).collect()
    }

    /// Whether any application is at full speed, so that what all share is not slowed down.
    pub(crate) fn any_at_full(&self) -> bool {
        self.lock().asked.iter().any(|asked| asked.full_speed)
    }

    /// See [`crate::Machine::share_time`].
    pub(crate) fn share_time(&mut self) {
        if let Some(actuator) = &mut self.lock().actuator {
            actuator.writer.share_time(true);
        }
    }

    /// Looks at this many held places for changes by others.
    pub(crate) fn inspect(&mut self, count: usize) -> Vec<Note> {
        let mut arbiter = self.lock();
        arbiter.actuator.as_mut().map(|actuator| actuator.writer.inspect(count)).unwrap_or_default()
    }

    /// Restores the machine, for all applications.
    pub(crate) fn restore(&mut self) -> Result<Restored, SnapshotError> {
        let mut arbiter = self.lock();
        arbiter.turned = None;
        match &mut arbiter.actuator {
            Some(actuator) => actuator.writer.restore(),
            None => Ok(Restored::default()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arbiter> {
        self.arbiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Requester {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Its writer restores when it is dropped.
            let actuator = self.lock().actuator.take();
            drop(actuator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattio_law::GroupLimits;

    const REFRESH: Duration = Duration::from_secs(5);

    fn group(cores: std::ops::Range<u32>) -> CoreGroup {
        let limits = GroupLimits {
            cores_min: 1,
            cores_max: cores.len() as u32,
            frequency_min: Hertz(1e9),
            frequency_max: Hertz(3e9),
            frequency_steps: vec![],
            idle_cores_sleep: true,
            power: vec![],
            frequency_bound_share: None,
        };
        CoreGroup { name: "g".into(), cores: cores.collect(), limits, saving_max: None }
    }

    fn cpus(text: &str) -> Cpus {
        text.parse().unwrap()
    }

    fn slow(active: &str, frequency: f64) -> Setting {
        Setting {
            groups: vec![GroupSetting { active: cpus(active), frequency: Hertz(frequency) }],
            drives: DriveAction::Asleep,
            background: vec![],
            background_share: 0.5,
            full_speed: false,
            at_full: Cpus::default(),
            held_back: vec![],
        }
    }

    fn two(domains: &[&str]) -> [Requester; 2] {
        let (one, other) = ([group(0..4)], [group(4..8)]);
        let domains = domains.iter().map(|domain| cpus(domain)).collect();
        Requester::of(None, &[&one, &other], domains).try_into().ok().unwrap()
    }

    fn ask(requester: &mut Requester, setting: Setting) -> Setting {
        requester.request(setting, false, Duration::ZERO, REFRESH);
        requester.lock().merged.clone()
    }

    #[test]
    fn each_has_its_own_cores_and_the_drives_sleep_once_all_let_them() {
        let [mut one, mut other] = two(&["0-3", "4-7"]);
        let merged = ask(&mut one, slow("0-1", 1.5e9));
        assert!(!merged.full_speed && one.any_at_full());
        assert_eq!(merged.at_full, cpus("4-7"));
        assert_eq!((merged.drives, merged.background_share), (DriveAction::Own, 0.5));
        assert_eq!(merged.groups[0].active, cpus("0-1"));
        assert_eq!(merged.groups[1].active, cpus("4-7"));
        assert_eq!(
            (one.frequencies(), other.frequencies()),
            (vec![Hertz(1.5e9)], vec![Hertz(3e9)])
        );

        let merged = ask(&mut other, slow("4", 2e9));
        assert!(merged.at_full.is_empty() && !one.any_at_full());
        assert_eq!(merged.drives, DriveAction::Asleep);
        let held = Setting { held_back: vec!["cpu.turbo"], ..slow("4", 2e9) };
        assert_eq!(ask(&mut other, held).held_back, ["cpu.turbo"], "whoever holds it back wins");
        let awake = Setting { drives: DriveAction::Awake, ..slow("4", 2e9) };
        assert_eq!(ask(&mut other, awake).drives, DriveAction::Awake);
    }

    #[test]
    fn in_a_shared_domain_the_fastest_sets_the_pace_and_the_others_are_told() {
        let [mut one, mut other] = two(&["0-7"]);
        ask(&mut one, slow("0-1", 1.5e9));
        assert_eq!(one.frequencies(), [Hertz(3e9)], "the other is at full speed");
        ask(&mut other, slow("4-7", 2e9));
        assert_eq!(one.frequencies(), [Hertz(2e9)]);
        ask(&mut other, slow("4-7", 1.2e9));
        assert_eq!(
            (one.frequencies(), other.frequencies()),
            (vec![Hertz(1.5e9)], vec![Hertz(1.5e9)])
        );
        // What is no number reaches the knob as it is.
        ask(&mut other, slow("4-7", f64::NAN));
        assert!(one.frequencies()[0].0.is_nan());
    }

    #[test]
    fn a_setting_that_is_there_already_is_looked_at_now_and_then() {
        let [mut one, mut other] = two(&[]);
        let ask = |requester: &mut Requester, setting, at| {
            requester.request(setting, false, Duration::from_secs(at), REFRESH).is_some()
        };
        assert!(ask(&mut one, slow("0", 1e9), 1));
        assert!(!ask(&mut one, slow("0", 1e9), 2));
        assert!(ask(&mut other, slow("4", 1e9), 3));
        assert!(!ask(&mut one, slow("0", 1e9), 7), "both were turned together");
        assert!(ask(&mut one, slow("0", 1e9), 8));
        one.distrust();
        assert!(ask(&mut other, slow("4", 1e9), 8));
    }

    proptest! {
        /// Nobody gets less than was asked for, and one domain has one frequency.
        #[test]
        fn nobody_gets_less(
            wanted in prop::collection::vec((0u32..6, 1u32..7, 1e9..3e9f64), 1..5),
            domains in prop::collection::vec((0u32..24, 1u32..12), 0..4),
        ) {
            let cores = |from: u32, count: u32| (from..from + count).collect::<Cpus>();
            let domains: Vec<_> = domains.iter().map(|&(from, count)| cores(from, count)).collect();
            let own: Vec<_> = (0..wanted.len() as u32).map(|at| [group(6 * at..6 * at + 6)]).collect();
            let own: Vec<&[CoreGroup]> = own.iter().map(<[_; 1]>::as_slice).collect();
            let mut all = Requester::of(None, &own, domains.clone());
            for (at, (requester, &(first, count, frequency))) in all.iter_mut().zip(&wanted).enumerate() {
                let active = cores(6 * at as u32 + first, count.min(6 - first)).to_string();
                ask(requester, slow(&active, frequency));
            }
            let merged = all[0].lock().merged.clone();
            prop_assert_eq!(&merged, &all[0].lock().merge());
            for (group, &(_, _, frequency)) in merged.groups.iter().zip(&wanted) {
                prop_assert!(group.frequency.0 >= frequency);
            }
            for domain in &domains {
                let mut within = merged.groups.iter().filter(|group| group.active.meets(domain));
                let first = within.next().map(|group| group.frequency);
                prop_assert!(within.all(|group| Some(group.frequency) == first));
            }
        }
    }
}
