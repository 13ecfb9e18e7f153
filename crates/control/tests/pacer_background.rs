//! Background work under PACER: late, within a bound, and never lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its law has failed")]

mod bench;
mod twin;

use bench::{Bench, WINDOW};
use twin::{RAND_RW, Trial, number, phase, small};
use wattio_law::{Action, Budget};

/// Work that becomes due, core-seconds a second.
const DUE: f64 = 2.0;

/// A backlog without a size beyond measure, worked off as budgets say, `lost` of what they release
/// not being done.
struct Work {
    backlog_core_s: f64,
    due_core_s: f64,
    done_core_s: f64,
}

impl Work {
    const NONE: Self = Self { backlog_core_s: 0.0, due_core_s: 0.0, done_core_s: 0.0 };

    fn pass(&mut self, action: &Action, due: f64, lost: f64, bench: &mut Bench) {
        let due = due * WINDOW.0;
        let able = match action.background_of(0).budget {
            Budget::AsDue => due,
            Budget::CoreSecondsPerSecond(rate) => rate.min(16.0) * WINDOW.0 * (1.0 - lost),
        };
        let done = able.min(self.backlog_core_s + due);
        self.backlog_core_s += due - done;
        self.due_core_s += due;
        self.done_core_s += done;
        bench.background = Some((done, due, self.backlog_core_s));
    }
}

/// Background work was held to 0.99 of what became due, for ever: after 960 s 20 core-seconds were
/// left where full speed leaves none, after a week 6,000. The floor bounds how late work is.
#[test]
fn over_a_week_the_backlog_stays_bounded() {
    let mut bench = Bench::new(&[]);
    let mut work = Work::NONE;
    let mut most_s: f64 = 0.0;
    for _ in 0..7 * 86_400 * 2 {
        let action = bench.step(bench.steady());
        work.pass(&action, DUE, 0.001, &mut bench);
        most_s = most_s.max(work.backlog_core_s / DUE);
    }
    assert_eq!(bench.mode(), "stable");
    assert!(most_s < 1.2, "work waited for {most_s:.2} s");
    let share = work.done_core_s / work.due_core_s;
    assert!(share > 0.9999, "{share} of a week's work");
}

/// Full speed did 1.0 where 0.99 was aimed at: after a day of it, the next 29 minutes ran at half
/// the pace, on credit.
#[test]
fn a_day_at_full_speed_is_no_credit() {
    let mut bench = Bench::new(&[]);
    let mut work = Work::NONE;
    for step in 0..86_400 * 2 {
        // A latency that never settles keeps the law at full speed.
        let action = bench.step(bench.steady_at(if step % 2 == 0 { 100.0 } else { 140.0 }));
        work.pass(&action, DUE, 0.0, &mut bench);
    }
    assert_eq!(bench.mode(), "unstable");
    let before = (work.due_core_s, work.done_core_s);
    for _ in 0..29 * 60 * 2 {
        let action = bench.step(bench.steady());
        work.pass(&action, DUE, 0.0, &mut bench);
    }
    assert_eq!(bench.mode(), "stable");
    let share = (work.done_core_s - before.1) / (work.due_core_s - before.0);
    assert!(share > 0.98, "{share} of what became due in the 29 minutes after");
}

/// An idle server whose backlog stopped growing did not work it off: without a rate at which work
/// becomes due there was no backlog. 100 core-seconds stayed paused.
#[test]
fn an_idle_server_works_off_what_no_longer_becomes_due() {
    let mut bench = Bench::new(&[number("idle_after", 5.0)]);
    let mut work = Work { backlog_core_s: 100.0, ..Work::NONE };
    for due in [DUE, 0.0] {
        for _ in 0..40 {
            let action = bench.step(if due > 0.0 { bench.steady() } else { bench.quiet() });
            work.pass(&action, due, 0.0, &mut bench);
        }
    }
    assert_eq!(bench.mode(), "idle");
    assert!(work.backlog_core_s < 0.01, "{} core-s are left", work.backlog_core_s);
    let asleep = bench.step(bench.quiet());
    assert_eq!(asleep.groups, bench.least());
    assert!(asleep.background_of(0).budget.is_pause());
}

/// Work that becomes due in lumps is late by the horizon and no more.
#[test]
fn a_lump_of_work_is_done_within_the_horizon() {
    let mut bench = Bench::new(&[number("background_horizon", 5.0)]);
    let mut work = Work::NONE;
    for step in 0..400 {
        let action = bench.step(bench.steady());
        work.pass(&action, if step == 100 { 40.0 } else { 0.0 }, 0.0, &mut bench);
        if step == 100 + 30 {
            assert!(work.backlog_core_s < 2.0, "{} of 20 after 15 s", work.backlog_core_s);
        }
    }
    assert!(work.backlog_core_s < 0.05, "{} core-s are left", work.backlog_core_s);
}

/// 8 of 50 runs of 40 to 300 s had done 0.92 to 0.97 of full speed's work: up to ten seconds'
/// worth waited in an idle server when they ended.
#[test]
fn a_run_of_a_minute_that_ends_idle_keeps_the_floor() {
    for (busy_s, idle_s) in [(20.0, 40.0), (20.0, 47.0), (10.0, 110.0)] {
        let mut trial = Trial::steady(small(), 2_000.0, RAND_RW, busy_s);
        trial.warmup_s = 0.0;
        trial.phases.push(phase(idle_s, Some(0.0), RAND_RW));
        let (run, native) = (trial.pacer(&[number("idle_after", 5.0)]), trial.native());
        let kept = run.summary().background_rate_mean / native.summary().background_rate_mean;
        let saved = twin::saving(&run, &native);
        println!(
            "{busy_s} s busy, {idle_s} s idle: {kept:.4} of native's background work, saved {saved:.3}"
        );
        assert!(kept >= 0.98, "{kept:.4} of native's background work");
        assert!(saved > 0.02, "saved {saved:.3}");
    }
}
