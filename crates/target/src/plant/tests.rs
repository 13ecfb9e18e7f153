use super::script::{DEVICE_NS, REACTORS, SATURATION, Script, layout};
use super::*;
use proptest::prelude::*;
use wattio_governor::journal::{Stamp, WindowPower, WindowRow};

struct Run {
    governed: Governed<Script>,
    next: Duration,
}

impl Run {
    fn new(policy: &str, rate: f64) -> Self {
        let plant = TargetPlant::new(layout(), Script::new(rate), Duration::ZERO);
        let (policy, settings) = ((policy, &Settings::new()), DriverSettings::default());
        let governed = Governed::new(policy, &[], settings, plant, Duration::ZERO).unwrap();
        Self { governed, next: Duration::ZERO }
    }

    /// Goes on for so long; the steps on the way.
    fn go_on(&mut self, span_s: f64) -> Vec<Stepped> {
        let until = self.next + Duration::from_secs_f64(span_s);
        let mut steps = Vec::new();
        while self.next < until {
            let (next, step) = self.governed.tick(self.next);
            self.next = next;
            steps.extend(step);
        }
        steps
    }

    fn script(&mut self) -> &mut Script {
        self.governed.plant.reactors()
    }

    /// Whether every group has all its seats, whatever background work may do.
    fn is_full(&self) -> bool {
        self.governed.driver.in_force().groups == self.governed.driver.limits().full_speed().groups
    }
}

#[test]
fn native_changes_nothing() {
    let mut run = Run::new("native", 0.05 * SATURATION);
    assert!(
        run.go_on(30.0).iter().all(|step| step.action == run.governed.driver.limits().full_speed())
    );
}

/// Energy is for whole reactors: seats on as few as will do, within the bound, and more of them at once
/// when load comes.
#[test]
fn laws_take_few_reactors_for_little_and_many_for_much() {
    for policy in ["pacer", "foresight"] {
        let mut run = Run::new(policy, 0.05 * SATURATION);
        run.go_on(120.0);
        run.governed.driver.reset_account();
        let steps = run.go_on(120.0);
        let reactors = run.script().setting.active().len();
        assert!((1..=REACTORS / 2).contains(&reactors), "{policy}: {reactors} reactors");
        let loss = run.governed.driver.account().bounds[0].loss().unwrap();
        let tolerance = run.governed.driver.tolerance().unwrap();
        assert!(loss <= tolerance, "{policy}: {loss}");
        let full_us = (DEVICE_NS + 40_000.0 / 0.95) / 1e3;
        let last = steps.last().unwrap().insight.baseline_us.unwrap();
        assert!((last / full_us - 1.0).abs() < 0.05, "{policy}: {last} for {full_us}");
        run.script().rate = 0.7 * SATURATION;
        run.go_on(3.0);
        let load = run.script().load();
        assert!(load < 0.95, "{policy}: {load}");
    }
}

/// A reactor that hangs publishes nothing new: its requests are under way, and grow old.
#[test]
fn a_target_that_stalls_is_stalled_and_not_idle() {
    for policy in ["pacer", "foresight"] {
        let mut run = Run::new(policy, 0.05 * SATURATION);
        run.go_on(120.0);
        assert!(!run.is_full(), "{policy}");
        run.script().is_stalled = true;
        run.go_on(5.0);
        assert!(run.is_full(), "{policy}: {:?}", run.governed.driver.insight());
        let steps = run.go_on(60.0);
        let latency = steps.last().unwrap().truth.latency.as_ref().unwrap();
        assert!(latency.is_stalled() && latency.requests == 0, "{latency:?}");
        assert!(latency.in_flight.unwrap().oldest.unwrap().0 > 60.0);
        assert!(steps.iter().all(|step| step.insight.mode != Some("idle")), "{policy}");

        let mut quiet = Run::new(policy, 0.05 * SATURATION);
        quiet.go_on(30.0);
        quiet.script().rate = 0.0;
        let steps = quiet.go_on(90.0);
        assert!(!steps.last().unwrap().truth.latency.as_ref().unwrap().is_stalled());
        // Foresight is idle only where drives may sleep.
        let modes: &[_] = if policy == "pacer" { &["idle"] } else { &["saving", "idle"] };
        assert!(modes.contains(&quiet.governed.driver.insight().mode.unwrap()), "{policy}");
    }
}

#[test]
fn background_work_is_shifted_and_not_dropped() {
    for policy in ["pacer", "foresight"] {
        let mut run = Run::new(policy, 0.2 * SATURATION);
        let steps = run.go_on(300.0);
        let sum = |of: fn(&BackgroundObservation) -> f64| -> f64 {
            steps.iter().flat_map(|step| &step.truth.background).map(of).sum()
        };
        let (done, due) = (sum(|class| class.done_core_s), sum(|class| class.due_core_s));
        assert!(due > 70.0 && done >= 0.98 * due, "{policy}: {done} of {due}");
    }
}

#[test]
fn a_pause_a_refusal_and_counts_that_go_back_are_full_speed() {
    let mut run = Run::new("foresight", 0.05 * SATURATION);
    run.go_on(120.0);
    assert!(!run.is_full());
    run.governed.plant.is_paused = true;
    assert_eq!(run.go_on(1.0).last().unwrap().forced.as_deref(), Some("paused"));
    assert!(run.is_full());
    run.governed.plant.is_paused = false;
    run.go_on(60.0);
    assert!(!run.is_full());

    run.script().refuses = true;
    let failures: Vec<_> = (0..20)
        .filter_map(|_| {
            run.go_on(0.5);
            assert!(run.is_full());
            run.governed.plant.failure().map(str::to_owned)
        })
        .collect();
    assert!(failures.iter().any(|failure| failure == "reactor 7 does not answer"));
    run.script().refuses = false;
    run.go_on(60.0);
    assert!(!run.is_full() && run.governed.plant.failure().is_none());

    run.script().counters = ReactorCounters::default();
    let forced = run.go_on(1.0).into_iter().find_map(|step| step.forced);
    assert_eq!(forced.as_deref(), Some("what the reactors count went back"));
}

#[test]
fn requests_that_were_given_up_are_not_under_way() {
    let requests =
        RequestCounters { arrived: 10, completed: 7, abandoned: 3, ..Default::default() };
    let counters = ReactorCounters { requests, ..Default::default() };
    assert_eq!(counters.in_flight(Duration::from_secs(9)), wattio_law::InFlight::default());
}

#[test]
fn a_step_is_a_row_of_the_journal() {
    let mut run = Run::new("pacer", 0.1 * SATURATION);
    let steps = run.go_on(2.0);
    let at = Stamp { utc_ns: 1, monotonic_ns: 2 };
    let row = WindowRow::of(steps.last().unwrap(), at, [false], WindowPower::default());
    assert_eq!((row.requests, row.cores), (Some(10_000), vec![8]));
    assert_eq!(row.frequency_hz, [None]);
    assert!(row.latency_us_p99 > row.latency_us_mean && row.histogram.is_some());
}

/// Counters that grow by these amounts, of two reactors.
fn growth() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    proptest::collection::vec((0..5000_u64, 0..5000_u64, 0..200_000_000_u64, 0..1000_u64), 1..40)
}

struct ScriptedReactors(Vec<ReactorCounters>);

impl Reactors for ScriptedReactors {
    fn read(&mut self, _: Duration) -> Vec<ReactorCounters> {
        self.0.clone()
    }

    fn turn(&mut self, _: &Setting) -> Result<(), String> {
        Ok(())
    }
}

proptest! {
    /// However windows are cut, they add up to what was counted.
    #[test]
    fn windows_sum_to_totals(growth in growth()) {
        let dt = Duration::from_millis(500);
        let start = vec![ReactorCounters::default(); 2];
        let mut plant = TargetPlant::new(Layout::new(2, 0, 1).unwrap(), ScriptedReactors(start), Duration::ZERO);
        let (mut requests, mut latency_us, mut spread, mut arrived) = (0, 0.0, 0, 0);
        let (mut glimpsed, mut busy_s, mut done_s, mut due_s) = (0, 0.0, 0.0, 0.0);
        for (at, &(came, answered, busy_ns, blocks)) in growth.iter().enumerate() {
            let one = &mut plant.reactors().0[at % 2];
            one.requests.arrived += came.max(answered);
            one.requests.completed += answered;
            for step in 0..answered {
                one.requests.latencies.record(2000 + 77 * step);
                one.requests.latency_ns += 2000 + 77 * step;
            }
            one.work.clients_ns += busy_ns;
            one.work.background_ns += busy_ns / 2;
            one.background[0].done_ns += blocks * 1000;
            one.background[0].done_blocks += blocks;
            one.background[0].backlog_blocks = (blocks * 7) % 900;
            let until = dt * (at as u32 + 1);
            let Ok(glimpse) = plant.advance(until);
            glimpsed += glimpse.completed;
            let Observation { latency, groups, background, .. } =
                plant.observe(Seconds(dt.as_secs_f64()), false).observation;
            let latency = latency.unwrap();
            requests += latency.requests;
            arrived += latency.arrived.unwrap();
            latency_us += latency.latency_us_mean.unwrap_or(0.0) * latency.requests as f64;
            spread += latency.histogram.map_or(0, |histogram| histogram.requests());
            let time = |group: &GroupObservation| group.utilisation() * f64::from(group.cores) * 0.5;
            busy_s += groups.iter().map(time).sum::<f64>();
            done_s += background[0].done_core_s;
            due_s += background[0].due_core_s;
        }
        let total = ReactorCounters::sum(&plant.reactors().0);
        let told = &total.requests;
        prop_assert_eq!((requests, spread, glimpsed), (told.completed, told.completed, told.completed));
        prop_assert_eq!(arrived, told.arrived);
        let close = |sum: f64, counted: f64| (sum - counted).abs() <= 1e-9 * counted.max(1.0);
        prop_assert!(close(latency_us, told.latency_ns as f64 / 1e3));
        let busy_ns = total.work.clients_ns + total.work.background_ns;
        prop_assert!(close(busy_s, busy_ns as f64 * 1e-9));
        prop_assert!(close(done_s, total.background[0].done_ns as f64 * 1e-9));
        // More becomes due than is done and left only where work vanished undone.
        let left_s = total.background[0].backlog_blocks as f64 * 1e-6;
        prop_assert!(due_s >= done_s + left_s - 1e-2, "{due_s} {done_s} {left_s}");
    }
}
