//! The places of a Linux host: reading, writing and restoring what knobs change.
//!
//! An [`Address`] says which scheme holds it. Each scheme is a file here:
//!
//! | scheme | place | value |
//! |---|---|---|
//! | `file:/sys/…` | a file that holds one value | its text, see [`file`] |
//! | `cpuset:/sys/fs/cgroup/…/cpuset.cpus@5283` | the processors of the control group whose folder has this inode | a list, see [`cpuset`] |
//! | `cgroup:/sys/fs/cgroup/…/cpu.weight@5283` | a file of the control group whose folder has this inode | its text, see [`cgroup_file`] |
//! | `affinity:1234@5678` | the threads of process 1234 that started at tick 5678 | masks, see [`affinity`] |
//! | `affinity:1234/1240@5680` | one thread of it | a list |
//! | `command:scrub` | a pair of configured commands | `running` or `paused`, see [`command`] |
//! | `dma-latency:/dev/cpu_dma_latency` | what this process asks of the kernel while it runs | microseconds or `released`, see [`dma_latency`] |
//! | `nvme:nvme0` | the power state of an NVMe drive | a number, see [`nvme`] |

pub mod affinity;
pub mod cgroup_file;
pub mod cgroups;
pub mod command;
pub mod cpuset;
pub mod dma_latency;
mod error;
pub mod file;
mod limited;
mod marks;
pub mod nvme;
mod off;
pub(crate) mod program;
mod shell;

pub use affinity::Masks;
pub use cgroups::Cgroups;
pub use command::{CommandConfig, CommandError};
pub use nvme::NvmeTool;

use crate::Root;
use crate::kept_files::KeptFiles;
use crate::topology::CPU_FOLDER;
use error::AccessError;
use program::Budget;
use std::collections::BTreeSet;
use wattio_governor::{Address, Cpus, Machine, MachineError, MachineView, Saved};
use wattio_units::Seconds;

/// The host that the process runs on, or a folder that is shaped like one.
#[derive(Debug)]
pub struct LinuxMachine {
    root: Root,
    /// Those that hold one value.
    files: KeptFiles,
    commands: command::Commands,
    drives: nvme::Drives,
    latency: dma_latency::Held,
    budget: Budget,
    /// The same for frequencies that settle.
    settling: Budget,
    /// Told of each write before it is made.
    told: Option<fn(&Address, &str)>,
}

impl LinuxMachine {
    /// A machine whose files lie under `root` and that may run `commands`, and no others.
    ///
    /// # Errors
    /// [`CommandError`] when a command cannot be allowed.
    pub fn new(root: Root, commands: &[CommandConfig]) -> Result<Self, CommandError> {
        let commands = command::Commands::new(&root, commands)?;
        let (budget, settling) = (Budget::default(), Budget::default());
        let (files, drives) = (KeptFiles::new(&root), nvme::Drives::default());
        let latency = dma_latency::Held::default();
        Ok(Self { root, files, commands, drives, latency, budget, settling, told: None })
    }

    /// The same machine, which may set the power state of the drives that `tools` name.
    #[must_use]
    pub fn with_drives(mut self, tools: Vec<NvmeTool>) -> Self {
        self.drives = nvme::Drives::new(tools);
        self
    }

    /// The same machine, which tells each write before it makes it: place and value.
    #[must_use]
    pub fn telling(mut self, told: fn(&Address, &str)) -> Self {
        self.told = Some(told);
        self
    }
}

impl LinuxMachine {
    /// Whether a list of processors is another without some that are off: version 1 control groups lose
    /// these, before 6.10 some time after. What cannot be told may be so.
    fn lost_those_off(&self, original: &str, found: &str) -> bool {
        let online = self.root.read(&format!("{CPU_FOLDER}/online"));
        let cpus = |text: &str| text.parse::<Cpus>().ok();
        let (Some(original), Some(found), Some(online)) =
            (cpus(original), cpus(found), online.ok().as_deref().and_then(cpus))
        else {
            return true;
        };
        found.without(&original).is_empty() && !original.without(&found).meets(&online)
    }

    /// The processors in a value that are off: the kernel takes none of them into a mask or a set.
    fn off_in(&self, address: &Address, value: &str) -> Cpus {
        let named = match address.scheme() {
            "affinity" => affinity::processors(value),
            "cpuset" => value.parse().ok(),
            _ => None,
        };
        named.map(|named| off::among(&self.root, &named)).unwrap_or_default()
    }
}

/// Whether writing to a place may take many seconds: a drive answers once it has woken up, and a command
/// takes as long as it likes.
#[must_use]
pub fn is_slow(address: &Address) -> bool {
    match address.scheme() {
        "command" | "nvme" => true,
        "file" => file::is_of_drive(address.rest()),
        _ => false,
    }
}

/// The error for an address of an unknown scheme, from an edited or foreign snapshot.
fn unknown(address: &Address) -> AccessError {
    AccessError::refused(format!(
        "scheme {:?} is not one of \"file\", \"cpuset\", \"cgroup\", \"affinity\", \"command\", \
         \"dma-latency\", \"nvme\"",
        address.scheme()
    ))
}

impl MachineView for LinuxMachine {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        let rest = address.rest();
        let answer = match address.scheme() {
            "file" => file::read(&mut self.files, rest),
            "cpuset" => cpuset::read(&self.root, &mut self.files, rest),
            "cgroup" => cgroup_file::read(&self.root, &mut self.files, rest),
            "affinity" => affinity::read(&self.root, rest),
            "command" => self.commands.read(rest, &self.budget),
            "dma-latency" => self.latency.read(&self.root, rest),
            "nvme" => self.drives.read(&self.root, rest, &self.budget),
            _ => Err(unknown(address)),
        };
        answer.map_err(|problem| problem.at(address))
    }

    fn is_gone(&mut self, address: &Address) -> bool {
        let rest = address.rest();
        match address.scheme() {
            "file" => file::is_gone(&self.root, rest),
            "cpuset" => cpuset::is_gone(&self.root, rest),
            "cgroup" => cgroup_file::is_gone(&self.root, rest),
            "affinity" => affinity::is_gone(&self.root, rest),
            // Few, and expensive to query.
            _ => false,
        }
    }

    fn same(&self, address: &Address, one: &str, other: &str) -> bool {
        match address.scheme() {
            "file" => file::same(address.rest(), one, other),
            "cpuset" => cpuset::same(&self.root, address.rest(), one, other),
            "cgroup" => file::same(cgroup_file::split(address.rest()).0, one, other),
            "affinity" => affinity::same(one, other),
            "command" => self.commands.same(address.rest(), one, other),
            _ => one == other,
        }
    }

    fn took(&self, address: &Address, value: &str, found: &str) -> bool {
        self.same(address, value, found)
            || (address.scheme() == "file" && file::rounded(address.rest(), value, found))
    }

    fn is_limited(&self, address: &Address, value: &str, found: &str) -> bool {
        address.scheme() == "file" && limited::is_limited(&self.root, address.rest(), value, found)
    }

    fn unlimited(&self, address: &Address, found: String) -> String {
        match address.scheme() {
            "file" => limited::unlimited(&self.root, address.rest(), found),
            _ => found,
        }
    }

    fn is_side_effect(&self, address: &Address, original: &str, found: &str) -> bool {
        match address.scheme() {
            "cpuset" => self.lost_those_off(original, found),
            "file" if file::is_list(address.rest()) => self.lost_those_off(original, found),
            // A thread is moved when it wakes, and a frequency settles: they change when they like.
            _ => true,
        }
    }

    fn marks(&self, address: &Address, original: &str, value: &str) -> BTreeSet<String> {
        match address.scheme() {
            "cpuset" => BTreeSet::from([value.to_owned()]),
            "affinity" => affinity::marks(original, value),
            "file" | "cgroup" => BTreeSet::from([marks::mark(value)]),
            _ => BTreeSet::new(),
        }
    }

    fn may_alter(&self, address: &Address) -> bool {
        address.scheme() == "file" && file::is_rounded(address.rest())
    }

    fn has_parts(&self, address: &Address) -> bool {
        address.scheme() == "affinity"
    }

    fn put_back(
        &mut self,
        address: &Address,
        original: &str,
        marks: &BTreeSet<String>,
        found: &str,
    ) -> String {
        match address.scheme() {
            "cpuset" => cpuset::put_back(original, marks, found),
            "affinity" => affinity::put_back(&self.root, address.rest(), original, marks, found),
            "file" => {
                // What was written may be hidden by a limit.
                let hidden = marks::highest(marks).is_some_and(|highest| {
                    limited::is_limited(&self.root, address.rest(), &highest, found)
                });
                let back = || marks::put_back(address.rest(), original, marks, found);
                if hidden { original.to_owned() } else { back() }
            }
            "cgroup" => {
                marks::put_back(cgroup_file::split(address.rest()).0, original, marks, found)
            }
            _ => original.to_owned(),
        }
    }

    fn heirs(&mut self, of: &[Saved]) -> Vec<Saved> {
        affinity::heirs(&self.root, of)
    }

    fn is_slow(&self, address: &Address) -> bool {
        is_slow(address)
    }

    fn outlives_boot(&self, address: &Address) -> bool {
        // The kernel's state is gone after a reboot; what a command did may be stored anywhere.
        address.scheme() == "command"
    }

    fn obstacle(&self, address: &Address, value: &str) -> Option<String> {
        let off = self.off_in(address, value);
        (!off.is_empty()).then(|| off::told(&off))
    }

    fn restore_command(&self, address: &Address, value: &str) -> String {
        let command = self.command_for(address, value);
        off::on_first(&self.off_in(address, value), command)
    }
}

impl LinuxMachine {
    fn command_for(&self, address: &Address, value: &str) -> String {
        match address.scheme() {
            "file" => file::restore_command(&self.root, address.rest(), value),
            "cpuset" => cpuset::restore_command(&self.root, address.rest(), value),
            "cgroup" => {
                file::restore_command(&self.root, cgroup_file::split(address.rest()).0, value)
            }
            "affinity" => affinity::restore_command(address.rest(), value),
            "command" => self.commands.restore_command(address.rest(), value),
            "dma-latency" => dma_latency::restore_command(),
            "nvme" => self.drives.restore_command(address.rest(), value),
            _ => format!("# put {value:?} back at {address}"),
        }
    }
}

impl Machine for LinuxMachine {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        if let Some(told) = self.told {
            told(address, value);
        }
        let rest = address.rest();
        let answer = match address.scheme() {
            "file" => file::write(&self.root, rest, value),
            "cpuset" => cpuset::write(&self.root, rest, value),
            "cgroup" => cgroup_file::write(&self.root, rest, value),
            "affinity" => affinity::write(&self.root, rest, value),
            "command" => self.commands.write(rest, value, &self.budget),
            "dma-latency" => self.latency.write(&self.root, rest, value),
            "nvme" => self.drives.write(&self.root, rest, value, &self.budget),
            _ => Err(unknown(address)),
        };
        answer.map_err(|problem| problem.at(address))
    }

    fn settle(&mut self, address: &Address, value: &str) {
        if address.scheme() == "file" {
            let sleep = std::thread::sleep;
            file::settle(&self.root, address.rest(), value, &self.settling, sleep);
        }
    }

    fn share_time(&mut self, shared: bool) {
        let patience = if shared { file::SETTLES_WITHIN } else { file::RESTORED_WITHIN };
        self.settling.set(Some(patience));
        let longest = self.commands.timeout().0.max(self.drives.timeout().0);
        self.budget.set(shared.then_some(Seconds(longest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_governor::{Assignment, FileStore, RestorableWriter};

    #[test]
    fn an_unknown_scheme_is_refused_with_those_there_are() {
        let mut machine = LinuxMachine::new(Root::default(), &[]).unwrap();
        let message = machine.read(&Address::new("ftp", "x")).unwrap_err().to_string();
        assert!(message.contains("\"cpuset\""), "{message}");
    }

    /// What an operator sets while a processor is off was put back when it returned.
    #[test]
    fn what_processors_that_are_off_explain_is_no_bodys_doing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let machine = LinuxMachine::new(root.clone(), &[]).unwrap();
        let explains = |place: &str, found: &str| {
            let (scheme, rest) = place.split_once(':').unwrap();
            machine.is_side_effect(&Address::new(scheme, rest), "0-3", found)
        };
        let (set, irq) =
            ("cpuset:/sys/fs/cgroup/a/cpuset.cpus", "file:/proc/irq/7/smp_affinity_list");
        assert!(explains(set, "0"), "nothing tells what is online");
        std::fs::create_dir_all(root.path(CPU_FOLDER)).unwrap();
        std::fs::write(root.path(&format!("{CPU_FOLDER}/online")), "0-1,4-7\n").unwrap();
        for place in [set, irq] {
            for found in ["0-1", "0-1,3", "0-3"] {
                assert!(explains(place, found), "{place} {found}");
            }
            for found in ["0", "0-1,4", "4-7", ""] {
                assert!(!explains(place, found), "{place} {found}");
            }
        }
        for place in
            ["affinity:7@7", "file:/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"]
        {
            assert!(explains(place, "0"), "{place}");
        }
    }

    /// 2401000 lets acpi-cpufreq boost. It was taken for the 2400000 that a knob had written on the
    /// way up, and never came back.
    #[test]
    fn a_frequency_that_allows_boost_is_put_back_to_the_last_digit() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let path = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
        std::fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
        let cap = |text: &str| vec![Assignment::new(Address::new("file", path), text)];
        let back = vec![Assignment::original(Address::new("file", path))];
        for at_full_speed in [true, false] {
            std::fs::write(root.path(path), "2401000").unwrap();
            let machine = Box::new(LinuxMachine::new(root.clone(), &[]).unwrap());
            let store = Box::new(FileStore::new(folder.path().join("snapshot.json")));
            let (mut writer, _) = RestorableWriter::open(machine, store, "boot").unwrap();
            for text in ["1200000", "2400000"] {
                assert_eq!(writer.apply("cpu.frequency", &cap(text)).notes, []);
            }
            if at_full_speed {
                assert_eq!(writer.apply("cpu.frequency", &back).notes, []);
                assert_eq!(root.read(path).unwrap(), "2401000");
            }
            writer.restore().unwrap();
            assert_eq!(root.read(path).unwrap(), "2401000");
        }
    }
}
