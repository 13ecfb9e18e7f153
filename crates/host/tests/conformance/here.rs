//! The knobs on the machine that the test runs on, one test at a time.

use super::threads::Threads;
use super::tree::groups_of;
use super::{Store, Subject, cpus, full_speed, idle, setting};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use wattio_governor::{Address, Cpus, Knob, Machine, RestorableWriter};
use wattio_host::groups::Group;
use wattio_host::knobs::{KnobConfig, power_cap};
use wattio_host::machine::{Cgroups, affinity, dma_latency};
use wattio_host::processes::ProcessId;
use wattio_host::{LinuxMachine, Root, Topology, processes};

/// The whole machine, for one test at a time, also of other runs.
struct Here {
    root: Root,
    online: Cpus,
    _lock: fs::File,
}

impl Here {
    /// `None`, and why, where the test cannot run.
    fn take(needs_root: bool) -> Option<Self> {
        let lock = fs::File::create(std::env::temp_dir().join("wattio-test-machine.lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let online = Topology::read(&Root::default()).unwrap().online;
        if needs_root && !rustix::process::geteuid().is_root() {
            return skip("needs root");
        }
        if online.len() < 2 {
            return skip("needs two processors that are on");
        }
        Some(Self { root: Root::default(), online, _lock: lock })
    }

    fn machine(&self) -> Box<dyn Machine> {
        Box::new(LinuxMachine::new(self.root.clone(), &[]).unwrap())
    }

    /// One group of all cores that are on.
    fn groups(&self, more: &str) -> Vec<Group> {
        let group = format!("[[group]]\nname = 'all'\ncores = '{}'\n{more}", self.online);
        groups_of(&group, &Topology::read(&self.root).unwrap())
    }

    fn knob(&self, knob: &str, group: &str) -> Result<Box<dyn Knob>, String> {
        let config: KnobConfig = toml::from_str(knob).unwrap();
        let topology = Topology::read(&self.root).unwrap();
        let opened = config.open(&self.root, &topology, &self.groups(group));
        opened.map_err(|error| error.to_string())
    }
}

fn skip<T>(why: &str) -> Option<T> {
    println!("skipped: {why}");
    None
}

/// A control group with a sleeping process in it, in the hierarchy of one controller.
struct Cgroup {
    folder: PathBuf,
    unified: bool,
    sleeper: Child,
    /// Where the controller was switched on for it.
    switched: Option<(PathBuf, String)>,
}

impl Cgroup {
    fn new(here: &Here, controller: &str, name: &str) -> Option<Self> {
        let found = Cgroups::find(&here.root).folder(controller, name)?;
        let folder = PathBuf::from(&found.path);
        let top = folder.parent().unwrap();
        let mut switched = None;
        // Freezing needs no controller.
        if found.unified && controller != "freezer" {
            let has = |file: &str| {
                let text = fs::read_to_string(top.join(file)).unwrap_or_default();
                text.split_whitespace().any(|word| word == controller)
            };
            if !has("cgroup.controllers") {
                return skip(&format!("no controller {controller}"));
            }
            let file = top.join("cgroup.subtree_control");
            if !has("cgroup.subtree_control") {
                fs::write(&file, format!("+{controller}")).unwrap();
                switched = Some((file, format!("-{controller}")));
            }
        }
        fs::create_dir(&folder).unwrap();
        if controller == "cpuset" && !found.unified {
            for path in [folder.clone(), folder.join("below")] {
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join("cpuset.mems"), "0").unwrap();
                fs::write(path.join("cpuset.cpus"), here.online.to_string()).unwrap();
            }
        }
        let sleeper = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        fs::write(folder.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
        Some(Self { folder, unified: found.unified, sleeper, switched })
    }

    /// Where the sleeping process may run.
    fn allowed(&self, here: &Here) -> Cpus {
        processes::allowed(&here.root, self.sleeper.id(), self.sleeper.id()).unwrap()
    }

    fn remove(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
        let _ = fs::remove_dir(self.folder.join("below"));
        let _ = fs::remove_dir(&self.folder);
        if let Some((file, text)) = self.switched.take() {
            let _ = fs::write(file, text);
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

fn name(what: &str) -> String {
    format!("/wattio-test-{what}-{}", std::process::id())
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn cpuset_of_a_process_that_runs() {
    let Some(here) = Here::take(true) else { return };
    let name = name("cpuset");
    let Some(mut cgroup) = Cgroup::new(&here, "cpuset", &name) else { return };
    let group = format!("cgroup = '{name}'");
    let subject = Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob("kind = 'cpu.cpuset'", &group).unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1e9),
    };
    subject.conforms();
    assert_eq!(cgroup.allowed(&here), here.online);
    let store = Store::default();
    let (mut writer, _) = subject.writer(&store);
    let assignments = (subject.knobs)()[0].assignments(&subject.narrow, writer.look()).unwrap();
    assert_eq!(assignments.len(), if cgroup.unified { 1 } else { 2 });
    writer.apply("cpu.cpuset", &assignments);
    assert_eq!(cgroup.allowed(&here), cpus("0"), "the process follows");
    drop(writer);
    assert_eq!(cgroup.allowed(&here), here.online, "dropping the writer restores");
    subject.lets_go(|| cgroup.remove());
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn the_cpuset_of_a_service_that_restarts() {
    let Some(here) = Here::take(true) else { return };
    let name = name("restarts");
    let Some(mut cgroup) = Cgroup::new(&here, "cpuset", &name) else { return };
    let mut knob = here.knob("kind = 'cpu.cpuset'", &format!("cgroup = '{name}'")).unwrap();
    let subject = Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob("kind = 'cpu.cpuset'", &format!("cgroup = '{name}'")).unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1e9),
    };
    let (mut writer, _) = subject.writer(&Store::default());
    let old = knob.assignments(&subject.narrow, writer.look()).unwrap();
    assert_eq!(writer.apply("cpu.cpuset", &old).notes, []);
    cgroup.remove();
    assert!(knob.assignments(&subject.narrow, writer.look()).unwrap().is_empty());
    let Some(cgroup) = Cgroup::new(&here, "cpuset", &name) else { return };
    assert_eq!(writer.inspect(old.len()), [], "nobody changed the old one");
    assert_eq!(writer.apply("cpu.cpuset", &old).writes, 0, "and it is not the new one");
    let new = knob.assignments(&subject.narrow, writer.look()).unwrap();
    assert_eq!(writer.apply("cpu.cpuset", &new).notes, []);
    assert_eq!(cgroup.allowed(&here), cpus("0"));
    drop(writer);
    assert_eq!(cgroup.allowed(&here), here.online);
}

/// Somebody narrowed the parent meanwhile: the service stayed at one core, and the command that was
/// told failed too.
#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn a_cpuset_whose_parent_was_narrowed_gets_what_is_left() {
    let Some(here) = Here::take(true) else { return };
    let name = name("narrowed");
    let Some(cgroup) = Cgroup::new(&here, "cpuset", &name) else { return };
    if cgroup.unified || here.online.len() < 3 {
        return println!("skipped: needs version 1 and three processors");
    }
    let below = cgroup.folder.join("below");
    fs::write(below.join("cgroup.procs"), cgroup.sleeper.id().to_string()).unwrap();
    let machine = || here.machine();
    let open =
        || vec![here.knob("kind = 'cpu.cpuset'", &format!("cgroup = '{name}/below'")).unwrap()];
    let (full, narrow) = (full_speed(&[&here.online.to_string()]), setting(&["0"], 1e9));
    let subject = Subject { machine: &machine, knobs: &open, full, narrow };
    let (mut writer, _) = subject.writer(&Store::default());
    let assignments = open()[0].assignments(&subject.narrow, writer.look()).unwrap();
    assert_eq!(writer.apply("cpu.cpuset", &assignments).notes, []);
    fs::write(cgroup.folder.join("cpuset.cpus"), "0-1").unwrap();
    let restored = writer.restore().unwrap();
    assert_eq!(cgroup.allowed(&here), cpus("0-1"));
    let [left] = &restored.left[..] else { panic!("{restored:?}") };
    assert!(left.message.contains("within the parent's"), "{}", left.message);
    let mended = Command::new("/bin/sh").args(["-ec", &left.restore_command]).status().unwrap();
    assert!(mended.success(), "{}", left.restore_command);
    fs::write(cgroup.folder.join("cpuset.cpus"), here.online.to_string()).unwrap();
    assert_eq!(writer.restore().unwrap().left, []);
    assert_eq!(cgroup.allowed(&here), here.online);
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn affinity_of_a_process_with_threads() {
    let Some(here) = Here::take(false) else { return };
    let mut threads = Threads::start();
    let pid = threads.pid();
    let group = format!("processes = {{ comm = '{}' }}", threads.name());
    let subject = Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob("kind = 'cpu.affinity'", &group).unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1e9),
    };
    subject.conforms();
    let masks = || -> Vec<Cpus> {
        let threads = processes::threads(&here.root, pid).into_iter();
        threads.filter_map(|thread| processes::allowed(&here.root, pid, thread)).collect()
    };
    let before = masks();
    assert!(before.contains(&cpus("1")), "one thread is pinned");
    let store = Store::default();
    let (mut writer, _) = subject.writer(&store);
    let assignments = (subject.knobs)()[0].assignments(&subject.narrow, writer.look()).unwrap();
    assert_eq!(writer.apply("cpu.affinity", &assignments).notes, []);
    threads.bear();
    assert_eq!(masks(), vec![cpus("0"); before.len() + 1], "the new thread inherits");
    std::mem::forget(writer);
    let (_, restored) = subject.writer(&store);
    assert_eq!((restored.left, restored.foreign), (vec![], vec![]));
    assert_eq!(masks()[..before.len()], before);
    assert_eq!(masks()[before.len()..], [before[0].clone()], "and is freed too");
    subject.lets_go(|| drop(threads));
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn affinity_of_one_thread() {
    let Some(here) = Here::take(false) else { return };
    let threads = Threads::start();
    let group = format!("processes = {{ thread = '{}' }}", threads.pinned());
    let subject = Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob("kind = 'cpu.affinity'", &group).unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1e9),
    };
    subject.conforms();
    subject.lets_go(|| drop(threads));
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn a_process_that_was_put_back_grows_with_its_control_group() {
    let Some(here) = Here::take(true) else { return };
    let Some(cgroup) = Cgroup::new(&here, "cpuset", &name("grows")) else { return };
    let set = |cores: &str| {
        let path = cgroup.folder.join("cpuset.cpus").to_str().unwrap().to_owned();
        let below = cgroup.folder.join("below/cpuset.cpus");
        if below.exists() {
            let _ = fs::write(&below, "0");
        }
        here.machine().write(&Address::new("cpuset", &path), cores).unwrap();
    };
    set("0");
    let pid = cgroup.sleeper.id();
    let start = processes::process_stat(&here.root, pid).unwrap().start;
    let address = affinity::address(&ProcessId { pid, thread: None, start });
    here.machine().write(&address, "0").unwrap();
    assert_eq!(here.machine().read(&address).unwrap(), "0");
    set(&here.online.to_string());
    assert_eq!(cgroup.allowed(&here), here.online);
}

/// An interrupt that goes to processor 1 only.
struct Interrupt {
    file: String,
    before: String,
}

impl Interrupt {
    /// One that can be sent there, if there is any.
    fn pin(here: &Here) -> Option<Self> {
        here.root.list("/proc/irq").into_iter().rev().find_map(|irq| {
            let file = format!("/proc/irq/{irq}/smp_affinity_list");
            let before = here.root.read(&file).ok()?;
            here.root.write(&file, "1").ok()?;
            let interrupt = Self { file, before };
            (interrupt.goes_to(here) == "1").then_some(interrupt)
        })
    }

    fn goes_to(&self, here: &Here) -> String {
        here.root.read(&self.file).unwrap()
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, &self.before);
    }
}

/// Brings processor 1 back whatever becomes of the test.
struct BackOn;

impl Drop for BackOn {
    fn drop(&mut self) {
        let _ = fs::write("/sys/devices/system/cpu/cpu1/online", "1");
    }
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn cores_leave_this_machine_and_return() {
    let Some(here) = Here::take(true) else { return };
    if !here.root.exists("/sys/devices/system/cpu/cpu1/online") {
        return println!("skipped: processor 1 cannot leave");
    }
    let pinned = Threads::start();
    let name = name("online");
    let Some(cgroup) = Cgroup::new(&here, "cpuset", &name) else { return };
    let masks = || -> Vec<Cpus> {
        let threads = processes::threads(&here.root, pinned.pid()).into_iter();
        threads.filter_map(|t| processes::allowed(&here.root, pinned.pid(), t)).collect()
    };
    let before = masks();
    let stays = here.online.without(&cpus("1"));
    let interrupt = Interrupt::pin(&here);
    let _back_on = BackOn;
    let subject = Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob("kind = 'cpu.online'\naccept_hotplug = true", "").unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&[&stays.to_string()], 1e9),
    };
    subject.conforms();
    assert_eq!(Topology::read(&here.root).unwrap().online, here.online);
    if let Some(interrupt) = &interrupt {
        assert_eq!(interrupt.goes_to(&here), "1", "{}", interrupt.file);
    }
    assert_eq!(masks(), before, "a thread that was pinned to processor 1 is pinned again");
    assert_eq!(cgroup.allowed(&here), here.online);
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn all_knobs_of_this_machine_together() {
    let Some(here) = Here::take(true) else { return };
    let threads = Threads::start();
    let name = name("all");
    let Some(cgroup) = Cgroup::new(&here, "cpuset", &name) else { return };
    let group = format!("cgroup = '{name}'\nprocesses = {{ comm = '{}' }}", threads.name());
    let _back_on = BackOn;
    let kinds =
        ["cpu.cpuset'", "cpu.affinity'", "cpu.frequency'", "cpu.online'\naccept_hotplug = true"];
    // Where there is no frequency to set, the others are turned all the same.
    let open = |kind: &&str| here.knob(&format!("kind = '{kind}"), &group).ok();
    let subject = Subject {
        machine: &|| here.machine(),
        knobs: &|| kinds.iter().filter_map(open).collect(),
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1.0),
    };
    assert!((subject.knobs)().len() >= 3);
    subject.conforms();
    assert_eq!(Topology::read(&here.root).unwrap().online, here.online);
    assert_eq!(cgroup.allowed(&here), here.online);
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn frequency_of_this_machine() {
    let Some(here) = Here::take(true) else { return };
    let knob = "kind = 'cpu.frequency'";
    if let Err(message) = here.knob(knob, "") {
        return println!("skipped: {}", &message);
    }
    Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob(knob, "").unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1.0),
    }
    .conforms();
}

/// The lowest frequency of the first policy while the test runs.
struct Minimum {
    file: String,
    before: String,
}

impl Minimum {
    fn raise(root: &Root, value: &str) -> Self {
        let file = "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq".to_owned();
        let before = root.read(&file).unwrap();
        root.write(&file, value).unwrap();
        Self { file, before }
    }

    /// Waits until it shows as it is to be: the kernel takes a limit over in a work queue.
    fn shows(&self, value: &str) {
        let late = Instant::now() + Duration::from_secs(10);
        while fs::read_to_string(&self.file).unwrap().trim() != value {
            assert!(Instant::now() < late, "{} does not become {value}", self.file);
            std::thread::yield_now();
        }
    }

    fn lower(&self) {
        fs::write(&self.file, &self.before).unwrap();
        self.shows(&self.before);
    }
}

impl Drop for Minimum {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, &self.before);
    }
}

/// That the kernel lets the cap win, and shows it in place of the minimum, is what the knob goes by.
#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn a_minimum_that_somebody_raises_on_this_machine() {
    let Some(here) = Here::take(true) else { return };
    let policy = Topology::read(&here.root).unwrap().policies.into_iter().next();
    let Some(policy) = policy.filter(|policy| policy.lowest() < policy.highest()) else {
        return println!("skipped: needs cpufreq");
    };
    let khz = |hertz: f64| format!("{:.0}", hertz / 1e3);
    let (lowest, highest) = (khz(policy.lowest().0), khz(policy.highest().0));
    let cap = || here.root.read(&format!("{}/scaling_max_freq", policy.folder)).unwrap();
    let mut knob = here.knob("kind = 'cpu.frequency'", "").unwrap();
    let (mut writer, _) =
        RestorableWriter::open(here.machine(), Box::new(Store::default()), "boot").unwrap();
    let mut turn = |setting| {
        let assignments = knob.assignments(&setting, writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
    };
    let slow = || setting(&[&here.online.to_string()], 1.0);
    turn(slow());
    assert_eq!(cap(), lowest);
    let minimum = Minimum::raise(&here.root, &highest);
    assert_eq!(here.root.read(&minimum.file).unwrap(), lowest, "the cap stands in its place");
    // Nothing tells of it while it is hidden as well as that; it shows once the cap rises.
    turn(full_speed(&[&here.online.to_string()]));
    turn(slow());
    assert_eq!(cap(), highest, "nothing goes below a minimum that was raised");
    minimum.lower();
    turn(slow());
    assert_eq!(cap(), lowest, "the old one again");
    drop(writer);
    assert_eq!(cap(), highest);
    // Lowered by the knob, where it leaves nothing to save.
    let minimum = Minimum::raise(&here.root, &highest);
    minimum.shows(&highest);
    let lowers = format!("kind = 'cpu.frequency'\nminimum = '{} Hz'", policy.hardware_min.0);
    Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob(&lowers, "").unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: slow(),
    }
    .conforms();
}

/// What all processes together ask for, in microseconds.
fn wake_latency_in_force() -> i32 {
    let mut bytes = [0; 4];
    let mut file = fs::File::open(dma_latency::DEVICE).unwrap();
    std::io::Read::read_exact(&mut file, &mut bytes).unwrap();
    i32::from_ne_bytes(bytes)
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn the_wake_latency_of_this_machine() {
    let Some(here) = Here::take(true) else { return };
    let knob = "kind = 'cpu.latency'\nat_full_speed = '20 us'";
    if let Err(message) = here.knob(knob, "") {
        return println!("skipped: {message}");
    }
    let before = wake_latency_in_force();
    let mut knob = here.knob(knob, "").unwrap();
    let all = here.online.to_string();
    let store = Store::default();
    let open = || RestorableWriter::open(here.machine(), Box::new(store.clone()), "boot").unwrap();
    let (mut writer, _) = open();
    for (setting, in_force) in
        [(full_speed(&[&all]), before.min(20)), (setting(&["0"], 1.0), before)]
    {
        let assignments = knob.assignments(&setting, writer.look()).unwrap();
        assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
        assert_eq!(wake_latency_in_force(), in_force);
    }
    let assignments = knob.assignments(&full_speed(&[&all]), writer.look()).unwrap();
    assert_eq!(writer.apply(knob.name(), &assignments).notes, []);
    drop(writer);
    assert_eq!(wake_latency_in_force(), before, "closed, as at the end of the process");
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn idle_states_of_this_machine() {
    let Some(here) = Here::take(true) else { return };
    let knob = "kind = 'cpu.idle'\nsaving = '1 s'\nat_full_speed = '0 s'";
    if let Err(message) = here.knob(knob, "") {
        // The guest's processors have none, so this is no fault of its.
        return println!("left out: {message}");
    }
    Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob(knob, "").unwrap()],
        full: setting(&["0"], 1.0),
        // What is written is written at full speed.
        narrow: full_speed(&[&here.online.to_string()]),
    }
    .conforms();
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn power_caps_of_this_machine() {
    let Some(here) = Here::take(true) else { return };
    let Some(limit) = power_cap::package_limits(&here.root).into_iter().next() else {
        return println!("skipped: needs RAPL, or the guest's module fake_power");
    };
    let half = limit.now(&here.root).unwrap().0 / 2.0;
    let knob = format!("kind = 'power.cap'\nlimit = '{half} W'");
    Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob(&knob, "").unwrap()],
        full: full_speed(&[&here.online.to_string()]),
        narrow: setting(&["0"], 1.0),
    }
    .conforms();
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn background_work_of_this_machine() {
    let Some(here) = Here::take(true) else { return };
    let name = name("background");
    for (controller, key) in [("cpu", "weight"), ("freezer", "freeze")] {
        let Some(mut cgroup) = Cgroup::new(&here, controller, &name) else { continue };
        let knob = format!("kind = 'background'\n{key} = ['{name}']");
        let subject = Subject {
            machine: &|| here.machine(),
            knobs: &|| vec![here.knob(&knob, "").unwrap()],
            full: full_speed(&[]),
            narrow: idle(),
        };
        subject.conforms();
        subject.lets_go(|| {
            // A frozen process does not die.
            let thaw =
                if cgroup.unified { ("cgroup.freeze", "0") } else { ("freezer.state", "THAWED") };
            let _ = fs::write(cgroup.folder.join(thaw.0), thaw.1);
            cgroup.remove();
        });
    }
}

#[test]
#[ignore = "turns this machine's knobs: make test-system"]
fn a_disk_of_scsi_debug() {
    let Some(here) = Here::take(true) else { return };
    let model = |disk: &String| here.root.read(&format!("/sys/block/{disk}/device/model"));
    let debug = |disk: &String| model(disk).is_ok_and(|model| model == "scsi_debug");
    let Some(disk) = here.root.list("/sys/block").into_iter().find(debug) else {
        return println!("skipped: needs a disk of the module scsi_debug");
    };
    let knob = format!("kind = 'disk.runtime'\ndevices = ['{disk}']\nafter = '1 s'");
    Subject {
        machine: &|| here.machine(),
        knobs: &|| vec![here.knob(&knob, "").unwrap()],
        full: full_speed(&[]),
        narrow: idle(),
    }
    .conforms();
}
