//! Many servers at once, on all cores.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often is asked whether to go on while no member ends.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Does `one` for each of `count` members on so many threads (all cores where it is `None`);
/// tells `watch` the number done whenever one ends, and now and then. `None` when `watch` said to stop; `one` is
/// handed what says whether to go on. Results are in the order of the members and depend on
/// nothing else.
pub fn each<T: Send>(
    count: usize,
    threads: Option<NonZeroUsize>,
    one: impl Fn(usize, &dyn Fn() -> bool) -> T + Sync,
    watch: &mut dyn FnMut(usize) -> bool,
) -> Option<Vec<T>> {
    let threads = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, usize::from);
    let (next, goes_on) = (AtomicUsize::new(0), AtomicBool::new(true));
    let (send, ended) = mpsc::channel();
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut done = 0;
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            let (send, next, goes_on, one) = (send.clone(), &next, &goes_on, &one);
            scope.spawn(move || {
                let going = || goes_on.load(Ordering::Relaxed);
                while going() {
                    let member = next.fetch_add(1, Ordering::Relaxed);
                    if member >= count || send.send((member, one(member, &going))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        loop {
            match ended.recv_timeout(ASKED_EVERY) {
                Ok((member, result)) => {
                    results[member] = Some(result);
                    done += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if goes_on.load(Ordering::Relaxed) && !watch(done) {
                goes_on.store(false, Ordering::Relaxed);
            }
        }
    });
    if goes_on.load(Ordering::Relaxed) { results.into_iter().collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_threads() {
        for threads in [1, 3, 64] {
            let mut told = Vec::new();
            let squares =
                each(20, NonZeroUsize::new(threads), |member, _| member * member, &mut |done| {
                    told.push(done);
                    true
                });
            assert_eq!(squares.unwrap(), (0..20).map(|n| n * n).collect::<Vec<_>>());
            told.dedup();
            assert_eq!(
                told.iter().rev().take(20).rev().copied().collect::<Vec<_>>(),
                (1..=20).collect::<Vec<_>>()
            );
        }
        assert_eq!(each(0, None, |member, _| member, &mut |_| true), Some(vec![]));
    }

    /// A member that takes long would go on for as long after Ctrl-C.
    #[test]
    fn who_is_told_to_stop_stops_in_the_middle_of_a_member() {
        let until_stopped = |_, goes_on: &dyn Fn() -> bool| while goes_on() {};
        assert_eq!(each(2, NonZeroUsize::new(2), until_stopped, &mut |_| false), None);
    }

    #[test]
    fn who_is_told_to_stop_stops() {
        let stopped = each(1000, NonZeroUsize::new(2), |member, _| member, &mut |done| done < 5);
        assert_eq!(stopped, None);
    }
}
