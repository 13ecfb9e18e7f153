//! What turning a knob costs, and what it gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod schedule;

use schedule::Schedule;
use wattio_law::{
    Action, BackgroundAction, BackgroundPriority, DriveAction, Fixed, GroupAction, Law,
};
use wattio_plant::{DORADO6000, Server};
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders, limits};
use wattio_units::Seconds;

const PATTERN: Pattern = Pattern { read_fraction: 0.7, random_fraction: 1.0, io_bytes: 8192 };

fn server() -> Server {
    Server::from_toml(DORADO6000).unwrap()
}

fn simulate(server: &Server, law: Box<dyn Law>, iops: f64, span_s: f64) -> Run {
    let phases = vec![Phase { span_s, iops: Some(iops), pattern: PATTERN }];
    let load = Load::Phases { senders: Senders::Clients(900), phases };
    let settings = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 0.1, seed: 9 };
    let mut run = Run::new(server, law, load, settings).unwrap();
    run.finish().unwrap();
    run
}

/// Full speed with `cores` of each group.
fn with_cores(server: &Server, cores: [u32; 3]) -> Action {
    let mut action = limits(server).full_speed();
    for (group, cores) in action.groups.iter_mut().zip(cores) {
        group.cores = cores;
    }
    action
}

/// Says one thing for half a second, another for the next, and a third from then on.
fn three_acts(acts: [Action; 3]) -> Box<dyn Law> {
    let ends = [0.5, 1.0, 9.0].map(Seconds);
    let last = acts[2].clone();
    let plan = ends.into_iter().zip(acts).collect();
    Box::new(Schedule { plan, last, period: Seconds(0.1), elapsed: Seconds(0.0) })
}

#[test]
fn gated_cores_draw_until_they_are_off_and_from_the_moment_they_come_back() {
    let server = server();
    let (all, half) = (with_cores(&server, [40, 16, 40]), with_cores(&server, [20, 8, 20]));
    let run = simulate(&server, three_acts([all.clone(), half, all]), 2000.0, 1.5);
    let active: Vec<f64> = run.rows().iter().map(|row| row.cores_active_mean).collect();
    // The windows are 0.1 s long; a core takes 45 ms to go, and draws power while it comes back.
    let expected = [96.0, 96.0, 96.0, 96.0, 96.0, 48.0 + 48.0 * 0.45, 48.0, 48.0, 48.0, 48.0, 96.0];
    for (window, (ours, theirs)) in active.iter().zip(expected).enumerate() {
        assert!((ours - theirs).abs() < 1e-6, "window {window}: {ours} against {theirs}");
    }
}

#[test]
fn gating_loses_no_request_and_lets_running_tasks_end() {
    let server = server();
    let acts = [
        with_cores(&server, [40, 16, 40]),
        with_cores(&server, [9, 4, 10]),
        with_cores(&server, [40, 16, 40]),
    ];
    let gated = simulate(&server, three_acts(acts), 60_000.0, 1.5).summary();
    let law = Box::new(Fixed { action: limits(&server).full_speed(), period: Seconds(0.5) });
    let native = simulate(&server, law, 60_000.0, 1.5).summary();
    // A few requests are on their way when either run ends.
    assert!(gated.ios.abs_diff(native.ios) < 50, "{} against {}", gated.ios, native.ios);
    assert!(gated.latency_us_mean > native.latency_us_mean);
}

#[test]
fn a_change_of_frequency_costs_its_pause_and_stretches_what_is_bound_to_it() {
    let mut server = server();
    server.background = None;
    let slow = |share: f64| {
        let mut action = limits(&server).full_speed();
        for group in &mut action.groups {
            group.frequency = group.frequency * share;
        }
        let law = Box::new(Fixed { action, period: Seconds(0.001) });
        simulate(&server, law, 2000.0, 3.0).summary().latency_us_mean.unwrap()
    };
    // With idle queues, a request's mean time on cores before its answer stretches by T(f) / T:
    // 131 us for reads that miss (63 %), 60 us for hits (7 %), 82 us for writes (30 %).
    let on_cores_us = 0.63 * 131.0 + 0.07 * 60.0 + 0.30 * 82.0;
    let stretch = server.cores.stretch(server.cores.frequency_max * 0.5);
    let longer_us = slow(0.5) - slow(1.0);
    let expected_us = on_cores_us * (stretch - 1.0);
    assert!((longer_us / expected_us - 1.0).abs() < 0.02, "{longer_us} against {expected_us}");
}

#[test]
fn background_work_that_goes_first_makes_clients_wait() {
    let server = server();
    let latency = |priority| {
        // The cores that 41.8 cores' worth of background work keep five sixths busy.
        let mut action = with_cores(&server, [21, 8, 21]);
        action.background = vec![BackgroundAction { priority, ..BackgroundAction::AS_DUE }];
        let law = Box::new(Fixed { action, period: Seconds(0.01) });
        simulate(&server, law, 20_000.0, 2.0).summary().latency_us_mean.unwrap()
    };
    let (low, high) = (latency(BackgroundPriority::Low), latency(BackgroundPriority::High));
    assert!(high > 1.2 * low, "{high} us first, {low} us last");
}

#[test]
fn an_idle_server_without_background_work_lets_its_drives_sleep() {
    let mut server = server();
    server.background = None;
    let law = Box::new(Fixed {
        action: Action {
            groups: limits(&server)
                .groups
                .iter()
                .map(|group| GroupAction { cores: group.cores_min, frequency: group.frequency_min })
                .collect(),
            drives: DriveAction::Own,
            background: vec![BackgroundAction::PAUSED],
        },
        period: Seconds(0.001),
    });
    let run = simulate(&server, law, 0.0, 2.0);
    let last = run.rows().last().unwrap();
    assert!((last.energy_drives_j / last.span_s - 24.0 * 5.9).abs() < 0.01);
    let idle_core_w = server.cores.power_idle(server.cores.frequency_min).0;
    assert!((last.energy_cores_j / last.span_s - 6.0 * idle_core_w).abs() < 1e-6);
}
