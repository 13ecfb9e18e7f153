//! Plays a load and keeps a few figures for each slot.

use crate::histograms::Bucket;
use crate::load::LoadError;
use crate::rows::Row;
use crate::run::Run;
use crate::summary::Summary;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use wattio_law::Action;

/// What happened in a slot: so many windows of the run in a row.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// Length in seconds.
    pub span_s: f64,
    /// Energy of the whole server.
    pub energy_j: f64,
    /// Requests answered.
    pub ios: f64,
    /// The sum of their latencies, in seconds.
    pub latency_s: f64,
    /// Requests that arrived.
    pub arrived: f64,
    /// Requests in the server at the end.
    pub left: f64,
    /// Requests in the server, summed up over time: who waits in this slot, whenever it is
    /// answered.
    pub waited_s: f64,
    /// Background work done.
    pub done_core_s: f64,
    /// Cores of each group busy with clients' tasks, on average.
    pub clients: Vec<f64>,
    /// The latencies, where they were asked for; buckets may come more than once.
    pub buckets: Vec<Bucket>,
}

/// Actions, each with the time in nanoseconds since the run's start from which it is in force.
pub type Timeline = Vec<(u64, Action)>;

/// How a run is watched.
pub struct Watched<'a> {
    /// Windows of the run in a slot.
    pub windows: usize,
    /// Whether slots need their latencies.
    pub with_buckets: bool,
    /// Whether somebody gave up.
    pub stop: &'a AtomicBool,
    /// Gets the share done.
    pub progress: &'a dyn Fn(f64),
    /// More requests than this in the server at once: the setting is hopeless.
    pub requests_max: u64,
}

/// Seconds simulated between two looks at `stop`: some milliseconds of work.
const CHUNK_S: f64 = 0.5;

/// Plays a run to its end, slot by slot, in bounded memory. `None` when it was stopped or is
/// hopeless.
pub fn play(
    run: &mut Run,
    watched: &Watched<'_>,
    log: Option<&mut Timeline>,
    mut each: impl FnMut(Slot),
) -> Result<Option<Summary>, LoadError> {
    let mut log = log;
    if log.is_some() {
        run.record_steps();
    }
    let mut log_ns = 0;
    let mut slot = Slot::default();
    let mut windows = 0;
    loop {
        let share = run.advance(CHUNK_S)?;
        (watched.progress)(share);
        if watched.stop.load(Ordering::Relaxed) || run.requests_under_way() > watched.requests_max {
            return Ok(None);
        }
        if let Some(log) = log.as_deref_mut() {
            for step in run.take_steps() {
                log_ns += (step.dt.0 * 1e9).round() as u64;
                if log.last().is_none_or(|(_, before)| *before != step.action) {
                    log.push((log_ns, step.action));
                }
            }
        }
        let (rows, histograms) = run.take_rows();
        let mut counts = histograms.bucket_counts();
        let mut buckets = histograms.buckets();
        for row in &rows {
            slot.add(row);
            let count = counts.next().unwrap_or(0) as usize;
            if watched.with_buckets {
                slot.buckets.extend(buckets.by_ref().take(count));
            }
            windows += 1;
            if windows == watched.windows {
                each(std::mem::take(&mut slot));
                windows = 0;
            }
        }
        if share >= 1.0 {
            break;
        }
    }
    if windows > 0 {
        each(slot);
    }
    Ok(Some(run.summary()))
}

impl Slot {
    fn add(&mut self, row: &Row) {
        self.merge(&Self {
            span_s: row.span_s,
            energy_j: row.energy_j(),
            ios: row.ios as f64,
            latency_s: row.latency_us_mean.unwrap_or(0.0) * 1e-6 * row.ios as f64,
            arrived: row.arrived as f64,
            left: row.in_flight as f64,
            waited_s: row.in_flight_mean * row.span_s,
            done_core_s: row.background_rate * row.span_s,
            clients: row.cores_busy_clients.clone(),
            buckets: Vec::new(),
        });
    }

    /// Adds the slot that follows this one.
    pub fn merge(&mut self, next: &Self) {
        self.clients.resize(next.clients.len(), 0.0);
        let share = next.span_s / (self.span_s + next.span_s);
        for (mine, theirs) in self.clients.iter_mut().zip(&next.clients) {
            *mine += (theirs - *mine) * share;
        }
        self.span_s += next.span_s;
        self.energy_j += next.energy_j;
        self.ios += next.ios;
        self.latency_s += next.latency_s;
        self.arrived += next.arrived;
        self.left = next.left;
        self.waited_s += next.waited_s;
        self.done_core_s += next.done_core_s;
    }
}

/// Works on jobs on all cores; answers come in the order of the jobs. `watch` gets the share done
/// and says whether to go on; `None` when it said no.
pub fn in_parallel<J: Sync, R: Send>(
    jobs: &[J],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(f64) -> bool,
    work: impl Fn(&J, &dyn Fn(f64)) -> R + Sync,
) -> Option<Vec<R>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::from_iter(jobs.iter().map(|_| None)));
    let (tell, told) = mpsc::channel::<(usize, f64)>();
    let mut shares = vec![0.0; jobs.len()];
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            let tell = tell.clone();
            let (next, answers, work) = (&next, &answers, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at).filter(|_| !stop.load(Ordering::Relaxed)) else {
                        break;
                    };
                    // A receiver that is gone has nobody to tell.
                    let answer = work(job, &|share| _ = tell.send((at, share)));
                    if let Ok(mut answers) = answers.lock() {
                        answers[at] = Some(answer);
                    }
                    _ = tell.send((at, 1.0));
                }
            });
        }
        drop(tell);
        let mut sum = 0.0;
        for (at, share) in told {
            sum += share - shares[at];
            shares[at] = share;
            if !watch(sum / jobs.len() as f64) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    let answers = answers.into_inner().unwrap_or_default();
    let whole: Option<Vec<R>> = answers.into_iter().collect();
    whole.filter(|_| !stop.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_order_and_a_watcher_may_stop() {
        let jobs: Vec<u32> = (0..100).collect();
        let stop = AtomicBool::new(false);
        let double = |job: &u32, _: &dyn Fn(f64)| job * 2;
        let answers = in_parallel(&jobs, &stop, &mut |_| true, double).unwrap();
        assert_eq!(answers, (0..100).map(|job| job * 2).collect::<Vec<_>>());
        assert_eq!(in_parallel(&jobs, &stop, &mut |share| share < 0.1, double), None);
        assert!(stop.into_inner());
    }
}
