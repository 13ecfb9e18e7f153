//! What holds for every step of PACER, whatever it sees.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]

mod kept;

use kept::{law, within};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::time::Duration;
use wattio_control::Value;
use wattio_law::{
    BackgroundAction, BackgroundObservation, Driver, DriverSettings, Glimpse, GroupLimits,
    GroupObservation, InFlight, LatencyObservation, Law, Limits, Observation, Scripted,
};
use wattio_units::{Hertz, Seconds};

const UNSTABLE: Option<&str> = Some("unstable");
const STABLE: Option<&str> = Some("stable");
const IDLE: Option<&str> = Some("idle");

const WINDOW: Seconds = Seconds(0.5);

fn limits(idle_cores_sleep: bool) -> Limits {
    let group = |cores_min, cores_max| GroupLimits {
        cores_min,
        cores_max,
        frequency_min: Hertz(0.8e9),
        frequency_max: Hertz(2.6e9),
        frequency_steps: vec![],
        idle_cores_sleep,
        power: vec![],
        frequency_bound_share: None,
    };
    let mut stepped = group(3, 16);
    stepped.frequency_steps = vec![Hertz(0.8e9), Hertz(1.4e9), Hertz(2.0e9), Hertz(2.6e9)];
    Limits::of(vec![group(2, 40), stepped])
}

fn pacer(settings: &[(&str, Value)], limits: &Limits) -> Box<dyn Law> {
    law("pacer", settings, limits)
}

/// A window of a steady load, with all cores on.
fn window(latency_us: f64) -> Observation {
    let group = |cores| GroupObservation {
        cores,
        frequency: Hertz(2.6e9),
        utilisation_clients: 0.1,
        utilisation_background: 0.2,
        queued: None,
        waited_for_drives: false,
    };
    let latency = LatencyObservation {
        requests: 1000,
        latency_us_mean: Some(latency_us),
        bytes_mean: Some(8192.0),
        read_share: Some(0.7),
        ..LatencyObservation::quiet(Seconds(0.0))
    };
    Observation {
        latency: Some(latency),
        groups: vec![group(40), group(16)],
        background: vec![background(5.0, 5.0, 0.1)],
        power: None,
        alarm: false,
    }
}

fn background(done_core_s: f64, due_core_s: f64, backlog_core_s: f64) -> BackgroundObservation {
    let (class, urgency) = ("scrub".into(), None);
    BackgroundObservation { class, done_core_s, due_core_s, backlog_core_s, urgency }
}

/// A window without requests, and so without any work for clients.
fn quiet() -> Observation {
    let latency = Some(LatencyObservation::quiet(Seconds(0.0)));
    let mut quiet = Observation { latency, ..window(1.0) };
    for group in &mut quiet.groups {
        group.utilisation_clients = 0.0;
    }
    quiet
}

/// Feeds the law with windows whose cores follow its own answer.
fn follow(law: &mut dyn Law, latencies_us: impl IntoIterator<Item = f64>) -> Vec<Option<&str>> {
    let mut cores = [40, 16];
    let step = |latency_us| {
        let mut seen = window(latency_us);
        for (group, cores) in seen.groups.iter_mut().zip(&mut cores) {
            let full = f64::from(group.cores);
            group.cores = *cores;
            group.utilisation_clients *= full / f64::from(*cores);
            group.utilisation_background *= full / f64::from(*cores);
        }
        let action = law.step(&seen, WINDOW);
        for (cores, group) in cores.iter_mut().zip(&action.groups) {
            *cores = group.cores;
        }
        law.insight().mode
    };
    latencies_us.into_iter().map(step).collect()
}

/// Mostly what a server may show, sometimes what none can.
fn observation() -> impl Strategy<Value = Observation> {
    let odd = prop_oneof![20 => 0.0..1.0, 1 => any::<f64>()];
    let latency_us = prop_oneof![
        20 => (80.0..120.0).prop_map(Some),
        3 => (1.0..1e5).prop_map(Some),
        1 => any::<f64>().prop_map(Some),
        1 => Just(None),
    ];
    let requests = prop_oneof![10 => 200..400_u64, 4 => Just(0), 1 => any::<u64>()];
    let told = (
        requests,
        latency_us,
        prop::option::of(prop_oneof![9 => 4096.0..131_072.0, 1 => any::<f64>()]),
        prop::option::of(odd.clone()),
        prop_oneof![9 => Just(0.0), 1 => any::<f64>()],
        prop::option::of(prop_oneof![9 => 0..400_u64, 1 => any::<u64>()]),
        prop::option::of(0..100_u64),
    );
    let latency = prop::option::weighted(
        0.95,
        told.prop_map(
            |(requests, latency_us_mean, bytes_mean, read_share, age, arrived, waiting)| {
                let in_flight = waiting.map(|requests| InFlight { requests, oldest: None });
                LatencyObservation {
                    requests,
                    latency_us_mean,
                    bytes_mean,
                    read_share,
                    arrived,
                    in_flight,
                    ..LatencyObservation::quiet(Seconds(age))
                }
            },
        ),
    );
    let cores = prop_oneof![9 => 0..64_u32, 1 => any::<u32>()];
    let group = (cores, odd.clone(), odd.clone(), any::<bool>()).prop_map(
        |(cores, clients, background, waited_for_drives)| GroupObservation {
            cores,
            frequency: Hertz(2.6e9),
            utilisation_clients: clients * 0.6,
            utilisation_background: background * 0.3,
            queued: None,
            waited_for_drives,
        },
    );
    let class = (odd.clone(), odd.clone(), odd).prop_map(|(a, b, c)| background(a, b, c));
    let classes = prop::collection::vec(class, 0..3);
    let alarm = prop::bool::weighted(0.05);
    (latency, prop::collection::vec(group, 0..=3), classes, alarm).prop_map(
        |(latency, groups, background, alarm)| Observation {
            latency,
            groups,
            background,
            power: None,
            alarm,
        },
    )
}

fn history() -> impl Strategy<Value = Vec<(Observation, f64)>> {
    let dt = prop_oneof![6 => Just(0.5), 3 => 0.001..40.0, 1 => Just(0.0)];
    prop::collection::vec((observation(), dt), 1..120)
}

/// Short waits, and thresholds that let an erratic history reach every state.
fn excitable() -> Vec<(&'static str, Value)> {
    vec![
        ("idle_after", Value::Number(1.0)),
        ("windows", Value::Number(2.0)),
        ("stable_threshold", Value::Number(0.3)),
        ("unstable_threshold", Value::Number(0.5)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// The law itself keeps the limits: the loop's clamp is a second line, not the first.
    #[test]
    fn every_action_is_within_the_limits(
        history in history(), sleep: bool, coordinated: bool, cores: bool, frequency: bool,
    ) {
        let limits = limits(sleep);
        let mut settings = excitable();
        settings.push(("coordinated", Value::Flag(coordinated)));
        settings.push(("adapt_cores", Value::Flag(cores)));
        settings.push(("adapt_frequency", Value::Flag(frequency)));
        let mut law = pacer(&settings, &limits);
        for (seen, dt) in &history {
            let action = law.step(seen, Seconds(*dt));
            within(&action, &limits)?;
            for (group, full) in action.groups.iter().zip(&limits.full_speed().groups) {
                prop_assert!(cores || group.cores == full.cores);
                prop_assert!(frequency || group.frequency == full.frequency);
            }
        }
    }

    /// Whatever happened before: a latency that is silent, stale or impossible means full speed.
    #[test]
    fn a_missing_latency_means_full_speed(
        history in history(), how in 0..7_usize, sleep: bool,
    ) {
        let limits = limits(sleep);
        let law = pacer(&excitable(), &limits);
        let settings = DriverSettings::default();
        let mut driver = Driver::new(law, limits.clone(), &[], settings, Duration::ZERO);
        let mut now = Duration::ZERO;
        let mut plant = Scripted::new([]);
        let mut step = |seen: Observation, driver: &mut Driver<_>| loop {
            plant.windows = [seen.clone()].into();
            now = driver.next_look(&plant).max(now);
            let stepped = driver.advance(&mut plant, now).unwrap();
            if let Some(stepped) = stepped {
                break stepped.action;
            }
        };
        for (seen, _) in history {
            within(&step(seen, &mut driver), &limits)?;
        }
        let mut seen = window(100.0);
        let latency = seen.latency.as_mut().unwrap();
        match how {
            0 => seen.latency = None,
            1 => latency.age = Seconds(1.0 + 1e-6),
            2 => latency.age = Seconds(f64::NAN),
            3 => latency.latency_us_mean = None,
            4 => latency.latency_us_mean = Some(0.0),
            5 => latency.latency_us_mean = Some(f64::NAN),
            _ => latency.latency_us_mean = Some(f64::INFINITY),
        }
        prop_assert_eq!(step(seen, &mut driver), limits.full_speed());
        prop_assert_eq!(driver.insight().mode, UNSTABLE);
    }

    /// A reading that cannot be must leave nothing behind: after any history a steady load is
    /// recognised and saved on again.
    #[test]
    fn no_history_spoils_the_law_for_good(history in history(), sleep: bool) {
        let limits = limits(sleep);
        let mut law = pacer(&[], &limits);
        for (seen, dt) in &history {
            law.step(seen, Seconds(*dt));
        }
        // A silence, so that the steady load begins at full speed.
        law.step(&Observation { latency: None, ..window(100.0) }, WINDOW);
        let states = follow(law.as_mut(), std::iter::repeat_n(100.0, 40));
        prop_assert_eq!(states[39], STABLE);
        let action = law.step(&window(100.0), WINDOW);
        let full = limits.full_speed();
        prop_assert!(action.groups != full.groups, "saves nothing: {:?}", action);
    }

    /// Between the two thresholds nothing changes: who is stable stays so, who is not does neither.
    #[test]
    fn a_divergence_between_the_thresholds_changes_no_state(
        swings in prop::collection::vec(0.1..0.2_f64, 40),
    ) {
        let swinging = || swings.iter().enumerate().map(|(at, swing)| {
            100.0 * if at % 2 == 0 { 1.0 + swing } else { 1.0 - swing }
        });
        let limits = limits(false);
        let mut law = pacer(&[], &limits);
        let states = follow(law.as_mut(), swinging());
        prop_assert!(states.iter().all(|&state| state == UNSTABLE), "{states:?}");
        let mut law = pacer(&[], &limits);
        follow(law.as_mut(), [100.0; 8]);
        let states = follow(law.as_mut(), swinging());
        prop_assert!(states.iter().all(|&state| state == STABLE), "{states:?}");
    }

    /// `adapt_background = false`: the pace never moves, whatever happens.
    #[test]
    fn without_its_adaptor_background_work_is_left_alone(history in history()) {
        let mut settings = excitable();
        settings.push(("adapt_background", Value::Flag(false)));
        let mut law = pacer(&settings, &limits(false));
        for (seen, dt) in &history {
            let action = law.step(seen, Seconds(*dt));
            prop_assert_eq!(action.background_of(0), BackgroundAction::AS_DUE);
        }
    }
}

#[test]
fn thresholds_are_met_from_either_side() {
    let limits = limits(false);
    let mut law = pacer(&[], &limits);
    let calm = follow(law.as_mut(), [100.0; 4]);
    assert_eq!(calm, [[UNSTABLE; 3].as_slice(), &[STABLE]].concat());
    // 3 x 100 and 140 diverge by 30 / 110, more than unstable_threshold; 140 is no burst (170).
    let torn = follow(law.as_mut(), [140.0]);
    assert_eq!(torn, [UNSTABLE]);
}

/// An alarm needs no second opinion: the window that it closed may be too short to show a leap.
#[test]
fn an_alarm_means_full_speed() {
    let limits = limits(false);
    let mut law = pacer(&[], &limits);
    follow(law.as_mut(), [100.0; 12]);
    assert_eq!(law.insight().mode, STABLE);
    let watch = law.watch().unwrap();
    let arrived =
        |requests| Glimpse { span: watch.span, arrived: Some(requests), ..Glimpse::default() };
    // 100 requests are expected in 50 ms; 0.8 of the busiest group's cores would take more.
    assert!(!law.is_alarming(&arrived(140)));
    assert!(law.is_alarming(&arrived(1000)));
    let rung = Observation { alarm: true, ..window(100.0) };
    assert_eq!(law.step(&rung, Seconds(0.02)), limits.full_speed());
    assert_eq!(law.insight().mode, UNSTABLE);
}

/// Saving begins only at full speed, and no state but Stable and Idle saves.
#[test]
fn unstable_never_saves() {
    let limits = limits(false);
    let mut law = pacer(&[], &limits);
    let noisy = [100.0, 150.0, 90.0, 300.0, 100.0, 100.0, 220.0];
    for latency_us in noisy.into_iter().cycle().take(70) {
        assert_eq!(law.step(&window(latency_us), WINDOW), limits.full_speed());
    }
    assert_ne!(law.insight().mode, IDLE);
}

/// Zero requests from a live source is not a missing latency: it is how Idle is reached.
#[test]
fn zero_requests_lead_to_idle_and_silence_to_full_speed() {
    let limits = limits(false);
    let mut law = pacer(&[], &limits);
    follow(law.as_mut(), [100.0; 12]);
    for _ in 0..59 {
        law.step(&quiet(), WINDOW);
        assert_ne!(law.insight().mode, IDLE, "30 s are not over");
    }
    law.step(&quiet(), WINDOW);
    assert_eq!(law.insight().mode, IDLE);
    let first = Glimpse { arrived: Some(1), ..Glimpse::default() };
    assert!(law.is_alarming(&first), "the first request wakes it");
    assert!(!law.is_alarming(&Glimpse::default()));
    let mut asleep = law.step(&quiet(), WINDOW);
    for _ in 0..4 {
        asleep = law.step(&quiet(), WINDOW);
    }
    let least: Vec<_> = limits.groups.iter().map(GroupLimits::least).collect();
    assert_eq!(asleep.groups, least);
    assert_eq!(asleep.background, [BackgroundAction::PAUSED]);
    let untold = law.step(&Observation { background: vec![], ..quiet() }, WINDOW);
    assert_eq!(untold.groups, least);
    assert_eq!(untold.background_of(0), BackgroundAction::AS_DUE, "work nobody tells of goes on");

    let silent = Observation { latency: None, ..quiet() };
    assert_eq!(law.step(&silent, WINDOW), limits.full_speed());
    assert_eq!(law.insight().mode, UNSTABLE);
    for _ in 0..59 {
        assert_eq!(law.step(&quiet(), WINDOW), limits.full_speed(), "silence is no quiet time");
    }
}
