//! A frequency that the firmware limits while a daemon holds it: less is shown than was asked for, and
//! nobody else wrote. The cap was left alone from then on, where it stood.

use super::Store;
use super::kernel::{Affinities, Caps, Kernel, show_cap};
use super::tree::{CPU, Tree};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wattio_governor::{Address, Assignment, Note, RestorableWriter, Restored};

const FIRST: &str = "2600000";

struct Host {
    tree: Tree,
    caps: Caps,
    late: Arc<AtomicBool>,
    store: Store,
}

impl Host {
    fn new() -> Self {
        Self {
            tree: Tree::new(),
            caps: Caps::default(),
            late: Arc::default(),
            store: Store::default(),
        }
    }

    fn open(&self) -> (RestorableWriter, Restored) {
        let kernel = Kernel {
            caps: Caps::clone(&self.caps),
            late: Arc::clone(&self.late),
            ..Kernel::new(&self.tree, &[], &Affinities::default())
        };
        RestorableWriter::open(Box::new(kernel), Box::new(self.store.clone()), "boot").unwrap()
    }

    /// The firmware allows so much of every policy, which shows at once.
    fn limit(&self, khz: &str) {
        self.allow(khz);
        for policy in 0..4 {
            let asked = self.caps.lock().unwrap().get(path(policy).as_str()).copied();
            let asked = asked.unwrap_or_else(|| FIRST.parse().unwrap());
            show_cap(&self.tree.root(), &path(policy), asked);
        }
    }

    /// The same, which shows once it was waited for: the kernel takes it over in a work queue.
    fn limit_later(&self, khz: &str) {
        self.allow(khz);
        self.late.store(true, Relaxed);
    }

    fn allow(&self, khz: &str) {
        for policy in 0..4 {
            self.tree.write(&format!("{CPU}/cpufreq/policy{policy}/bios_limit"), khz);
        }
    }

    fn shown(&self) -> String {
        self.tree.read(&path(0))
    }
}

fn path(policy: u32) -> String {
    format!("{CPU}/cpufreq/policy{policy}/scaling_max_freq")
}

fn cap(value: &str) -> Vec<Assignment> {
    vec![Assignment::new(Address::new("file", &path(0)), value)]
}

fn back() -> Vec<Assignment> {
    vec![Assignment::original(Address::new("file", &path(0)))]
}

#[test]
fn a_limit_of_the_firmwares_is_not_somebody_elses_write() {
    let host = Host::new();
    let (mut writer, _) = host.open();
    assert_eq!(writer.apply("knob", &cap("1800000")).notes, []);
    host.limit("1000000");
    assert_eq!(host.shown(), "1000000");
    assert_eq!(writer.inspect(9), []);
    // What is asked for meanwhile is kept, and shows once the limit is gone.
    for assignments in [cap("800000"), cap("1000000"), back(), cap("1800000")] {
        let applied = writer.apply("knob", &assignments);
        assert_eq!((applied.writes, applied.notes), (1, vec![]), "{assignments:?}");
    }
    assert_eq!(writer.apply("knob", &cap("1800000")).writes, 0, "it was asked for already");
    assert_eq!(host.shown(), "1000000");
    host.limit(FIRST);
    assert_eq!(host.shown(), "1800000");
    assert_eq!(writer.inspect(9), []);
    assert_eq!(writer.restore().unwrap().restored.len(), 1);
    assert_eq!(host.shown(), FIRST);
}

#[test]
fn a_limited_cap_is_restored_and_shows_it_later() {
    for killed in [false, true] {
        let host = Host::new();
        let (mut writer, _) = host.open();
        // A known value is written again, and limited before it is read back.
        for value in ["1800000", "800000"] {
            assert_eq!(writer.apply("knob", &cap(value)).notes, []);
        }
        host.limit("1000000");
        assert_eq!(writer.apply("knob", &cap("1800000")).notes, []);
        let restored = if killed {
            std::mem::forget(writer);
            host.open().1
        } else {
            writer.restore().unwrap()
        };
        assert_eq!((restored.foreign, restored.left), (vec![], vec![]), "{killed}");
        assert_eq!(restored.restored.len(), 1, "{killed}");
        host.limit(FIRST);
        assert_eq!(host.shown(), FIRST, "{killed}");
    }
}

/// Whoever looked in the milliseconds between the end of a limit and its effect took what was still
/// shown for somebody else's write, and left the host as slow as it was told to be for good.
#[test]
fn a_limit_that_ended_a_moment_ago_is_not_somebody_elses_write() {
    for killed in [false, true] {
        let host = Host::new();
        let (mut writer, _) = host.open();
        assert_eq!(writer.apply("knob", &cap("1800000")).notes, []);
        let ends = || {
            host.limit("1000000");
            host.limit_later(FIRST);
            assert_eq!(host.shown(), "1000000");
        };
        ends();
        assert_eq!(writer.inspect(9), []);
        for assignments in [cap("1800000"), cap("1200000")] {
            ends();
            assert_eq!(writer.apply("knob", &assignments).notes, [], "{assignments:?}");
        }
        ends();
        let restored = if killed {
            std::mem::forget(writer);
            host.open().1
        } else {
            writer.restore().unwrap()
        };
        assert_eq!((restored.foreign, restored.left), (vec![], vec![]), "{killed}");
        assert_eq!(host.shown(), FIRST, "{killed}");
    }
}

/// A daemon that started while a host was hot kept it slow when it had cooled down.
#[test]
fn what_a_limit_hid_at_the_start_is_not_taken_for_the_old_value() {
    let host = Host::new();
    host.limit("1800000");
    let (mut writer, _) = host.open();
    assert_eq!(writer.apply("knob", &cap("1000000")).notes, []);
    assert_eq!(writer.apply("knob", &back()).notes, []);
    assert_eq!(host.shown(), "1800000");
    drop(writer);
    host.limit(FIRST);
    assert_eq!(host.shown(), FIRST);
}

#[test]
fn what_no_limit_explains_is_somebody_elses() {
    let host = Host::new();
    let (mut writer, _) = host.open();
    assert_eq!(writer.apply("knob", &cap("1800000")).notes, []);
    host.limit("1000000");
    host.tree.write(&path(0), "800000");
    let told = writer.inspect(9);
    assert!(matches!(&told[..], [Note::Foreign { found, .. }] if found == "800000"), "{told:?}");
    drop(writer);
    assert_eq!(host.shown(), "800000");
}

/// The minimum shows the firmware's limit too, and was taken for one that somebody had raised: full
/// speed, for as long as the limit stood.
#[test]
fn a_limit_below_the_minimum_is_no_higher_minimum() {
    let host = Host::new();
    let groups = "[[group]]\nname = 'a'\ncores = '0,4'";
    let mut knob = host.tree.knob("kind = 'cpu.frequency'", groups).unwrap();
    host.limit("800000");
    host.tree.write(&format!("{CPU}/cpufreq/policy0/scaling_min_freq"), "800000");
    let mut machine = host.tree.machine();
    let asked = knob.assignments(&super::setting(&["0"], 1.8e9), &mut *machine).unwrap();
    assert_eq!(asked, cap("1800000"));
}
