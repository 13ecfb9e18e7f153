//! Laws that say they have no memory have none: what they say after different pasts is the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

use proptest::prelude::*;
use wattio_control::{Settings, build, policies};
use wattio_law::Law;
use wattio_law::{GroupObservation, InFlight, LatencyObservation, Limits, Observation};
use wattio_plant::{DORADO6000, Server};
use wattio_units::{Hertz, Seconds};

fn limits() -> Limits {
    wattio_sim::limits(&Server::from_toml(DORADO6000).unwrap())
}

fn seen(limits: &Limits, requests: u64, busy: f64, waited: bool) -> Observation {
    let group = |limits: &wattio_law::GroupLimits| GroupObservation {
        cores: limits.cores_max / 2,
        frequency: Hertz(limits.frequency_max.0 * 0.6),
        utilisation_clients: busy,
        utilisation_background: 0.1,
        queued: Some(0),
        waited_for_drives: waited,
    };
    let latency = LatencyObservation {
        requests,
        latency_us_mean: (requests > 0).then_some(200.0 + busy),
        arrived: Some(requests),
        in_flight: Some(InFlight::default()),
        ..LatencyObservation::quiet(Seconds(0.0))
    };
    Observation {
        latency: Some(latency),
        groups: limits.groups.iter().map(group).collect(),
        background: vec![],
        power: None,
        alarm: false,
    }
}

/// Every law by name with `io_wait_boost`, the part of schedutil that remembers, where it has it.
fn laws(limits: &Limits) -> Vec<(&'static str, Box<dyn Law>)> {
    let one = |name: &'static str| {
        let boosted =
            Settings::from([("io_wait_boost".to_owned(), serde_json::from_str("true").unwrap())]);
        let law = build(name, &boosted, limits);
        (name, law.unwrap_or_else(|_| build(name, &Settings::new(), limits).unwrap()))
    };
    policies().iter().map(|policy| one(policy.name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_past_of_a_memoryless_law_does_not_matter(
        past in proptest::collection::vec((0u64..100_000, 0.0f64..0.9, any::<bool>()), 0..20),
        last in (0u64..100_000, 0.0f64..0.9, any::<bool>()),
    ) {
        let limits = limits();
        for ((name, mut old), (_, mut new)) in laws(&limits).into_iter().zip(laws(&limits)) {
            if !old.is_memoryless() {
                continue;
            }
            for &(requests, busy, waited) in &past {
                old.step(&seen(&limits, requests, busy, waited), Seconds(0.5));
            }
            let now = seen(&limits, last.0, last.1, last.2);
            let said = (old.step(&now, Seconds(0.5)), new.step(&now, Seconds(0.5)));
            prop_assert_eq!(&said.0, &said.1, "{}", name);
            prop_assert!(old.watch().is_none(), "{} is alarmed within windows", name);
        }
    }
}

#[test]
fn the_simple_laws_have_no_memory_and_the_others_say_so() {
    let limits = limits();
    let named: Vec<_> = laws(&limits)
        .into_iter()
        .filter(|(_, law)| law.is_memoryless())
        .map(|(name, _)| name)
        .collect();
    for name in ["native", "ondemand", "ondemand-document", "fixed"] {
        assert!(named.contains(&name), "{name}");
    }
    for name in ["schedutil", "pacer"] {
        assert!(!named.contains(&name), "{name}");
    }
}
