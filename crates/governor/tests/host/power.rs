//! Power on a host: what a meter tells reaches the law, and what it does not tell costs nothing.

use crate::support::{PowerFault, Shared, governor, parts, sources, world};
use std::time::Duration;
use wattio_control::{Settings, Value};
use wattio_governor::{Follower, Governor, Severity, Stepped, Tick};
use wattio_law::{GroupObservation, LatencyObservation, Law, Limits, Observation};
use wattio_plant::{SMALL, Server};
use wattio_units::{Hertz, Seconds, Watts};

/// A governor over a world in which one window is like another.
fn steady() -> (Governor, Shared) {
    let (world, limits) = steady_world();
    let law = wattio_control::build("pacer", &Settings::new(), &limits).unwrap();
    (governor(&world, law, &limits, Duration::ZERO), world)
}

pub fn steady_world() -> (Shared, Limits) {
    let limits = wattio_sim::limits(&Server::from_toml(SMALL).unwrap());
    let world = world(&limits);
    let group = |limits: &wattio_law::GroupLimits| GroupObservation {
        cores: limits.cores_max,
        frequency: limits.frequency_max,
        utilisation_clients: 0.1,
        utilisation_background: 0.0,
        queued: None,
        waited_for_drives: false,
    };
    let latency = LatencyObservation {
        requests: 1000,
        latency_us_mean: Some(200.0),
        ..LatencyObservation::quiet(Seconds(0.0))
    };
    world.lock().unwrap().observation = Some(Observation {
        latency: Some(latency),
        groups: limits.groups.iter().map(group).collect(),
        background: vec![],
        power: Some(Watts(61.0)),
        alarm: false,
    });
    (world, limits)
}

pub fn window(governor: &mut Governor, at: u32) -> (Tick, Stepped) {
    let mut tick = governor.tick(Duration::from_millis(500) * at);
    let stepped = tick.stepped.take().unwrap();
    (tick, stepped)
}

#[test]
fn what_a_source_has_to_tell_is_an_event_and_spoils_nothing() {
    let (mut governor, world) = steady();
    world.lock().unwrap().note = Some("3 answers were not seen".to_owned());
    let (tick, stepped) = window(&mut governor, 1);
    assert_eq!(tick.events[0].message, "simulated latency: 3 answers were not seen");
    assert!(stepped.forced.is_none() && stepped.seen.latency.is_some());
    assert_eq!(window(&mut governor, 2).0.events, []);
}

/// The law of a host never saw what is drawn.
#[test]
fn the_law_sees_what_the_meter_measured() {
    let (mut governor, _) = steady();
    let (tick, stepped) = window(&mut governor, 1);
    assert_eq!((stepped.truth.power, stepped.seen.power), (Some(Watts(61.0)), Some(Watts(61.0))));
    assert_eq!((tick.events, governor.account().windows_unmeasured), (vec![], 0));
}

#[test]
fn what_a_meter_does_not_tell_is_absent_told_once_and_forces_nothing() {
    let (mut governor, world) = steady();
    let faults = [
        (PowerFault::Failed, "simulated meter: does not answer"),
        (PowerFault::Absurd(0.0), "simulated meter: says 0 W, which no host draws"),
        (PowerFault::Absurd(f64::NAN), "simulated meter: says NaN W, which no host draws"),
        (PowerFault::Absurd(5e5), "simulated meter: says 500000 W, which no host draws"),
    ];
    for (round, (fault, says)) in (0u32..).zip(faults) {
        let begins = round * 10;
        world.lock().unwrap().power_fault = Some(fault);
        for at in 1..=3 {
            let (tick, stepped) = window(&mut governor, begins + at);
            assert_eq!((stepped.truth.power, stepped.forced), (None, None));
            let told: Vec<_> = tick.events.into_iter().map(|e| (e.severity, e.message)).collect();
            let news = (at == 1).then(|| (Severity::Warning, says.to_owned()));
            assert_eq!(told, news.into_iter().collect::<Vec<_>>());
            assert_eq!(governor.power_trouble(), Some(says));
        }
        // Nothing new is no answer.
        world.lock().unwrap().power_fault = Some(PowerFault::Nothing);
        assert_eq!(window(&mut governor, begins + 4).0.events, []);
        assert_eq!(governor.power_trouble(), Some(says));
        world.lock().unwrap().power_fault = None;
        let (tick, stepped) = window(&mut governor, begins + 5);
        assert_eq!(stepped.truth.power, Some(Watts(61.0)));
        assert_eq!(tick.events[0].message, "simulated meter: answers again");
        assert_eq!(governor.power_trouble(), None);
        for at in 6..10 {
            window(&mut governor, begins + at);
        }
        window(&mut governor, begins + 10);
    }
    let account = governor.account();
    assert_eq!((account.windows_unmeasured, account.source_errors), (16, 0));
    assert_eq!(governor.breaker_trips(), 0);
}

/// A law that leaves this share of the cores, at the highest frequency.
fn fixed(cores_share: f64, limits: &Limits) -> Box<dyn Law> {
    let number = |(name, number): (&str, f64)| (name.to_owned(), Value::Number(number));
    let settings = [("cores_share", cores_share), ("frequency_share", 1.0)].map(number);
    wattio_control::build("fixed", &Settings::from(settings), limits).unwrap()
}

/// A knob that turns turbo off makes cores slower than the law asked for, which model and law took for
/// the frequency with turbo.
#[test]
fn without_turbo_the_law_sees_the_frequency_that_is_left() {
    let (world, limits) = steady_world();
    let highest = limits.groups[0].frequency_max;
    let base = Hertz(highest.0 * 0.7);
    for (cores_share, seen) in [(0.5, base), (1.0, highest)] {
        let mut parts = parts(&world, sources(&world), fixed(cores_share, &limits), &limits);
        parts.groups[0].saving_max = Some(base);
        let mut governor = Governor::new(parts, Duration::ZERO);
        (1..=20).for_each(|at| drop(window(&mut governor, at)));
        let stepped = window(&mut governor, 21).1;
        assert_eq!(stepped.action.groups[0].frequency, highest, "what was asked for stands");
        assert_eq!(stepped.seen.groups[0].frequency, seen, "of {cores_share} of the cores");
    }
}

/// On a host whose power is the same with it and without, it is tried, and let go once that is known.
#[test]
fn a_knob_that_follows_is_tried_and_left_alone_where_the_meter_shows_nothing() {
    let (world, limits) = steady_world();
    let highest = limits.groups[0].frequency_max;
    let base = Hertz(highest.0 * 0.7);
    let mut parts = parts(&world, sources(&world), fixed(0.5, &limits), &limits);
    parts.groups[0].saving_max = Some(base);
    parts.followers = vec![Follower { name: "cpu.turbo", lowers_frequency: true }];
    let mut governor = Governor::new(parts, Duration::ZERO);
    let (mut slow, mut fast, mut told) = (0, 0, vec![]);
    for at in 1..=1500 {
        let (tick, stepped) = window(&mut governor, at);
        told.extend(tick.events.into_iter().map(|event| (at, event.message)));
        assert!(stepped.forced.is_none());
        if told.is_empty() && at > 20 {
            let seen = stepped.seen.groups[0].frequency;
            slow += u32::from(seen == base);
            fast += u32::from(seen == highest);
        }
    }
    assert!(fast > 32 && slow > 5 * fast, "{fast} windows with turbo of {slow}");
    let knob = governor.followers().remove(0);
    assert_eq!((told.len(), knob.pairs), (1, 32), "{told:?}");
    assert!(knob.left_out.unwrap().contains("cannot be told from chance"));
    assert_eq!(window(&mut governor, 1501).1.seen.groups[0].frequency, highest);
}
