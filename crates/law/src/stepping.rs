//! The pure loop around a law.

use crate::accounting::Accounting;
use crate::action::Action;
use crate::limits::Limits;
use crate::{LatencyObservation, Law, Observation, OperatingState};
use wattio_units::Seconds;

/// How the loop treats what the law says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopSettings {
    /// After a group was sped up it is not slowed down again for this long; speeding up is never
    /// held back.
    pub dwell: Seconds,
    /// A latency sample older than this many windows is missing.
    pub stale_after_windows: f64,
    /// The most cores that one step may take off a group; putting cores back is never held back.
    pub cores_off_max: u32,
}

impl Default for LoopSettings {
    fn default() -> Self {
        Self { dwell: Seconds(0.0), stale_after_windows: 2.0, cores_off_max: u32::MAX }
    }
}

/// A law with its limits, its dwell and its account.
pub struct Loop<L> {
    law: L,
    limits: Limits,
    settings: LoopSettings,
    accounting: Accounting,
    held: Action,
    since_speed_up: Vec<Seconds>,
}

impl<L: Law> Loop<L> {
    /// Starts at full speed.
    pub fn new(law: L, limits: Limits, settings: LoopSettings) -> Self {
        let held = limits.full_speed();
        let since_speed_up = vec![Seconds(f64::INFINITY); limits.groups.len()];
        Self { law, limits, settings, accounting: Accounting::default(), held, since_speed_up }
    }

    /// One step: drop a stale sample, ask the law, clamp, hold back (dwell, rate), account.
    pub fn step(&mut self, mut observation: Observation, dt: Seconds) -> Action {
        observation.latency = observation.latency.filter(|sample| self.can_use(sample));
        self.accounting.steps += 1;
        self.accounting.missing += u64::from(observation.latency.is_none());
        let before = self.law.state();
        self.accounting.spend(before, dt);

        let wanted = self.limits.clamp(&self.law.step(&observation, dt));
        let action = self.hold_back(wanted, dt);

        self.accounting.transitions += u64::from(self.law.state() != before);
        self.accounting.changes += u64::from(action != self.held);
        self.held = action.clone();
        action
    }

    /// Whether a sample is recent and possible; what is not is as good as missing.
    pub fn can_use(&self, sample: &LatencyObservation) -> bool {
        let oldest = self.law.period() * self.settings.stale_after_windows;
        // Written so that an age that is not a number counts as too old.
        sample.age <= oldest && sample.is_plausible()
    }

    /// The setting in force.
    pub fn held(&self) -> &Action {
        &self.held
    }

    /// The law's operating state.
    pub fn state(&self) -> Option<OperatingState> {
        self.law.state()
    }

    /// The law itself.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The law itself, to change its tolerance.
    pub fn law_mut(&mut self) -> &mut L {
        &mut self.law
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The law's window.
    pub fn period(&self) -> Seconds {
        self.law.period()
    }

    /// See [`Law::alarm_requests`].
    pub fn alarm_requests(&self) -> Option<u64> {
        self.law.alarm_requests()
    }

    /// See [`Law::alarm_span`].
    pub fn alarm_span(&self) -> Seconds {
        self.law.alarm_span()
    }

    /// The account so far.
    pub fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    /// Forgets the account, at the end of a warm-up.
    pub fn reset_accounting(&mut self) {
        self.accounting = Accounting::default();
    }

    fn hold_back(&mut self, mut wanted: Action, dt: Seconds) -> Action {
        for (at, group) in wanted.groups.iter_mut().enumerate() {
            let held = self.held.groups[at];
            let since = &mut self.since_speed_up[at];
            *since = *since + dt;
            let faster = group.cores > held.cores || group.frequency > held.frequency;
            if *since < self.settings.dwell {
                group.cores = group.cores.max(held.cores);
                if group.frequency < held.frequency {
                    group.frequency = held.frequency;
                }
            }
            group.cores = group.cores.max(held.cores.saturating_sub(self.settings.cores_off_max));
            if faster {
                *since = Seconds(0.0);
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackgroundDirective, GroupAction, GroupLimits};
    use wattio_units::Hertz;

    /// Says what the test tells it to and remembers whether it saw a latency.
    struct Scripted {
        says: Vec<u32>,
        saw_latency: Vec<bool>,
    }

    impl Law for Scripted {
        fn step(&mut self, observation: &Observation, _: Seconds) -> Action {
            self.saw_latency.push(observation.latency.is_some());
            Action {
                groups: vec![GroupAction { cores: self.says.remove(0), frequency: Hertz(1e9) }],
                background: BackgroundDirective::AS_DUE,
            }
        }
        fn period(&self) -> Seconds {
            Seconds(0.5)
        }
    }

    fn looped(says: &[u32], dwell: f64) -> Loop<Scripted> {
        let limits = Limits {
            groups: vec![GroupLimits {
                cores_min: 1,
                cores_max: 8,
                frequency_min: Hertz(1e9),
                frequency_max: Hertz(1e9),
                frequency_steps: vec![],
                idle_cores_sleep: false,
            }],
        };
        let law = Scripted { says: says.to_vec(), saw_latency: vec![] };
        Loop::new(law, limits, LoopSettings { dwell: Seconds(dwell), ..LoopSettings::default() })
    }

    fn observed(age: f64) -> Observation {
        let latency = LatencyObservation {
            requests: 1,
            latency_us_mean: Some(100.0),
            bytes_mean: None,
            read_share: None,
            age: Seconds(age),
        };
        Observation { latency: Some(latency), groups: vec![], background: None, alarm: false }
    }

    #[test]
    fn a_sample_older_than_two_windows_is_missing() {
        let mut looped = looped(&[8, 8, 8], 0.0);
        for age in [0.9, 1.1, f64::NAN] {
            looped.step(observed(age), Seconds(0.5));
        }
        assert_eq!(looped.law.saw_latency, [true, false, false]);
        assert_eq!(looped.accounting().missing, 2);
    }

    /// A mean of zero or of no number made the law see no loss at all, and save without end.
    #[test]
    fn a_latency_that_cannot_be_is_missing_and_no_request_is_not() {
        let mut looped = looped(&[8; 6], 0.0);
        for latency_us_mean in [Some(0.0), Some(f64::NAN), Some(f64::INFINITY), Some(-1.0), None] {
            let mut seen = observed(0.0);
            seen.latency = seen.latency.map(|l| LatencyObservation { latency_us_mean, ..l });
            looped.step(seen, Seconds(0.5));
        }
        let mut quiet = observed(0.0);
        quiet.latency =
            quiet.latency.map(|l| LatencyObservation { requests: 0, latency_us_mean: None, ..l });
        looped.step(quiet, Seconds(0.5));
        assert_eq!(looped.law.saw_latency, [false, false, false, false, false, true]);
    }

    #[test]
    fn slowing_down_waits_for_the_dwell_and_speeding_up_does_not() {
        let mut looped = looped(&[4, 6, 2, 8, 2, 2, 2], 1.0);
        let mut cores = Vec::new();
        for _ in 0..7 {
            cores.push(looped.step(observed(0.0), Seconds(0.5)).groups[0].cores);
        }
        assert_eq!(cores, [4, 6, 6, 8, 8, 2, 2]);
    }

    #[test]
    fn cores_leave_a_few_at_a_time_and_return_at_once() {
        let mut looped = looped(&[2, 2, 8], 0.0);
        looped.settings.cores_off_max = 3;
        let cores = [(); 3].map(|()| looped.step(observed(0.0), Seconds(0.5)).groups[0].cores);
        assert_eq!(cores, [5, 2, 8]);
    }

    #[test]
    fn nothing_the_law_says_leaves_the_limits() {
        let mut looped = looped(&[0, 99], 0.0);
        assert_eq!(looped.step(observed(0.0), Seconds(0.5)).groups[0].cores, 1);
        assert_eq!(looped.step(observed(0.0), Seconds(0.5)).groups[0].cores, 8);
    }
}
