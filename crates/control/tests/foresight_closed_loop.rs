//! Foresight on simulated servers: the bound, bursts, gaps, background work, odd hosts.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use std::path::Path;
use twin::{RAND_RW, Trial, dorado, latency_us, number, pattern, phase, saving, small, taken};
use wattio_control::{Settings, build};
use wattio_law::{Bound, DriveAction};
use wattio_plant::Server;
use wattio_sim::{Load, Run, RunSettings, Senders, limits};
use wattio_trace::{Excerpt, Scaled};
use wattio_units::Hertz;

fn open(server: Server, phases: &[(f64, f64)]) -> Trial {
    let phases = phases.iter().map(|&(span_s, iops)| phase(span_s, Some(iops), RAND_RW)).collect();
    Trial { server, senders: Senders::Open, phases, warmup_s: 0.0, seed: 1 }
}

fn ratio(run: &Run, native: &Run) -> f64 {
    latency_us(run.rows()) / latency_us(native.rows())
}

fn background_share(run: &Run, native: &Run) -> f64 {
    run.summary().background_rate_mean / native.summary().background_rate_mean
}

#[test]
fn a_steady_load_keeps_the_bound_and_saves() {
    let trial = open(small(), &[(40.0, 4_000.0)]);
    let (run, native) = (trial.run("foresight", &[]), trial.native());
    let (ratio, saved) = (ratio(&run, &native), saving(&run, &native));
    println!("steady: x{ratio:.3}, saved {saved:.4}");
    assert!(ratio <= 1.2, "x{ratio}");
    assert!(saved > 0.08, "{saved}");
    assert!(background_share(&run, &native) >= 0.98);
}

/// PACER saved nothing at all on a load that swings while native's latency is flat: a divergence of
/// load was taken for danger, though only latency is promised.
#[test]
fn a_load_that_swings_is_saved_on() {
    let swings: Vec<_> = (0..12).map(|at| (4.0, [15_000.0, 500.0][at % 2])).collect();
    let trial = open(small(), &swings);
    let (run, native) = (trial.run("foresight", &[]), trial.native());
    let (ratio, saved) = (ratio(&run, &native), saving(&run, &native));
    println!("swings: x{ratio:.3}, saved {saved:.4}");
    assert!(ratio <= 1.2, "x{ratio}");
    assert!(saved > 0.05, "{saved}");
}

/// A gap of 35 s broke the bound 1.65 times: drives slept, and the first requests waited for them.
#[test]
fn the_requests_after_a_gap_do_not_break_the_bound() {
    let trial = open(small(), &[(30.0, 4_000.0), (35.0, 0.0), (30.0, 4_000.0)]);
    let (run, native) = (trial.run("foresight", &[]), trial.native());
    let slept = taken(&run).iter().any(|step| step.action.drives == DriveAction::Asleep);
    let (ratio, saved) = (ratio(&run, &native), saving(&run, &native));
    println!(
        "gap: x{ratio:.3}, saved {saved:.4}, background {:.3}",
        background_share(&run, &native)
    );
    assert!(slept, "the gap was not used");
    assert!(ratio <= 1.2, "x{ratio}");
    assert!(background_share(&run, &native) >= 0.98);
}

/// Bursts of 10 ms met a slow setting; the window at full speed that each of them called for had no
/// request but the last of the burst, which the slow setting had kept waiting. Their latency was
/// learned as that of full speed, a fifth too high, so was what is allowed, and the bound was broken
/// 1.2 to 1.33 times.
#[test]
fn the_last_requests_of_a_burst_do_not_teach_the_latency_at_full_speed() {
    let bursts: Vec<_> = (0..50).map(|at| [(3.99, 0.0), (0.01, 40_000.0)][at % 2]).collect();
    for seed in [4, 6] {
        let trial = Trial { seed, ..open(dorado(), &bursts) };
        let (run, native) = (trial.run("foresight", &[]), trial.native());
        let (ratio, saved) = (ratio(&run, &native), saving(&run, &native));
        println!("bursts, seed {seed}: x{ratio:.3}, saved {saved:.4}");
        assert!(ratio <= 1.2, "seed {seed}: x{ratio}");
        assert!(saved > 0.1, "{saved}");
    }
}

#[test]
fn a_burst_meets_full_speed_within_50_ms() {
    let trial = open(small(), &[(30.0, 1_000.0), (0.5, 120_000.0), (10.0, 1_000.0)]);
    let run = trial.run("foresight", &[]);
    let steps = taken(&run);
    let before = steps.iter().rev().find(|step| step.at_s < 30.0).unwrap();
    assert_ne!(before.action.groups, trial.full_speed().groups, "nothing to give back");
    let full = |step: &&twin::Taken| step.action.groups == trial.full_speed().groups;
    let first = steps.iter().find(|step| step.at_s >= 30.0 && full(step)).unwrap();
    println!("full speed {:.0} ms after the burst began", (first.at_s - 30.0) * 1e3);
    assert!(first.at_s - 30.0 <= 0.05, "{} s", first.at_s);
}

/// Clients that wait send less when they are served later: a watt saved must not cost more joules
/// for each request.
#[test]
fn a_closed_loop_of_eight_clients_pays_with_neither_joules_nor_throughput() {
    let mut trial = open(small(), &[]);
    trial.senders = Senders::Clients(8);
    trial.phases = vec![phase(40.0, None, RAND_RW)];
    trial.warmup_s = 10.0;
    let (run, native) = (trial.run("foresight", &[]).summary(), trial.native().summary());
    let joules = run.energy_per_io_j.unwrap() / native.energy_per_io_j.unwrap();
    let rate = run.iops_mean / native.iops_mean;
    println!("closed loop: joules x{joules:.3}, rate x{rate:.3}");
    assert!(joules <= 1.01, "{joules}");
    assert!(rate >= 1.0 / 1.2, "{rate}");
}

/// A wide promise is no licence: with as much to spend, the energy of a request must not rise either,
/// nor may the setting swing.
#[test]
fn eight_clients_that_wait_gain_by_a_wide_promise_and_do_not_flap() {
    let mut trial = open(small(), &[]);
    trial.senders = Senders::Clients(8);
    trial.phases = vec![phase(60.0, None, RAND_RW)];
    trial.warmup_s = 20.0;
    let (run, native) = (trial.run("foresight", &[number("plf", 0.4)]), trial.native());
    let (ours, full) = (run.summary(), native.summary());
    let joules = ours.energy_per_io_j.unwrap() / full.energy_per_io_j.unwrap();
    let slower = latency_us(run.rows()) / full.latency_us_mean.unwrap();
    let capacity = |step: &twin::Taken| {
        step.action.groups.iter().map(|g| f64::from(g.cores) * g.frequency.0).sum::<f64>()
    };
    let capacities: Vec<_> = taken(&run).iter().skip(40).map(capacity).collect();
    let leaps = capacities.windows(2).filter(|pair| (pair[0] / pair[1]).ln().abs() > 0.2).count();
    println!("plf 0.4: joules x{joules:.3}, latency x{slower:.3}, {leaps} leaps");
    assert!(joules < 1.0, "{joules}");
    assert!(slower <= 1.4, "{slower}");
    // A window to learn from is two leaps, one a minute. PACER flapped eleven times a minute.
    assert!(leaps <= 4, "{leaps} leaps in a minute");
}

/// Where much of the promise was left, the price of latency came down below what clients that wait make of
/// it: the joules for each request rose by 14 to 18 % with 4 clients and 1 and a wide promise.
#[test]
fn few_clients_that_wait_pay_no_joules_for_a_promise_that_is_left() {
    for (clients, plf, seed) in [
        (1, 0.4, 1),
        (1, 0.4, 2),
        (1, 0.4, 3),
        (1, 1.0, 1),
        (1, 1.0, 2),
        (2, 0.4, 1),
        (2, 1.0, 2),
        (4, 0.4, 1),
        (4, 1.0, 2),
        (4, 1.0, 3),
    ] {
        let trial = Trial {
            senders: Senders::Clients(clients),
            phases: vec![phase(30.0, None, RAND_RW)],
            warmup_s: 10.0,
            seed,
            ..open(small(), &[])
        };
        let (run, native) = (trial.run("foresight", &[number("plf", plf)]), trial.native());
        let (ours, full) = (run.summary(), native.summary());
        let joules = ours.energy_per_io_j.unwrap() / full.energy_per_io_j.unwrap();
        println!("{clients} clients, plf {plf}, seed {seed}: joules x{joules:.4}");
        assert!(joules <= 1.0, "{clients} clients, plf {plf}, seed {seed}: x{joules:.4}");
    }
}

/// With two frequencies every choice is a leap; the mean over the run keeps the bound all the same.
#[test]
fn two_frequencies_are_enough() {
    let mut server = small();
    server.cores.frequency_steps = vec![Hertz(0.8e9), Hertz(3.0e9)];
    let trial = open(server, &[(40.0, 4_000.0)]);
    let (run, native) = (trial.run("foresight", &[]), trial.native());
    let (ratio, saved) = (ratio(&run, &native), saving(&run, &native));
    println!("two frequencies: x{ratio:.3}, saved {saved:.4}");
    assert!(ratio <= 1.2, "x{ratio}");
    assert!(saved > 0.01, "{saved}");
}

#[test]
fn a_smaller_promise_saves_no_more() {
    let trial = open(small(), &[(30.0, 4_000.0)]);
    let native = trial.native();
    let saved = [0.05, 0.2].map(|plf| {
        let run = trial.run("foresight", &[number("plf", plf)]);
        let ratio = ratio(&run, &native);
        assert!(ratio <= 1.0 + plf, "plf {plf}: x{ratio:.3}");
        saving(&run, &native)
    });
    println!("saved at plf 0.05 and 0.2: {saved:.4?}");
    assert!(saved[0] < saved[1]);
}

fn under(trial: &Trial, bounds: &[&str]) -> Run {
    let bounds: Vec<Bound> = bounds.iter().map(|bound| bound.parse().unwrap()).collect();
    let law = build("foresight", &Settings::new(), &limits(&trial.server)).unwrap();
    let load = Load::Phases { senders: trial.senders, phases: trial.phases.clone() };
    let cut = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 0.5, seed: 1 };
    let mut run = Run::with_bounds(&trial.server, law, &bounds, load, cut).unwrap();
    run.finish().unwrap();
    run
}

/// A bound on the tail: the histogram steers the price.
#[test]
fn a_bound_on_the_99th_percentile_is_kept() {
    let trial = open(small(), &[(60.0, 8_000.0)]);
    let (run, native) = (under(&trial, &["p99 20%"]), trial.native());
    let p99 = |run: &Run| run.summary().latency_us_p99.unwrap();
    let (ratio, saved) = (p99(&run) / p99(&native), saving(&run, &native));
    println!("p99: x{ratio:.3}, saved {saved:.4}");
    assert!(ratio <= 1.2, "x{ratio}");
    assert!(saved > 0.03, "{saved}");
}

/// The mean of windows' quantiles at full speed, of which the first had drives that had to wake, was
/// taken for the run's quantile: the bound was broken 1.02 times on the whole trace and 1.57 times on
/// its first minute.
#[test]
fn a_bound_on_the_99th_percentile_is_kept_on_the_shipped_trace() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/pgbench.wtrace");
    let bounds: [Bound; 1] = ["p99 20%".parse().unwrap()];
    for (seed, duration_s) in [(1, None), (1, Some(60.0)), (2, Some(60.0))] {
        let [run, native] = ["foresight", "native"].map(|policy| {
            let (server, trace) =
                (small(), Excerpt::new(wattio_trace::open(&path).unwrap(), 0.0).unwrap());
            let law = build(policy, &Settings::new(), &limits(&server)).unwrap();
            let load = Load::Trace(Box::new(Scaled::new(trace, 1.0, 1.0, 1).unwrap()));
            let cut = RunSettings { warmup_s: 0.0, duration_s, window_s: 0.5, seed };
            let mut run = Run::with_bounds(&server, law, &bounds, load, cut).unwrap();
            run.finish().unwrap();
            run
        });
        let p99 = |run: &Run| run.summary().latency_us_p99.unwrap();
        let (ratio, saved) = (p99(&run) / p99(&native), saving(&run, &native));
        println!("p99, trace, seed {seed}: x{ratio:.3}, saved {saved:.4}");
        assert!(ratio <= 1.2, "seed {seed}: x{ratio}");
        assert!(saved > 0.02, "seed {seed}: {saved}");
    }
}

/// What large requests took beyond the limit at full speed was made up for by nobody: 1.095 times the
/// limit came of it beside small ones. Beside others of nearly their size it was 1.03 times, as what
/// each takes at full speed was not known well enough.
#[test]
fn an_absolute_bound_is_kept_where_full_speed_is_over_it_at_times() {
    for (sizes, room) in [([131_072, 8192], 1.1), ([131_072, 98_304], 1.04)] {
        let part = |at: usize| phase(10.0, Some(4_000.0), pattern(1.0, 1.0, sizes[at % 2]));
        let trial = Trial { phases: (0..12).map(part).collect(), ..open(small(), &[]) };
        let native = trial.native();
        let limit_us = (latency_us(native.rows()) * room).round();
        let run = under(&trial, &[&format!("mean {limit_us} us")]);
        let (ratio, saved) = (latency_us(run.rows()) / limit_us, saving(&run, &native));
        println!("{sizes:?} by turns: x{ratio:.3} of {limit_us} us, saved {saved:.4}");
        assert!(latency_us(&native.rows()[..20]) > limit_us, "full speed is not over it");
        assert!(ratio <= 1.0, "{sizes:?}: x{ratio}");
        assert!(saved > 0.01, "{sizes:?}: {saved}");
    }
}

#[test]
fn bounds_of_other_kinds_and_several_at_once_are_kept() {
    let trial = open(small(), &[(40.0, 8_000.0)]);
    let native = trial.native();
    let full_us = latency_us(native.rows());
    let absolute = format!("mean {} us", (full_us * 1.1).round());
    for bounds in [vec![absolute.as_str()], vec!["mean 20% window"], vec!["mean 20%", "mean 5%"]] {
        let run = under(&trial, &bounds);
        let (ratio, saved) = (ratio(&run, &native), saving(&run, &native));
        println!("{bounds:?}: x{ratio:.3}, saved {saved:.4}");
        let most = match bounds.as_slice() {
            ["mean 20% window"] => 1.2,
            [_, _] => 1.05,
            _ => 1.1,
        };
        assert!(ratio <= most, "{bounds:?}: x{ratio}");
        assert!(saved > 0.02, "{bounds:?}: {saved}");
    }
}
