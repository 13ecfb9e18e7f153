//! What limits a frequency besides those who write to it.
//!
//! The kernel keeps what is written to `scaling_max_freq` as one request among several
//! (`freq_qos_update_request` in `cpufreq.c`). It shows the lowest of them, rounded down to a step,
//! and shows what was written again once that one is the lowest. So a file that shows less than was
//! written to it has not been written by somebody else if what it shows is what one of these allows:
//!
//! | limit | where the kernel tells it |
//! |---|---|
//! | the firmware's (`_PPC`) | `bios_limit` of the policy |
//! | heat, by ACPI (`processor_thermal.c`) | cooling devices `Processor`: each state takes off 20 % (5 % on some ARM servers) |
//! | heat, by other drivers (`cpufreq_cooling.c`) | cooling devices `cpufreq-cpuN` (`thermal-cpufreq-N` before 5.12): each state is a step |
//! | turbo that somebody turned off | `intel_pstate/no_turbo`, and `base_frequency` of the policy |
//! | the driver's own | `cpuinfo_max_freq` of the policy, which follows `boost` |
//!
//! `scaling_min_freq` shows the cap that is in force in place of a minimum above it, and
//! `scaling_setspeed` in place of a frequency above it.
//!
//! The firmware's limit shows nowhere under intel_pstate without HWP, which has no `bios_limit`:
//! there it cannot be told from somebody else's write.

use super::file::ROUNDING_TOLERANCE;
use crate::Root;
use crate::topology::{CPU_FOLDER, from_khz, khz, steps};
use wattio_units::Hertz;

const COOLING: &str = "/sys/class/thermal";
/// By how many per cent a state of ACPI's cooling lowers the frequency, and how many states do so.
const ACPI_STATES: [(u32, u32); 2] = [(20, 3), (5, 18)];

/// Whether a file shows `found`, because something limits the frequency, while `asked` of it stands.
pub(super) fn is_limited(root: &Root, path: &str, asked: &str, found: &str) -> bool {
    let (Some(asked), Some(found)) = (from_khz(asked), from_khz(found)) else { return false };
    let Some((policy, file)) = policy_and_file(path).filter(|_| found < asked) else {
        return false;
    };
    match file {
        "scaling_max_freq" => Policy::new(root, policy).allows_only(found),
        "scaling_min_freq" | "scaling_setspeed" => {
            frequency(root, &format!("{policy}/scaling_max_freq"))
                .is_some_and(|cap| is_near(cap, found))
        }
        _ => false,
    }
}

/// What a file that shows `found` may have been told at most: a cap that is hidden by a limit may be
/// any above it, and what is put back is to slow nothing down once the limit is gone.
pub(super) fn unlimited(root: &Root, path: &str, found: String) -> String {
    let cap = policy_and_file(path).filter(|(_, file)| *file == "scaling_max_freq");
    let highest = cap.and_then(|(policy, _)| {
        let policy = Policy::new(root, policy);
        policy.steps.last().copied().or_else(|| policy.frequency("cpuinfo_max_freq"))
    });
    let Some(highest) = highest.map(khz) else { return found };
    if is_limited(root, path, &highest, &found) { highest } else { found }
}

/// The folder of a policy, and the name of a file in it.
fn policy_and_file(path: &str) -> Option<(&str, &str)> {
    let (folder, file) = path.rsplit_once('/')?;
    let inside = folder.strip_prefix(CPU_FOLDER)?;
    inside.starts_with("/cpufreq/policy").then_some((folder, file))
}

struct Policy<'a> {
    root: &'a Root,
    folder: &'a str,
    steps: Vec<Hertz>,
}

impl<'a> Policy<'a> {
    fn new(root: &'a Root, folder: &'a str) -> Self {
        Self { root, folder, steps: steps(root, folder) }
    }

    fn frequency(&self, file: &str) -> Option<Hertz> {
        frequency(self.root, &format!("{}/{file}", self.folder))
    }

    /// Whether a limit that is in force now is why the cap shows `found`.
    fn allows_only(&self, found: Hertz) -> bool {
        let highest = self.frequency("cpuinfo_max_freq");
        let explains = |limit: Hertz| is_near(limit, found) || is_near(self.below(limit), found);
        // Few files first: of cooling devices there may be one for each processor.
        highest.is_some_and(explains)
            || self.frequency("bios_limit").is_some_and(explains)
            || self.without_turbo().is_some_and(explains)
            || highest.is_some_and(|highest| self.is_cooled(highest, explains))
    }

    /// The highest step that a limit leaves.
    fn below(&self, limit: Hertz) -> Hertz {
        let within = |step: &&Hertz| step.0 <= limit.0 * (1.0 + 1e-9);
        let step = self.steps.iter().rev().find(within).or(self.steps.first());
        step.copied().unwrap_or(limit)
    }

    fn without_turbo(&self) -> Option<Hertz> {
        let switch = self.root.read(&format!("{CPU_FOLDER}/intel_pstate/no_turbo")).ok()?;
        self.frequency("base_frequency").filter(|_| switch == "1")
    }

    /// Whether the state of a cooling device explains it.
    fn is_cooled(&self, highest: Hertz, explains: impl Fn(Hertz) -> bool) -> bool {
        self.root.list(COOLING).iter().any(|device| {
            let file = |name: &str| self.root.read(&format!("{COOLING}/{device}/{name}")).ok();
            let Some(kind) = file("type") else { return false };
            let is_of_steps =
                kind.starts_with("cpufreq-cpu") || kind.starts_with("thermal-cpufreq-");
            if !is_of_steps && kind != "Processor" {
                return false;
            }
            let state = file("cur_state").and_then(|state| state.parse::<u32>().ok());
            let Some(state) = state.filter(|state| *state > 0) else { return false };
            if is_of_steps {
                let step = self.steps.iter().rev().nth(state as usize);
                return step.copied().is_some_and(&explains);
            }
            ACPI_STATES.iter().any(|&(percent, states)| {
                explains(highest * (f64::from(100 - percent * state.min(states)) / 100.0))
            })
        })
    }
}

fn frequency(root: &Root, path: &str) -> Option<Hertz> {
    from_khz(&root.read(path).ok()?)
}

fn is_near(one: Hertz, other: Hertz) -> bool {
    (one.0 - other.0).abs() <= ROUNDING_TOLERANCE * one.0.max(other.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";

    /// A host of 3 GHz with four steps below, and these files.
    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let steps = "2600000 1800000 1000000 800000";
        let first = [("cpuinfo_max_freq", "3000000"), ("scaling_available_frequencies", steps)];
        let inside = first.map(|(file, text)| (format!("{POLICY}/{file}"), text));
        let given = files.iter().map(|&(path, text)| (path.replace("{policy}", POLICY), text));
        for (path, text) in inside.into_iter().chain(given) {
            std::fs::create_dir_all(root.path(&path).parent().unwrap()).unwrap();
            std::fs::write(root.path(&path), text).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn a_cap_is_limited_where_something_in_force_allows_just_that() {
        let device = |kind, state| {
            let file = |name| format!("{COOLING}/cooling_device7/{name}");
            [(file("type"), kind), (file("cur_state"), state)]
        };
        type Files = Vec<(String, &'static str)>;
        let cases: [(Files, &str, &[&str]); 8] = [
            (vec![], "none", &["2600000"]),
            (vec![("{policy}/bios_limit".into(), "1000000")], "firmware", &["1000000"]),
            (vec![("{policy}/bios_limit".into(), "1200000")], "between steps", &["1000000"]),
            (device("Processor", "1").into(), "ACPI: 2.4 GHz", &["1800000"]),
            (device("Processor", "9").into(), "ACPI: 1.2 GHz, and throttled", &["1000000"]),
            (device("cpufreq-cpu0", "2").into(), "steps", &["1000000"]),
            (device("Fan", "3").into(), "a fan", &[]),
            (device("Processor", "0").into(), "a cool one", &[]),
        ];
        for (files, what, limited) in cases {
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let (_folder, root) = host(&files);
            for found in ["800000", "1000000", "1800000"] {
                let is = is_limited(&root, &format!("{POLICY}/scaling_max_freq"), "2600000", found);
                assert_eq!(is, limited.contains(&found), "{what}: {found}");
                let is = is_limited(&root, &format!("{POLICY}/scaling_max_freq"), "800000", found);
                assert!(!is, "{what}: {found} is no less");
            }
        }
    }

    #[test]
    fn turbo_that_somebody_turned_off_limits_a_cap() {
        let switch = format!("{CPU_FOLDER}/intel_pstate/no_turbo");
        let cap = format!("{POLICY}/scaling_max_freq");
        for (text, limited) in [("1", true), ("0", false)] {
            let (_folder, root) = host(&[(&switch, text), ("{policy}/base_frequency", "2100000")]);
            assert_eq!(is_limited(&root, &cap, "2800000", "2100000"), limited);
            assert!(!is_limited(&root, &cap, "2800000", "2300000"));
        }
    }

    #[test]
    fn a_minimum_and_a_frequency_are_limited_by_the_cap() {
        let (_folder, root) = host(&[("{policy}/scaling_max_freq", "1000000")]);
        for file in ["scaling_min_freq", "scaling_setspeed"] {
            let limited = |found| is_limited(&root, &format!("{POLICY}/{file}"), "1800000", found);
            assert!(limited("1000000") && !limited("800000"), "{file}");
        }
        assert!(!is_limited(&root, "/sys/x/scaling_min_freq", "1800000", "1000000"));
    }

    #[test]
    fn a_cap_that_was_limited_when_it_was_found_may_have_been_the_highest() {
        let cap = format!("{POLICY}/scaling_max_freq");
        let limit = |khz| host(&[("{policy}/bios_limit", khz)]);
        for (khz, found, told) in [
            ("2600000", "2600000", "2600000"),
            ("2600000", "1800000", "1800000"),
            ("1800000", "1800000", "2600000"),
        ] {
            let (_folder, root) = limit(khz);
            assert_eq!(unlimited(&root, &cap, found.to_owned()), told, "{khz} {found}");
        }
    }
}
