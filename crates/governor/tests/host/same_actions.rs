//! The governor over the simulator does exactly what the simulator's own driver does: the law that
//! was simulated is the law that governs, its windows, its looks, its alarms and all.

use crate::support::{Shared, Sources, action_in, governor_with, world};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattio_control::Settings;
use wattio_governor::{
    BackgroundSource, CpuSource, Cpus, Governor, GroupUse, LatencySample, LatencySource,
    PowerSource, SourceError, Stepped,
};
use wattio_law::{
    Action, BackgroundObservation, Driver, DriverSettings, Glimpse, Limits, Plant, Seen,
};
use wattio_plant::{DORADO6000, SMALL, Server};
use wattio_sim::{Load, LoadError, Pattern, Phase, Reading, Senders, SimulatedServer};
use wattio_units::{Seconds, Watts};

const SEED: u64 = 7;
const SPAN: Duration = Duration::from_secs(106);

type Sim = Arc<Mutex<SimulatedServer>>;

/// A steady load, a burst, silence long enough to be idle, a load again.
fn load(senders: Senders, iops: f64) -> Load {
    let pattern = Pattern { read_fraction: 0.7, random_fraction: 0.8, io_bytes: 8192 };
    let phases = [(25.0, 1.0), (1.0, 6.0), (20.0, 1.2), (40.0, 0.0), (20.0, 0.6)];
    let phase = |&(span_s, share): &(f64, f64)| Phase { span_s, iops: Some(iops * share), pattern };
    Load::Phases { senders, phases: phases.iter().map(phase).collect() }
}

/// The simulated server as a host's sources see it, each counting for itself.
struct Counters {
    sim: Sim,
    last: Reading,
    asked: Option<Seconds>,
    interval: Option<Seconds>,
}

impl Counters {
    fn of(sim: &Sim) -> Self {
        let last = sim.lock().unwrap().read();
        Self { sim: sim.clone(), last, asked: None, interval: None }
    }

    /// What happened since the last call.
    fn since<T>(&mut self, what: fn(&mut SimulatedServer, &Reading) -> T) -> T {
        let mut sim = self.sim.lock().unwrap();
        let told = what(&mut sim, &self.last);
        self.last = sim.read();
        told
    }
}

impl LatencySource for Counters {
    fn name(&self) -> &str {
        "simulated requests"
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        if self.asked.replace(now) == Some(now) {
            return Ok(None);
        }
        let seen = self.since(SimulatedServer::latency_since);
        Ok(Some(LatencySample {
            at: now,
            requests: seen.requests,
            arrived: seen.arrived,
            in_flight: seen.in_flight,
            latency_us_mean: seen.latency_us_mean,
            bytes_mean: seen.bytes_mean,
            read_share: seen.read_share,
            histogram: seen.histogram,
        }))
    }

    fn interval(&self) -> Option<Seconds> {
        self.interval
    }
}

/// The simulated server, which has something new to tell only so often.
struct IntermittentServer {
    server: SimulatedServer,
    interval: Option<Seconds>,
}

impl Plant for IntermittentServer {
    type Error = LoadError;

    fn advance(&mut self, until: Duration) -> Result<Glimpse, LoadError> {
        self.server.advance(until)
    }

    fn observe(&mut self, dt: Seconds, alarm: bool) -> Seen {
        self.server.observe(dt, alarm)
    }

    fn apply(&mut self, action: &Action) -> Action {
        self.server.apply(action)
    }

    fn interval(&self) -> Option<Seconds> {
        self.interval
    }
}

impl CpuSource for Counters {
    fn name(&self) -> &str {
        "simulated cores"
    }

    fn sample(&mut self, _: Seconds, _: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let seen = self.since(SimulatedServer::groups_since);
        let used = |group: &wattio_law::GroupObservation| GroupUse {
            utilisation_clients: group.utilisation_clients,
            utilisation_background: group.utilisation_background,
            queued: group.queued,
            waited_for_drives: group.waited_for_drives,
        };
        Ok(seen.iter().map(used).collect())
    }
}

impl BackgroundSource for Counters {
    fn name(&self) -> &str {
        "simulated background work"
    }

    fn sample(&mut self, _: Seconds) -> Result<Vec<BackgroundObservation>, SourceError> {
        Ok(self.since(SimulatedServer::background_since))
    }
}

impl PowerSource for Counters {
    fn name(&self) -> &str {
        "simulated meter"
    }

    fn sample(&mut self, _: Seconds) -> Result<Option<Watts>, SourceError> {
        Ok(self.since(SimulatedServer::power_since))
    }
}

/// A governor over a simulated server of its own.
struct Hosted {
    sim: Sim,
    world: Shared,
    limits: Limits,
    governor: Governor,
    next: Duration,
}

impl Hosted {
    fn new(server: &Server, policy: &str, load: Load, interval: Option<Seconds>) -> Self {
        let limits = wattio_sim::limits(server);
        let law = wattio_control::build(policy, &Settings::new(), &limits).unwrap();
        let sim = SimulatedServer::new(server, load, SEED, 0.0).unwrap();
        let sim = Arc::new(Mutex::new(sim));
        let world = world(&limits);
        let sources = Sources {
            latency: Box::new(Counters { interval, ..Counters::of(&sim) }),
            cpu: Box::new(Counters::of(&sim)),
            background: Box::new(Counters::of(&sim)),
            power: Box::new(Counters::of(&sim)),
        };
        // The first look is the simulator's: sums of the same numbers in other parts differ.
        let watch = law.watch().filter(|watch| watch.at_full_speed);
        let first = watch.map_or(law.period(), |watch| interval.unwrap_or(watch.every));
        let next = Duration::try_from_secs_f64(first.0).unwrap();
        let governor = governor_with(&world, sources, law, &limits, Duration::ZERO);
        Self { sim, world, limits, governor, next }
    }

    /// Goes on to the next step.
    fn step(&mut self) -> (Duration, Stepped) {
        loop {
            let now = self.next;
            self.sim.lock().unwrap().run(now.as_nanos() as u64).unwrap();
            let tick = self.governor.tick(now);
            assert_eq!(tick.events, [], "nothing goes wrong");
            self.next = tick.next;
            if let Some(stepped) = tick.stepped {
                let action = action_in(&self.world.lock().unwrap(), &self.limits);
                self.sim.lock().unwrap().turn(&action);
                return (now, stepped);
            }
        }
    }
}

/// What a law did in both.
#[derive(Default)]
struct Compared {
    saving: usize,
    alarms: usize,
    idle: usize,
    energy_j: f64,
}

fn compare(server: &str, policy: &str, senders: Senders, iops: f64) -> Compared {
    compare_told(server, policy, senders, iops, None)
}

/// The same where the source has something new to tell only so often.
fn compare_told(
    server: &str,
    policy: &str,
    senders: Senders,
    iops: f64,
    interval: Option<Seconds>,
) -> Compared {
    let server = Server::from_toml(server).unwrap();
    let limits = wattio_sim::limits(&server);
    let law = wattio_control::build(policy, &Settings::new(), &limits).unwrap();
    let alone = SimulatedServer::new(&server, load(senders, iops), SEED, 0.0).unwrap();
    let mut alone = IntermittentServer { server: alone, interval };
    let settings = DriverSettings::default();
    let mut driver = Driver::new(law, limits.clone(), &[], settings, Duration::ZERO);
    let mut hosted = Hosted::new(&server, policy, load(senders, iops), interval);
    let full = limits.full_speed();
    let mut compared = Compared::default();
    loop {
        let now = driver.next_look(&alone);
        if now > SPAN {
            return compared;
        }
        let Some(one) = driver.advance(&mut alone, now).unwrap() else { continue };
        let (at, other) = hosted.step();
        assert_eq!(now, at, "{policy}: a window is as long on a host");
        assert_eq!(one.action, other.action, "{policy} at {now:?}");
        assert_eq!(one.insight, other.insight, "{policy} at {now:?}");
        assert_eq!(one.seen.alarm, other.seen.alarm);
        assert_eq!(one.seen.power, other.seen.power, "{policy} at {now:?}");
        compared.saving += usize::from(one.action != full);
        compared.energy_j += one.seen.power.unwrap_or(Watts(0.0)).0 * one.dt.0;
        compared.alarms += usize::from(one.seen.alarm);
        compared.idle += usize::from(one.insight.mode == Some("idle"));
    }
}

#[test]
fn every_law_acts_on_a_host_as_it_does_in_simulation() {
    for policy in wattio_control::policies().iter().filter(|policy| policy.name != "fixed") {
        let seen = compare(SMALL, policy.name, Senders::Open, 3000.0);
        assert!(policy.name == "native" || seen.saving > 20, "{}: {}", policy.name, seen.saving);
    }
}

/// A burst that its setting bears is none to foresight: at this rate it is more.
#[test]
fn foresight_is_alarmed_on_a_host_as_in_simulation() {
    let seen = compare(SMALL, "foresight", Senders::Open, 20_000.0);
    assert!(seen.saving > 20 && seen.alarms > 0, "{} {}", seen.saving, seen.alarms);
}

/// A source that is polled twice a window, as most are: what requests do within a poll nobody tells, and
/// foresight saves less for it.
#[test]
fn laws_act_on_a_polled_source_as_in_simulation_and_save() {
    for policy in ["pacer", "foresight"] {
        let energy_j = |policy, interval| {
            compare_told(SMALL, policy, Senders::Open, 18_000.0, interval).energy_j
        };
        let full_j = energy_j("native", None);
        let [often, polled] =
            [None, Some(Seconds(0.25))].map(|interval| 1.0 - energy_j(policy, interval) / full_j);
        println!("{policy} saved {often:.4}, polled {polled:.4}");
        assert!(polled > 0.6 * often, "{policy} saved {often:.4}, polled {polled:.4}");
    }
}

#[test]
fn pacer_acts_on_three_groups_as_it_does_in_simulation() {
    let seen = compare(DORADO6000, "pacer", Senders::Open, 20_000.0);
    assert!(seen.saving > 20 && seen.alarms > 0 && seen.idle > 0);
}

/// What a request of clients that wait takes was guarded on a host by a table of cores alone, and
/// in simulation by the power that is drawn: the host did something else.
#[test]
fn clients_that_wait_are_served_on_a_host_as_in_simulation() {
    for policy in ["pacer", "foresight"] {
        let seen = compare(SMALL, policy, Senders::Clients(6), 1e6);
        assert!(seen.saving > 20, "{policy}: {}", seen.saving);
    }
}
