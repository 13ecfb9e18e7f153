//! The marks that values leave in the snapshot when they are written to files (of control groups, too):
//! what is found there after a crash is put back only if it bears one of them.
//!
//! A word is its own mark. A number leaves the range of those that begin with the same six binary
//! digits (`2359296-2424831` for 2400000), so that a frequency without steps leaves some dozens of
//! marks in all, each of which is written to the disk once: within a range, and beyond its ends as far
//! as a driver rounds, nobody can tell whose a value is.
//!
//! Two files may show less than was written to them. The kernel shows a cap in place of a minimum
//! above it (`cpufreq_verify_within_limits`), and in place of the frequency that the governor
//! `userspace` was told the one at which the processor runs, which heat and the firmware limit. What is
//! less there than what stood first is put back.

use super::file;
use std::collections::BTreeSet;

/// How many binary digits of a number a mark has.
const DIGITS: u32 = 6;

/// What a value leaves.
pub(super) fn mark(value: &str) -> String {
    let Ok(number) = value.parse::<u64>() else { return value.to_owned() };
    let dropped = (u64::BITS - number.leading_zeros()).saturating_sub(DIGITS);
    if dropped == 0 {
        return value.to_owned();
    }
    let first = number >> dropped << dropped;
    format!("{first}-{}", first | ((1 << dropped) - 1))
}

/// The value that puts a file back: the original, unless what was found is none of those that were
/// written.
pub(super) fn put_back(
    path: &str,
    original: &str,
    marks: &BTreeSet<String>,
    found: &str,
) -> String {
    // In a folder that is shaped like a host, a write that was cut short leaves nothing.
    let ours = marks.is_empty()
        || found.is_empty()
        || marks.iter().any(|mark| bears(path, mark, found))
        || shows_less(path, original, marks, found);
    if ours { original.to_owned() } else { found.to_owned() }
}

/// Whether a value may have left a mark.
fn bears(path: &str, mark: &str, found: &str) -> bool {
    if file::same(path, mark, found) || file::rounded(path, mark, found) {
        return true;
    }
    let (Some((first, last)), Ok(found)) = (range(mark), found.parse::<f64>()) else {
        return false;
    };
    let rounds = if file::is_rounded(path) { file::ROUNDING_TOLERANCE } else { 0.0 };
    (first * (1.0 - rounds)..=last * (1.0 + rounds)).contains(&found)
}

/// The ends of a mark that is a range.
fn range(mark: &str) -> Option<(f64, f64)> {
    let (first, last) = mark.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The highest number that any of the marks stands for.
pub(super) fn highest(marks: &BTreeSet<String>) -> Option<String> {
    let last = |mark: &String| match mark.split_once('-') {
        Some((_, last)) => last.parse().ok(),
        None => mark.parse().ok(),
    };
    marks.iter().filter_map(last).max().map(|highest: u64| highest.to_string())
}

/// Whether a file shows less than what was written, for reasons of the kernel's.
fn shows_less(path: &str, original: &str, marks: &BTreeSet<String>, found: &str) -> bool {
    let Ok(found) = found.parse::<f64>() else { return false };
    match path.rsplit('/').next() {
        Some("scaling_min_freq") => {
            let first =
                |mark: &String| range(mark).map_or_else(|| mark.parse().ok(), |r| Some(r.0));
            let written = marks.iter().filter_map(first).reduce(f64::min);
            written.is_some_and(|written| found < written)
        }
        Some("scaling_setspeed") => original.parse().is_ok_and(|original: f64| found < original),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAP: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";

    fn is_left(path: &str, original: &str, written: &[&str], found: &str) -> bool {
        let marks = written.iter().map(|value| mark(value)).collect();
        let back = put_back(path, original, &marks, found);
        assert!(back == original || back == found);
        back == found
    }

    #[test]
    fn what_nobody_here_wrote_is_left() {
        let (cap, epp) =
            (CAP, "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference");
        let limit = "/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw";
        let weight = "/sys/fs/cgroup/a/cpu.weight";
        for (path, original, written, found, left) in [
            (cap, "2600000", vec!["1200000", "1800000"], "1200000", false),
            (cap, "2600000", vec!["1200000", "1800000"], "1810000", false),
            (cap, "2600000", vec!["1200000", "1800000"], "1500000", true),
            (cap, "2600000", vec!["1200000", "1800000"], "2100000", true),
            (cap, "2600000", vec!["1200000"], "3000000", true),
            (cap, "2600000", vec![], "3000000", false),
            (cap, "2600000", vec!["1200000"], "", false),
            (epp, "balance_performance", vec!["balance_power"], "balance_power", false),
            (epp, "balance_performance", vec!["balance_power"], "power", true),
            (limit, "150000000", vec!["90000000"], "89999872", false),
            (limit, "150000000", vec!["90000000"], "80000000", true),
            (weight, "100", vec!["50"], "50", false),
            (weight, "100", vec!["50"], "51", true),
        ] {
            assert_eq!(is_left(path, original, &written, found), left, "{written:?} {found}");
        }
    }

    /// Where the kernel hides what was written, whoever lowered something else kept a host slow.
    #[test]
    fn what_is_less_than_was_written_is_put_back_where_the_kernel_shows_less() {
        let file = |name: &str| format!("/sys/devices/system/cpu/cpufreq/policy0/{name}");
        let (least, told) = (file("scaling_min_freq"), file("scaling_setspeed"));
        assert!(!is_left(&least, "2000000", &["1200000"], "800000"), "a cap hides it");
        assert!(is_left(&least, "2000000", &["1200000"], "1600000"));
        assert!(is_left(&least, "2000000", &["1200000"], "2600000"));
        assert!(!is_left(&told, "2000000", &["1200000"], "900000"), "heat");
        assert!(is_left(&told, "2000000", &["1200000"], "2600000"));
        assert!(is_left(&told, "2000000", &["1200000"], "<unsupported>"), "another governor");
    }

    #[test]
    fn many_frequencies_leave_few_marks() {
        let all: BTreeSet<_> =
            (800_000..4_000_000).map(|khz: u32| mark(&khz.to_string())).collect();
        assert!(all.len() < 90, "{}", all.len());
    }

    proptest! {
        #[test]
        fn what_was_written_bears_its_mark(number: u64, word: String, scale in 0.991f64..1.009) {
            for value in [number.to_string(), (number >> 40).to_string(), word] {
                for path in [CAP, "/sys/x"] {
                    prop_assert!(bears(path, &mark(&value), &value), "{value}");
                }
            }
            let khz = 1_000 + (number >> 42);
            let found = format!("{:.0}", khz as f64 * scale);
            prop_assert!(bears(CAP, &mark(&khz.to_string()), &found), "{khz} {found}");
        }
    }
}
