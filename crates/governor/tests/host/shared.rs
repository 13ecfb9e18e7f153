//! The tightest bound wins: of several on one application, and of applications whose cores change
//! frequency together.

use crate::power::{steady_world, window};
use crate::support::{Shared, frequency_of, knobs, open_writer, parts, sources, world};
use std::time::Duration;
use wattio_control::Settings;
use wattio_governor::{Actuator, BoundStatus, CoreGroup, Cpus, Governor, Requester, mean_limit_us};
use wattio_law::{Bound, Limits};

const WINDOWS: u32 = 1200;
/// At full speed; at half of its frequency twice that.
const FULL_SPEED_US: f64 = 200.0;
/// Where the cores of the next application begin.
const APART: u32 = 100;

/// Applications on one machine, and each one's own sources.
struct Host {
    governors: Vec<Governor>,
    worlds: Vec<Shared>,
    machine: Shared,
    limits: Limits,
    /// Of each window and application.
    latencies_us: Vec<Vec<f64>>,
}

impl Host {
    /// One application for each list of bounds; all cores share a frequency.
    fn new(policy: &str, applications: &[&[&str]]) -> Self {
        let (_, limits) = steady_world();
        let mut all = limits.clone();
        all.groups = applications.iter().flat_map(|_| limits.groups.clone()).collect();
        let machine = world(&all);
        let worlds: Vec<_> = applications.iter().map(|_| steady_world().0).collect();
        let mut each = Vec::new();
        for (at, (bounds, world)) in applications.iter().zip(&worlds).enumerate() {
            let law = wattio_control::build(policy, &Settings::new(), &limits).unwrap();
            let mut parts = parts(world, sources(world), law, &limits);
            parts.bounds = bounds.iter().map(|bound| bound.parse::<Bound>().unwrap()).collect();
            for group in &mut parts.groups {
                group.cores.iter_mut().for_each(|core| *core += at as u32 * APART);
            }
            each.push(parts);
        }
        let groups: Vec<_> = each.iter().map(|parts| parts.groups.clone()).collect();
        let groups: Vec<&[CoreGroup]> = groups.iter().map(Vec::as_slice).collect();
        let cores = groups.iter().copied().flatten().flat_map(|group| group.cores.clone());
        let domain = cores.collect::<Cpus>();
        let writer = open_writer(&machine, "boot").0;
        let actuator = Actuator { knobs: knobs(&machine), writer };
        let requesters = Requester::of(Some(actuator), &groups, vec![domain]);
        let govern = |(mut parts, requester)| {
            parts = wattio_governor::Parts { machine: requester, ..parts };
            Governor::new(parts, Duration::ZERO)
        };
        let governors = each.into_iter().zip(requesters).map(govern).collect();
        Self { governors, worlds, machine, limits, latencies_us: Vec::new() }
    }

    /// The share of the highest frequency that the machine is set to, the same for all groups.
    fn share(&self) -> f64 {
        let machine = self.machine.lock().unwrap();
        let set = |at| machine.places[&frequency_of(at)].parse::<f64>().unwrap();
        let count = self.worlds.len() * self.limits.groups.len();
        assert!((1..count).all(|at| set(at) == set(0)), "one domain, one frequency");
        set(0) / self.limits.groups[0].frequency_max.0
    }

    /// A window of each: latency and utilisation go by the frequency that is set.
    fn step(&mut self, at: u32) {
        let share = self.share();
        for world in &self.worlds {
            let mut world = world.lock().unwrap();
            let seen = world.observation.as_mut().unwrap();
            seen.latency.as_mut().unwrap().latency_us_mean = Some(FULL_SPEED_US / share);
            seen.groups.iter_mut().for_each(|group| group.utilisation_clients = 0.1 / share);
        }
        let mut latencies_us = Vec::new();
        for number in 0..self.governors.len() {
            // The one before may have changed it.
            let share = self.share();
            let stepped = window(&mut self.governors[number], at).1;
            for group in &stepped.truth.groups {
                let told = group.frequency.0 / self.limits.groups[0].frequency_max.0;
                assert!((told - share).abs() < 1e-9, "told {told} of what is {share}");
            }
            latencies_us.push(stepped.truth.latency.unwrap().latency_us_mean.unwrap());
        }
        self.latencies_us.push(latencies_us);
    }

    fn run(policy: &str, applications: &[&[&str]]) -> Self {
        let mut host = Self::new(policy, applications);
        (1..=WINDOWS).for_each(|at| host.step(at));
        host
    }

    /// By how much the mean over all windows exceeds that at full speed.
    fn loss(&self) -> f64 {
        let sum: f64 = self.latencies_us.iter().map(|each| each[0]).sum();
        sum / f64::from(WINDOWS) / FULL_SPEED_US - 1.0
    }

    /// All bounds of an application are kept.
    fn keeps(&self, at: usize) -> bool {
        let bounds = BoundStatus::all_of(self.governors[at].driver());
        !bounds.is_empty() && bounds.iter().all(|bound| bound.kept == Some(true))
    }
}

/// The tolerance that was told was that of whichever bound stood first.
#[test]
fn of_several_bounds_on_a_mean_the_tightest_is_steered_by_and_told() {
    for policy in ["pacer", "foresight"] {
        let loose = Host::run(policy, &[&["mean 40%"]]);
        for bounds in [["mean 40%", "mean 10%"], ["mean 10%", "mean 40%"]] {
            let host = Host::run(policy, &[&bounds]);
            let (loss, all) = (host.loss(), loose.loss());
            println!("{policy} {bounds:?}: {loss:.3}, and {all:.3} under the loose one");
            assert!(loss <= 0.1 && loss > 0.0 && all > 0.12, "{policy} {bounds:?}: {loss} {all}");
            assert!(host.keeps(0), "{policy} {bounds:?}");
            let driver = host.governors[0].driver();
            assert_eq!(driver.mean_tolerance(), Some(0.1), "{policy} {bounds:?}");
            let limit_us = mean_limit_us(driver).unwrap();
            assert!(
                (limit_us - 1.1 * FULL_SPEED_US).abs() < 0.1,
                "{policy} {bounds:?}: {limit_us}"
            );
        }
    }
}

#[test]
fn of_applications_that_share_a_frequency_the_tightest_bound_sets_it() {
    for policy in ["pacer", "foresight"] {
        let alone = Host::run(policy, &[&["mean 60%"]]).loss();
        assert!(alone > 0.12, "{policy}: {alone}");
        for bounds in [[&["mean 10%"][..], &["mean 60%"]], [&["mean 60%"], &["mean 10%"]]] {
            let host = Host::run(policy, &bounds);
            let loss = host.loss();
            println!("{policy} {bounds:?}: {loss:.3}, and {alone:.3} under the loose one alone");
            assert!(loss <= 0.1 && loss > 0.0, "{policy} {bounds:?}: {loss}");
            assert!(host.keeps(0) && host.keeps(1), "{policy} {bounds:?}");
        }
    }
}
