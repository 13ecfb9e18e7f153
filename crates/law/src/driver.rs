//! The one loop around a law: it cuts windows, counts alarms, and keeps what a law says within
//! limits. Every plant is driven by it, so that what was simulated is what happens.

use crate::account::Account;
use crate::action::Action;
use crate::bound::Bound;
use crate::holding::Holding;
use crate::limits::Limits;
use crate::plant::{Glimpse, Plant, Seen};
use crate::{Insight, LatencyObservation, Law, Observation, Watch};
use std::collections::VecDeque;
use std::time::Duration;
use wattio_units::Seconds;

/// How the driver treats what the law says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriverSettings {
    /// After a group was sped up it is not slowed down again for this long; speeding up is never
    /// held back.
    pub dwell: Seconds,
    /// A latency sample older than this many windows is missing.
    pub stale_after_windows: f64,
    /// The most cores that one step may take off a group; putting cores back is never held back.
    pub cores_off_max: u32,
}

impl Default for DriverSettings {
    fn default() -> Self {
        Self { dwell: Seconds(0.0), stale_after_windows: 2.0, cores_off_max: u32::MAX }
    }
}

/// A law with its limits, its bounds, its windows and its account.
pub struct Driver<L> {
    law: L,
    limits: Limits,
    full: Action,
    settings: DriverSettings,
    holding: Holding,
    account: Account,
    in_force: Action,
    /// The looks of the last span that the law watches.
    looks: VecDeque<Glimpse>,
    last_look: Duration,
    last_step: Duration,
    window_end: Duration,
}

/// One step of the law, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// Length of the window.
    pub dt: Seconds,
    /// What the law saw.
    pub seen: Observation,
    /// What is in force now.
    pub action: Action,
    /// What the law tells of the step.
    pub insight: Insight,
    /// Why full speed was forced, where it was.
    pub forced: Option<String>,
    /// How time jumped in this window, where it did.
    pub jump: Option<String>,
}

/// A look that comes later than this many windows after the one before lost time: the machine was
/// suspended, or the caller starved.
const LATE_WINDOWS: f64 = 4.0;

impl<L: Law> Driver<L> {
    /// Starts at full speed at `now`. Without bounds the law's own are accounted.
    pub fn new(
        mut law: L,
        limits: Limits,
        bounds: &[Bound],
        settings: DriverSettings,
        now: Duration,
    ) -> Self {
        if !bounds.is_empty() {
            law.set_bounds(bounds);
        }
        let own = law.bounds();
        let account = Account::of(if bounds.is_empty() { &own } else { bounds });
        let full = limits.full_speed();
        Self {
            window_end: now.saturating_add(duration(law.period())),
            law,
            holding: Holding::new(limits.groups.len()),
            limits,
            in_force: full.clone(),
            full,
            settings,
            account,
            looks: VecDeque::new(),
            last_look: now,
            last_step: now,
        }
    }

    /// What the law watches now: nothing at full speed, unless it learns from it.
    fn watch(&self) -> Option<Watch> {
        self.law.watch().filter(|watch| watch.at_full_speed || self.is_saving())
    }

    /// When it wants to look next: the end of the window, or sooner where the law watches.
    pub fn next_look<P: Plant>(&self, plant: &P) -> Duration {
        let after = |span: Seconds| {
            self.last_look.saturating_add(duration(span).max(Duration::from_millis(1)))
        };
        if self.last_look >= self.window_end {
            // Whoever waits for a sample that is due looks again soon.
            after(self.law.watch().map_or(self.law.period() * 0.1, |watch| watch.span))
        } else if let Some(watch) = self.watch() {
            let interval = plant.interval().filter(|&interval| interval > watch.span);
            after(interval.unwrap_or(watch.every)).min(self.window_end)
        } else {
            self.window_end
        }
    }

    /// Goes on until `until` and looks; when the window has ended or the law is alarmed, steps it
    /// and applies what it says.
    ///
    /// # Errors
    /// The plant's own.
    pub fn advance<P: Plant>(
        &mut self,
        plant: &mut P,
        until: Duration,
    ) -> Result<Option<Stepped>, P::Error> {
        let glimpse = plant.advance(until)?;
        let jump = self.notice_jump(until);
        self.last_look = until;
        let alarm = self.is_alarming(glimpse);
        let over = until >= self.window_end && glimpse.is_ready;
        Ok((alarm || over || jump.is_some()).then(|| self.step(plant, until, alarm, jump)))
    }

    /// Closes the window at `now` whatever its length, and steps the law: for plants whose windows
    /// somebody else cuts.
    pub fn close<P: Plant>(&mut self, plant: &mut P, now: Duration, alarm: bool) -> Stepped {
        let jump = self.notice_jump(now);
        self.last_look = now;
        self.step(plant, now, alarm, jump)
    }

    /// What is in force.
    pub fn in_force(&self) -> &Action {
        &self.in_force
    }

    /// Whether anything is slower than full speed.
    pub fn is_saving(&self) -> bool {
        self.in_force != self.full
    }

    /// What the law tells of its last step.
    pub fn insight(&self) -> Insight {
        self.law.insight()
    }

    /// The law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The account so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Forgets the account, at the end of a warm-up.
    pub fn reset_account(&mut self) {
        self.account = Account::of(&self.bounds());
    }

    /// The bounds that are accounted.
    pub fn bounds(&self) -> Vec<Bound> {
        self.account.bounds.iter().map(|account| account.bound).collect()
    }

    /// The share by which latency may exceed that of full speed, where a bound says so.
    pub fn tolerance(&self) -> Option<f64> {
        self.account.bounds.iter().find_map(|account| account.bound.share())
    }

    /// Changes the share of every relative bound from the next step on; the caller checks the
    /// range.
    pub fn set_tolerance(&mut self, share: f64) {
        for account in &mut self.account.bounds {
            account.set_share(share);
        }
        let bounds = self.bounds();
        self.law.set_bounds(&bounds);
    }

    /// Lets `span` pass in which everything happens `times` over that happened since `before`, a
    /// copy of the account: for plants that know that it would.
    pub fn repeat(&mut self, before: &Account, times: u64, span: Duration) {
        self.account.repeat(before, times);
        for time in [&mut self.last_look, &mut self.last_step, &mut self.window_end] {
            *time = time.saturating_add(span);
        }
    }

    /// Whether a sample is recent and possible; what is not is as good as missing.
    fn can_use(&self, sample: &LatencyObservation) -> bool {
        let oldest = self.law.period() * self.settings.stale_after_windows;
        // Written so that an age that is not a number counts as too old.
        sample.age <= oldest && sample.is_plausible()
    }

    /// A look that comes far too late, or before the one before it, spoils the running window.
    fn notice_jump(&mut self, now: Duration) -> Option<String> {
        let late = duration(self.law.period() * LATE_WINDOWS);
        let Some(gap) = now.checked_sub(self.last_look) else {
            self.last_step = self.last_step.min(now);
            return Some("time jumped back".to_owned());
        };
        let expected = self.window_end.saturating_sub(self.last_look).max(late);
        (gap > expected).then(|| format!("time jumped on by {:.1} s", gap.as_secs_f64()))
    }

    /// Takes in a look; answers whether the law is alarmed by the last span of them.
    fn is_alarming(&mut self, glimpse: Glimpse) -> bool {
        let Some(watch) = self.watch() else {
            self.looks.clear();
            return false;
        };
        self.law.glance(&glimpse);
        self.looks.push_back(glimpse);
        let mut span: Seconds = self.looks.iter().map(|look| look.span).sum();
        // A hair of tolerance, for half a span and half a span are one.
        while self.looks.len() > 1 && span - self.looks[0].span >= watch.span * (1.0 - 1e-9) {
            span = span - self.looks[0].span;
            self.looks.pop_front();
        }
        let seen = self.looks.iter().copied().reduce(Glimpse::merge);
        self.is_saving() && seen.is_some_and(|seen| self.law.is_alarming(&seen))
    }

    fn step<P: Plant>(
        &mut self,
        plant: &mut P,
        now: Duration,
        alarm: bool,
        jump: Option<String>,
    ) -> Stepped {
        let dt = Seconds(now.saturating_sub(self.last_step).as_nanos() as f64 * 1e-9);
        let Seen { mut observation, forced } = plant.observe(dt, alarm);
        let forced = jump.clone().or(forced);
        let possible = forced.is_none() && dt.0 > 0.0;
        observation.latency = observation.latency.filter(|s| possible && self.can_use(s));
        let silent = observation.latency.is_none().then(|| "no latency to go by".to_owned());
        let forced = forced.or(silent);

        let before = self.law.insight();
        let wanted = self.limits.clamped(self.law.step(&observation, dt));
        let held = self.holding.hold_back(wanted, &self.in_force, &self.settings, dt);
        let wanted = if forced.is_some() { self.full.clone() } else { held };
        let insight = self.law.insight();
        self.count(&observation, &before, &insight, forced.is_some(), dt);

        let in_force = plant.apply(&wanted);
        self.account.knob_changes += u64::from(in_force != self.in_force);
        self.in_force = in_force;
        // As a rule what was wanted is in force, and need not be copied.
        let action = if self.in_force == wanted { wanted } else { self.in_force.clone() };
        self.looks.clear();
        self.last_step = now;
        self.window_end = now.saturating_add(duration(self.law.period()));
        Stepped { dt, seen: observation, action, insight, forced, jump }
    }

    /// Accounts a window that ran under what the law said `before`.
    fn count(
        &mut self,
        seen: &Observation,
        before: &Insight,
        after: &Insight,
        forced: bool,
        dt: Seconds,
    ) {
        self.account.spend(before.mode, dt);
        self.account.windows += 1;
        self.account.windows_missing += u64::from(seen.latency.is_none());
        self.account.windows_forced += u64::from(forced);
        self.account.windows_alarmed += u64::from(seen.alarm);
        self.account.mode_changes += u64::from(before.mode != after.mode);
        let Some(latency) = &seen.latency else { return };
        self.account.requests = self.account.requests.saturating_add(latency.requests);
        if before.bound_in_force {
            for bound in &mut self.account.bounds {
                bound.judge(latency, after);
            }
        }
    }
}

fn duration(span: Seconds) -> Duration {
    Duration::try_from_secs_f64(span.0).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupAction, GroupLimits, Scripted, Watch};
    use std::sync::{Arc, Mutex};
    use wattio_units::Hertz;

    /// Says as many cores as the test tells it to, and remembers whether it saw a latency and an
    /// alarm. It is alarmed by ten requests in 50 ms.
    struct Told {
        says: VecDeque<u32>,
        saw: Arc<Mutex<Vec<(bool, bool)>>>,
        learns_at_full_speed: bool,
        glances: usize,
    }

    impl Law for Told {
        fn step(&mut self, seen: &Observation, _: Seconds) -> Action {
            self.saw.lock().unwrap().push((seen.latency.is_some(), seen.alarm));
            let cores = self.says.pop_front().unwrap_or(8);
            let groups = vec![GroupAction { cores, frequency: Hertz(1e9) }];
            Action { groups, drives: crate::DriveAction::Own, background: vec![] }
        }
        fn period(&self) -> Seconds {
            Seconds(0.5)
        }
        fn watch(&self) -> Option<Watch> {
            let at_full_speed = self.learns_at_full_speed;
            Some(Watch { span: Seconds(0.05), every: Seconds(0.025), at_full_speed })
        }
        fn glance(&mut self, _: &Glimpse) {
            self.glances += 1;
        }
        fn is_alarming(&self, seen: &Glimpse) -> bool {
            seen.offered() >= 10
        }
    }

    struct Trial {
        driver: Driver<Told>,
        plant: Scripted,
        saw: Arc<Mutex<Vec<(bool, bool)>>>,
    }

    fn trial(says: &[u32], windows: Vec<Observation>, settings: DriverSettings) -> Trial {
        let limits = Limits::of(vec![GroupLimits {
            cores_min: 1,
            cores_max: 8,
            frequency_min: Hertz(1e9),
            frequency_max: Hertz(1e9),
            frequency_steps: vec![],
            idle_cores_sleep: false,
            power: vec![],
            frequency_bound_share: None,
        }]);
        let saw = Arc::new(Mutex::new(Vec::new()));
        let says = says.iter().copied().collect();
        let law = Told { says, saw: saw.clone(), learns_at_full_speed: false, glances: 0 };
        let driver = Driver::new(law, limits, &[], settings, Duration::ZERO);
        Trial { driver, plant: Scripted::new(windows), saw }
    }

    impl Trial {
        /// The next look; the cores in force when it was a step.
        fn look(&mut self) -> Option<u32> {
            let until = self.driver.next_look(&self.plant);
            let stepped = self.driver.advance(&mut self.plant, until).unwrap();
            stepped.map(|stepped| stepped.action.groups[0].cores)
        }

        /// The cores in force after each of so many steps.
        fn steps(&mut self, count: usize) -> Vec<u32> {
            let mut cores = Vec::new();
            while cores.len() < count {
                cores.extend(self.look());
            }
            cores
        }
    }

    fn observed(age: f64) -> Observation {
        let latency = LatencyObservation {
            requests: 1,
            latency_us_mean: Some(100.0),
            ..LatencyObservation::quiet(Seconds(age))
        };
        let latency = Some(latency);
        Observation { latency, groups: vec![], background: vec![], power: None, alarm: false }
    }

    fn arrivals(arrived: u64) -> Glimpse {
        Glimpse { arrived: Some(arrived), is_ready: true, ..Glimpse::default() }
    }

    #[test]
    fn a_sample_older_than_two_windows_is_missing_and_means_full_speed() {
        let windows = [0.9, 1.1, f64::NAN].map(observed).to_vec();
        let mut trial = trial(&[4, 4, 4], windows, DriverSettings::default());
        assert_eq!(trial.steps(3), [4, 8, 8]);
        let saw: Vec<_> = trial.saw.lock().unwrap().iter().map(|seen| seen.0).collect();
        assert_eq!(saw, [true, false, false]);
        assert_eq!(trial.driver.account().windows_missing, 2);
    }

    /// A mean of zero or of no number made the law see no loss at all, and save without end.
    #[test]
    fn a_latency_that_cannot_be_is_missing_and_no_request_is_not() {
        let odd = [Some(0.0), Some(f64::NAN), Some(f64::INFINITY), Some(-1.0), None];
        let mut windows = odd.map(|latency_us_mean| {
            let mut seen = observed(0.0);
            seen.latency.as_mut().unwrap().latency_us_mean = latency_us_mean;
            seen
        });
        let quiet = LatencyObservation::quiet(Seconds(0.0));
        let mut windows: Vec<_> = windows.iter_mut().map(|seen| seen.clone()).collect();
        windows.push(Observation { latency: Some(quiet), ..observed(0.0) });
        let mut trial = trial(&[4; 6], windows, DriverSettings::default());
        assert_eq!(trial.steps(6), [8, 8, 8, 8, 8, 4]);
    }

    #[test]
    fn slowing_down_waits_for_the_dwell_and_speeding_up_does_not() {
        let settings = DriverSettings { dwell: Seconds(1.0), ..DriverSettings::default() };
        let mut trial = trial(&[4, 6, 2, 8, 2, 2, 2], vec![observed(0.0)], settings);
        assert_eq!(trial.steps(7), [4, 6, 6, 8, 8, 2, 2]);
    }

    #[test]
    fn cores_leave_a_few_at_a_time_and_return_at_once() {
        let settings = DriverSettings { cores_off_max: 3, ..DriverSettings::default() };
        let mut trial = trial(&[2, 2, 8], vec![observed(0.0)], settings);
        assert_eq!(trial.steps(3), [5, 2, 8]);
    }

    #[test]
    fn nothing_the_law_says_leaves_the_limits() {
        let mut trial = trial(&[0, 99], vec![observed(0.0)], DriverSettings::default());
        assert_eq!(trial.steps(2), [1, 8]);
    }

    /// Looks every 25 ms were held one by one against a threshold for 50 ms: a burst of 1.1 to 1.9
    /// times the threshold was seen at the window's end only.
    #[test]
    fn an_alarm_counts_over_its_whole_span_however_often_it_looks() {
        let mut trial = trial(&[4, 4], vec![observed(0.0)], DriverSettings::default());
        assert_eq!(trial.steps(1), [4]);
        // 4 and 4 are no alarm; 4 and 6 are ten in 50 ms.
        trial.plant.looks = [4, 4, 6].map(arrivals).into_iter().collect();
        let looks = [(); 3].map(|()| trial.look());
        assert_eq!(looks, [None, None, Some(4)]);
        assert_eq!(trial.saw.lock().unwrap()[1], (true, true), "the law is told of the alarm");
        assert_eq!(trial.driver.account().windows_alarmed, 1);
        // What was counted before a step counts no more.
        trial.plant.looks = [4, 4].map(arrivals).into_iter().collect();
        assert_eq!([trial.look(), trial.look()], [None, None]);
    }

    #[test]
    fn at_full_speed_there_is_nothing_to_watch_for() {
        let mut trial = trial(&[8, 8], vec![observed(0.0)], DriverSettings::default());
        trial.plant.looks = [100, 100].map(arrivals).into_iter().collect();
        assert_eq!([trial.look(), trial.look()], [Some(8), Some(8)]);
        assert_eq!(trial.driver.law().glances, 0);
    }

    /// Foresight had not looked at full speed, and so never saw that requests came in bursts before
    /// the first burst met a slow setting.
    #[test]
    fn who_learns_at_full_speed_looks_there_and_is_not_alarmed() {
        let mut trial = trial(&[8], vec![observed(0.0)], DriverSettings::default());
        trial.driver.law.learns_at_full_speed = true;
        trial.plant.looks = [100, 100].map(arrivals).into_iter().collect();
        assert_eq!([trial.look(), trial.look()], [None, None]);
        assert_eq!(trial.driver.law().glances, 2);
    }

    #[test]
    fn a_jump_of_time_forces_full_speed_for_one_window() {
        let mut trial = trial(&[4; 4], vec![observed(0.0)], DriverSettings::default());
        assert_eq!(trial.steps(1), [4]);
        for at in [Duration::from_secs(60), Duration::from_secs(50)] {
            let stepped = trial.driver.advance(&mut trial.plant, at).unwrap().unwrap();
            assert!(stepped.forced.unwrap().contains("time jumped"));
            assert_eq!(stepped.action.groups[0].cores, 8);
        }
        assert_eq!(trial.steps(1), [4]);
    }

    #[test]
    fn a_window_waits_for_its_sample() {
        let mut trial = trial(&[4], vec![observed(0.0)], DriverSettings::default());
        let late = Glimpse { is_ready: false, ..Glimpse::default() };
        trial.plant.looks = [late, late].into_iter().collect();
        assert_eq!([trial.look(), trial.look(), trial.look()], [None, None, Some(4)]);
    }

    #[test]
    fn whoever_forces_full_speed_gets_it_whatever_the_law_says() {
        let mut trial = trial(&[4, 4], vec![observed(0.0)], DriverSettings::default());
        trial.plant.forced = Some("paused".to_owned());
        assert_eq!(trial.steps(2), [8, 4]);
        assert_eq!(trial.driver.account().windows_forced, 1);
    }
}
