use super::*;
use crate::{BackgroundAction, DriveAction, GroupAction, GroupLimits, Scripted, Watch};
use std::sync::{Arc, Mutex};
use wattio_units::Hertz;

/// Asks for the scripted numbers of cores, and records whether it saw a latency and an alarm. Ten
/// requests in 50 ms alarm it.
struct ScriptedLaw {
    says: VecDeque<u32>,
    saw: Arc<Mutex<Vec<(bool, bool)>>>,
    learns_at_full_speed: bool,
    glances: usize,
}

impl Law for ScriptedLaw {
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
    driver: Driver<ScriptedLaw>,
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
    let law = ScriptedLaw { says, saw: saw.clone(), learns_at_full_speed: false, glances: 0 };
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

/// A mean of zero or NaN looked like no loss at all to the law, which saved without end.
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

/// Budgets follow the work, and count as no change: a server under a steady load had 120 in a minute.
#[test]
fn a_change_of_the_account_is_one_of_cores_frequency_or_drives() {
    struct Budgets(f64);
    impl Law for Budgets {
        fn step(&mut self, _: &Observation, _: Seconds) -> Action {
            self.0 += 1.0;
            let cores = if self.0 < 4.0 { 8 } else { 7 };
            let drives = if self.0 < 8.0 { DriveAction::Own } else { DriveAction::Asleep };
            let groups = vec![GroupAction { cores, frequency: Hertz(1e9) }];
            Action { groups, drives, background: vec![BackgroundAction::of(self.0)] }
        }
        fn period(&self) -> Seconds {
            Seconds(0.5)
        }
    }
    let limits = trial(&[], vec![], DriverSettings::default()).driver.limits.clone();
    let settings = DriverSettings::default();
    let mut driver = Driver::new(Budgets(0.0), limits, &[], settings, Duration::ZERO);
    let mut plant = Scripted::new(vec![observed(0.0)]);
    while driver.account().windows < 10 {
        let until = driver.next_look(&plant);
        driver.advance(&mut plant, until).unwrap();
    }
    let budgets = plant.applied.iter().map(|action| action.background[0]).collect::<Vec<_>>();
    assert!(budgets.windows(2).all(|pair| pair[0] != pair[1]), "{budgets:?}");
    assert_eq!(driver.account().knob_changes, 2);
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

/// Each look of 25 ms was compared with a threshold for 50 ms: a burst of 1.1 to 1.9 times the
/// threshold went unseen until the window's end.
#[test]
fn an_alarm_counts_over_its_whole_span_however_often_it_looks() {
    let mut trial = trial(&[4, 4], vec![observed(0.0)], DriverSettings::default());
    assert_eq!(trial.steps(1), [4]);
    // 4 and 4 raise no alarm; 4 and 6 are ten in 50 ms.
    trial.plant.looks = [4, 4, 6].map(arrivals).into_iter().collect();
    let looks = [(); 3].map(|()| trial.look());
    assert_eq!(looks, [None, None, Some(4)]);
    assert_eq!(trial.saw.lock().unwrap()[1], (true, true), "the law is told of the alarm");
    assert_eq!(trial.driver.account().windows_alarmed, 1);
    // Counts from before a step no longer count.
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

/// Writes that took longer than four windows, such as those that take many processors off, passed for
/// a jump of time: full speed was forced, whose writes took as long again, and so on.
#[test]
fn what_the_callers_work_took_is_no_jump() {
    let second = Duration::from_secs;
    let mut trial = trial(&[4; 4], vec![observed(0.0)], DriverSettings::default());
    assert_eq!(trial.steps(1), [4]);
    trial.driver.excuse(Duration::ZERO, second(60));
    assert_eq!(trial.steps(1), [4]);
    // Others were at work before it; time that nobody accounts for is a jump all the same.
    trial.driver.excuse(second(61), second(70));
    let stepped = trial.driver.advance(&mut trial.plant, second(71)).unwrap().unwrap();
    assert_eq!((stepped.forced, stepped.action.groups[0].cores), (None, 4));
    trial.driver.excuse(second(71), second(72));
    let stepped = trial.driver.advance(&mut trial.plant, second(80)).unwrap().unwrap();
    assert_eq!(stepped.forced.unwrap(), "time jumped ahead by 8.0 s");
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

/// The loss of the first bound was compared with the tolerance of whichever was relative, and later
/// with that of the first on the mean, though a tighter one was steered by.
#[test]
fn the_tolerance_of_a_mean_is_that_of_the_tightest_bound_on_one() {
    for (bounds, mean, any) in [
        (&["mean 20%"][..], Some(0.2), Some(0.2)),
        (&["mean 20%", "mean 2 ms"], Some(0.2), Some(0.2)),
        (&["mean 2 ms", "mean 20%"], Some(0.2), Some(0.2)),
        (&["mean 40%", "mean 10% window", "mean 20%"], Some(0.1), Some(0.1)),
        (&["mean 2 ms"], None, None),
        (&["p99 20%", "mean 10%"], Some(0.1), Some(0.1)),
        (&["p99 20%"], None, Some(0.2)),
        (&[], None, None),
    ] {
        let Trial { driver, .. } = trial(&[], vec![], DriverSettings::default());
        let parsed: Vec<Bound> = bounds.iter().map(|bound| bound.parse().unwrap()).collect();
        let limits = driver.limits.clone();
        let driver =
            Driver::new(driver.law, limits, &parsed, DriverSettings::default(), Duration::ZERO);
        assert_eq!((driver.mean_tolerance(), driver.tolerance()), (mean, any), "{bounds:?}");
    }
}

/// A tolerance is of the mean: `set plf 0.1` made a bound on p99 of 200 % one of 10 %.
#[test]
fn a_tolerance_that_is_set_leaves_bounds_on_percentiles_unless_there_are_no_others() {
    for (before, after) in [
        (&["mean 30%", "p99 200%", "p50 2 ms"][..], &["mean 10%", "p99 200%", "p50 2 ms"][..]),
        (
            &["p99 200%", "mean 30%", "mean 20% window"],
            &["p99 200%", "mean 10%", "mean 10% window"],
        ),
        (&["p99 200%", "p50 30%", "mean 2 ms"], &["p99 10%", "p50 10%", "mean 2 ms"]),
        (&["mean 2 ms"], &["mean 2 ms"]),
    ] {
        let parsed = |bounds: &[&str]| -> Vec<Bound> {
            bounds.iter().map(|bound| bound.parse().unwrap()).collect()
        };
        let Trial { driver, .. } = trial(&[], vec![], DriverSettings::default());
        let (limits, settings) = (driver.limits.clone(), DriverSettings::default());
        let mut driver = Driver::new(driver.law, limits, &parsed(before), settings, Duration::ZERO);
        driver.set_tolerance(0.1);
        assert_eq!(driver.bounds(), parsed(after), "{before:?}");
    }
}
