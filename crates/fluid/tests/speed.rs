//! How long a window of half a second takes under each law: `cargo test --release -p wattio-fluid
//! --test speed -- --ignored --nocapture`. Nothing is held against a clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

use std::time::{Duration, Instant};
use wattio_control::Settings;
use wattio_fluid::{FluidRun, FluidServer, FluidSettings, Load, Mix, Part, RunSettings};
use wattio_law::{Driver, DriverSettings};
use wattio_plant::{BUILT_IN, Server};

fn ns_of_a_window(server: usize, law: &str, noise: bool, dispersion: f64, days: f64) -> f64 {
    let server = Server::from_toml(BUILT_IN[server].1).unwrap();
    let limits = wattio_sim::limits(&server);
    let mix = Mix { read_share: 0.7, random_share: 1.0, bytes_mean: 8192.0 };
    let most = if server.name == "small" { 200e3 } else { 600e3 };
    let rate = |at: i32| most * (0.02 + 0.3 * (f64::from(at) / 16.0).sin().powi(2));
    let parts: Vec<_> = (0..96).map(|at| Part { span_s: 900.0, rate: rate(at), mix }).collect();
    let load = Load::new(&server, &parts, dispersion).unwrap();
    let law = wattio_control::build(law, &Settings::new(), &limits).unwrap();
    let driver = Driver::new(law, limits, &[], DriverSettings::default(), Duration::ZERO);
    let settings = FluidSettings { seed: 1, noise, tails: false, clients: Some(server.clients) };
    let plant = FluidServer::new(server, load, settings);
    let end_s = days * 86_400.0;
    let span = RunSettings { warmup_s: 0.0, end_s, skip: true };
    let mut run = FluidRun::new(plant, driver, span);
    let begun = Instant::now();
    run.finish(&|| true);
    begun.elapsed().as_secs_f64() * 1e9 / (2.0 * end_s)
}

#[test]
#[ignore = "prints times, for people to read"]
fn how_long_a_window_takes() {
    for (server, (name, _)) in BUILT_IN.iter().enumerate() {
        for (law, noise, dispersion, days) in [
            ("native", false, 1.0, 1.0),
            ("native", true, 1.0, 0.5),
            ("native", false, 30.0, 0.5),
            ("ondemand", false, 1.0, 1.0),
            ("ondemand", false, 30.0, 0.1),
            ("pacer", true, 1.0, 0.5),
            ("pacer", true, 30.0, 0.5),
            ("foresight", true, 1.0, 0.05),
            ("foresight", true, 30.0, 0.05),
        ] {
            let took = ns_of_a_window(server, law, noise, dispersion, days);
            println!("{name} {law}, noise {noise}, dispersion {dispersion}: {took:.0} ns");
        }
    }
}
