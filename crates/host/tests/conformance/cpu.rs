//! The processors' knobs on folders that are shaped like a host.

mod frequency;
mod placement;
mod saving;

use super::kernel::{Affinities, Kernel};
use super::tree::{CPU, Tree};
use super::{Subject, cpus, full_speed, setting};
use wattio_governor::{Address, Assignment, Setting, Target};

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
