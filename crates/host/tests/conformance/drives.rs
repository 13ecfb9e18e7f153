//! The drives' and background work's knobs on folders that are shaped like a host.

use super::tree::Tree;
use super::{Store, Subject, full_speed, idle, setting};
use wattio_governor::{Assignment, Layer, Machine, RestorableWriter, Setting, Target};
use wattio_host::LinuxMachine;
use wattio_host::knobs::{KnobConfig, drive_sleep};
use wattio_law::DriveSleep;
use wattio_units::Seconds;

const MD: &str = "/sys/block/md0/md";

fn drives() -> Tree {
    let tree = Tree::new();
    tree.write("/sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us", "auto");
    for disk in ["sda", "sdb"] {
        let device = format!("/sys/block/{disk}/device");
        tree.write(&format!("{device}/power/control"), "on");
        tree.write(&format!("{device}/power/autosuspend_delay_ms"), "-1");
        tree.write(&format!("{device}/scsi_disk/1:0:0:0/manage_start_stop"), "0");
    }
    tree.write("/sys/block/sdb/device/scsi_disk/1:0:0:0/manage_runtime_start_stop", "0");
    for host in ["host0", "host1"] {
        let file = format!("/sys/class/scsi_host/{host}/link_power_management_policy");
        tree.write(&file, "max_performance");
    }
    tree.write("/sys/class/scsi_host/host2/state", "running");
    tree.write(&format!("{MD}/sync_speed_min"), "1000 (system)");
    tree.write(&format!("{MD}/sync_speed_max"), "200000 (system)");
    tree
}

fn written(tree: &Tree, knob: &str, setting: &Setting) -> Vec<String> {
    let mut knob = tree.knob(knob, "").unwrap();
    let assignments = knob.assignments(setting, &mut *tree.machine()).unwrap();
    let text = |Assignment { address, target, .. }: &Assignment| {
        let name = address.rest().rsplit('/').next().unwrap().split('@').next().unwrap();
        let Target::Set(value) = target else { return format!("{name} original") };
        format!("{name} {value}")
    };
    assignments.iter().map(text).collect()
}

#[test]
fn drives_sleep_in_idle_only() {
    let tree = drives();
    for (knob, asks) in [
        (
            "kind = 'nvme.power'\ndevices = ['nvme*']\nlatency = '50 ms'",
            vec!["pm_qos_latency_tolerance_us 50000"],
        ),
        (
            "kind = 'disk.runtime'\ndevices = ['sda']\nafter = '2 s'",
            vec!["manage_start_stop 1", "autosuspend_delay_ms 2000", "control auto"],
        ),
        (
            "kind = 'disk.runtime'\ndevices = ['sdb']",
            vec!["manage_runtime_start_stop 1", "autosuspend_delay_ms 60000", "control auto"],
        ),
        (
            "kind = 'sata.alpm'\ndevices = ['host*']",
            vec!["link_power_management_policy med_power_with_dipm"; 2],
        ),
    ] {
        assert_eq!(written(&tree, knob, &idle()), asks);
        let busy = written(&tree, knob, &setting(&[], 1e9));
        assert!(busy.iter().all(|text| text.ends_with("original")), "{busy:?}");
        let (mut opened, mut machine) = (tree.knob(knob, "").unwrap(), tree.machine());
        assert_eq!(opened.layer(), Layer::Slow);
        let places = opened.assignments(&idle(), &mut *machine).unwrap();
        assert!(places.iter().all(|place| machine.is_slow(&place.address)), "restored last");
        let subject = Subject {
            machine: &|| tree.machine(),
            knobs: &|| vec![tree.knob(knob, "").unwrap()],
            full: full_speed(&[]),
            narrow: idle(),
        };
        subject.conforms();
    }
}

/// The law took a live host for one whose drives wake at once, and let disks stop that take ten
/// seconds to turn again whatever the promise had left.
#[test]
fn the_law_is_told_which_drives_are_let_rest_and_what_waking_takes() {
    let tree = drives();
    let sleep = |knobs: &[&str]| {
        let knobs: Vec<KnobConfig> =
            knobs.iter().map(|knob| toml::from_str(knob).unwrap()).collect();
        drive_sleep(&knobs, &tree.root()).map_err(|error| error.to_string())
    };
    let rest = |count, wake, after| {
        Ok(Some(DriveSleep { count, saves: None, wake: Seconds(wake), after: Seconds(after) }))
    };
    let nvme = "kind = 'nvme.power'\ndevices = ['nvme*']";
    let disks = "kind = 'disk.runtime'\ndevices = ['sd*']\nafter = '5 min'";
    let links = "kind = 'sata.alpm'\ndevices = ['host*']";
    assert_eq!(sleep(&["kind = 'cpu.frequency'"]), Ok(None));
    assert_eq!(sleep(&[nvme]), rest(1, 0.1, 0.0));
    assert_eq!(sleep(&[&format!("{nvme}\nlatency = '5 ms'")]), rest(1, 0.005, 0.0));
    assert_eq!(sleep(&[&format!("{nvme}\npower_state = 3")]), rest(1, 0.1, 0.0));
    assert_eq!(sleep(&[links]), rest(2, 0.02, 0.0), "one of the hosts has no link");
    assert_eq!(sleep(&[disks]), rest(2, 10.0, 300.0));
    assert_eq!(sleep(&[&format!("{disks}\nwake = '6 s'")]), rest(2, 6.0, 300.0));
    assert_eq!(sleep(&[nvme, disks, links]), rest(3, 10.0, 300.0), "a disk and its link are one");
    let message = sleep(&[&format!("{links}\nwake = '1 h'")]).unwrap_err();
    assert!(message.contains("sata.alpm: wake = 1 h is not between 0 s and 2 min"), "{message}");
    assert!(sleep(&["kind = 'nvme.power'\ndevices = ['nvme7']"]).is_err());
}

#[test]
fn a_drive_that_is_pulled_is_no_failure() {
    let tree = drives();
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob("kind = 'disk.runtime'\ndevices = ['sda']", "").unwrap()],
        full: full_speed(&[]),
        narrow: idle(),
    };
    subject.lets_go(|| std::fs::remove_dir_all(tree.path("/sys/block/sda")).unwrap());
}

#[test]
fn drives_knobs_say_what_is_missing() {
    let tree = drives();
    let missing = |knob: &str, says: &str| {
        let message = tree.knob(knob, "").err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing("kind = 'nvme.power'\ndevices = ['nvme7']", "which has nvme0");
    missing("kind = 'nvme.power'\ndevices = []", "devices names none");
    missing(
        "kind = 'nvme.power'\ndevices = ['nvme0']\nlatency = '1 h'",
        "latency = 1 h is not between",
    );
    missing("kind = 'disk.runtime'\ndevices = ['nvme0n1']", "not a SCSI or ATA disk");
    missing("kind = 'disk.runtime'\ndevices = ['sda']\nwake = '1 h'", "wake = 1 h is not between");
    missing("kind = 'sata.alpm'\ndevices = ['host2']", "SATA host");
    missing(
        "kind = 'sata.alpm'\ndevices = ['host0']\npolicy = 'off'",
        "not one of max_performance",
    );
    missing("kind = 'sata.alpm'\ndevices = ['host0']\npolicy = 'min_power'", "has lost data");
    tree.write("/sys/class/scsi_host/host0/link_power_management_policy", "keep_firmware_settings");
    missing("kind = 'sata.alpm'\ndevices = ['host0']", "would not accept again");
    let asked_twice = "kind = 'sata.alpm'\ndevices = ['host1']\npolicy = 'min_power'\n\
                       accept_data_loss = true";
    assert_eq!(written(&tree, asked_twice, &idle()), ["link_power_management_policy min_power"]);
}

fn pace(pace: f64) -> Setting {
    Setting { background_share: pace, ..setting(&[], 1e9) }
}

#[test]
fn background_work_keeps_the_pace() {
    let knob = format!(
        "kind = 'background'\nmd = ['md0']\n{}",
        "weight = ['/s.slice/etcd.service']\nfreeze = ['/s.slice/etcd.service']"
    );
    let tree = drives().unified();
    let asked = |setting: &Setting| written(&tree, &knob, setting);
    assert_eq!(
        asked(&pace(0.0)),
        ["sync_speed_min 1", "sync_speed_max 1", "cpu.weight 1", "cgroup.freeze 1"]
    );
    assert_eq!(
        asked(&pace(0.5)),
        ["sync_speed_min 500", "sync_speed_max 100000", "cpu.weight 50", "cgroup.freeze original"]
    );
    for fast in [pace(1.0), pace(3.0), pace(f64::NAN), pace(-1.0), full_speed(&[])] {
        assert!(asked(&fast).iter().all(|text| text.ends_with("original")));
    }
    let tree = drives().split();
    assert_eq!(
        written(&tree, &knob, &pace(0.25))[2..],
        ["cpu.shares 256", "freezer.state original"]
    );
    assert_eq!(written(&tree, &knob, &pace(0.0))[3], "freezer.state FROZEN");
}

#[test]
fn background_work_is_left_as_it_was() {
    let tree = drives().split();
    let knob = "kind = 'background'\nweight = ['/s.slice/etcd.service']\nfreeze = ['/s.slice/etcd.service']";
    let subject = Subject {
        machine: &|| tree.machine(),
        knobs: &|| vec![tree.knob(knob, "").unwrap()],
        full: full_speed(&[]),
        narrow: pace(0.0),
    };
    subject.conforms();
    let missing = |knob: &str, says: &str| {
        let message = tree.knob(&format!("kind = 'background'\n{knob}"), "").err().unwrap();
        assert!(message.contains(says), "{message}");
    };
    missing("", "names no work");
    missing("md = ['md9']", "/proc/mdstat");
    missing("md = ['../block/md0']", "/proc/mdstat");
    missing("weight = ['/none.service']", "no cpu.weight or cpu.shares");
    tree.write("/proc/self/cgroup", "5:freezer:/s.slice/etcd.service/below");
    missing("freeze = ['/s.slice/etcd.service']", "this program itself runs in");
    missing("freeze = ['etcd']", "not the path of a control group");
}

/// A daemon that came up before the service that it slows refused to start.
#[test]
fn background_work_may_start_after_the_daemon() {
    for (tree, folders, file, weight) in [
        (drives().unified(), ["", ""], "cpu.weight", "50"),
        (drives().split(), ["cpu/", "freezer/"], "cpu.shares", "512"),
    ] {
        let folders = folders.map(|at| format!("/sys/fs/cgroup/{at}s.slice/etcd.service"));
        for folder in &folders {
            let _ = std::fs::rename(tree.path(folder), tree.path(&format!("{folder}-later")));
        }
        let service = "['/s.slice/etcd.service']";
        let knob = format!("kind = 'background'\nweight = {service}\nfreeze = {service}");
        let config: KnobConfig = toml::from_str(&knob).unwrap();
        assert!(tree.knob(&knob, "").is_err(), "check and doctor ask for it");
        let (topology, mut absent) = (tree.topology(), Vec::new());
        let open =
            |absent: &mut Vec<String>| config.open_at_start(&tree.root(), &topology, &[], absent);
        let mut knob = open(&mut absent).unwrap();
        assert_eq!(absent.len(), 2, "{absent:?}");
        assert!(absent[0].contains("does the service run"), "{absent:?}");
        let (mut writer, _) =
            RestorableWriter::open(tree.machine(), Box::new(Store::default()), "boot").unwrap();
        assert_eq!(knob.assignments(&pace(0.5), writer.look()), Ok(vec![]));
        for folder in &folders {
            let _ = std::fs::rename(tree.path(&format!("{folder}-later")), tree.path(folder));
        }
        let assignments = knob.assignments_again(&pace(0.5), writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        assert_eq!(tree.read(&format!("{}/{file}", folders[0])), weight);
        // What is there, and has no such file, is refused as ever.
        std::fs::remove_file(tree.path(&format!("{}/{file}", folders[0]))).unwrap();
        assert!(open(&mut Vec::new()).is_err());
    }
}

/// The group of a restarted service was left alone until the next start of the daemon, as its weight
/// was taken for somebody else's; after a kill it got the old group's.
#[test]
fn background_work_that_restarts_is_a_new_place() {
    let tree = drives().unified();
    let folder = "/sys/fs/cgroup/s.slice/etcd.service";
    let file = |name: &str| format!("{folder}/{name}");
    let restart = |weight: &str, between: &mut dyn FnMut()| {
        tree.write("/sys/fs/cgroup/s.slice/new/cpu.weight", weight);
        tree.write("/sys/fs/cgroup/s.slice/new/cgroup.freeze", "0");
        // The old one stays elsewhere, so that none gets its inode.
        std::fs::rename(tree.path(folder), tree.path(&format!("/before-{weight}"))).unwrap();
        between();
        std::fs::rename(tree.path("/sys/fs/cgroup/s.slice/new"), tree.path(folder)).unwrap();
    };
    let knob = "kind = 'background'\nmd = ['md0']\nweight = ['/s.slice/etcd.service']\n\
                freeze = ['/s.slice/etcd.service']";
    let mut knob = tree.knob(knob, "").unwrap();
    let store = Store::default();
    let open = || RestorableWriter::open(tree.machine(), Box::new(store.clone()), "boot").unwrap();
    let mut writer = open().0;
    let assignments = knob.assignments(&pace(0.0), writer.look()).unwrap();
    assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
    assert_eq!([tree.read(&file("cpu.weight")), tree.read(&file("cgroup.freeze"))], ["1", "1"]);

    restart("200", &mut || {});
    assert!(knob.looks_again());
    assert_eq!(writer.inspect(10), [], "nobody changed anything");
    for (pace, weight) in [(pace(0.5), "100"), (pace(0.25), "50"), (pace(1.0), "200")] {
        let assignments = knob.assignments_again(&pace, writer.look()).unwrap();
        assert_eq!(assignments.len(), 2, "arrays are where they were");
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        assert_eq!(tree.read(&file("cpu.weight")), weight);
    }
    restart("300", &mut || {
        assert_eq!(knob.assignments_again(&pace(0.5), writer.look()), Ok(vec![]), "no group");
    });
    let assignments = knob.assignments_again(&pace(0.0), writer.look()).unwrap();
    assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
    assert_eq!([tree.read(&file("cpu.weight")), tree.read(&file("cgroup.freeze"))], ["1", "1"]);
    std::mem::forget(writer);
    restart("400", &mut || {});
    let (_, restored) = open();
    assert_eq!((restored.left, restored.foreign), (vec![], vec![]));
    assert_eq!(tree.read(&file("cpu.weight")), "400");
}

/// A knob that makes and removes a file by commands, as whoever runs the test.
fn commands(tree: &Tree, is_paused: bool) -> String {
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    tree.write("/etc/passwd", &format!("me:x:{user}:{group}::/:/bin/sh"));
    let file = tree.path("/paused");
    let file = file.to_str().unwrap();
    let mut text = format!(
        "kind = 'background'\n[[commands]]\nname = 'scrub'\nuser = 'me'\ntimeout = '30 s'\n\
         pause = ['/bin/touch', '{file}']\nresume = ['/bin/rm', '-f', '{file}']\n"
    );
    if is_paused {
        text += &format!("is_paused = ['/usr/bin/test', '-e', '{file}']");
    }
    text
}

fn running(tree: &Tree, knob: &str) -> Box<dyn Machine> {
    let config: KnobConfig = toml::from_str(knob).unwrap();
    Box::new(LinuxMachine::new(tree.root(), config.commands()).unwrap())
}

#[test]
fn work_that_commands_pause_goes_on_after_a_crash() {
    let tree = Tree::new();
    let knob = commands(&tree, true);
    let subject = Subject {
        machine: &|| running(&tree, &knob),
        knobs: &|| vec![tree.knob(&knob, "").unwrap()],
        full: full_speed(&[]),
        narrow: pace(0.0),
    };
    subject.conforms();
    // Without a command that tells, nobody knows the state, and going on is the safe side.
    let knob = commands(&tree, false);
    let store = Store::default();
    let open =
        || RestorableWriter::open(running(&tree, &knob), Box::new(store.clone()), "boot").unwrap();
    let (mut writer, _) = open();
    let mut pauses = tree.knob(&knob, "").unwrap();
    let assignments = pauses.assignments(&pace(0.0), writer.look()).unwrap();
    writer.apply(pauses.name(), &assignments);
    assert!(tree.path("/paused").exists());
    std::mem::forget(writer);
    let (_, restored) = open();
    assert_eq!((restored.restored.len(), restored.left.len()), (1, 0));
    assert!(!tree.path("/paused").exists());
}
