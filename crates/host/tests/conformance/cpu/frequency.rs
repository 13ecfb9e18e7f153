//! Frequencies and turbo.

use super::super::tree::{CPU, Tree};
use super::super::{Subject, full_speed, setting};
use super::{GROUPS, values};
use wattio_governor::{Layer, Setting};
use wattio_host::knobs::KnobConfig;
use wattio_law::DriveAction;

#[test]
fn frequency_is_the_highest_that_an_active_core_needs() {
    let tree = Tree::new();
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob("kind = 'cpu.frequency'", GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1.1e9),
    };
    subject.conforms();
    let (mut knob, mut machine) = ((subject.knobs)().remove(0), tree.machine());
    assert_eq!(knob.layer(), Layer::Speed);
    let mut asked = |setting| -> Vec<String> {
        let assignments = knob.assignments(&setting, &mut *machine).unwrap();
        values(&assignments).iter().map(|(_, value)| (*value).to_owned()).collect()
    };
    // A core without work at the operator's own floor; no step between 1.0 and 1.8 GHz.
    assert_eq!(asked(setting(&["0,4", "2"], 1.1e9)), ["1800000", "1000000", "1800000", "1000000"]);
    assert_eq!(asked(setting(&["0", ""], f64::NAN))[0], "2600000");
    assert_eq!(asked(setting(&["0", ""], 9e9))[0], "2600000", "the operator's own cap stands");
    assert_eq!(asked(full_speed(&["0", ""])), ["original"; 4]);
    tree.write(&format!("{CPU}/online"), "0-2,4-6");
    assert_eq!(asked(setting(&["0", "2"], 1e9)).len(), 3, "files of cores that are off are busy");
    tree.write(&format!("{CPU}/online"), "0-7");
    subject.lets_go(|| std::fs::remove_dir_all(tree.path(&format!("{CPU}/cpufreq"))).unwrap());
}

/// The knob went on below a minimum that somebody had raised: the kernel lets the cap win and shows
/// the cap in place of the minimum.
#[test]
fn frequency_keeps_to_a_minimum_that_was_raised_meanwhile() {
    let tree = Tree::new();
    let mut machine = tree.machine();
    let mut knob = tree.knob("kind = 'cpu.frequency'", GROUPS).unwrap();
    assert!(knob.looks_again());
    let file = |name: &str| format!("{CPU}/cpufreq/policy0/{name}");
    let mut asked = |frequency| -> String {
        let setting = setting(&["0,4", "2"], frequency);
        let assignments = knob.assignments(&setting, &mut *machine).unwrap();
        values(&assignments)[0].1.to_owned()
    };
    assert_eq!(asked(1e9), "1000000");
    tree.write(&file("scaling_max_freq"), "1000000");
    tree.write(&file("scaling_min_freq"), "1000000");
    assert_eq!(asked(1e9), "1000000", "as it was found");
    tree.write(&file("scaling_max_freq"), "1800000");
    tree.write(&file("scaling_min_freq"), "1800000");
    assert_eq!(asked(1e9), "original", "hidden by the cap: at least that, perhaps more");
    tree.write(&file("scaling_max_freq"), "2600000");
    assert_eq!(asked(1e9), "1800000", "and now it shows");
    tree.write(&file("scaling_min_freq"), "1000000");
    assert_eq!(asked(1e9), "1000000", "the old one again");
}

/// Reading two files of each of 128 policies every five seconds was a fifth of what the daemon took.
#[test]
fn frequency_of_many_policies_looks_at_some_again_and_at_all_where_one_was_raised() {
    let tree = Tree::new();
    for cpus in ["present", "online"] {
        tree.write(&format!("{CPU}/{cpus}"), "0-39");
    }
    for policy in 0..40 {
        for (name, value) in [
            ("related_cpus", policy.to_string().as_str()),
            ("cpuinfo_min_freq", "1000000"),
            ("cpuinfo_max_freq", "2600000"),
            ("scaling_min_freq", "1000000"),
            ("scaling_max_freq", "2600000"),
            ("scaling_governor", "schedutil"),
        ] {
            tree.write(&format!("{CPU}/cpufreq/policy{policy}/{name}"), value);
        }
    }
    let mut machine = tree.machine();
    let groups = "[[group]]\nname = 'all'\ncores = '0-39'";
    let mut knob = tree.knob("kind = 'cpu.frequency'", groups).unwrap();
    let slow = setting(&["0-39"], 2e9);
    assert_eq!(knob.assignments(&slow, &mut *machine).unwrap().len(), 40);
    let mut again = || knob.assignments_again(&slow, &mut *machine).unwrap();
    let seen = [again(), again(), again()].map(|assignments| assignments.len());
    assert_eq!(seen, [16, 16, 8], "each once in three looks");
    for policy in 0..40 {
        tree.write(&format!("{CPU}/cpufreq/policy{policy}/scaling_min_freq"), "2400000");
    }
    let raised = again();
    assert_eq!(raised.len(), 40);
    // The first four have steps, and none between.
    let kept = |value: &str| ["2400000", "2600000"].contains(&value);
    assert!(values(&raised).iter().all(|(_, value)| kept(value)), "{raised:?}");
    assert_eq!(again().len(), 16);
}

#[test]
fn frequency_lowers_the_minimum_where_told_so() {
    let tree = Tree::new();
    for policy in 0..4 {
        tree.write(&format!("{CPU}/cpufreq/policy{policy}/scaling_min_freq"), "2600000");
    }
    let knob = "kind = 'cpu.frequency'\nminimum = '1 GHz'";
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob(knob, GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    subject.conforms();
    let (mut knob, mut machine) = ((subject.knobs)().remove(0), tree.machine());
    let mut first = |setting| -> Vec<(String, String)> {
        let assignments = knob.assignments(&setting, &mut *machine).unwrap();
        let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        let pair = |(path, value): (&str, &str)| (name(path), value.to_owned());
        values(&assignments).into_iter().take(2).map(pair).collect()
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let full = [pair("scaling_max_freq", "original"), pair("scaling_min_freq", "original")];
    assert_eq!(first(full_speed(&["0", "2"])), full);
    let slow = [pair("scaling_min_freq", "1000000"), pair("scaling_max_freq", "1000000")];
    assert_eq!(first(setting(&["0", "2"], 1e9)), slow, "it was high at full speed, and is ours");
    let config = toml::from_str("kind = 'cpu.frequency'\nminimum = '1 GHz'").unwrap();
    let limited = wattio_host::knobs::limited(tree.topology(), &[config]);
    assert_eq!(limited.policies[0].lowest().0, 1e9, "the law is told");
}

#[test]
fn frequency_under_userspace_is_set_itself() {
    let tree = Tree::new();
    for policy in 0..4 {
        let folder = format!("{CPU}/cpufreq/policy{policy}");
        tree.write(&format!("{folder}/scaling_governor"), "userspace");
        tree.write(&format!("{folder}/scaling_setspeed"), "1800000");
    }
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob("kind = 'cpu.frequency'", GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    subject.conforms();
    let mut machine = tree.machine();
    let full = (subject.knobs)()[0].assignments(&subject.full, &mut *machine).unwrap();
    let speed = format!("{CPU}/cpufreq/policy0/scaling_setspeed");
    assert_eq!(values(&full)[0], (speed.as_str(), "2600000"));
}

#[test]
fn frequency_says_what_is_missing() {
    let missing = |tree: &Tree, groups: &str, says: &str| {
        let message = tree.knob("kind = 'cpu.frequency'", groups).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    let tree = Tree::new();
    missing(&tree, "[[group]]\nname = 'a'\ncores = '0-4'", "together with 5, which");
    for policy in 0..4 {
        tree.write(&format!("{CPU}/cpufreq/policy{policy}/scaling_min_freq"), "2600000");
    }
    missing(&tree, GROUPS, "lower it");
    std::fs::remove_dir_all(tree.path(&format!("{CPU}/cpufreq"))).unwrap();
    missing(&tree, GROUPS, "the kernel has no driver");
}

/// Turbo with `frequency`, or alone, on a tree whose switch is at `path` and off as `off`.
fn turbo_conforms(tree: &Tree, path: &str, on: &str, off: &str) {
    for kinds in [&["cpu.turbo"][..], &["cpu.frequency", "cpu.turbo"]] {
        let knob = |kind: &&str| tree.knob(&format!("kind = '{kind}'"), GROUPS).unwrap();
        let subject = Subject {
            machine: &|| tree.machine(),
            knobs: &|| kinds.iter().map(knob).collect(),
            full: full_speed(&["0-1,4-5", "2-3,6-7"]),
            narrow: setting(&["0,4", "2"], 1e9),
        };
        subject.conforms();
    }
    assert_eq!(tree.read(path), on);
    let (mut knob, mut machine) =
        (tree.knob("kind = 'cpu.turbo'", GROUPS).unwrap(), tree.machine());
    assert_eq!(knob.layer(), Layer::Range, "after the limits that the kernel moves with it");
    let mut asked = |setting| -> String {
        let assignments = knob.assignments(&setting, &mut *machine).unwrap();
        let of_switch = values(&assignments).into_iter().find(|(at, _)| *at == path);
        of_switch.unwrap().1.to_owned()
    };
    assert_eq!(asked(setting(&["0-1,4-5", "2-3,6-7"], 2.6e9)), "original", "nothing is slower");
    assert_eq!(asked(setting(&["0-1,4-5", "2-3,6-7"], f64::NAN)), "original");
    assert_eq!(asked(setting(&["0-1,4-5", "2-3"], 2.6e9)), off, "fewer cores");
    assert_eq!(asked(setting(&["0-1,4-5", "2-3,6-7"], 1.8e9)), off, "a lower frequency");
    let idle = Setting { drives: DriveAction::Asleep, ..setting(&["0-1,4-5", "2-3,6-7"], 2.6e9) };
    assert_eq!(asked(idle), off, "no requests");
    assert_eq!(asked(full_speed(&["0", ""])), "original");
    let held_back = |names| Setting { held_back: names, ..setting(&["0", "2"], 1e9) };
    assert_eq!(asked(held_back(vec!["cpu.turbo"])), "original", "others save more");
    assert_eq!(asked(held_back(vec!["cpu.epp"])), off);
}

#[test]
fn turbo_leaves_while_saving() {
    for (path, on, off) in [
        (format!("{CPU}/intel_pstate/no_turbo"), "0", "1"),
        (format!("{CPU}/cpufreq/boost"), "1", "0"),
    ] {
        let tree = Tree::new();
        tree.write(&path, on);
        turbo_conforms(&tree, &path, on, off);
        tree.write(&path, off);
        let message = tree.knob("kind = 'cpu.turbo'", GROUPS).err().unwrap();
        assert!(message.contains("turbo is off: there is nothing to turn"), "{message}");
    }
    // Policies of their own switches come first.
    let tree = Tree::new();
    tree.write(&format!("{CPU}/cpufreq/boost"), "1");
    for policy in 0..4 {
        tree.write(&format!("{CPU}/cpufreq/policy{policy}/boost"), "1");
    }
    turbo_conforms(&tree, &format!("{CPU}/cpufreq/policy2/boost"), "1", "0");
    tree.write(&format!("{CPU}/online"), "0-1,3-5,7");
    let mut knob = tree.knob("kind = 'cpu.turbo'", &GROUPS.replace("2-3,6-7", "3,7")).unwrap();
    let setting = setting(&["0", "3"], 1e9);
    let on = knob.assignments(&setting, &mut *tree.machine()).unwrap();
    assert_eq!(on.len(), 3, "files of cores that are off are busy");
}

#[test]
fn turbo_says_what_is_missing() {
    let tree = Tree::new();
    let missing = |groups: &str, says: &str| {
        let message = tree.knob("kind = 'cpu.turbo'", groups).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing(GROUPS, "no switch of turbo");
    tree.write(&format!("{CPU}/cpufreq/boost"), "1");
    let few = "[[group]]\nname = 'a'\ncores = '0,4'";
    missing(few, "shared with processors 1-3,5-7, which are in no group");
    assert!(tree.knob("kind = 'cpu.turbo'\naccept_others = true", few).is_ok());
}

/// Limits that are found while turbo is off are not the operator's: they were put back as such.
#[test]
fn limits_that_turbo_moves_are_saved_before() {
    let tree = Tree::new();
    tree.write(&format!("{CPU}/intel_pstate/no_turbo"), "0");
    let frequency = toml::from_str("kind = 'cpu.frequency'").unwrap();
    let turbo: KnobConfig = toml::from_str("kind = 'cpu.turbo'").unwrap();
    let endangered = |topology: &wattio_host::Topology| {
        let mut knob = turbo.open(&tree.root(), topology, &tree.groups(GROUPS)).unwrap();
        let setting = setting(&["0", "2"], 1e9);
        let assignments = knob.assignments(&setting, &mut *tree.machine()).unwrap();
        assignments[0].endangers.len()
    };
    assert_eq!(endangered(&tree.topology()), 0, "the kernel keeps what an operator asked for");
    let limited = wattio_host::knobs::limited(tree.topology(), &[frequency]);
    assert_eq!(endangered(&limited), 8);
}
