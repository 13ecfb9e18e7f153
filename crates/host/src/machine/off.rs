//! Processors that are off, and so keep a mask or a set from being put back.

use super::file::online;
use crate::Root;
use crate::topology::CPU_FOLDER;
use wattio_governor::Cpus;

/// Those of some processors that are there and off.
pub(super) fn among(root: &Root, cpus: &Cpus) -> Cpus {
    let list = |name: &str| root.read(&format!("{CPU_FOLDER}/{name}")).ok()?.parse::<Cpus>().ok();
    let off = list("present").zip(list("online")).map(|(present, online)| present.without(&online));
    off.map(|off| off.and(cpus)).unwrap_or_default()
}

/// That they are off, in words.
pub(super) fn told(off: &Cpus) -> String {
    match off.len() {
        1 => format!("processor {off} is off, and the old value has it: bring it on first"),
        _ => format!("processors {off} are off, and the old value has them: bring them on first"),
    }
}

/// A command behind those that bring the processors on.
pub(super) fn on_first(off: &Cpus, command: String) -> String {
    let on = off.iter().map(|cpu| format!("echo 1 > {} && ", online(cpu)));
    // What consists of several commands is done as a whole.
    match on.collect::<String>() {
        on if on.is_empty() => command,
        on if command.contains("; ") => format!("{on}{{ {command}; }}"),
        on => on + &command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LinuxMachine;
    use std::fs;
    use wattio_governor::{Address, MachineView};

    /// A mask of a processor that somebody had taken off "was written and was not found before": the
    /// message named no processor, and its command did nothing.
    #[test]
    fn a_mask_or_a_set_with_a_processor_that_is_off_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path(CPU_FOLDER)).unwrap();
        for (name, list) in [("present", "0-3\n"), ("online", "0-1\n")] {
            fs::write(root.path(CPU_FOLDER).join(name), list).unwrap();
        }
        let machine = LinuxMachine::new(root, &[]).unwrap();
        let mask = Address::new("affinity", "12@5");
        let set = Address::new("cpuset", "/sys/fs/cgroup/a/cpuset.cpus");
        for address in [&mask, &set] {
            assert_eq!(machine.obstacle(address, "0-1"), None, "{address}");
            let why = machine.obstacle(address, "0-2").unwrap();
            assert!(why.starts_with("processor 2 is off"), "{why}");
            let command = machine.restore_command(address, "0-2");
            let on = "echo 1 > /sys/devices/system/cpu/cpu2/online && ";
            assert!(command.starts_with(on), "{command}");
        }
        let why = machine.obstacle(&mask, "0;14@6=2-3").unwrap();
        assert!(why.starts_with("processors 2-3 are off"), "{why}");
        let command = machine.restore_command(&mask, "0;14@6=3");
        assert!(command.ends_with(" && { taskset -apc 0 12; taskset -pc 3 14; }"), "{command}");
    }
}
