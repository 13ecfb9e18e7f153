//! The processors' knobs on folders that are shaped like a host.

use super::kernel::{Affinities, Kernel};
use super::tree::{CPU, Tree};
use super::{Store, Subject, cpus, full_speed, setting};
use wattio_governor::{Address, Assignment, Layer, Setting, Target};
use wattio_host::knobs::KnobConfig;
use wattio_host::machine::dma_latency;
use wattio_law::DriveAction;

/// Two groups over all eight processors; the first runs etcd.
const GROUPS: &str = r#"
    [[group]]
    name = "front"
    cores = "0-1,4-5"
    cgroup = "/s.slice/etcd.service"
    processes = { comm = "etcd*" }
    [[group]]
    name = "back"
    cores = "2-3,6-7"
"#;
/// One group over all eight.
const ONE: &str = "[[group]]\nname = 'all'\ncores = '0-7'\ncgroup = '/s.slice/etcd.service'";

/// Where an address points to, whichever control group stands there.
fn place(address: &Address) -> &str {
    let set = address.rest().rsplit_once('@').filter(|(path, _)| path.ends_with("cpuset.cpus"));
    set.map_or(address.rest(), |(path, _)| path)
}

fn values(assignments: &[Assignment]) -> Vec<(&str, &str)> {
    let text = |assignment| -> (&str, &str) {
        let Assignment { address, target, .. }: &Assignment = assignment;
        match target {
            Target::Set(value) => (place(address), value),
            Target::Original => (place(address), "original"),
        }
    };
    assignments.iter().map(text).collect()
}

#[test]
fn cpuset_of_version_2() {
    let tree = Tree::new().unified();
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob("kind = 'cpu.cpuset'", GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    subject.conforms();
    let set = "/sys/fs/cgroup/s.slice/etcd.service/cpuset.cpus";
    assert_eq!(tree.read(set), "", "the parent's again");
    subject.lets_go(|| std::fs::remove_dir_all(tree.path("/sys/fs/cgroup/s.slice")).unwrap());
}

#[test]
fn cpuset_of_version_1_narrows_what_is_below_first() {
    let tree = Tree::new().split();
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob("kind = 'cpu.cpuset'", ONE).unwrap()],
        full: full_speed(&["0-7"]),
        narrow: setting(&["0-2"], 1e9),
    };
    subject.conforms();
    let (mut knob, mut machine) = ((subject.knobs)().remove(0), tree.machine());
    let parent = "/sys/fs/cgroup/cpuset/s.slice/etcd.service/cpuset.cpus";
    let below = "/sys/fs/cgroup/cpuset/s.slice/etcd.service/below/cpuset.cpus";
    let mut turn = |active| {
        let assignments = knob.assignments(&setting(&[active], 1e9), &mut *machine).unwrap();
        assignments.iter().for_each(|a| {
            let Target::Set(value) = &a.target else { panic!() };
            machine.write(&a.address, value).unwrap();
        });
        values(&assignments)
            .into_iter()
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect::<Vec<_>>()
    };
    let pair = |a: (&str, &str), b: (&str, &str)| -> Vec<(String, String)> {
        [a, b].map(|(path, value)| (path.to_owned(), value.to_owned())).to_vec()
    };
    assert_eq!(turn("0-2"), pair((below, "2"), (parent, "0-2")));
    assert_eq!(turn("0-1"), pair((below, "0-1"), (parent, "0-1")), "none of its own is left");
    assert_eq!(turn("0-7"), pair((parent, "0-7"), (below, "2-3,6-7")));
}

#[test]
fn cpuset_says_what_is_missing() {
    let missing = |tree: &Tree, groups: &str, says: &str| {
        let message = tree.knob("kind = 'cpu.cpuset'", groups).err().unwrap();
        assert!(message.starts_with("cpu.cpuset: ") && message.contains(says), "{message}");
    };
    let tree = Tree::new().unified();
    missing(&tree, "[[group]]\nname = 'a'\ncores = '0'", "no group names a control group");
    missing(&tree, &GROUPS.replace("etcd.service", "nfs.service"), "does the service");
    tree.write("/sys/fs/cgroup/s.slice/cpuset.cpus.effective", "0-3");
    missing(&tree, GROUPS, "/sys/fs/cgroup/s.slice has 0-3 and cannot give 4-5");
    std::fs::remove_file(tree.path("/sys/fs/cgroup/s.slice/etcd.service/cpuset.cpus")).unwrap();
    missing(&tree, GROUPS, "echo +cpuset > /sys/fs/cgroup/s.slice/cgroup.subtree_control");
    let tree = Tree::new().split();
    tree.write("/sys/fs/cgroup/cpuset/s.slice/etcd.service/cpuset.cpus", "");
    missing(&tree, GROUPS, "give it cores first");
}

/// The daemon ended for good where it was started again while the governed service was down.
#[test]
fn cpuset_may_start_before_its_service() {
    for (tree, folder) in
        [(Tree::new().unified(), "/sys/fs/cgroup"), (Tree::new().split(), "/sys/fs/cgroup/cpuset")]
    {
        let service = format!("{folder}/s.slice/etcd.service");
        std::fs::remove_dir_all(tree.path(&service)).unwrap();
        let config: KnobConfig = toml::from_str("kind = 'cpu.cpuset'").unwrap();
        let (topology, mut absent) = (tree.topology(), Vec::new());
        let open = |absent: &mut Vec<String>| {
            config.open_at_start(&tree.root(), &topology, &tree.groups(ONE), absent)
        };
        let mut knob = open(&mut absent).unwrap();
        let told =
            format!("{service} is not there; does the service of /s.slice/etcd.service run?");
        assert_eq!(absent, [told]);
        assert!(tree.knob("kind = 'cpu.cpuset'", ONE).is_err());
        let mut machine = tree.machine();
        let mut turn = || knob.assignments(&setting(&["0-1"], 1e9), &mut *machine).unwrap();
        assert_eq!(turn(), []);
        tree.write(&format!("{service}/cpuset.cpus"), "0-7");
        let asked = turn();
        assert_eq!(values(&asked), [(format!("{service}/cpuset.cpus").as_str(), "0-1")]);
        // What is there, and cannot be used, is refused as ever.
        std::fs::remove_file(tree.path(&format!("{service}/cpuset.cpus"))).unwrap();
        assert!(open(&mut Vec::new()).is_err());
    }
}

#[test]
fn affinity_follows_the_active_cores() {
    let tree =
        Tree::new().process(10, "etcd", &[(10, "0-7"), (11, "5")]).process(20, "sh", &[(20, "0")]);
    let affinities = Affinities::default();
    let address = Address::new("affinity", "10@7");
    let masks = "0-7;11@7=5".parse().unwrap();
    affinities.lock().unwrap().insert(address.clone(), masks);
    let subject = Subject {
        machine: &|| Box::new(Kernel::new(&tree, &[], &affinities)),
        knobs: &|| vec![tree.knob("kind = 'cpu.affinity'", GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    subject.conforms();
    let mut machine = (subject.machine)();
    let assignments = (subject.knobs)()[0].assignments(&subject.full, &mut *machine).unwrap();
    assert_eq!(values(&assignments), [("10@7", "0-1,4-5;11@7=5")]);
    subject.lets_go(|| affinities.lock().unwrap().clear());
}

/// A daemon whose pattern fits no process took cores away from nobody, and did not say so.
#[test]
fn affinity_says_that_nothing_runs_which_is_of_a_group() {
    let tree = Tree::new().process(20, "sh", &[(20, "0")]);
    let config: KnobConfig = toml::from_str("kind = 'cpu.affinity'").unwrap();
    let (topology, mut absent) = (tree.topology(), Vec::new());
    let groups = "[[group]]\nname = 'a'\ncores = '0-7'\nprocesses = { comm = 'etcd' }";
    let mut knob =
        config.open_at_start(&tree.root(), &topology, &tree.groups(groups), &mut absent).unwrap();
    let told = "nothing that runs here is of group \"a\", comm = \"etcd\"; does its service run?";
    assert_eq!(absent, [told]);
    let refused = tree.knob("kind = 'cpu.affinity'", groups).err().unwrap();
    assert_eq!(refused, format!("cpu.affinity: {told}"));
    let affinities = Affinities::default();
    let mut machine = Kernel::new(&tree, &[], &affinities);
    let mut found = || knob.assignments(&setting(&["0,4"], 1e9), &mut machine).unwrap().len();
    assert_eq!((0..30).map(|_| found()).sum::<usize>(), 0);
    tree.starts(30, "etcd", &[(30, "0-7")]);
    affinities.lock().unwrap().insert(Address::new("affinity", "30@7"), "0-7".parse().unwrap());
    // It took a minute, for which the law counted cores as off.
    assert_eq!((0..2).map(|_| found()).max(), Some(1));
    assert!(tree.knob("kind = 'cpu.affinity'", groups).is_ok());
}

/// A server that took a second to come back had all processors for a minute.
#[test]
fn affinity_finds_a_server_soon_that_ended_and_comes_back() {
    let tree = Tree::new().process(10, "etcd", &[(10, "0-7")]);
    let affinities = Affinities::default();
    let begins = |pid: u32| {
        let address = Address::new("affinity", &format!("{pid}@7"));
        affinities.lock().unwrap().insert(address, "0-7".parse().unwrap());
    };
    begins(10);
    let mut machine = Kernel::new(&tree, &[], &affinities);
    let mut knob = tree.knob("kind = 'cpu.affinity'", GROUPS).unwrap();
    let mut found = || {
        let assignments = knob.assignments(&setting(&["0,4", "2"], 1e9), &mut machine).unwrap();
        values(&assignments).iter().map(|(place, _)| (*place).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(), ["10@7"]);
    tree.ends(10);
    affinities.lock().unwrap().clear();
    assert!(found().is_empty());
    tree.starts(30, "etcd", &[(30, "0-7")]);
    begins(30);
    assert_eq!(found(), ["30@7"]);
    // What begins beside it is no hurry, and is found within a minute of calls all the same.
    tree.starts(40, "etcd", &[(40, "0-7")]);
    begins(40);
    let calls = (0..20).position(|_| found().len() == 2);
    assert!(calls.is_some_and(|calls| calls < 12), "{calls:?}");
}

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

/// A tree in the active mode of intel_pstate, with preferences and biases.
fn active() -> Tree {
    let tree = Tree::new();
    tree.write(&format!("{CPU}/intel_pstate/status"), "active");
    for policy in 0..4 {
        let file = |name: &str| format!("{CPU}/cpufreq/policy{policy}/{name}");
        tree.write(&file("scaling_governor"), "powersave");
        tree.write(&file("scaling_driver"), "intel_pstate");
        tree.write(&file("energy_performance_preference"), "balance_performance");
        let words = "default performance balance_performance balance_power power ";
        tree.write(&file("energy_performance_available_preferences"), words);
    }
    for cpu in 0..8 {
        tree.write(&format!("{CPU}/cpu{cpu}/power/energy_perf_bias"), "6");
    }
    tree
}

/// What a knob asks of its first place: while saving, and at full speed.
fn both(tree: &Tree, knob: &str) -> [String; 2] {
    let mut knob = tree.knob(knob, GROUPS).unwrap();
    [setting(&["0,4", "2"], 1e9), full_speed(&["0-1,4-5", "2-3,6-7"])].map(|setting| {
        let assignments = knob.assignments(&setting, &mut *tree.machine()).unwrap();
        let at = if setting.full_speed { assignments.len() - 1 } else { 0 };
        values(&assignments)[at].1.to_owned()
    })
}

fn saving_conforms(tree: &Tree, knob: &str) {
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob(knob, GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    subject.conforms();
}

#[test]
fn preferences_follow_saving() {
    let tree = active();
    for (knob, asked) in [
        ("kind = 'cpu.epp'", ["balance_power", "original"]),
        (
            "kind = 'cpu.epp'\nsaving = 'power'\nat_full_speed = 'performance'",
            ["power", "performance"],
        ),
        ("kind = 'cpu.epb'", ["8", "original"]),
        ("kind = 'cpu.epb'\nsaving = 15\nat_full_speed = 0", ["15", "0"]),
    ] {
        assert_eq!(both(&tree, knob), asked, "{knob}");
        saving_conforms(&tree, knob);
    }
    // In the active mode a cap is a cap under either governor.
    for governor in ["powersave", "performance"] {
        for policy in 0..4 {
            tree.write(&format!("{CPU}/cpufreq/policy{policy}/scaling_governor"), governor);
        }
        assert_eq!(both(&tree, "kind = 'cpu.frequency'"), ["1000000", "original"]);
        saving_conforms(&tree, "kind = 'cpu.frequency'");
    }
}

#[test]
fn whoever_prefers_energy_more_is_left_alone() {
    let tree = active();
    for policy in 0..3 {
        let file = format!("{CPU}/cpufreq/policy{policy}/energy_performance_preference");
        tree.write(&file, ["power", "200", "balance_power"][policy]);
    }
    let mut knob = tree.knob("kind = 'cpu.epp'", GROUPS).unwrap();
    let slow = setting(&["0", "2"], 1e9);
    let asked = knob.assignments(&slow, &mut *tree.machine()).unwrap();
    let file = format!("{CPU}/cpufreq/policy3/energy_performance_preference");
    assert_eq!(values(&asked), [(file.as_str(), "balance_power")]);
    tree.write(&file, "power");
    let message = tree.knob("kind = 'cpu.epp'", GROUPS).err().unwrap();
    assert!(message.contains("nothing to turn"), "{message}");
}

#[test]
fn preferences_say_what_is_missing() {
    let missing = |tree: &Tree, knob: &str, says: &str| {
        let message = tree.knob(&format!("kind = '{knob}"), GROUPS).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    let tree = active();
    missing(&tree, "cpu.epp'\nsaving = 'default'", "not one of performance, balance_performance");
    missing(&tree, "cpu.epp'\nat_full_speed = 'fast'", "not one of performance");
    missing(&tree, "cpu.epb'\nsaving = 16", "a bias of 16 is not between 0 and 15");
    missing(&tree, "cpu.epb'\nsaving = 6", "a bias of 6 or more");
    tree.write(&format!("{CPU}/cpufreq/policy0/scaling_governor"), "performance");
    missing(&tree, "cpu.epp'", "set it to powersave");
    missing(&Tree::new(), "cpu.epp'", "in the active mode of intel_pstate");
    missing(&Tree::new(), "cpu.epb'", "these processors have none");
}

/// A tree whose cores have idle states that take 0, 2, 10 and 133 us to leave, the last one off.
fn sleepy() -> Tree {
    let tree = Tree::new();
    for cpu in 0..8 {
        for (state, (latency, off)) in
            [("0", "0"), ("2", "0"), ("10", "0"), ("133", "1")].iter().enumerate()
        {
            let file = |name: &str| format!("{CPU}/cpu{cpu}/cpuidle/state{state}/{name}");
            tree.write(&file("name"), ["POLL", "C1", "C1E", "C6"][state]);
            tree.write(&file("latency"), latency);
            tree.write(&file("disable"), off);
        }
    }
    tree
}

#[test]
fn idle_states_are_shallow_at_full_speed_and_deep_while_saving() {
    let tree = sleepy();
    let state = |number: u32| format!("{CPU}/cpu0/cpuidle/state{number}/disable");
    let asked = |knob: &str, setting: &Setting| -> Vec<(String, String)> {
        let mut knob = tree.knob(knob, "[[group]]\nname = 'a'\ncores = '0'").unwrap();
        let assignments = knob.assignments(setting, &mut *tree.machine()).unwrap();
        let pairs = values(&assignments).into_iter();
        pairs.map(|(path, value)| (path.to_owned(), value.to_owned())).collect()
    };
    let pair = |number, value: &str| (state(number), value.to_owned());
    let both = "kind = 'cpu.idle'\nsaving = '200 us'\nat_full_speed = '5 us'";
    let (slow, full) = (setting(&["0"], 1e9), full_speed(&["0"]));
    assert_eq!(asked(both, &slow), [pair(1, "0"), pair(2, "0"), pair(3, "0")]);
    assert_eq!(asked(both, &full), [pair(3, "1"), pair(2, "1"), pair(1, "original")]);
    let shallow = "kind = 'cpu.idle'\nat_full_speed = '5 us'";
    assert_eq!(asked(shallow, &slow), [pair(2, "original"), pair(3, "original")]);
    let deep = "kind = 'cpu.idle'\nsaving = '50 us'";
    assert_eq!(asked(deep, &slow), [pair(1, "0"), pair(2, "0")], "the deepest stays as it was");
    saving_conforms(&tree, both);
    assert_eq!(tree.read(&state(3)), "1");
    // On ARM the first is a state like any other.
    let arm = sleepy();
    arm.write(&format!("{CPU}/cpu0/cpuidle/state0/name"), "WFI");
    let mut knob = arm.knob(both, "[[group]]\nname = 'a'\ncores = '0'").unwrap();
    let assignments = knob.assignments(&slow, &mut *arm.machine()).unwrap();
    assert_eq!(values(&assignments)[0], (state(0).as_str(), "0"));
    let missing = |tree: &Tree, knob: &str, says: &str| {
        let message = tree.knob(&format!("kind = 'cpu.idle'{knob}"), GROUPS).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing(&tree, "", "neither saving nor at_full_speed");
    missing(&tree, "\nsaving = '1 us'\nat_full_speed = '1 ms'", "sleep less deeply while saving");
    missing(&tree, "\nat_full_speed = '1 ms'", "nothing to turn");
    missing(&Tree::new(), "\nsaving = '1 ms'", "no driver of idle states");
}

#[test]
fn the_wake_latency_is_held_at_full_speed_and_let_go_while_saving() {
    let tree = Tree::new();
    let knob = "kind = 'cpu.latency'\nat_full_speed = '20 us'";
    assert!(tree.knob(knob, GROUPS).err().unwrap().contains("/dev/cpu_dma_latency is not there"));
    tree.write("/dev/cpu_dma_latency", "");
    assert_eq!(both(&tree, knob), ["original", "20"]);
    let wrong = "kind = 'cpu.latency'\nat_full_speed = '2 s'";
    assert!(tree.knob(wrong, GROUPS).err().unwrap().contains("is not between 0 s and 1 s"));
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob(knob, GROUPS).unwrap()],
        full: full_speed(&["0-1,4-5", "2-3,6-7"]),
        narrow: setting(&["0,4", "2"], 1e9),
    };
    let (mut writer, _) = subject.writer(&Store::default());
    let (mut knob, address) = ((subject.knobs)().remove(0), dma_latency::address());
    for (setting, held) in
        [(&subject.full, "20"), (&subject.narrow, "released"), (&subject.full, "20")]
    {
        let assignments = knob.assignments(setting, writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        assert_eq!(writer.look().read(&address).as_deref(), Ok(held));
    }
    let restored = writer.restore().unwrap();
    assert_eq!((restored.restored.len(), restored.left.len()), (1, 0));
    assert_eq!(writer.look().read(&address).as_deref(), Ok("released"));
}

/// Two sockets: even processors in the first.
fn sockets() -> Tree {
    let tree = Tree::new();
    for cpu in 0..8 {
        let file = format!("{CPU}/cpu{cpu}/topology/physical_package_id");
        tree.write(&file, &(cpu % 2).to_string());
    }
    for package in 0..2 {
        let die = format!("{CPU}/intel_uncore_frequency/package_0{package}_die_00");
        for (file, khz) in [
            ("initial_min_freq_khz", "800000"),
            ("initial_max_freq_khz", "2400000"),
            ("min_freq_khz", if package == 0 { "800000" } else { "2000000" }),
            ("max_freq_khz", "2400000"),
        ] {
            tree.write(&format!("{die}/{file}"), khz);
        }
        let zone = format!("/sys/class/powercap/intel-rapl:{package}");
        for (file, text) in [
            ("name", format!("package-{package}").as_str()),
            ("enabled", if package == 0 { "1" } else { "0" }),
            ("constraint_0_name", "long_term"),
            ("constraint_0_power_limit_uw", "150000000"),
            ("constraint_0_max_power_uw", "165000000"),
            ("constraint_1_name", "short_term"),
            ("constraint_1_power_limit_uw", "180000000"),
        ] {
            tree.write(&format!("{zone}/{file}"), text);
        }
        tree.write(&format!("{zone}:0/name"), "dram");
    }
    tree
}

/// What a knob writes while saving.
fn slow(tree: &Tree, knob: &str, groups: &str) -> Vec<(String, String)> {
    let mut knob = tree.knob(knob, groups).unwrap();
    let assignments = knob.assignments(&setting(&["0"], 1e9), &mut *tree.machine()).unwrap();
    let pair = |(path, value): (&str, &str)| {
        let mut end = path.rsplitn(3, '/').take(2).collect::<Vec<_>>();
        end.reverse();
        (end.join("/"), value.to_owned())
    };
    values(&assignments).into_iter().map(pair).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn the_uncore_is_capped_while_saving() {
    let tree = sockets();
    let knob = "kind = 'uncore.frequency'\nmaximum = '1.65 GHz'";
    let asked = [
        ("package_00_die_00/max_freq_khz", "1600000"),
        ("package_01_die_00/min_freq_khz", "1600000"),
        ("package_01_die_00/max_freq_khz", "1600000"),
    ];
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked), "a minimum above it goes first");
    saving_conforms(&tree, knob);
    let missing = |tree: &Tree, maximum: &str, groups: &str, says: &str| {
        let knob = format!("kind = 'uncore.frequency'\nmaximum = '{maximum}'");
        let message = tree.knob(&knob, groups).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    let first = "[[group]]\nname = 'a'\ncores = '0,4'";
    missing(&tree, "1.6 GHz", first, "shared with processors 2,6, which are in no group");
    let accepted = "kind = 'uncore.frequency'\nmaximum = '1.6 GHz'\naccept_others = true";
    assert_eq!(slow(&tree, accepted, first).len(), 1, "the other socket is not touched");
    missing(&tree, "500 MHz", GROUPS, "is below the 800 MHz");
    missing(&tree, "2.4 GHz", GROUPS, "nothing to turn");
    missing(&Tree::new(), "1 GHz", GROUPS, "intel_uncore_frequency is not there");
    // Newer processors have clusters, and a folder of the die that stands for all.
    for (cluster, package) in [("uncore00", "0"), ("uncore01", "1")] {
        let folder = format!("{CPU}/intel_uncore_frequency/{cluster}");
        tree.write(&format!("{folder}/package_id"), package);
        tree.write(&format!("{folder}/min_freq_khz"), "800000");
        tree.write(&format!("{folder}/max_freq_khz"), "2200000");
    }
    let asked = [("uncore00/max_freq_khz", "1600000"), ("uncore01/max_freq_khz", "1600000")];
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked));
    saving_conforms(&tree, knob);
}

#[test]
fn packages_are_capped_while_saving() {
    let tree = sockets();
    let knob = "kind = 'power.cap'\nlimit = '90.2 W'";
    let asked = [
        ("intel-rapl:0/constraint_0_power_limit_uw", "90125000"),
        ("intel-rapl:1/constraint_0_power_limit_uw", "90125000"),
        ("intel-rapl:1/enabled", "1"),
    ];
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked));
    saving_conforms(&tree, knob);
    // A limit that an operator keeps low, and off, was switched on because of the other package.
    let second = "/sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw";
    tree.write(second, "60000000");
    assert_eq!(slow(&tree, knob, GROUPS), pairs(&asked[..1]));
    saving_conforms(&tree, knob);
    tree.write(second, "150000000");
    let missing = |tree: &Tree, more: &str, says: &str| {
        let message = tree.knob(&format!("kind = 'power.cap'\n{more}"), GROUPS).err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing(&tree, "limit = '0 W'", "is not above 0 W");
    missing(&tree, "limit = '170 W'", "takes is 165 W");
    missing(&tree, "limit = '150 W'", "nothing to turn");
    missing(&tree, "limit = '90 W'\nhwmon = 'amd'", "has no chip \"amd\" with a powerN_cap");
    missing(&Tree::new(), "limit = '90 W'", "no RAPL");
    for (file, text) in [
        ("name", "amd_hsmp_hwmon"),
        ("power1_cap", "240000000"),
        ("power1_cap_max", "280000000"),
        ("power1_input", "100000000"),
    ] {
        tree.write(&format!("/sys/class/hwmon/hwmon3/{file}"), text);
    }
    let chip = "kind = 'power.cap'\nlimit = '150 W'\nhwmon = 'amd_hsmp_hwmon'";
    assert_eq!(slow(&tree, chip, GROUPS), pairs(&[("hwmon3/power1_cap", "150000000")]));
    saving_conforms(&tree, chip);
}

#[test]
fn cores_leave_and_return_with_all_that_the_kernel_changed() {
    let tree = Tree::new().split().process(10, "etcd", &[(10, "3,7"), (11, "0-7")]);
    let affinities = Affinities::default();
    let address = Address::new("affinity", "10@7");
    affinities.lock().unwrap().insert(address.clone(), "3,7;11@7=0-7".parse().unwrap());
    let (slice, service) =
        ("/sys/fs/cgroup/cpuset/s.slice", "/sys/fs/cgroup/cpuset/s.slice/etcd.service");
    let below = format!("{service}/below");
    let subject = Subject {
        machine: &|| Box::new(Kernel::new(&tree, &[slice, service, &below], &affinities)),
        knobs: &|| vec![tree.knob("kind = 'cpu.online'\naccept_hotplug = true", ONE).unwrap()],
        full: full_speed(&["0-7"]),
        narrow: setting(&["0-2,4-6"], 1e9),
    };
    // The queue of processors 3 and 7 would lose both.
    tree.write("/sys/block/nvme0n1/mq/3/cpu_list", "0, 3, 4, 7");
    subject.conforms();
    let mut machine = (subject.machine)();
    let assignments = (subject.knobs)()[0].assignments(&subject.narrow, &mut *machine).unwrap();
    let off =
        values(&assignments).into_iter().filter(|(_, value)| *value == "0").collect::<Vec<_>>();
    let file = |cpu| format!("{CPU}/cpu{cpu}/online");
    assert_eq!(off, [(file(3).as_str(), "0"), (file(7).as_str(), "0")]);
    let endangered: Vec<_> = assignments[0].endangers.iter().map(place).collect();
    let set = |folder: &str| format!("{folder}/cpuset.cpus");
    let irq = "/proc/irq/41/smp_affinity_list";
    assert_eq!(endangered, ["10@7", irq, &set(&below), &set(service), &set(slice)]);
}

#[test]
fn all_knobs_together_leave_everything_as_it_was() {
    let tree = Tree::new().split().process(10, "etcd", &[(10, "0-7"), (11, "3")]);
    std::fs::remove_dir_all(tree.path("/sys/block/nvme0n1")).unwrap();
    let affinities = Affinities::default();
    let address = Address::new("affinity", "10@7");
    affinities.lock().unwrap().insert(address, "0-7;11@7=3".parse().unwrap());
    let service = "/sys/fs/cgroup/cpuset/s.slice/etcd.service";
    let sets = ["/sys/fs/cgroup/cpuset/s.slice", service, &format!("{service}/below")];
    let groups = format!("{ONE}\nprocesses = {{ comm = 'etcd' }}");
    let kinds =
        ["cpu.cpuset'", "cpu.affinity'", "cpu.frequency'", "cpu.online'\naccept_hotplug = true"];
    let open = |kind: &&str| tree.knob(&format!("kind = '{kind}"), &groups).unwrap();
    let subject = Subject {
        machine: &|| Box::new(Kernel::new(&tree, &sets, &affinities)),
        knobs: &|| kinds.iter().map(open).collect(),
        full: full_speed(&["0-7"]),
        narrow: setting(&["0,4"], 1e9),
    };
    subject.conforms();
    for policy in 0..4 {
        let folder = format!("{CPU}/cpufreq/policy{policy}");
        tree.write(&format!("{folder}/scaling_governor"), "userspace");
        tree.write(&format!("{folder}/scaling_setspeed"), "1800000");
    }
    subject.conforms();
    assert_eq!(tree.read(&format!("{CPU}/online")), "0-7");
}

#[test]
fn cores_that_must_stay_stay() {
    let tree = Tree::new();
    let off = |active: &str| {
        let mut knob = tree.knob("kind = 'cpu.online'\naccept_hotplug = true", ONE).unwrap();
        let assignments = knob.assignments(&setting(&[active], 1e9), &mut *tree.machine()).unwrap();
        let off = assignments.iter().filter(|a| a.target == Target::Set("0".to_owned()));
        let cpu = |a: &Assignment| {
            let path = a.address.rest();
            path.trim_start_matches(CPU).trim_matches(|c: char| !c.is_ascii_digit()).parse::<u32>()
        };
        off.map(|a| cpu(a).unwrap()).collect::<wattio_governor::Cpus>()
    };
    assert_eq!(off("0"), cpus(""), "each core is the last of a queue");
    std::fs::remove_dir_all(tree.path("/sys/block/nvme0n1")).unwrap();
    assert_eq!(off("1"), cpus("2-3,6-7"), "0 stays, and so does its sibling");
    assert_eq!(off("0-2,4-5"), cpus("3,7"), "6 is the sibling of 2");
    tree.write("/sys/block/sda/mq/0/cpu_list", "2, 3, 6, 7");
    assert_eq!(off("0"), cpus("1,3,5,7"), "one core of the queue stays");
    let message = tree.knob("kind = 'cpu.online'\naccept_hotplug = false", ONE).err().unwrap();
    assert!(message.contains("set accept_hotplug = true"), "{message}");
    let half = "[[group]]\nname = 'a'\ncores = '0-3'";
    let message = tree.knob("kind = 'cpu.online'\naccept_hotplug = true", half).err().unwrap();
    assert!(message.contains("both threads of a core"), "{message}");
}

/// The decision of before was kept: the kernel moved the container's tasks out of it, for good.
#[test]
fn a_core_that_something_needs_since_stays() {
    for full_between in [false, true] {
        let tree = Tree::new().split();
        std::fs::remove_dir_all(tree.path("/sys/block/nvme0n1")).unwrap();
        tree.write("/sys/fs/cgroup/cpuset/s.slice/etcd.service/below/cpuset.cpus", "0-7");
        let mut machine = tree.machine();
        let mut knob = tree.knob("kind = 'cpu.online'\naccept_hotplug = true", ONE).unwrap();
        let mut off = |setting: &Setting| {
            let assignments = knob.assignments(setting, &mut *machine).unwrap();
            let off = values(&assignments).into_iter().filter(|(_, value)| *value == "0");
            let cpu = |path: &str| path.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u32>();
            off.map(|(path, _)| cpu(path).unwrap()).collect::<wattio_governor::Cpus>()
        };
        let few = setting(&["0-1,4-5"], 1e9);
        assert_eq!(off(&few), cpus("2-3,6-7"));
        tree.write(&format!("{CPU}/online"), "0-1,4-5");
        assert_eq!(off(&few), cpus("2-3,6-7"), "they are off");
        tree.write(&format!("{CPU}/online"), "0-7");
        if full_between {
            assert_eq!(off(&full_speed(&["0-7"])), cpus(""));
        }
        let container = "/sys/fs/cgroup/cpuset/container";
        tree.write(&format!("{container}/cpuset.cpus"), "6");
        tree.write(&format!("{container}/cpuset.effective_cpus"), "6");
        assert_eq!(off(&few), cpus("3,7"), "the last one of a control group, and its sibling");
    }
}
