//! A folder that is shaped like a host.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use wattio_governor::{Knob, Machine};
use wattio_host::groups::{Group, GroupConfig, resolve};
use wattio_host::knobs::KnobConfig;
use wattio_host::{LinuxMachine, Root, Topology};

/// Eight processors: N and N + 4 share a core, a frequency and a queue of the drive; nodes of two
/// cores each.
pub struct Tree {
    folder: tempfile::TempDir,
}

pub const CPU: &str = "/sys/devices/system/cpu";

impl Tree {
    pub fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        for list in ["present", "online", "possible"] {
            tree.write(&format!("{CPU}/{list}"), "0-7");
        }
        for cpu in 0..8 {
            let siblings = format!("{},{}", cpu % 4, cpu % 4 + 4);
            tree.write(&format!("{CPU}/cpu{cpu}/topology/core_cpus_list"), &siblings);
            tree.write(&format!("{CPU}/cpu{cpu}/online"), "1");
            let policy = format!("../cpufreq/policy{}", cpu % 4);
            symlink(policy, tree.path(&format!("{CPU}/cpu{cpu}/cpufreq"))).unwrap();
            let node = format!("/sys/devices/system/node/node{}/cpulist", cpu % 4 / 2);
            tree.write(&node, ["0-1,4-5", "2-3,6-7"][cpu % 4 / 2]);
        }
        for policy in 0..4 {
            let file = |name: &str| format!("{CPU}/cpufreq/policy{policy}/{name}");
            tree.write(&file("related_cpus"), &format!("{policy} {}", policy + 4));
            tree.write(&file("affected_cpus"), &format!("{policy} {}", policy + 4));
            tree.write(&file("cpuinfo_min_freq"), "800000");
            tree.write(&file("cpuinfo_max_freq"), "3000000");
            tree.write(&file("scaling_min_freq"), "1000000");
            tree.write(&file("scaling_max_freq"), "2600000");
            tree.write(&file("scaling_available_frequencies"), "2600000 1800000 1000000 800000");
            tree.write(&file("scaling_governor"), "schedutil");
            tree.write(&file("scaling_driver"), "acpi-cpufreq");
            tree.write(&file("scaling_setspeed"), "<unsupported>");
        }
        tree.write("/proc/irq/40/smp_affinity_list", "0-7");
        tree.write("/proc/irq/41/smp_affinity_list", "3");
        for queue in 0..4 {
            let cpus = format!("{queue}, {}", queue + 4);
            tree.write(&format!("/sys/block/nvme0n1/mq/{queue}/cpu_list"), &cpus);
        }
        tree
    }

    /// Control groups of version 2: `/s.slice/etcd.service` with one below it.
    pub fn unified(self) -> Self {
        self.write("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
        self.write("/sys/fs/cgroup/s.slice/cpuset.cpus.effective", "0-7");
        for group in ["etcd.service", "etcd.service/below"] {
            let file = |name: &str| format!("/sys/fs/cgroup/s.slice/{group}/{name}");
            self.write(&file("cpuset.cpus"), "");
            self.write(&file("cpuset.cpus.effective"), "0-7");
            self.write(&file("cpu.weight"), "100");
            self.write(&file("cgroup.freeze"), "0");
        }
        self
    }

    /// Control groups of version 1: `/s.slice/etcd.service` with one below it.
    pub fn split(self) -> Self {
        let mounts = ["cpuset", "cpu", "freezer"]
            .map(|name| format!("cgroup /sys/fs/cgroup/{name} cgroup rw,{name} 0 0"));
        self.write("/proc/mounts", &mounts.join("\n"));
        for (group, cores) in
            [("", "0-7"), ("/etcd.service", "0-7"), ("/etcd.service/below", "2-3,6-7")]
        {
            let file = |at: &str, name: &str| format!("/sys/fs/cgroup/{at}/s.slice{group}/{name}");
            self.write(&file("cpuset", "cpuset.cpus"), cores);
            self.write(&file("cpuset", "cpuset.effective_cpus"), cores);
            self.write(&file("cpu", "cpu.shares"), "1024");
            self.write(&file("freezer", "freezer.state"), "THAWED");
        }
        self.write("/sys/fs/cgroup/cpuset/cpuset.cpus", "0-7");
        self
    }

    /// A process with threads, each with the processors that it may run on.
    pub fn process(self, pid: u32, comm: &str, threads: &[(u32, &str)]) -> Self {
        self.starts(pid, comm, threads);
        self
    }

    /// The same later.
    pub fn starts(&self, pid: u32, comm: &str, threads: &[(u32, &str)]) {
        for (thread, mask) in threads {
            let stat = format!("{thread} ({comm}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0");
            self.write(&format!("/proc/{pid}/stat"), &stat);
            self.write(&format!("/proc/{pid}/comm"), comm);
            self.write(&format!("/proc/{pid}/task/{thread}/stat"), &stat);
            let status = format!("Name:\t{comm}\nCpus_allowed_list:\t{mask}\n");
            self.write(&format!("/proc/{pid}/task/{thread}/status"), &status);
        }
    }

    pub fn ends(&self, pid: u32) {
        fs::remove_dir_all(self.path(&format!("/proc/{pid}"))).unwrap();
    }

    pub fn root(&self) -> Root {
        Root::new(self.folder.path())
    }

    pub fn path(&self, path: &str) -> std::path::PathBuf {
        self.root().path(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        self.root().read(path).unwrap()
    }

    pub fn machine(&self) -> Box<dyn Machine> {
        Box::new(LinuxMachine::new(self.root(), &[]).unwrap())
    }

    pub fn topology(&self) -> Topology {
        Topology::read(&self.root()).unwrap()
    }

    pub fn groups(&self, groups: &str) -> Vec<Group> {
        groups_of(groups, &self.topology())
    }

    pub fn knob(&self, knob: &str, groups: &str) -> Result<Box<dyn Knob>, String> {
        let config: KnobConfig = toml::from_str(knob).map_err(|error| error.to_string())?;
        let opened = config.open(&self.root(), &self.topology(), &self.groups(groups));
        opened.map_err(|error| error.to_string())
    }
}

/// Groups from a list of TOML tables.
pub fn groups_of(groups: &str, topology: &Topology) -> Vec<Group> {
    #[derive(serde::Deserialize)]
    struct File {
        #[serde(default)]
        group: Vec<GroupConfig>,
    }
    let file: File = toml::from_str(groups).unwrap();
    resolve(&file.group, topology).unwrap()
}
