//! Threads that poll: always busy, and never waiting for anything.
//!
//! To the kernel their cores are fully used whatever the load, so utilisation must come from the
//! server itself. Between two looks a poller ran in user mode nearly all the time and hardly ever
//! yielded its core. Sources: `proc_pid_stat(5)`, `proc_pid_status(5)`.

use super::{TICK, pids, threads};
use crate::Root;
use std::collections::BTreeMap;
use wattio_units::Seconds;

/// From this share of the time in user mode on.
const SHARE_MIN: f64 = 0.9;
/// At most this many waits a second: a thread that computes for its requests waits for each of
/// them.
const WAITS_PER_S_MAX: f64 = 10.0;

/// What a thread did since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadTimes {
    comm: String,
    start: u64,
    user_ticks: u64,
    waits: u64,
}

/// All threads of the host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads(BTreeMap<(u32, u32), ThreadTimes>);

/// A thread that polls.
#[derive(Clone, Debug, PartialEq)]
pub struct Poller {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub thread: u32,
    /// Its name.
    pub comm: String,
    /// Share of the time in user mode.
    pub user_share: f64,
    /// How often it yielded its core voluntarily.
    pub waits_per_s: f64,
}

impl Threads {
    /// Looks at all threads; those that end meanwhile are left out.
    #[must_use]
    pub fn look(root: &Root) -> Self {
        let mut looks = BTreeMap::new();
        for pid in pids(root) {
            for thread in threads(root, pid) {
                let folder = format!("/proc/{pid}/task/{thread}");
                let read = |file: &str| root.read(&format!("{folder}/{file}")).ok();
                let look = read("stat").zip(read("status")).and_then(|(a, b)| parse(&a, &b));
                if let Some(look) = look {
                    looks.insert((pid, thread), look);
                }
            }
        }
        Self(looks)
    }

    /// Those that polled from an earlier look, `span` ago, until this one; the busiest first.
    #[must_use]
    pub fn pollers(&self, earlier: &Self, span: Seconds) -> Vec<Poller> {
        if span.0.is_nan() || span.0 <= 0.0 {
            return Vec::new();
        }
        let poller = |(&(pid, thread), look): (&(u32, u32), &ThreadTimes)| {
            let before =
                earlier.0.get(&(pid, thread)).filter(|before| before.start == look.start)?;
            let ticks = look.user_ticks.saturating_sub(before.user_ticks);
            let user_share = (TICK * ticks as f64 / span).min(1.0);
            let waits_per_s = look.waits.saturating_sub(before.waits) as f64 / span.0;
            let polls = user_share >= SHARE_MIN && waits_per_s <= WAITS_PER_S_MAX;
            let comm = look.comm.clone();
            polls.then_some(Poller { pid, thread, comm, user_share, waits_per_s })
        };
        let mut pollers: Vec<_> = self.0.iter().filter_map(poller).collect();
        pollers.sort_by(|a, b| b.user_share.total_cmp(&a.user_share));
        pollers
    }
}

/// Reads a thread's `stat` and `status`; `None` if they make no sense.
fn parse(stat: &str, status: &str) -> Option<ThreadTimes> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, comm) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    // Counted from 1 in the manual, and rest begins with 3: utime is 14, starttime 22.
    let user_ticks = fields.nth(11)?.parse().ok()?;
    let start = fields.nth(7)?.parse().ok()?;
    let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    Some(ThreadTimes {
        comm: comm.to_owned(),
        start,
        user_ticks,
        waits: waits.trim().parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn look(threads: &[(u32, u64, u64, u64)]) -> Threads {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for &(thread, start, user_ticks, waits) in threads {
            let task = root.path(&format!("/proc/7/task/{thread}"));
            std::fs::create_dir_all(&task).unwrap();
            let stat = format!(
                "{thread} (a) b) R 1 7 7 0 -1 4194560 1 2 3 4 {user_ticks} 99 0 0 20 0 3 0 {start} 1 2 3"
            );
            std::fs::write(task.join("stat"), stat).unwrap();
            let status = format!(
                "Name:\ta\nvoluntary_ctxt_switches:\t{waits}\nnonvoluntary_ctxt_switches:\t9\n"
            );
            std::fs::write(task.join("status"), status).unwrap();
        }
        Threads::look(&root)
    }

    #[test]
    fn only_threads_that_never_wait_poll() {
        let earlier = look(&[(7, 5, 100, 50), (8, 5, 100, 50), (9, 5, 100, 50), (10, 5, 0, 0)]);
        // A poller, one that serves requests as fast, one that is half busy, another of its number.
        let later = look(&[(7, 5, 298, 60), (8, 5, 300, 2_050), (9, 5, 200, 50), (10, 6, 200, 0)]);
        let pollers = later.pollers(&earlier, Seconds(2.0));
        let named: Vec<_> = pollers.iter().map(|poller| (poller.pid, poller.thread)).collect();
        assert_eq!(named, [(7, 7)]);
        assert_eq!((pollers[0].comm.as_str(), pollers[0].waits_per_s), ("a) b", 5.0));
        assert!((pollers[0].user_share - 0.99).abs() < 1e-9);
        assert!(later.pollers(&earlier, Seconds(0.0)).is_empty());
    }

    #[test]
    fn a_thread_of_this_machine_that_polls_is_named() {
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = std::sync::Arc::clone(&done);
        let spin = move || {
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let name = "wattio-poller";
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(spin).unwrap();
        let root = Root::default();
        let ticks = |threads: &Threads| {
            let mine = threads.0.values().find(|look| look.comm == name);
            mine.map(|look| (look.user_ticks, look.waits))
        };
        // However busy the machine is: the span is as long as the thread ran.
        let start = std::time::Instant::now();
        let look_until = |least| loop {
            let looked = Threads::look(&root);
            if ticks(&looked).is_some_and(|(ticks, _)| ticks >= least) {
                break looked;
            }
            assert!(start.elapsed().as_secs() < 60, "the thread does not run");
        };
        let earlier = look_until(0);
        let (first, _) = ticks(&earlier).unwrap();
        let later = look_until(first + 20);
        let (last, _) = ticks(&later).unwrap();
        let pollers = later.pollers(&earlier, TICK * (last - first) as f64);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        thread.join().unwrap();
        assert!(pollers.iter().any(|poller| poller.comm == name), "{pollers:?}");
    }

    proptest! {
        #[test]
        fn no_text_panics(
            stat in "[0-9]* ?\\(?[a-z)]*\\)?( [A-Z0-9-]{0,21}){0,30}",
            status in "(voluntary_ctxt_switches:)?\\PC*"
        ) {
            let _ = parse(&stat, &status);
        }
    }
}
