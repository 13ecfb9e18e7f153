//! How much memory there is to be had: the machine's, and what the job's control group has left. Pages of
//! files count as used there, and are given up before a process is killed.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// What `memory.stat` counts of memory that the kernel gives up.
const GIVEN_UP: [&str; 3] = ["active_file", "inactive_file", "slab_reclaimable"];

/// Bytes that can be had without others going without; `None` where the kernel does not tell.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    available_below(Path::new("/"))
}

/// Whether so much memory for dumps can be had. The kernel would give what there is before it says no, and
/// others would go without.
///
/// # Errors
///
/// `Host` where there is less, as far as the kernel tells.
pub fn check(bytes: u64) -> Result<()> {
    match available_bytes() {
        Some(free) if bytes > free => Err(Error::Host(format!(
            "{bytes} B of shared memory for dumps are more than the {free} B that are free; make the \
             buffer smaller"
        ))),
        _ => Ok(()),
    }
}

fn available_below(root: &Path) -> Option<u64> {
    let machine = std::fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    let groups = groups(root).into_iter().filter_map(|folder| left(&folder));
    groups.chain(machine).min()
}

/// The folders of the process's control group that limit memory, with those above it.
fn groups(root: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounted = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let below = match (number, controllers) {
            ("0", "") => "sys/fs/cgroup",
            (_, names) if names.split(',').any(|name| name == "memory") => "sys/fs/cgroup/memory",
            _ => return None,
        };
        Some((root.join(below), path.trim_start_matches('/').to_owned()))
    };
    let mut found = Vec::new();
    for (top, path) in text.lines().filter_map(mounted) {
        let own = top.join(path);
        let above = own.ancestors().take_while(|folder| folder.starts_with(&top));
        found.extend(above.map(Path::to_owned));
    }
    found
}

/// What a control group has left below its limit; `None` where it has none.
fn left(folder: &Path) -> Option<u64> {
    let number =
        |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Of the first version, lines that count the groups below, too, have a name of their own.
    let (limit, used, prefix) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")?, ""),
        None => (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")?, "total_"),
    };
    let counts = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let given_up = counts.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        let name = name.strip_prefix(prefix)?;
        GIVEN_UP.contains(&name).then(|| bytes.trim().parse::<u64>().ok())?
    });
    Some(limit.saturating_add(given_up.sum()).saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_tightest_of_machine_and_groups_counts() {
        let root = tree(&[
            ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   1000 kB\n"),
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/memory.max", "500000\n"),
            ("sys/fs/cgroup/job/memory.current", "100000\n"),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(400_000));
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let root = tree(&[
            ("proc/self/cgroup", "5:cpu:/\n3:memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "70\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "90\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(0));
    }

    #[test]
    fn pages_of_files_are_to_be_had_and_a_group_above_may_leave_less() {
        let root = tree(&[
            ("proc/meminfo", "MemAvailable: 100 kB\n"),
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/memory.max", "50000\n"),
            ("sys/fs/cgroup/job/memory.current", "49000\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 7\nactive_file 2000\nslab_reclaimable 30\n"),
            ("sys/fs/cgroup/job/step/memory.max", "60000\n"),
            ("sys/fs/cgroup/job/step/memory.current", "60000\n"),
            ("sys/fs/cgroup/job/step/memory.stat", "file 9\ninactive_file 4000\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(3030));
        let root = tree(&[
            ("proc/self/cgroup", "3:memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "90\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "90\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "active_file 1\ntotal_active_file 70\n"),
        ]);
        assert_eq!(available_below(root.path()), Some(70));
    }

    #[test]
    fn nothing_is_known_where_nothing_is_told() {
        assert_eq!(available_below(Path::new("/nonexistent")), None);
    }
}
