//! Stretches accounted in one go give what stepping gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

use proptest::prelude::*;
use std::time::Duration;
use wattio_control::Settings;
use wattio_fluid::{FluidRun, FluidServer, FluidSettings, Load, Mix, Part, RunSettings, Totals};
use wattio_law::{Bound, Driver, DriverSettings, Plant};
use wattio_plant::{BUILT_IN, Server};

fn run(
    server: usize,
    law: &str,
    parts: &[Part],
    dispersion: f64,
    noise: bool,
    skip: bool,
) -> Totals {
    let server = Server::from_toml(BUILT_IN[server].1).unwrap();
    let limits = wattio_sim::limits(&server);
    let law = wattio_control::build(law, &Settings::new(), &limits).unwrap();
    let bounds: [Bound; 1] = ["p99 1 ms".parse().unwrap()];
    let driver = Driver::new(law, limits, &bounds, DriverSettings::default(), Duration::ZERO);
    let load = Load::new(&server, parts, dispersion).unwrap();
    let settings = FluidSettings { seed: 5, noise, tails: true, clients: Some(server.clients) };
    let end_s = parts.iter().map(|part| part.span_s).sum();
    let plant = FluidServer::new(server, load, settings);
    let mut run = FluidRun::new(plant, driver, RunSettings { warmup_s: 0.0, end_s, skip });
    run.finish(&|| true);
    run.totals()
}

fn part(span_s: f64, rate: f64, read_share: f64) -> Part {
    Part { span_s, rate, mix: Mix { read_share, random_share: 1.0, bytes_mean: 8192.0 } }
}

fn agree(stepped: &Totals, skipped: &Totals) -> Result<(), TestCaseError> {
    let pairs = [
        (stepped.duration_s, skipped.duration_s),
        (stepped.ios, skipped.ios),
        (stepped.energy_j, skipped.energy_j),
        (stepped.energy_cores_j, skipped.energy_cores_j),
        (stepped.energy_drives_j, skipped.energy_drives_j),
        (stepped.latency_us_mean.unwrap_or(0.0), skipped.latency_us_mean.unwrap_or(0.0)),
        (stepped.latency_us_p99.unwrap_or(0.0), skipped.latency_us_p99.unwrap_or(0.0)),
        (stepped.background_rate_mean, skipped.background_rate_mean),
        (stepped.background_rate_due, skipped.background_rate_due),
        (stepped.cores_active_mean, skipped.cores_active_mean),
        (stepped.utilisation_mean, skipped.utilisation_mean),
        (stepped.bounds[0].value_us_sum, skipped.bounds[0].value_us_sum),
        (stepped.bounds[0].limit_us_sum, skipped.bounds[0].limit_us_sum),
    ];
    for (at, (one, other)) in pairs.into_iter().enumerate() {
        let off = (one - other).abs() / one.abs().max(1e-9);
        prop_assert!(off < 1e-9, "{at}: {one} {other}");
    }
    let backlogs = (stepped.background_backlog_core_s_end, skipped.background_backlog_core_s_end);
    prop_assert!((backlogs.0 - backlogs.1).abs() < 1e-6 * (1.0 + backlogs.0), "{backlogs:?}");
    let counts = |totals: &Totals| {
        let bound = &totals.bounds[0];
        (totals.windows, totals.knob_changes, bound.windows, bound.windows_over, bound.requests)
    };
    prop_assert_eq!(counts(stepped), counts(skipped));
    Ok(())
}

/// Where a load changed with a window, its last look told of the requests under way in the next: laws
/// saw them before they came, and an equilibrium was worked out that nothing ever flowed through.
#[test]
fn requests_under_way_are_those_of_the_load_until_now() {
    let server = Server::from_toml(BUILT_IN[0].1).unwrap();
    let load = Load::new(&server, &[part(1.0, 1e5, 0.7), part(1.0, 2e5, 0.7)], 1.0).unwrap();
    let settings = FluidSettings { seed: 5, noise: false, tails: false, clients: None };
    let mut plant = FluidServer::new(server, load, settings);
    let mut under_way = |until_s: f64| {
        let Ok(seen) = plant.advance(Duration::from_secs_f64(until_s));
        seen.in_flight.unwrap().requests
    };
    let (within, at_the_end, after) = (under_way(0.5), under_way(1.0), under_way(1.5));
    assert!(within > 0 && after > within, "{within} {after}");
    assert_eq!(at_the_end, within);
}

/// Where a load changed with a window, its latencies were spread by the kinds of request that came
/// next: those that had not come before were of no latency, and no share of any was a number.
#[test]
fn latencies_spread_as_those_of_the_load_until_now() {
    let parts = [part(0.5, 20e3, 1.0), part(0.5, 20e3, 0.5)].repeat(4);
    for law in ["native", "foresight"] {
        let totals = run(1, law, &parts, 1.0, true, true);
        let (mean_us, p99_us) = (totals.latency_us_mean.unwrap(), totals.latency_us_p99.unwrap());
        assert!(p99_us > mean_us && p99_us < 10.0 * mean_us, "{law}: {mean_us} {p99_us}");
        let bound = &totals.bounds[0];
        let seen_us = bound.value_us_sum / bound.requests as f64;
        assert!(seen_us < 10.0 * mean_us, "{law}: {mean_us} {seen_us}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn skipping_changes_no_total(
        server in 0usize..2, ondemand: bool, spans in proptest::collection::vec(1.0f64..60.0, 1..4),
        loads in proptest::collection::vec(0.0f64..1.1, 4), read_share in 0.0f64..1.0,
        bursty: bool,
    ) {
        let most = [600e3, 220e3][server];
        let parts: Vec<_> = spans
            .iter()
            .zip(&loads)
            .map(|(&span_s, &load)| part(span_s, load * most, read_share))
            .collect();
        let law = if ondemand { "ondemand" } else { "native" };
        let dispersion = if bursty { 30.0 } else { 1.0 };
        let stepped = run(server, law, &parts, dispersion, false, false);
        let skipped = run(server, law, &parts, dispersion, false, true);
        prop_assert_eq!(stepped.windows_skipped, 0);
        agree(&stepped, &skipped)?;
    }
}

#[test]
fn a_day_at_a_few_rates_is_all_but_skipped() {
    let parts: Vec<_> = (0..24).map(|hour| part(3600.0, 1e3 * f64::from(hour), 0.7)).collect();
    for (law, server) in [("native", 0), ("native", 1), ("ondemand", 1)] {
        let totals = run(server, law, &parts, 1.0, false, true);
        let share = totals.windows_skipped as f64 / totals.windows as f64;
        assert!(share > 0.99, "{law}: {share}");
        assert!((totals.duration_s / 86_400.0 - 1.0).abs() < 1e-9);
    }
}

/// What is drawn, and laws that remember, are stepped through.
#[test]
fn nothing_is_skipped_that_could_differ() {
    let parts = [part(60.0, 20e3, 0.7)];
    for (law, dispersion, noise) in
        [("native", 1.0, true), ("native", 30.0, false), ("pacer", 1.0, false)]
    {
        let totals = run(1, law, &parts, dispersion, noise, true);
        assert_eq!(totals.windows_skipped, 0, "{law} {dispersion} {noise}");
    }
}

/// One seed is one run; bursts are the same for every law.
#[test]
fn twins_see_the_same_load() {
    let parts = [part(600.0, 20e3, 0.7)];
    let of = |law: &str, noise: bool| run(1, law, &parts, 40.0, noise, true);
    assert_eq!(of("pacer", true), of("pacer", true));
    let (native, pacer) = (of("native", false), of("pacer", false));
    assert!((native.ios / pacer.ios - 1.0).abs() < 1e-6, "{} {}", native.ios, pacer.ios);
    assert!(pacer.power_w_mean < native.power_w_mean * 0.97);
}

/// More comes than the server takes: what waits is kept, and worked off when less comes.
#[test]
fn an_overload_is_a_backlog_that_is_worked_off() {
    let parts = [part(10.0, 400e3, 0.7), part(60.0, 20e3, 0.7)];
    let server = Server::from_toml(BUILT_IN[1].1).unwrap();
    let all = run(1, "native", &parts, 1.0, false, false);
    assert!((all.ios / (10.0 * 400e3 + 60.0 * 20e3) - 1.0).abs() < 1e-3, "{}", all.ios);
    let during = run(1, "native", &parts[..1], 1.0, false, false);
    assert!(during.ios_waiting_end > 3e5, "{}", during.ios_waiting_end);
    // Little's law: clients who all wait have their number over their rate as latency.
    let closed_us = f64::from(server.clients) / (during.ios / 10.0) * 1e6;
    assert!((during.latency_us_mean.unwrap() / closed_us - 1.0).abs() < 0.02);
}
