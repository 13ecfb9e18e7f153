//! Closed loops: clients that ask again when they have their answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use twin::{RAND_RW, Trial, dorado_quarter, latency_us, number, phase, saving, small};
use wattio_sim::Senders;

fn clients(count: u32) -> Trial {
    let mut trial = Trial { warmup_s: 20.0, ..Trial::steady(small(), 1.0, RAND_RW, 40.0) };
    trial.phases = vec![phase(40.0, None, RAND_RW)];
    trial.senders = Senders::Clients(count);
    trial
}

/// The level of a load was told by completions, which fall as the law slows the server. Eight
/// clients on `small` flapped 11 times a minute at plf 0.4 and saved less than at 0.2; there they
/// got 15 % fewer answers and each took 1.4 % more energy, with four clients 5.5 % more. What counts
/// in a closed loop is the energy of a request.
#[test]
fn slower_answers_never_take_more_energy_each() {
    for count in [1, 4, 8] {
        let native = clients(count).native().summary();
        for plf in [0.2, 0.4] {
            let run = clients(count).pacer(&[number("plf", plf)]);
            let summary = run.summary();
            let energy = summary.energy_per_io_j.unwrap() / native.energy_per_io_j.unwrap();
            let rate = summary.iops_mean / native.iops_mean;
            let slower = latency_us(run.rows()) / native.latency_us_mean.unwrap();
            let told = format!(
                "{count} clients, plf {plf}: J/IO x{energy:.4}, rate x{rate:.3}, latency x{slower:.3}, {} changes",
                summary.state_changes
            );
            println!("{told}");
            assert!(energy < 1.0, "{told}");
            assert!(rate >= 1.0 / (1.0 + plf) && slower <= 1.0 + plf, "{told}");
            assert!(summary.state_changes <= 2, "{told}");
        }
    }
}

/// Not raising the energy of a request must not mean never saving.
#[test]
fn where_slowing_down_pays_it_is_done() {
    let (run, native) = (clients(32).pacer(&[]), clients(32).native());
    let energy = run.summary().energy_per_io_j.unwrap() / native.summary().energy_per_io_j.unwrap();
    println!("32 clients: J/IO x{energy:.4}");
    assert!(energy < 0.93, "{energy}");
}

/// A load that falls at its level, as every day's does, was taken for one that follows the latency:
/// its rate was lower than the baseline's by as much as slower answers would have made it. The law
/// waited for what its steps did to the energy of a request, took most of them back, and saved
/// 6.7 % where it saves 10.3 % of a load that rises.
#[test]
fn a_load_that_falls_by_itself_is_no_closed_loop() {
    let saved = |rate: fn(f64) -> f64| {
        let mut trial = Trial::steady(dorado_quarter(), 1.0, RAND_RW, 80.0);
        trial.phases =
            (0..40).map(|at| phase(2.0, Some(rate(f64::from(at) / 40.0)), RAND_RW)).collect();
        let (run, native) = (trial.pacer(&[]), trial.native());
        let slower = latency_us(run.rows()) / latency_us(native.rows());
        assert!(slower <= 1.2, "latency x{slower:.3}");
        saving(&run, &native)
    };
    let (rising, falling) =
        (saved(|part| 12_800.0 * (1.0 + 0.25 * part)), saved(|part| 16_000.0 * (1.0 - 0.2 * part)));
    println!("saves {falling:.3} of a load that falls, {rising:.3} of one that rises");
    assert!(falling > 0.9 * rising, "{falling:.3}, {rising:.3}");
}
