//! What counts as a law that keeps changing its mind.

use crate::power::{steady_world, window};
use crate::support::{parts, sources};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattio_governor::Governor;
use wattio_law::{Action, Law, Limits, Observation};
use wattio_units::Seconds;

/// Turns cores off while it is told to.
struct ScriptedLaw {
    limits: Limits,
    saves: Arc<AtomicBool>,
}

impl Law for ScriptedLaw {
    fn step(&mut self, _: &Observation, _: Seconds) -> Action {
        let mut action = self.limits.full_speed();
        if self.saves.load(Ordering::Relaxed) {
            for (group, limits) in action.groups.iter_mut().zip(&self.limits.groups) {
                group.cores = limits.cores_min;
            }
        }
        action
    }
    fn period(&self) -> Seconds {
        Seconds(0.5)
    }
}

/// Saves and goes back to full speed, forty times within the breaker's span; flaps and trips.
fn turns(set: impl Fn(&mut Governor, &AtomicBool, bool)) -> (u64, u64) {
    let (world, limits) = steady_world();
    let saves = Arc::new(AtomicBool::new(true));
    let law = ScriptedLaw { limits: limits.clone(), saves: saves.clone() };
    let mut parts = parts(&world, sources(&world), Box::new(law), &limits);
    parts.settings.driver.dwell = Seconds(0.0);
    let mut governor = Governor::new(parts, Duration::ZERO);
    let mut saved = 0;
    for at in 1..=80 {
        set(&mut governor, &saves, at % 2 == 1);
        window(&mut governor, at);
        saved += u32::from(governor.in_force() != &limits.full_speed());
    }
    assert!(saved >= 30, "it saved in {saved} windows");
    (governor.account().flaps, governor.breaker_trips())
}

/// Alternation with short stretches opened the breaker, and measured nothing from then on.
#[test]
fn full_speed_that_somebody_wants_is_no_flap() {
    let by_turns = turns(|governor, _, saving| {
        governor.force_full_speed((!saving).then_some("by turns"));
    });
    assert_eq!(by_turns, (0, 0));
    let paused = turns(|governor, _, saving| match saving {
        true => governor.resume(),
        false => governor.pause(),
    });
    assert_eq!(paused, (0, 0));
}

#[test]
fn a_law_that_keeps_changing_its_mind_opens_the_breaker() {
    let (flaps, trips) = turns(|_, saves, saving| saves.store(saving, Ordering::Relaxed));
    assert!(flaps > 30 && trips == 1, "{flaps} flaps, {trips} trips");
}
