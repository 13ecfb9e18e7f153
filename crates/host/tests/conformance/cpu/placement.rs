//! Moving work between cores: sets of control groups and masks of threads.

use super::super::kernel::{Affinities, Kernel};
use super::super::tree::Tree;
use super::super::{Subject, full_speed, setting};
use super::{GROUPS, ONE, values};
use wattio_governor::{Address, Target};
use wattio_host::knobs::KnobConfig;

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
