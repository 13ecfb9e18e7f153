//! Knobs and sources on a tree that is served by `tests/fuse`: its files clamp, refuse and go away
//! as the kernel's do, and its counters advance with its own clock. `tests/fuse/test_conformance.py`
//! mounts it and says where.

use super::sources::{diskstats, proc_stat};
use super::tree::groups_of;
use super::{CpuBody, LatencyBody, Subject, Used, cpus, full_speed, idle, setting};
use wattio_governor::{Knob, Machine};
use wattio_host::knobs::KnobConfig;
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
    conforms(&cores, full_speed(&["0-7"]), slow());
    let policies = root.list("/sys/devices/system/cpu/cpufreq");
    for policy in &policies {
        let file = format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor");
        root.write(&file, "userspace").unwrap();
    }
    conforms(&cores, full_speed(&["0-7"]), slow());
    assert_eq!((policies.len(), Topology::read(&root).unwrap().online), (4, cpus("0-7")));
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
