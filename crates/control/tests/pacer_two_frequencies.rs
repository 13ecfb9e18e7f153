//! A simulated server with two frequencies and nothing between them.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod twin;

use twin::{RAND_RW, Trial, flag, latency_us, phase, saving, small, taken};
use wattio_sim::Senders;
use wattio_units::Hertz;

/// The slow frequency was just inside the bound and beyond where the law steers: 103 changes in 140
/// windows.
#[test]
fn a_coarse_step_that_lands_just_inside_the_bound_is_no_limit_cycle() {
    let mut server = small();
    (server.cores.frequency_min, server.cores.frequency_max) = (Hertz(1.3e9), Hertz(2.6e9));
    server.cores.frequency_steps = vec![Hertz(1.3e9), Hertz(2.6e9)];
    for group in &mut server.groups {
        group.cores_min = 8;
    }
    let trial = Trial {
        server,
        senders: Senders::Open,
        phases: vec![phase(70.0, Some(8_000.0), RAND_RW)],
        warmup_s: 10.0,
        seed: 1,
    };
    let native = trial.native();
    for settings in [vec![], vec![flag("adapt_cores", false)]] {
        let run = trial.pacer(&settings);
        let steps = taken(&run);
        let changed = |pair: &[twin::Taken]| {
            pair[0].action.groups[0].frequency != pair[1].action.groups[0].frequency
        };
        let changes = steps.windows(2).filter(|pair| changed(pair)).count();
        let ratio = latency_us(run.rows()) / latency_us(native.rows());
        let saved = saving(&run, &native);
        println!("{settings:?}: {changes} changes, x{ratio:.3}, saved {saved:.4}");
        assert!(changes <= 8, "{settings:?}: {changes} changes");
        assert!(ratio <= 1.2, "{settings:?}: x{ratio:.3}");
    }
}
