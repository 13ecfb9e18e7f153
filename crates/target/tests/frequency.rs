//! What a law asks of the reactors' cores, on a folder that is shaped like a host.

#![allow(clippy::unwrap_used, reason = "a host that cannot be made has failed its test")]

#[path = "../../host/tests/conformance/tree.rs"]
#[allow(dead_code, reason = "all that the host's own tests need")]
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tree::{CPU, Tree};
use wattio_law::{Action, GroupAction, Plant};
use wattio_plant::{ASSUMED_POWER_MODEL, PowerModel};
use wattio_target::frequency::{FrequencyError, FrequencySettings, ReactorCores};
use wattio_target::plant::{Layout, ReactorCounters, Reactors, Setting, TargetPlant};
use wattio_units::Hertz;

const REACTORS: usize = 8;

/// Reactors that only remember.
#[derive(Default)]
struct Remember(BTreeSet<usize>);

impl Reactors for Remember {
    fn read(&mut self, _: Duration) -> Vec<ReactorCounters> {
        vec![ReactorCounters::default(); REACTORS]
    }

    fn turn(&mut self, setting: &Setting) -> Result<(), String> {
        self.0 = setting.active();
        Ok(())
    }
}

fn layout() -> Layout {
    Layout::new(REACTORS, 0, 1).unwrap()
}

fn settings(tree: &Tree, cores: &str) -> FrequencySettings {
    FrequencySettings { cores: cores.parse().unwrap(), state: tree.path("/state") }
}

fn open(tree: &Tree, cores: &str) -> Result<ReactorCores, FrequencyError> {
    ReactorCores::open(&settings(tree, cores), &layout(), &tree.root())
}

/// The target on all cores of a tree.
fn plant(tree: &Tree) -> TargetPlant<Remember> {
    let frequency = open(tree, "0-7").unwrap().turned.unwrap();
    let layout = layout().with_speeds(&frequency.speeds, None);
    TargetPlant::new(layout, Remember::default(), Duration::ZERO).with_frequency(frequency)
}

/// So many reactors, at a frequency.
fn action(plant: &TargetPlant<Remember>, cores: u32, hertz: f64) -> Action {
    let groups = vec![GroupAction { cores, frequency: Hertz(hertz) }];
    Action { groups, ..plant.layout().limits().full_speed() }
}

/// The caps of the four pairs of cores.
fn caps(tree: &Tree) -> [String; 4] {
    [0, 1, 2, 3].map(|policy| tree.read(&cap(policy)))
}

fn cap(policy: usize) -> String {
    format!("{CPU}/cpufreq/policy{policy}/scaling_max_freq")
}

fn snapshot(tree: &Tree) -> PathBuf {
    tree.path("/state/snapshot.json")
}

#[test]
fn the_cores_of_reactors_that_are_on_get_what_the_law_asks_and_the_others_the_least() {
    let tree = Tree::new();
    let mut plant = plant(&tree);
    let limits = plant.layout().limits().groups[0].clone();
    assert_eq!((limits.frequency_min, limits.frequency_max), (Hertz(1.0e9), Hertz(2.6e9)));
    assert_eq!(limits.frequency_steps, [Hertz(1.0e9), Hertz(1.8e9), Hertz(2.6e9)]);
    // Whole cores, and whole nodes: 0 and 4 are one, and stay longest.
    let slow = action(&plant, 2, 1.8e9);
    assert_eq!(plant.apply(&slow), slow);
    assert_eq!(caps(&tree), ["1800000", "1000000", "1000000", "1000000"]);
    assert!(snapshot(&tree).exists(), "what stood there is kept");
    let faster = action(&plant, 3, 2.6e9);
    plant.apply(&faster);
    assert_eq!(caps(&tree), ["2600000", "2600000", "1000000", "1000000"]);
    plant.apply(&plant.layout().limits().full_speed());
    assert_eq!(caps(&tree), ["2600000"; 4]);
    assert_eq!(plant.reactors().0.len(), REACTORS);
    plant.apply(&slow);
    plant.let_go();
    assert_eq!(caps(&tree), ["2600000"; 4], "as they were found");
}

#[test]
fn what_a_killed_target_left_is_restored_by_the_next_one() {
    let tree = Tree::new();
    let mut killed = plant(&tree);
    let slow = action(&killed, 1, 1.0e9);
    killed.apply(&slow);
    let (left, slowed) = (fs::read(snapshot(&tree)).unwrap(), caps(&tree));
    drop(killed);
    fs::write(snapshot(&tree), left).unwrap();
    (0..4).for_each(|policy| tree.write(&cap(policy), &slowed[policy]));
    let opened = open(&tree, "0-7").unwrap();
    assert_eq!(opened.restored.len(), 4, "{:?}", opened.restored);
    assert_eq!(caps(&tree), ["2600000"; 4]);
    assert_eq!(opened.turned.unwrap().speeds[0].highest, Hertz(2.6e9), "the operator's own");
}

#[test]
fn what_somebody_else_sets_is_theirs() {
    let tree = Tree::new();
    let mut plant = plant(&tree);
    let slow = action(&plant, 2, 1.8e9);
    plant.apply(&slow);
    tree.write(&cap(3), "1400000");
    plant.apply(&slow);
    let notes = plant.take_notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("policy3/scaling_max_freq was set to \"1000000\""), "{notes:?}");
    plant.apply(&plant.layout().limits().full_speed());
    drop(plant);
    assert_eq!(caps(&tree), ["2600000", "2600000", "2600000", "1400000"]);
}

#[test]
fn half_a_setting_is_full_speed() {
    let tree = Tree::new();
    let mut plant = plant(&tree);
    let full = plant.layout().limits().full_speed();
    let slow = action(&plant, 2, 1.8e9);
    fs::remove_file(tree.path(&cap(2))).unwrap();
    fs::create_dir(tree.path(&cap(2))).unwrap();
    assert_eq!(plant.apply(&slow), full);
    assert!(plant.failure().unwrap().contains("cpu.frequency"), "{:?}", plant.failure());
    assert_eq!(plant.reactors().0.len(), REACTORS);
    for policy in [0, 1, 3] {
        assert_eq!(tree.read(&cap(policy)), "2600000");
    }
}

/// As in most virtual machines: the reactors have their cores, and the law the rest.
#[test]
fn a_host_without_frequencies_is_no_error_and_says_so() {
    let tree = Tree::new();
    fs::remove_dir_all(tree.path(&format!("{CPU}/cpufreq"))).unwrap();
    let opened = open(&tree, "0-7").unwrap();
    assert_eq!(opened.cores.len(), REACTORS);
    let why = opened.turned.unwrap_err();
    assert!(why.contains("the kernel has no driver for their frequency"), "{why}");
    assert!(!tree.path("/state").exists(), "nothing is kept, nothing locked");
}

#[test]
fn cores_that_will_not_do_are_refused_with_what_would() {
    let tree = Tree::new();
    for (cores, says) in [
        ("0-3", "4 cores for 8 reactors; allowed is one for each"),
        ("1-8", "8 do not exist; this host has 0-7"),
    ] {
        let error = open(&tree, cores).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(says), "{error}");
    }
    let four = Layout::new(4, 0, 1).unwrap();
    let error = ReactorCores::open(&settings(&tree, "0-3"), &four, &tree.root()).unwrap_err();
    let says = "cores 0 change frequency together with 4";
    assert!(error.is_bad_input() && error.to_string().contains(says), "{error}");
}

#[test]
fn groups_get_cores_of_their_own_and_a_law_learns_what_they_draw() {
    let tree = Tree::new();
    let layout = Layout::new(REACTORS, 2, 1).unwrap();
    let settings = settings(&tree, "0-7");
    let error = ReactorCores::open(&settings, &layout, &tree.root()).map(|opened| opened.cores);
    let cores = error.unwrap();
    assert_eq!(cores[6..].iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([6, 7]));
    assert_eq!(cores.iter().collect::<BTreeSet<_>>().len(), REACTORS);
    let frequency = ReactorCores::open(&settings, &layout, &tree.root()).unwrap().turned.unwrap();
    let model = PowerModel::from_toml(ASSUMED_POWER_MODEL).unwrap();
    let limits = layout.with_speeds(&frequency.speeds, Some(&model)).limits();
    assert_eq!(limits.groups.len(), 2);
    assert!(limits.groups.iter().all(|group| group.power.len() == 3));
}

/// A target that only observes looks beside a program that acts, and writes nothing.
#[test]
fn shadow_mode_takes_no_lock_and_leaves_no_mark() {
    let tree = Tree::new();
    let acting = open(&tree, "0-7").unwrap();
    let before = caps(&tree);
    let (cores, speeds) =
        ReactorCores::look(&settings(&tree, "0-7"), &layout(), &tree.root()).unwrap();
    assert_eq!(cores, acting.cores);
    assert_eq!(speeds.unwrap(), acting.turned.as_ref().unwrap().speeds);
    drop(acting);
    fs::remove_dir_all(tree.path("/state")).unwrap();
    ReactorCores::look(&settings(&tree, "0-7"), &layout(), &tree.root()).unwrap();
    assert!(!tree.path("/state").exists());
    assert_eq!(caps(&tree), before);
    let error = ReactorCores::look(&settings(&tree, "0-6"), &layout(), &tree.root()).unwrap_err();
    assert!(error.is_bad_input(), "{error}");
}
