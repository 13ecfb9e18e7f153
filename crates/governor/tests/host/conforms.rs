//! The simulator's harness against the conformance of the governor's traits: what is tested on it
//! holds for a host because it does as a host does.

use crate::conformance::{CpuBody, LatencyBody, Subject, Used, full_speed, idle, setting};
use crate::support::{
    Shared, action_in, cores_of, cpu_source, knobs, latency_source, machine, open_writer, world,
};
use std::sync::{Arc, Mutex};
use wattio_governor::{Cpus, GroupSetting, RestorableWriter, Setting};
use wattio_law::{Action, GroupLimits, GroupObservation, Law, Limits, Observation};
use wattio_plant::{DORADO6000, SMALL, Server};
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders};
use wattio_units::Seconds;

/// A law that looks at each window, and turns the simulator to what the world is set to then.
struct Watching<F> {
    world: Shared,
    limits: Limits,
    now: Seconds,
    look: F,
}

impl<F: FnMut(Seconds, &Observation, &Shared) + Send> Law for Watching<F> {
    fn step(&mut self, observation: &Observation, dt: Seconds) -> Action {
        self.now = self.now + dt;
        self.world.lock().unwrap().observation = Some(observation.clone());
        (self.look)(self.now, observation, &self.world);
        action_in(&self.world.lock().unwrap(), &self.limits)
    }
    fn period(&self) -> Seconds {
        Seconds(0.5)
    }
}

/// Runs a server under a steady load with a pause in it.
fn watch(
    server: &str,
    world: impl FnOnce(&Limits) -> Shared,
    look: impl FnMut(Seconds, &Observation, &Shared) + Send + 'static,
) -> Run {
    let server = Server::from_toml(server).unwrap();
    let limits = wattio_sim::limits(&server);
    let pattern = Pattern { read_fraction: 0.7, random_fraction: 0.8, io_bytes: 8192 };
    let phase = |iops| Phase { span_s: 10.0, iops: Some(iops), pattern };
    let phases = [2000.0, 0.0, 4000.0].map(phase).to_vec();
    let load = Load::Phases { senders: Senders::Open, phases };
    let law = Watching { world: world(&limits), limits, now: Seconds(0.0), look };
    let settings = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 0.5, seed: 7 };
    let mut run = Run::new(&server, Box::new(law), load, settings).unwrap();
    run.record_steps();
    run.finish().unwrap();
    run
}

#[test]
fn sources_over_the_simulator_conform() {
    for server in [SMALL, DORADO6000] {
        let total = Arc::new(Mutex::new((LatencyBody::default(), CpuBody::default())));
        let told = Arc::clone(&total);
        let mut sources = None;
        let run = watch(server, world, move |now, seen, world| {
            let (latency, cpu) =
                sources.get_or_insert_with(|| (latency_source(world), cpu_source(world)));
            let (requests, uses) = &mut *told.lock().unwrap();
            let truth =
                seen.latency.as_ref().map(|latency| (latency.requests, latency.latency_us_mean));
            requests.window(&mut **latency, now, truth);
            let used = |group: &GroupObservation| Used {
                clients: group.utilisation_clients,
                background: group.utilisation_background,
                tolerance: 0.0,
            };
            let truth: Vec<_> = seen.groups.iter().map(used).collect();
            let active: Vec<_> =
                seen.groups.iter().map(|group| (0..group.cores).collect::<Cpus>()).collect();
            uses.window(&mut **cpu, now, &active, Some(&truth));
        });
        let (requests, uses) = &*total.lock().unwrap();
        let answered = run.steps().iter().filter_map(|step| step.seen.latency.as_ref());
        assert_eq!(requests.requests, answered.map(|latency| latency.requests).sum::<u64>());
        assert!(requests.requests > 50_000 && uses.windows as usize == run.steps().len());
    }
}

/// Each group's least cores and frequency.
fn narrow(limits: &Limits) -> Setting {
    let least = |group: &GroupLimits| GroupSetting {
        active: (0..group.cores_min).collect(),
        frequency: group.frequency_min,
    };
    Setting { groups: limits.groups.iter().map(least).collect(), ..setting(&[], 0.0) }
}

/// Every knob of a world by itself, and all together.
fn all_conform(world: &Shared, limits: &Limits) {
    let slow = narrow(limits);
    let paused = Setting { groups: slow.groups.clone(), ..idle() };
    for (at, narrow) in [(0, &paused), (1, &slow), (2, &slow), (3, &paused), (4, &paused)] {
        Subject {
            machine: &|| machine(world),
            knobs: &|| {
                knobs(world).into_iter().skip(at % 4).take(if at < 4 { 1 } else { 4 }).collect()
            },
            full: full_speed(&vec!["0-63"; limits.groups.len()]),
            narrow: narrow.clone(),
        }
        .conforms();
    }
}

/// Turns all knobs of a world, until the writer is dropped.
fn turned(world: &Shared, setting: &Setting) -> RestorableWriter {
    let mut writer = open_writer(world, "boot").0;
    for mut knob in knobs(world) {
        let wanted = knob.assignments(setting, writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &wanted).notes, []);
    }
    writer
}

#[test]
fn knobs_over_the_simulator_conform_while_it_runs() {
    for server in [SMALL, DORADO6000] {
        let limits = wattio_sim::limits(&Server::from_toml(server).unwrap());
        let (mut window, mut held) = (0, None);
        let run = watch(server, world, move |_, seen, world| {
            window += 1;
            match window {
                5 => all_conform(world, &limits),
                10 => held = Some(turned(world, &narrow(&limits))),
                20 => drop(held.take()),
                _ => {}
            }
            // The simulator does as its knobs say: it was turned at the end of the window before.
            let slow = (11..=20).contains(&window);
            for (group, limits) in seen.groups.iter().zip(&limits.groups) {
                let cores = if slow { limits.cores_min } else { limits.cores_max };
                let frequency = if slow { limits.frequency_min } else { limits.frequency_max };
                assert_eq!((group.cores, group.frequency), (cores, frequency), "window {window}");
            }
        });
        assert!(run.steps().len() > 30);
    }
}

#[test]
fn knobs_over_the_simulator_let_go_of_what_is_gone() {
    let limits = wattio_sim::limits(&Server::from_toml(SMALL).unwrap());
    let settings = [idle(), narrow(&limits), narrow(&limits), idle()];
    for (at, setting) in settings.into_iter().enumerate() {
        let world = world(&limits);
        let one = || vec![knobs(&world).swap_remove(at)];
        let subject = Subject {
            machine: &|| machine(&world),
            knobs: &one,
            full: full_speed(&["0-7"]),
            narrow: setting,
        };
        assert!(world.lock().unwrap().places.contains_key(&cores_of(0)));
        subject.lets_go(|| world.lock().unwrap().places.clear());
    }
}
