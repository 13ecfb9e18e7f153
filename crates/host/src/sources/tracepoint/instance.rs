//! A separate instance in the kernel's tracing file system, `instances/wattio-<pid>-<n>` for the
//! nth of this process, so that the host's own tracing is not touched. It is removed when this is
//! dropped; after `kill -9` it stays, still recording into its buffer, until a restore or the next
//! start removes it.

use crate::Root;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where tracefs is mounted, on new and on old systems.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const PREFIX: &str = "wattio-";
/// How many instances this process has numbered.
static NUMBERED: AtomicU32 = AtomicU32::new(0);

/// An instance that records.
#[derive(Debug)]
pub(super) struct Instance {
    root: Root,
    folder: String,
    pipe: Option<File>,
}

impl Instance {
    /// Records these events where the condition holds.
    ///
    /// # Errors
    /// Says what the kernel lacks or does not allow.
    pub fn start(
        root: &Root,
        events: &[&str],
        condition: &str,
        buffer_kib_per_core: u64,
    ) -> Result<Self, String> {
        let mount = MOUNTS.into_iter().find(|mount| root.exists(&format!("{mount}/instances")));
        let Some(mount) = mount else {
            return Err(format!(
                "tracefs is not mounted or may not be read: run as root, and `mount -t tracefs \
                 nodev {}`",
                MOUNTS[0]
            ));
        };
        remove_stale(root);
        let number = NUMBERED.fetch_add(1, Ordering::SeqCst);
        let folder = format!("{mount}/instances/{PREFIX}{}-{number}", std::process::id());
        fs::create_dir(root.path(&folder))
            .map_err(|error| format!("cannot create {folder}: {error}"))?;
        // From here on, dropping it removes the instance.
        let mut instance = Self { root: root.clone(), folder, pipe: None };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", &buffer_kib_per_core.to_string())?;
        for event in events {
            instance.set(&format!("events/{event}/filter"), condition)?;
        }
        let pipe = root.path(&instance.control("trace_pipe"));
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let pipe = OpenOptions::new().read(true).custom_flags(flags).open(pipe);
        instance.pipe = Some(pipe.map_err(|error| format!("trace_pipe: {error}"))?);
        for event in events {
            instance.set(&format!("events/{event}/enable"), "1")?;
        }
        instance.set("tracing_on", "1")?;
        Ok(instance)
    }

    fn control(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn set(&self, control: &str, value: &str) -> Result<(), String> {
        let path = self.control(control);
        let set = self.root.write(&path, value);
        set.map_err(|error| format!("{path} does not take {value:?}: {error}"))
    }

    /// Whether it still records; others may have stopped it.
    pub fn is_on(&self) -> bool {
        self.root.read(&self.control("tracing_on")).is_ok_and(|value| value == "1")
    }

    /// Reads without blocking; zero if there is nothing.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let Some(pipe) = &mut self.pipe else { return Ok(0) };
        loop {
            match pipe.read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) => return Err(format!("trace_pipe: {error}")),
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An open pipe keeps the instance.
        self.pipe = None;
        remove(&self.root, &self.folder);
    }
}

/// Removes instances whose process is gone, and those left by an earlier process of our number.
pub fn remove_stale(root: &Root) {
    for instances in MOUNTS.map(|mount| format!("{mount}/instances")) {
        for name in root.list(&instances).into_iter().filter(|name| is_stale(root, name)) {
            remove(root, &format!("{instances}/{name}"));
        }
    }
}

/// Whether an instance is nobody's. One without a number was made by `wattio trace record`, or by a
/// `wattiod` that had one instance only.
fn is_stale(root: &Root, name: &str) -> bool {
    let Some(owner) = name.strip_prefix(PREFIX) else { return false };
    let (owner, number) = owner.split_once('-').unwrap_or((owner, ""));
    if owner != std::process::id().to_string() {
        return !root.exists(&format!("/proc/{owner}"));
    }
    // Ours are those that were numbered.
    number.parse().map_or(true, |number: u32| number >= NUMBERED.load(Ordering::SeqCst))
}

/// Removes an instance. Where somebody else has it open it stays; the next start tries again.
fn remove(root: &Root, folder: &str) {
    // An enabled event keeps an instance on some kernels.
    let _ = root.write(&format!("{folder}/tracing_on"), "0");
    let _ = root.write(&format!("{folder}/events/enable"), "0");
    let _ = fs::remove_dir(root.path(folder));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder where instances are made, as a tracefs has it; without the files of an instance.
    fn tracefs(folder: &std::path::Path) -> Root {
        let root = Root::new(folder);
        fs::create_dir_all(root.path("/sys/kernel/tracing/instances")).unwrap();
        root
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_others_are_left() {
        let folder = tempfile::tempdir().unwrap();
        let root = tracefs(folder.path());
        let instances = root.path("/sys/kernel/tracing/instances");
        let own = std::process::id();
        let earlier = [format!("wattio-{own}"), format!("wattio-{own}-{}", u32::MAX)];
        let others = ["wattio-123", "wattio-123-0", "wattio-456", "wattio-456-1", "perf-1"];
        for name in others.into_iter().chain(earlier.iter().map(String::as_str)) {
            fs::create_dir_all(instances.join(name)).unwrap();
        }
        fs::create_dir_all(root.path("/proc/456")).unwrap();
        // A folder is not a tracefs: its files are missing, so the start fails and cleans up.
        let error = Instance::start(&root, &["block/block_rq_issue"], "dev == 1", 64).unwrap_err();
        assert!(error.contains("tracing_on does not take \"0\""), "{error}");
        let left = root.list("/sys/kernel/tracing/instances");
        assert_eq!(left, ["perf-1", "wattio-456", "wattio-456-1"]);
        let error = Instance::start(&Root::new("/nowhere"), &[], "", 64).unwrap_err();
        assert!(error.contains("mount -t tracefs nodev /sys/kernel/tracing"), "{error}");
    }

    /// Two applications may each be told by tracepoints: their instances are two.
    #[test]
    fn a_second_instance_leaves_the_first_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = tracefs(folder.path());
        let names = || root.list("/sys/kernel/tracing/instances");
        let start = || Instance::start(&root, &[], "", 64).unwrap_err();
        let number = NUMBERED.fetch_add(1, Ordering::SeqCst);
        let first = format!("wattio-{}-{number}", std::process::id());
        fs::create_dir_all(root.path(&format!("/sys/kernel/tracing/instances/{first}"))).unwrap();
        assert!(start().contains(&format!("wattio-{}-", std::process::id())));
        assert_eq!(names(), [first]);
    }
}
