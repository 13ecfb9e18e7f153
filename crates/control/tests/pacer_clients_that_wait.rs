//! Closed loops: clients that ask again when they have their answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use twin::{RAND_RW, Trial, latency_us, number, phase, small};
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
