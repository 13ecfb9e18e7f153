//! Knobs and sources on a tree that is served by `tests/fuse`: its files clamp, refuse and go away
//! as the kernel's do, and its counters advance with its own clock. `tests/fuse/test_conformance.py`
//! mounts it and says where.

use super::sources::{diskstats, proc_stat};
use super::tree::groups_of;
use super::{CpuBody, LatencyBody, Store, Subject, Used, cpus, full_speed, idle, setting};
use wattio_governor::{Actuator, Knob, Machine, RestorableWriter};
use wattio_host::knobs::{KnobConfig, limited};
use wattio_host::{LinuxMachine, Root, Topology};
use wattio_units::Seconds;

const ROOT: &str = "WATTIO_TEST_TREE";
const GROUP: &str = "[[group]]\nname = 'all'\ncores = '0-7'\ncgroup = '/s.slice/etcd.service'";

/// Where the tree lies; `None`, and why, where there is none.
fn served() -> Option<Root> {
    let root = std::env::var_os(ROOT).map(|folder| Root::new(std::path::PathBuf::from(folder)));
    if root.is_none() {
        println!("skipped: {ROOT} names no tree; tests/fuse/test_conformance.py does");
    }
    root
}

fn machine(root: &Root) -> Box<dyn Machine> {
    Box::new(LinuxMachine::new(root.clone(), &[]).unwrap())
}

fn knob(root: &Root, kind: &str) -> Box<dyn Knob> {
    let config: KnobConfig = toml::from_str(&format!("kind = {kind}")).unwrap();
    let topology = Topology::read(root).unwrap();
    config.open(root, &topology, &groups_of(GROUP, &topology)).unwrap()
}

#[test]
#[ignore = "needs a mounted tree: make test-system"]
fn knobs_of_a_served_tree() {
    let Some(root) = served() else { return };
    let cores = ["'cpu.cpuset'", "'cpu.frequency'", "'cpu.online'\naccept_hotplug = true"];
    let drives = [
        "'nvme.power'\ndevices = ['nvme0']\nlatency = '50 ms'",
        "'disk.runtime'\ndevices = ['sda']",
        "'sata.alpm'\ndevices = ['host0']",
        "'background'\nmd = ['md0']\nweight = ['/s.slice/etcd.service']\n\
         freeze = ['/s.slice/etcd.service']",
    ];
    let conforms = |kinds: &[&str], full, narrow| {
        let open = |kind: &&str| knob(&root, kind);
        let knobs = &|| kinds.iter().map(open).collect::<Vec<_>>();
        Subject { machine: &|| machine(&root), knobs, full, narrow }.conforms();
    };
    let slow = || setting(&["0-2,4-6"], 1e9);
    for kind in cores {
        conforms(&[kind], full_speed(&["0-7"]), slow());
    }
    for kind in drives {
        conforms(&[kind], full_speed(&[]), idle());
    }
    let two_valued = [
        "'cpu.turbo'",
        "'cpu.epb'",
        "'uncore.frequency'\nmaximum = '1.2 GHz'",
        "'power.cap'\nlimit = '90 W'",
    ];
    for kind in two_valued {
        conforms(&[kind], full_speed(&["0-7"]), slow());
    }
    // What is written is written at full speed.
    let shallow = "'cpu.idle'\nsaving = '1 s'\nat_full_speed = '10 us'";
    conforms(&[shallow], slow(), full_speed(&["0-7"]));
    turbo_with_frequency(&root);
    conforms(&cores, full_speed(&["0-7"]), slow());
    let mut policies = root.list("/sys/devices/system/cpu/cpufreq");
    // Beside them stands the switch of turbo.
    policies.retain(|name| name.starts_with("policy"));
    for policy in &policies {
        let file = format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor");
        root.write(&file, "userspace").unwrap();
    }
    conforms(&cores, full_speed(&["0-7"]), slow());
    assert_eq!((policies.len(), Topology::read(&root).unwrap().online), (4, cpus("0-7")));
}

/// Limits above what is there without turbo: they are shown lower while it is off, and nobody else
/// lowered them.
fn turbo_with_frequency(root: &Root) {
    let limit = |policy| format!("/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_max_freq");
    (0..4).for_each(|policy| root.write(&limit(policy), "3000000").unwrap());
    let kinds = ["kind = 'cpu.frequency'", "kind = 'cpu.turbo'"];
    let configs: Vec<KnobConfig> = kinds.iter().map(|kind| toml::from_str(kind).unwrap()).collect();
    let topology = limited(Topology::read(root).unwrap(), &configs);
    let groups = groups_of(GROUP, &topology);
    let open = |config: &KnobConfig| config.open(root, &topology, &groups).unwrap();
    let (full, slow) = (full_speed(&["0-7"]), setting(&["0-2,4-6"], 1.8e9));
    Subject {
        machine: &|| machine(root),
        knobs: &|| configs.iter().map(open).collect(),
        full: full.clone(),
        narrow: slow.clone(),
    }
    .conforms();
    let (mut writer, _) =
        RestorableWriter::open(machine(root), Box::new(Store::default()), "boot").unwrap();
    let knobs = configs.iter().map(open).collect();
    writer.share_time(true);
    let mut actuator = Actuator { knobs, writer };
    for (setting, faster) in [(&slow, false), (&full, true), (&slow, false), (&full, true)] {
        assert_eq!(actuator.turn(setting, faster, false).notes, []);
        assert_eq!(actuator.writer.inspect(100), []);
    }
    assert_eq!(root.read(&limit(0)).unwrap(), "3000000");
    assert_eq!(actuator.turn(&slow, false, false).notes, []);
    drop(actuator);
    for policy in 0..4 {
        assert_eq!(root.read(&limit(policy)).unwrap(), "3000000");
        root.write(&limit(policy), "2600000").unwrap();
    }
}

#[test]
#[ignore = "needs a mounted tree: make test-system"]
fn sources_of_a_served_tree() {
    let Some(root) = served() else { return };
    let (mut disk, mut cores) = (diskstats(&root, "sda"), proc_stat(&root));
    let (mut requests, mut uses) = (LatencyBody::default(), CpuBody::default());
    // As tests/fuse/hosts.py describes the server: 1000 reads a second of 0.5 ms.
    let truth = [Used { clients: 0.3, background: 0.1, tolerance: 0.021 }; 2];
    for window in 1..=20 {
        let now = Seconds(f64::from(window) * 0.5);
        root.write("/clock", &now.0.to_string()).unwrap();
        assert!(requests.window(&mut *disk, now, Some((500, Some(500.0)))));
        uses.window(&mut *cores, now, &[cpus("0-3"), cpus("7")], Some(&truth));
    }
    assert_eq!((requests.requests, uses.windows), (10_000, 20));
}
