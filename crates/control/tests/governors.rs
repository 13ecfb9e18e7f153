//! Linux's governors against their formulas.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use wattio_control::{Settings, Value, build};
use wattio_law::{GroupLimits, GroupObservation, Law, Limits, Observation};
use wattio_units::{Hertz, Seconds};

const LEAST: f64 = 0.8e9;
const MOST: f64 = 2.8e9;

fn limits(frequency_steps: Vec<Hertz>) -> Limits {
    Limits::of(vec![GroupLimits {
        cores_min: 2,
        cores_max: 16,
        frequency_min: Hertz(LEAST),
        frequency_max: Hertz(MOST),
        frequency_steps,
        idle_cores_sleep: true,
        power: vec![],
        frequency_bound_share: None,
    }])
}

fn law(name: &str, settings: &[(&str, Value)]) -> Box<dyn Law> {
    let named = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    build(name, &Settings::from_iter(named), &limits(vec![])).unwrap()
}

/// A group that runs clients' and background tasks at a frequency.
fn seen(clients: f64, background: f64, frequency: f64, waited: bool) -> Observation {
    let group = GroupObservation {
        cores: 16,
        frequency: Hertz(frequency),
        utilisation_clients: clients,
        utilisation_background: background,
        queued: None,
        waited_for_drives: waited,
    };
    let (groups, background) = (vec![group], vec![]);
    Observation { latency: None, groups, background, power: None, alarm: false }
}

fn frequency(law: &mut dyn Law, seen: &Observation) -> f64 {
    let action = law.step(seen, Seconds(0.01));
    assert_eq!(action.groups[0].cores, 16, "a governor switches no core off");
    assert_eq!(action.background, [], "a governor leaves background work alone");
    action.groups[0].frequency.0
}

fn near(ours: f64, theirs: f64) -> bool {
    (ours / theirs - 1.0).abs() < 1e-12
}

#[test]
fn ondemand_interpolates_below_its_threshold_and_leaps_above_it() {
    let mut ondemand = law("ondemand", &[]);
    for (load, expected) in [(0.0, LEAST), (0.25, 1.3e9), (0.8, 2.4e9), (0.801, MOST), (1.0, MOST)]
    {
        let ours = frequency(ondemand.as_mut(), &seen(load / 2.0, load / 2.0, MOST, false));
        assert!(near(ours, expected), "load {load}: {ours} and not {expected}");
    }
    let mut late = law("ondemand", &[("up_threshold", Value::Number(0.95))]);
    assert!(near(frequency(late.as_mut(), &seen(0.9, 0.0, MOST, false)), 2.6e9));
}

#[test]
fn the_documents_ondemand_scales_the_highest_frequency_by_the_busy_time() {
    let mut ondemand = law("ondemand-document", &[]);
    for (load, expected) in [(0.0, LEAST), (0.2, LEAST), (0.5, 1.4e9), (0.9, 2.52e9), (1.0, MOST)] {
        let ours = frequency(ondemand.as_mut(), &seen(load, 0.0, MOST, false));
        assert!(near(ours, expected), "load {load}: {ours} and not {expected}");
    }
}

#[test]
fn ondemand_goes_to_the_next_faster_step() {
    let steps = vec![Hertz(LEAST), Hertz(1.8e9), Hertz(MOST)];
    let mut ondemand = build("ondemand", &Settings::new(), &limits(steps)).unwrap();
    assert_eq!(frequency(ondemand.as_mut(), &seen(0.1, 0.0, MOST, false)), 1.8e9);
    assert_eq!(frequency(ondemand.as_mut(), &seen(0.5, 0.0, MOST, false)), 1.8e9);
    assert_eq!(frequency(ondemand.as_mut(), &seen(0.51, 0.0, MOST, false)), MOST);
}

#[test]
fn a_group_that_is_not_seen_runs_at_full_speed() {
    for name in ["ondemand", "ondemand-document", "schedutil"] {
        let nothing = Observation { groups: vec![], ..seen(0.0, 0.0, MOST, false) };
        assert_eq!(frequency(law(name, &[]).as_mut(), &nothing), MOST, "{name}");
    }
}

#[test]
fn schedutil_measures_utilisation_as_if_at_the_highest_frequency() {
    let mut schedutil = law("schedutil", &[]);
    // 80 % busy at half the frequency is 40 % of the capacity; a quarter more is 50 %.
    assert!(near(frequency(schedutil.as_mut(), &seen(0.5, 0.3, MOST / 2.0, false)), 1.4e9));
    // The same work at full speed asks for the same frequency: no ratchet.
    assert!(near(frequency(schedutil.as_mut(), &seen(0.25, 0.15, MOST, false)), 1.4e9));
    assert!(near(frequency(schedutil.as_mut(), &seen(0.9, 0.0, MOST, false)), MOST));
    assert!(near(frequency(schedutil.as_mut(), &seen(0.0, 0.0, MOST, false)), LEAST));
}

#[test]
fn schedutils_boost_doubles_with_io_wait_and_halves_without() {
    let mut schedutil = law("schedutil", &[("io_wait_boost", Value::Flag(true))]);
    let mut capacity = |waited| frequency(schedutil.as_mut(), &seen(0.0, 0.0, MOST, waited)) / MOST;
    let floor = LEAST / MOST;
    let rising = [0.125, 0.25, 0.5, 1.0, 1.0].map(|boost: f64| boost.max(floor));
    let falling = [0.5, 0.25, 0.125, 0.0].map(|boost: f64| boost.max(floor));
    for expected in rising {
        assert!(near(capacity(true), expected));
    }
    for expected in falling {
        assert!(near(capacity(false), expected));
    }
    let mut plain = law("schedutil", &[]);
    assert_eq!(frequency(plain.as_mut(), &seen(0.0, 0.0, MOST, true)), LEAST, "off by default");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// More load never means a lower frequency, and none leaves the limits.
    #[test]
    fn frequency_grows_with_the_load(a in -0.5..2.0_f64, b in -0.5..2.0_f64) {
        for name in ["ondemand", "ondemand-document", "schedutil"] {
            let mut law = law(name, &[]);
            let low = frequency(law.as_mut(), &seen(a.min(b), 0.0, MOST, false));
            let high = frequency(law.as_mut(), &seen(a.max(b), 0.0, MOST, false));
            prop_assert!(LEAST <= low && low <= high && high <= MOST, "{name}: {low} {high}");
        }
    }

    /// A utilisation that is no number must not look like an idle core.
    #[test]
    fn a_load_that_cannot_be_is_not_slowed_down(background in 0.0..1.0_f64) {
        for name in ["ondemand", "ondemand-document", "schedutil"] {
            let mut law = law(name, &[]);
            let ours = frequency(law.as_mut(), &seen(f64::NAN, background, MOST, false));
            prop_assert_eq!(ours, MOST, "{}", name);
        }
    }
}
