//! The counters that a reactor publishes for whoever governs the target: only the reactor writes
//! them, and others can read them at any time without waking it.

use crate::plant::{CLASSES, ClassCounters, ReactorCounters, RequestCounters, WorkTime};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};
use wattio_law::SharedOctaves;
use wattio_volume::Backlog;

/// A number that one thread changes.
#[derive(Debug, Default)]
struct Number(AtomicU64);

impl Number {
    fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Class {
    done_ns: Number,
    done_blocks: Number,
    slices: Number,
    slice_ns_max: Number,
    backlog_blocks: Number,
    volumes_due: Number,
    /// As the bits of an `f64`.
    urgency: Number,
}

/// No request is under way.
const NONE: u64 = u64::MAX;
/// What looks for work for longer was interrupted meanwhile, and the time went to others.
const LOOK_MAX: Duration = Duration::from_micros(100);
/// Readers try so often to read while nothing is being written.
const TRIES: usize = 1000;

/// The counters of one reactor.
#[derive(Debug)]
pub struct Published {
    epoch: Instant,
    /// The thread, for its processor time; 0 before it runs.
    thread: AtomicI32,
    /// Odd while requests are being counted.
    version: AtomicU64,
    arrived: Number,
    completed: Number,
    abandoned: Number,
    reads: Number,
    bytes: Number,
    latency_ns: Number,
    latencies: SharedOctaves,
    /// When the oldest request that is not answered came, in nanoseconds since the epoch.
    oldest_ns: Number,
    /// Time of looking for work without finding any.
    looking_ns: Number,
    background_ns: Number,
    device_returns: Number,
    classes: [Class; CLASSES.len()],
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// From its arrival to its reply.
    pub took: Duration,
    /// Whether it was a read.
    pub is_read: bool,
    /// The bytes that it read or wrote.
    pub bytes: u64,
}

impl Published {
    /// Nothing yet; times are since the epoch.
    #[must_use]
    pub fn new(epoch: Instant) -> Self {
        let oldest_ns = Number::default();
        oldest_ns.set(NONE);
        Self {
            epoch,
            thread: AtomicI32::new(0),
            version: AtomicU64::new(0),
            arrived: Number::default(),
            completed: Number::default(),
            abandoned: Number::default(),
            reads: Number::default(),
            bytes: Number::default(),
            latency_ns: Number::default(),
            latencies: SharedOctaves::default(),
            oldest_ns,
            looking_ns: Number::default(),
            background_ns: Number::default(),
            device_returns: Number::default(),
            classes: Default::default(),
        }
    }

    /// The calling thread is the reactor's.
    pub fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The reactor's thread; `None` before it runs.
    #[must_use]
    pub fn thread(&self) -> Option<i32> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|&thread| thread != 0)
    }

    /// Requests have come.
    pub fn arrived(&self) {
        self.arrived.add(1);
    }

    /// A request is answered; the reader sees all of it or nothing.
    pub fn answered(&self, Answered { took, is_read, bytes }: Answered) {
        let took_ns = took.as_nanos() as u64;
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.completed.add(1);
        self.reads.add(u64::from(is_read));
        self.bytes.add(bytes);
        self.latency_ns.add(took_ns);
        self.latencies.record(took_ns);
        self.version.store(version + 2, Ordering::Release);
    }

    /// A request whose connection is gone.
    pub fn abandoned(&self) {
        self.abandoned.add(1);
    }

    /// When the oldest request came that is under way.
    pub fn set_oldest(&self, since: Option<Instant>) {
        let ns = |since: Instant| since.saturating_duration_since(self.epoch).as_nanos() as u64;
        self.oldest_ns.set(since.map_or(NONE, ns));
    }

    /// Time that was spent looking for work without finding any.
    pub fn looked(&self, span: Duration) {
        self.looking_ns.add(span.min(LOOK_MAX).as_nanos() as u64);
    }

    /// Tasks of clients that devices came back to.
    pub fn device_returns(&self, more: u64) {
        self.device_returns.add(more);
    }

    /// A slice of background work of a class was done: for so long, and so many blocks.
    pub fn worked(&self, class: usize, span: Duration, blocks: u64) {
        let span_ns = span.as_nanos() as u64;
        self.background_ns.add(span_ns);
        let class = &self.classes[class];
        class.done_ns.add(span_ns);
        class.done_blocks.add(blocks);
        class.slices.add(1);
        class.slice_ns_max.set(class.slice_ns_max.get().max(span_ns));
    }

    /// What is to be done of a class, and for how many volumes.
    pub fn set_backlog(&self, class: usize, backlog: Backlog, volumes: u64) {
        self.classes[class].volumes_due.set(volumes);
        self.classes[class].backlog_blocks.set(backlog.blocks);
        self.classes[class].urgency.set(backlog.urgency.to_bits());
    }

    /// All of it, on a clock that shows `now`; `processor_ns` is the processor time of the thread.
    /// If that is interrupted in the midst of counting, requests are those of `before`.
    #[must_use]
    pub fn read(
        &self,
        now: Duration,
        processor_ns: u64,
        before: &RequestCounters,
    ) -> ReactorCounters {
        let started = now.saturating_sub(self.epoch.elapsed());
        let oldest_ns = Some(self.oldest_ns.get()).filter(|&ns| ns != NONE);
        let background_ns = self.background_ns.get();
        let other_ns = background_ns + self.looking_ns.get();
        let class = |of: &Class| ClassCounters {
            done_ns: of.done_ns.get(),
            done_blocks: of.done_blocks.get(),
            slices: of.slices.get(),
            slice_ns_max: of.slice_ns_max.get(),
            volumes_due: of.volumes_due.get(),
            backlog_blocks: of.backlog_blocks.get(),
            urgency: f64::from_bits(of.urgency.get()),
        };
        let requests = self.requests().unwrap_or_else(|| before.clone());
        // Read last, so that no request is answered that did not arrive.
        let arrived = self.arrived.get();
        ReactorCounters {
            requests: RequestCounters {
                arrived,
                oldest: oldest_ns.map(|ns| started + Duration::from_nanos(ns)),
                ..requests
            },
            work: WorkTime {
                clients_ns: processor_ns.saturating_sub(other_ns),
                background_ns,
                device_returns: self.device_returns.get(),
            },
            background: self.classes.each_ref().map(class),
        }
    }

    /// `None` if the thread was in the midst of counting all the time.
    fn requests(&self) -> Option<RequestCounters> {
        for _ in 0..TRIES {
            let before = self.version.load(Ordering::Acquire);
            let requests = RequestCounters {
                completed: self.completed.get(),
                abandoned: self.abandoned.get(),
                reads: self.reads.get(),
                bytes: self.bytes.get(),
                latency_ns: self.latency_ns.get(),
                latencies: self.latencies.read(),
                ..RequestCounters::default()
            };
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return Some(requests);
            }
            std::thread::yield_now();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A reader that came between two numbers saw a request without its latency: a mean of zero.
    #[test]
    fn a_reader_sees_whole_requests() {
        let published = Published::new(Instant::now());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for at in 0..200_000_u64 {
                    published.arrived();
                    let (is_read, took) = (at % 2 == 0, Duration::from_nanos(5000));
                    published.answered(Answered { took, is_read, bytes: 4096 });
                }
                is_over.store(true, Ordering::Release);
            });
            let mut before = RequestCounters::default();
            while !is_over.load(Ordering::Acquire) {
                let requests = published.read(Duration::ZERO, 0, &before).requests;
                before.clone_from(&requests);
                let spread = requests.latencies.since(&wattio_law::Octaves::default());
                assert_eq!(requests.latency_ns, 5000 * requests.completed);
                assert_eq!(requests.bytes, 4096 * requests.completed);
                assert_eq!(spread.requests(), requests.completed);
                assert!(requests.arrived >= requests.completed);
            }
        });
    }

    /// A reactor that looked for work beside another program was interrupted while it did. Counted by
    /// the clock, it had looked for longer than it had run, by more each second; what it then did
    /// for clients counted as nothing until that was made up, and nothing was spread.
    #[test]
    fn who_is_interrupted_while_it_looks_for_work_has_not_looked_for_so_long() {
        let (published, none) = (Published::new(Instant::now()), RequestCounters::default());
        let (run, slept) = (Duration::from_micros(1), Duration::from_millis(4));
        (0..1000).for_each(|_| published.looked(run));
        (0..20).for_each(|_| published.looked(run + slept));
        let looked_ns = 1020 * run.as_nanos() as u64;
        let told = published.read(Duration::ZERO, looked_ns + 50_000_000, &none);
        assert!(told.work.clients_ns > 45_000_000, "{:?}", told.work);
    }

    #[test]
    fn times_are_those_of_the_reader_s_clock() {
        let epoch = Instant::now();
        let published = Published::new(epoch);
        let none = RequestCounters::default();
        assert_eq!(published.read(Duration::from_secs(9), 0, &none).requests.oldest, None);
        published.set_oldest(Some(epoch));
        let now = Duration::from_secs(1000);
        let oldest = published.read(now, 0, &none).requests.oldest.unwrap();
        assert!(oldest <= now && now - oldest < Duration::from_secs(60));
        published.looked(Duration::from_nanos(300));
        published.worked(1, Duration::from_nanos(200), 7);
        published.worked(1, Duration::from_nanos(100), 1);
        published.set_backlog(1, Backlog { blocks: 5, urgency: 0.5 }, 2);
        let told = published.read(now, 1300, &none);
        assert_eq!((told.work.clients_ns, told.work.background_ns), (700, 300));
        let class = told.background[1];
        assert_eq!((class.done_blocks, class.backlog_blocks, class.urgency), (8, 5, 0.5));
        assert_eq!((class.slices, class.slice_ns_max, class.volumes_due), (2, 200, 2));
    }
}
