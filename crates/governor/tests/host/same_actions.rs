//! The governor over the simulator's sources and knobs does exactly what the simulator's own loop
//! does: the law that was simulated is the law that governs.

use crate::support::{Around, Hosted, governor, world};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattio_control::Settings;
use wattio_law::Law;
use wattio_plant::{DORADO6000, SMALL, Server};
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders};

/// Quiet, a steady load, a burst, silence long enough to be idle, a load again.
fn load(iops: f64) -> Load {
    let pattern = Pattern { read_fraction: 0.7, random_fraction: 0.8, io_bytes: 8192 };
    let phases = [(20.0, 1.0), (1.0, 6.0), (20.0, 1.2), (40.0, 0.0), (20.0, 0.6)];
    let phase = |&(span_s, share): &(f64, f64)| Phase { span_s, iops: Some(iops * share), pattern };
    Load::Phases { senders: Senders::Open, phases: phases.iter().map(phase).collect() }
}

fn run(server: &Server, law: Box<dyn Law>, iops: f64) -> Run {
    let settings = RunSettings { warmup_s: 5.0, duration_s: None, window_s: 0.5, seed: 7 };
    let mut run = Run::new(server, law, load(iops), settings).unwrap();
    run.record_steps();
    run.finish().unwrap();
    run
}

fn compare(server: &str, policy: &str, iops: f64) {
    let server = Server::from_toml(server).unwrap();
    let limits = wattio_sim::limits(&server);
    let law = || wattio_control::build(policy, &Settings::new(), &limits).unwrap();
    let alone = run(&server, law(), iops);

    let world = world(&limits);
    let events = Arc::new(Mutex::new(Vec::new()));
    let kept = events.clone();
    let hosted = Hosted {
        governor: governor(&world, law(), &limits, Duration::ZERO),
        world,
        limits: limits.clone(),
        now: Duration::ZERO,
        around: move |_: &mut _, _: &_, around: Around<'_>| {
            if let Around::After { tick } = around {
                assert!(tick.stepped.is_some(), "every window of the simulator is one step");
                kept.lock().unwrap().extend(tick.events.iter().cloned());
            }
        },
    };
    let hosted = run(&server, Box::new(hosted), iops);

    assert_eq!(events.lock().unwrap().as_slice(), []);
    assert_eq!(alone.steps().len(), hosted.steps().len());
    for (at, (one, other)) in alone.steps().iter().zip(hosted.steps()).enumerate() {
        assert_eq!(one.observation, other.observation, "{policy}, step {at}");
        assert_eq!(one.action, other.action, "{policy}, step {at}");
        assert_eq!(one.state, other.state, "{policy}, step {at}");
    }
    let full = limits.full_speed();
    let saved = alone.steps().iter().filter(|step| step.action != full).count();
    assert!(policy == "native" || saved > 20, "{policy} saved in {saved} steps");
}

#[test]
fn every_law_acts_on_a_host_as_it_does_in_simulation() {
    for policy in ["native", "ondemand", "ondemand-document", "schedutil", "pacer"] {
        compare(SMALL, policy, 3000.0);
    }
}

#[test]
fn pacer_acts_on_three_groups_as_it_does_in_simulation() {
    compare(DORADO6000, "pacer", 20_000.0);
}
