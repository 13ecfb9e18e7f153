//! Settings that the kernel changes when a processor goes offline, and does not change back when it
//! returns.
//!
//! - A thread that may run on no other processor is then allowed to run everywhere, and stays so.
//! - An interrupt that goes to no other processor is moved, and stays there (`migrate_one_irq` in
//!   `kernel/irq/cpuhotplug.c`; interrupts that drivers spread over processors return by
//!   themselves).
//! - The cpufreq governor `userspace` mistakes the frequency that the processor comes back with for
//!   the one that was set.
//! - A version 1 control group loses the processor from its set.

use crate::Root;
use crate::machine::cgroups::{Cgroups, below};
use crate::machine::{affinity, cpuset};
use crate::processes::{self, ProcessId};
use crate::topology::CPU_FOLDER;
use std::fs::File;
use wattio_governor::{Address, Cpus};

/// The places that change when `cpu` goes offline, in the order of saving; the last is restored
/// first.
pub(super) fn by_leaving(root: &Root, cpu: u32, online: &Cpus) -> Vec<Address> {
    // What may run everywhere still may.
    let named = |cpus: &Cpus| cpus.contains(cpu) && !online.without(cpus).is_empty();
    let mut endangered = pinned(root, named);
    endangered.extend(interrupts(root, named));
    endangered.extend(told_frequency(root, cpu));
    let sets = sets(root).into_iter().rev().filter(|(_, cpus)| cpus.contains(cpu));
    endangered.extend(sets.filter_map(|(folder, _)| cpuset::address(root, &folder)));
    endangered
}

/// The processes with a thread whose processors are `named`.
fn pinned(root: &Root, named: impl Fn(&Cpus) -> bool) -> Vec<Address> {
    let cgroups = Cgroups::find(root);
    let process = |pid| {
        let mut group = None;
        let pinned = processes::threads(root, pid)
            .into_iter()
            .filter_map(|thread| processes::allowed(root, pid, thread))
            .filter(&named)
            // What comes from its control group returns with that.
            .any(|mask| {
                *group.get_or_insert_with(|| cgroups.processors_of(root, pid)) != Some(mask)
            });
        let stat = processes::process_stat(root, pid).filter(|_| pinned)?;
        let id = ProcessId { pid, thread: None, start: stat.start };
        (!stat.fixed && !stat.ended).then(|| affinity::address(&id))
    };
    processes::pids(root).into_iter().filter_map(process).collect()
}

/// The processors of each interrupt that could not be put back to them: where its file is not
/// writable (`ProtectKernelTunables=` of a unit makes it so), one of them stays.
pub(super) fn fixed_interrupts(root: &Root) -> Vec<Cpus> {
    let mut found = Vec::new();
    for irq in root.list("/proc/irq") {
        let path = format!("/proc/irq/{irq}/smp_affinity_list");
        let Ok(text) = root.read(&path) else { continue };
        if is_read_only(root, &path) {
            found.extend(text.parse::<Cpus>().ok().filter(|cpus| !cpus.is_empty()));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Whether a file cannot be written. Opening changes nothing.
fn is_read_only(root: &Root, path: &str) -> bool {
    File::options().write(true).open(root.path(path)).is_err()
}

/// Each processor of the `sets` that could not be put back: a version 1 set loses any that leaves, so
/// where its file is not writable (`ReadOnlyPaths=` of a unit makes it so) all of them stay.
pub(super) fn fixed_sets(root: &Root, sets: &[(String, Cpus)]) -> Vec<Cpus> {
    let fixed =
        |(folder, _): &&(String, Cpus)| is_read_only(root, &format!("{folder}/{}", cpuset::FILE));
    let fixed = sets.iter().filter(fixed).fold(Cpus::default(), |all, (_, cpus)| all.or(cpus));
    fixed.iter().map(|cpu| std::iter::once(cpu).collect()).collect()
}

/// The interrupts whose processors are `named`.
fn interrupts(root: &Root, named: impl Fn(&Cpus) -> bool) -> Vec<Address> {
    let path = |irq| format!("/proc/irq/{irq}/smp_affinity_list");
    let fits = |path: &String| {
        let cpus = root.read(path).ok().and_then(|text| text.parse().ok());
        cpus.is_some_and(|cpus| named(&cpus))
    };
    let paths = root.list("/proc/irq").into_iter().map(path).filter(fits);
    paths.map(|path| Address::new("file", &path)).collect()
}

/// The frequency given to the processor's governor, if any.
fn told_frequency(root: &Root, cpu: u32) -> Option<Address> {
    let folder = format!("{CPU_FOLDER}/cpu{cpu}/cpufreq");
    let governor = root.read(&format!("{folder}/scaling_governor")).ok()?;
    // The policy's own folder has the name that other knobs use.
    let policy = std::fs::read_link(root.path(&folder)).ok()?;
    let name = policy.file_name()?.to_str()?;
    let path = format!("{CPU_FOLDER}/cpufreq/{name}/scaling_setspeed");
    (governor == "userspace").then(|| Address::new("file", &path))
}

/// The folders of version 1 control groups that have processors of their own, parents before
/// children.
pub(super) fn sets(root: &Root) -> Vec<(String, Cpus)> {
    let top = Cgroups::find(root).folder("cpuset", "/").filter(|top| !top.unified);
    // The top one follows what is online by itself.
    let folders = top.map_or_else(Vec::new, |top| below(root, &top.path)).into_iter().skip(1);
    let set = |folder: String| {
        let cpus: Cpus = root.read(&format!("{folder}/{}", cpuset::FILE)).ok()?.parse().ok()?;
        (!cpus.is_empty()).then_some((folder, cpus))
    };
    folders.filter_map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_interrupt_that_cannot_be_put_back_keeps_a_processor() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path("/proc/irq/7")).unwrap();
        fs::write(root.path("/proc/irq/7/smp_affinity_list"), "1\n").unwrap();
        assert_eq!(fixed_interrupts(&root), [], "it can be written");
        // A file of the kernel that not even root may write to.
        let fixed = root.path("/proc/irq/8/smp_affinity_list");
        fs::create_dir_all(root.path("/proc/irq/8")).unwrap();
        std::os::unix::fs::symlink("/sys/devices/system/cpu/online", fixed).unwrap();
        let online = Root::default().read("/sys/devices/system/cpu/online").unwrap();
        assert_eq!(fixed_interrupts(&root), [online.parse::<Cpus>().unwrap()]);
    }
}
