//! What counts as a law that keeps changing its mind.

use crate::power::{steady_world, window};
use crate::support::{parts, sources};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattio_governor::{Governor, Guard};
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

/// A guard whose file somebody turns over.
struct Turned(Arc<AtomicBool>, u32);

impl Guard for Turned {
    fn problem(&mut self, _: Seconds) -> Option<String> {
        self.1 += 1;
        self.0.load(Ordering::Relaxed).then(|| format!("the array lacks a disk, told {}", self.1))
    }
}

/// The log said that full speed was forced, and not by what; nothing at all if nothing was saved.
#[test]
fn what_a_guard_forces_full_speed_for_is_told_when_it_begins_and_when_it_is_over() {
    let (world, limits) = steady_world();
    let (saves, is_wrong) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let law = ScriptedLaw { limits: limits.clone(), saves };
    let mut parts = parts(&world, sources(&world), Box::new(law), &limits);
    parts.guards = vec![Box::new(Turned(is_wrong.clone(), 0))];
    let mut governor = Governor::new(parts, Duration::ZERO);
    let mut told = Vec::new();
    for at in 1..=9 {
        is_wrong.store((3..=5).contains(&at) || at == 8, Ordering::Relaxed);
        let (tick, stepped) = window(&mut governor, at);
        told.extend(tick.events.into_iter().map(|event| (at, event.message)));
        let reason = stepped.insight.reason;
        match at {
            2 => assert_eq!(stepped.why(), reason),
            4 => assert_eq!(stepped.why(), format!("{reason}: the array lacks a disk, told 4")),
            _ => {}
        }
    }
    let expected = [
        (3, "full speed is forced: the array lacks a disk, told 3"),
        (6, "over: the array lacks a disk, told 3"),
        (8, "full speed is forced: the array lacks a disk, told 8"),
        (9, "over: the array lacks a disk, told 8"),
    ];
    assert_eq!(told, expected.map(|(at, message)| (at, message.to_owned())));
}
