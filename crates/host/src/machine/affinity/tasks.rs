//! Masks in the kernel: which threads there are, and where each may run.

use crate::machine::cgroups::Cgroups;
use crate::machine::cpuset::possible;
use crate::machine::error::AccessError;
use crate::topology::CPU_FOLDER;
use crate::{Root, processes};
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use wattio_governor::Cpus;

/// Threads with masks: those of this machine, or of a test.
pub(super) trait Tasks {
    /// The threads of a process, the main one first.
    fn threads(&self, pid: u32) -> Vec<u32>;

    /// When a thread started, in ticks since boot; `None` when it ended.
    fn start_of(&self, pid: u32, thread: u32) -> Option<u64>;

    /// The mask of one thread, without processors that are off; `None` when it ended.
    fn mask_of(&self, thread: u32) -> Result<Option<CpuSet>, AccessError>;

    /// Sets the mask of one thread; `false` when it ended.
    fn confine(&self, thread: u32, mask: &Cpus) -> Result<bool, AccessError>;

    /// Where the process's control group lets it run now, if known.
    fn everything(&self, pid: u32) -> Option<Cpus>;

    /// What "all processors" is written as, where the group's own ones may be written as that.
    fn freely(&self) -> Option<Cpus>;
}

/// The threads of this machine.
pub(super) struct LinuxTasks<'a>(pub &'a Root);

impl Tasks for LinuxTasks<'_> {
    fn threads(&self, pid: u32) -> Vec<u32> {
        processes::threads(self.0, pid)
    }

    fn start_of(&self, pid: u32, thread: u32) -> Option<u64> {
        let stat = processes::thread_stat(self.0, pid, thread)?;
        (!stat.ended).then_some(stat.start)
    }

    fn mask_of(&self, thread: u32) -> Result<Option<CpuSet>, AccessError> {
        let Some(pid) = to_pid(thread) else { return Ok(None) };
        match sched_getaffinity(Some(pid)) {
            Ok(set) => Ok(Some(set)),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(AccessError::of_system(&error.into(), &format!("mask of {thread}"))),
        }
    }

    fn confine(&self, thread: u32, mask: &Cpus) -> Result<bool, AccessError> {
        let Some(pid) = to_pid(thread) else { return Ok(false) };
        let mut set = CpuSet::new();
        for cpu in mask.iter() {
            let cpu = usize::try_from(cpu).unwrap_or(usize::MAX);
            if cpu >= CpuSet::MAX_CPU {
                return Err(AccessError::refused(format!(
                    "masks end at processor {}",
                    CpuSet::MAX_CPU - 1
                )));
            }
            set.set(cpu);
        }
        match sched_setaffinity(Some(pid), &set) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(Errno::INVAL) => Err(AccessError::refused(format!(
                "thread {thread} cannot run on {mask}: none of them is online and in its cpuset, \
                 or the kernel keeps the thread where it is"
            ))),
            Err(error) => Err(AccessError::of_system(&error.into(), &format!("thread {thread}"))),
        }
    }

    fn everything(&self, pid: u32) -> Option<Cpus> {
        let online = || self.0.read(&format!("{CPU_FOLDER}/online")).ok()?.parse().ok();
        Cgroups::find(self.0).processors_of(self.0, pid).or_else(online)
    }

    /// Not while a processor is off: its return would look like growth of the group.
    fn freely(&self) -> Option<Cpus> {
        let list = |name: &str| self.0.read(&format!("{CPU_FOLDER}/{name}")).ok();
        if list("online") == list("present") { possible(self.0) } else { None }
    }
}

/// The processors in a mask.
pub(super) fn listed(mask: &CpuSet) -> Cpus {
    let numbers = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu));
    numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

fn to_pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}
