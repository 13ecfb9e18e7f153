//! `file:/sys/…`: files that hold one value.
//!
//! What counts as the same value depends on the file:
//!
//! - Lists of processors are compared as sets.
//! - Frequencies (`scaling_*_freq`, `scaling_setspeed`) that are read back count as what was
//!   written within 1 %: drivers round to their own steps of up to 25 MHz. A knob asks for
//!   frequencies that are in the list of steps, if there is one, so that no coarser rounding is
//!   left. They are not the same: `2401000` lets acpi-cpufreq boost, and `2400000` does not.
//! - So do limits of power: RAPL rounds to its own units.
//! - A choice such as `none [mq-deadline] kyber` is read as what is chosen.
//! - `200000 (system)` of md means that the array follows the system; it is read as `system`, and
//!   writing that makes it follow again. `1000 (local)` is read as `1000`.
//! - The freezer's `FREEZING` is as good as `FROZEN`.

use super::error::AccessError;
use super::limited::is_limited;
use super::program::Budget;
use super::shell::quoted;
use crate::Root;
use crate::kept_files::KeptFiles;
use crate::topology::CPU_FOLDER;
use std::time::Duration;
use wattio_governor::Cpus;
use wattio_units::Seconds;

/// How far a driver may round a frequency or a power.
pub(super) const ROUNDING_TOLERANCE: f64 = 0.01;

/// How long frequencies may take to be in force, all together, while a loop waits for them.
pub(super) const SETTLES_WITHIN: Seconds = Seconds(0.1);
/// The same at a restore, which nothing waits for: told to have failed only where it has.
pub(super) const RESTORED_WITHIN: Seconds = Seconds(1.0);
/// When to look first; the pause doubles after each look.
const SETTLES_AGAIN_AFTER: Seconds = Seconds(100e-6);

/// How a file's text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Cpus,
    Frequency,
    Power,
    Md,
    Freezer,
}

impl Form {
    fn of(path: &str) -> Self {
        match path.rsplit('/').next().unwrap_or(path) {
            name if name.ends_with("_power_limit_uw") => Self::Power,
            "scaling_max_freq" | "scaling_min_freq" | "scaling_setspeed" => Self::Frequency,
            "sync_speed_max" | "sync_speed_min" => Self::Md,
            "freezer.state" => Self::Freezer,
            "online" | "cpu_list" | "smp_affinity_list" => Self::Cpus,
            _ => Self::Plain,
        }
    }
}

/// The value of a file.
pub(super) fn read(files: &mut KeptFiles, path: &str) -> Result<String, AccessError> {
    check(path)?;
    let text = files.read(path).map(|text| value(path, &text));
    text.map_err(|error| {
        off_or(files.root(), path, AccessError::of_system(&error, "cannot be read"))
    })
}

/// Whether the file no longer exists.
pub(super) fn is_gone(root: &Root, path: &str) -> bool {
    check(path).is_ok() && root.lacks(path) && off(root, path).is_none()
}

/// The value in the text of the file at `path`.
#[must_use]
pub fn value(path: &str, text: &str) -> String {
    let text = text.trim();
    match Form::of(path) {
        Form::Md => match text.split_once(' ') {
            Some((_, "(system)")) => "system",
            Some((number, "(local)")) => number,
            _ => text,
        },
        Form::Plain => chosen(text).unwrap_or(text),
        Form::Cpus | Form::Frequency | Form::Power | Form::Freezer => text,
    }
    .to_owned()
}

/// The one word in brackets among others.
fn chosen(text: &str) -> Option<&str> {
    let inner = |word: &&str| word.len() > 2 && word.starts_with('[') && word.ends_with(']');
    let mut found = text.split_whitespace().filter(inner);
    match (found.next(), found.next()) {
        (Some(only), None) => only.strip_prefix('[')?.strip_suffix(']'),
        _ => None,
    }
}

/// Writes a value.
pub(super) fn write(root: &Root, path: &str, value: &str) -> Result<(), AccessError> {
    check(path)?;
    // A file of the kernel takes one write; "\n" stands for the empty value.
    let text = if value.is_empty() { "\n" } else { value };
    root.write(path, text).map_err(|error| {
        let problem = AccessError::of_system(&error, &format!("does not take {value:?}"));
        off_or(root, path, problem)
    })
}

/// The processor that a file is about, where it is off. Its frequency policy keeps its limits
/// meanwhile, and neither tells nor takes any (`cpufreq.c`: the policy is inactive); its other files
/// may be away (`intel_epb.c`), and come back with what they held.
fn off(root: &Root, path: &str) -> Option<u32> {
    let inside = path.strip_prefix(CPU_FOLDER)?.strip_prefix('/')?;
    let name = inside.strip_prefix("cpufreq/policy").or_else(|| inside.strip_prefix("cpu"))?;
    let (cpu, file) = name.split_once('/')?;
    let cpu = cpu.parse().ok().filter(|_| file != "online")?;
    root.read(&online(cpu)).is_ok_and(|switch| switch == "0").then_some(cpu)
}

pub(super) fn online(cpu: u32) -> String {
    format!("{CPU_FOLDER}/cpu{cpu}/online")
}

/// The error of a file, or that its processor is off, if that explains it.
fn off_or(root: &Root, path: &str, problem: AccessError) -> AccessError {
    let Some(cpu) = off(root, path) else { return problem };
    let what = if Form::of(path) == Form::Frequency { "limit" } else { "value" };
    AccessError::Busy(format!(
        "busy: processor {cpu} is off, and keeps this {what} when it comes back; bring it on first"
    ))
}

/// Waits until a frequency is in force: the kernel takes the limit over in a work queue, and shows
/// the old one until then (on Linux since 5.3; some milliseconds on a busy machine). Reading back
/// shows whether it did.
pub(super) fn settle(
    root: &Root,
    path: &str,
    value: &str,
    budget: &Budget,
    mut sleep: impl FnMut(Duration),
) {
    if Form::of(path) != Form::Frequency || check(path).is_err() {
        return;
    }
    let (mut wait, mut left) = (SETTLES_AGAIN_AFTER, RESTORED_WITHIN);
    let in_force = |found: String| {
        rounded(path, value, found.trim()) || is_limited(root, path, value, found.trim())
    };
    while !root.read(path).is_ok_and(in_force) {
        let Some(span) = budget.allows(if wait < left { wait } else { left }) else { return };
        let Ok(time) = Duration::try_from_secs_f64(span.0) else { return };
        sleep(time);
        budget.spend(span);
        left = left - span;
        wait = wait * 2.0;
    }
}

/// Whether two values of a file mean the same.
pub(super) fn same(path: &str, one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match Form::of(path) {
        Form::Plain | Form::Md | Form::Frequency | Form::Power => false,
        Form::Cpus => same_cpus(one, other),
        Form::Freezer => {
            let frozen = |value: &str| matches!(value, "FREEZING" | "FROZEN");
            frozen(one) && frozen(other)
        }
    }
}

/// Whether drivers round what is written to a file: frequencies and powers.
pub(super) fn is_rounded(path: &str) -> bool {
    matches!(Form::of(path), Form::Frequency | Form::Power)
}

/// Whether `found` may be a driver's rounding of a frequency or a power.
pub(super) fn rounded(path: &str, value: &str, found: &str) -> bool {
    match (value.parse::<f64>(), found.parse::<f64>()) {
        (Ok(value), Ok(found)) if is_rounded(path) => {
            (value - found).abs() <= ROUNDING_TOLERANCE * value.max(found)
        }
        _ => false,
    }
}

/// Whether a file holds a list of processors.
pub(super) fn is_list(path: &str) -> bool {
    Form::of(path) == Form::Cpus
}

/// Whether a file says how a drive or its link sleeps. All of a disk's are kept in their order: one that
/// is to start its disk does so only as long as it may stop it (`sd.c`, `sd_resume`).
pub(super) fn is_of_drive(path: &str) -> bool {
    let of_disk = path.strip_prefix("/sys/block/").is_some_and(|rest| rest.contains("/device/"));
    of_disk || path.starts_with("/sys/class/nvme/") || path.starts_with("/sys/class/scsi_host/")
}

/// Whether two lists name the same processors.
pub(super) fn same_cpus(one: &str, other: &str) -> bool {
    matches!((one.parse::<Cpus>(), other.parse::<Cpus>()), (Ok(one), Ok(other)) if one == other)
}

/// The command that writes a value.
pub(super) fn restore_command(root: &Root, path: &str, value: &str) -> String {
    let on = off(root, path).map(|cpu| format!("echo 1 > {} && ", online(cpu)));
    format!("{}echo {} > {}", on.unwrap_or_default(), quoted(value), quoted(path))
}

/// Refuses paths that no knob uses: an edited snapshot must not write just anywhere.
pub(super) fn check(path: &str) -> Result<(), AccessError> {
    // Not all of /proc: /proc/self/root is every file there is.
    let kernel = path.starts_with("/sys/") || path.starts_with("/proc/irq/");
    if kernel && !path.split('/').any(|part| part == "..") {
        return Ok(());
    }
    Err(AccessError::refused("is not a file under /sys or /proc/irq"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_as_they_can_be_written() {
        for (path, text, read) in [
            ("/sys/block/sda/queue/scheduler", "none [mq-deadline] kyber\n", "mq-deadline"),
            ("/sys/block/sda/queue/scheduler", "[none]", "none"),
            ("/sys/x", "[a] [b]", "[a] [b]"),
            ("/sys/x", "[]", "[]"),
            ("/sys/block/md0/md/sync_speed_max", "200000 (system)\n", "system"),
            ("/sys/block/md0/md/sync_speed_max", "1000 (local)\n", "1000"),
            ("/sys/devices/x/power/pm_qos_latency_tolerance_us", "auto\n", "auto"),
        ] {
            assert_eq!(value(path, text), read);
        }
    }

    #[test]
    fn what_the_kernel_rounds_was_taken() {
        let cap = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
        assert!(rounded(cap, "2400000", "2401000"));
        assert!(!rounded(cap, "2400000", "2300000"));
        assert!(!rounded(cap, "<unsupported>", "2300000"));
        let limit = "/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw";
        assert!(rounded(limit, "90100000", "90000000") && !rounded(limit, "90000000", "80000000"));
        assert!(!rounded("/sys/block/sda/mq/0/cpu_list", "1000", "1001"));
        assert!(!same(cap, "2400000", "2401000"), "one boosts, the other does not");
        assert!(same("/sys/block/sda/mq/0/cpu_list", "0-1", "0, 1"));
        assert!(same("/sys/fs/cgroup/freezer/a/freezer.state", "FREEZING", "FROZEN"));
        assert!(!same("/sys/x", "1", "01"));
    }

    /// Each policy's file had a tenth of a second of its own: with 128 of them, a tick of the loop
    /// or a restore could take 13 s.
    #[test]
    fn frequencies_settle_within_the_time_that_there_is_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let (budget, mut slept) = (Budget::default(), Duration::ZERO);
        budget.set(Some(SETTLES_WITHIN));
        for policy in 0..128 {
            let path = format!("/sys/policy{policy}/scaling_max_freq");
            std::fs::create_dir_all(root.path(&path).parent().unwrap()).unwrap();
            std::fs::write(root.path(&path), "2600000").unwrap();
            settle(&root, &path, "1200000", &budget, |span| slept += span);
        }
        assert!((slept.as_secs_f64() - SETTLES_WITHIN.0).abs() < 1e-6);
        let path = "/sys/scaling_max_freq";
        std::fs::write(root.path(path), "2600000").unwrap();
        let mut naps = 0;
        settle(&root, path, "1200000", &Budget::default(), |_| {
            naps += 1;
            if naps == 3 {
                std::fs::write(root.path(path), "1200000").unwrap();
            }
        });
        assert_eq!(naps, 3, "no longer than it takes");
        let mut slept = Duration::ZERO;
        settle(&root, path, "2600000", &Budget::default(), |span| slept += span);
        assert!((slept.as_secs_f64() - RESTORED_WITHIN.0).abs() < 1e-6, "it never does");
    }

    /// The kernel takes the file away with its processor and brings both back: what was saved of it
    /// was let go meanwhile.
    #[test]
    fn a_file_whose_processor_is_off_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let path = "/sys/devices/system/cpu/cpu3/power/energy_perf_bias";
        std::fs::create_dir_all(root.path("/sys/devices/system/cpu/cpu3")).unwrap();
        std::fs::write(root.path(&online(3)), "0").unwrap();
        let said = read(&mut KeptFiles::new(&root), path).unwrap_err();
        let AccessError::Busy(message) = said else { panic!("{said:?}") };
        assert!(message.contains("processor 3 is off, and keeps this value"), "{message}");
        assert!(!is_gone(&root, path));
        assert!(restore_command(&root, path, "6").starts_with("echo 1 > "));
        std::fs::write(root.path(&online(3)), "1").unwrap();
        assert_eq!(read(&mut KeptFiles::new(&root), path), Err(AccessError::Gone));
        assert!(is_gone(&root, path));
    }

    #[test]
    fn paths_outside_the_kernel_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for path in [
            "/etc/passwd",
            "/sys/../etc/passwd",
            "/proc/self/root/etc/passwd",
            "/proc/sys/kernel/core_pattern",
            "sys/x",
            "",
        ] {
            assert!(matches!(write(&root, path, "1"), Err(AccessError::Refused(..))), "{path}");
        }
        assert_eq!(write(&root, "/sys/x", "1"), Err(AccessError::Gone));
    }

    proptest! {
        #[test]
        fn no_text_panics(path: String, one: String, other: String) {
            for path in [path.as_str(), "/sys/scaling_max_freq", "/sys/sync_speed_max"] {
                let _ = (value(path, &one), same(path, &one, &other));
            }
        }

        #[test]
        fn what_is_read_reads_as_itself(text: String) {
            let read = value("/sys/x/sync_speed_max", &text);
            prop_assert!(same("/sys/x/sync_speed_max", &read, &read));
        }
    }
}
