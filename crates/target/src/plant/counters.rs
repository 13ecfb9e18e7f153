//! The figures that reactors publish: counts since the start, which only grow, and current values.

use std::time::Duration;
use wattio_law::{InFlight, Octaves};
use wattio_units::Seconds;
use wattio_volume::Class;

/// The classes of background work, in the order of actions.
pub const CLASSES: [Class; Class::ALL.len()] = Class::ALL;

/// What one reactor has done, and what it has to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReactorCounters {
    /// Requests of its connections, from the socket to the socket.
    pub requests: RequestCounters,
    /// Its time.
    pub work: WorkTime,
    /// Background work of its volumes, in the order of [`CLASSES`].
    pub background: [ClassCounters; CLASSES.len()],
}

/// Requests of clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestCounters {
    /// How many arrived.
    pub arrived: u64,
    /// How many were answered.
    pub completed: u64,
    /// How many were given up, as their connection ended before they were answered.
    pub abandoned: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The sum of their latencies, in nanoseconds.
    pub latency_ns: u64,
    /// How their latencies spread.
    pub latencies: Octaves,
    /// When the oldest request arrived that is not answered, on the clock of the driver: a reactor
    /// that hangs lets it grow old without a word.
    pub oldest: Option<Duration>,
}

/// The time of a reactor in tasks. What looks for work without finding any is in no task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTime {
    /// In tasks of clients, in nanoseconds.
    pub clients_ns: u64,
    /// In background tasks, in nanoseconds.
    pub background_ns: u64,
    /// Tasks that it took up again after they had waited for a device.
    pub device_returns: u64,
}

/// One class of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassCounters {
    /// Processor time spent on it, in nanoseconds.
    pub done_ns: u64,
    /// Blocks that were worked through.
    pub done_blocks: u64,
    /// The longest that a slice of it took, in nanoseconds.
    pub slice_ns_max: u64,
    /// Slices in which something was done.
    pub slices: u64,
    /// Blocks that are due now.
    pub backlog_blocks: u64,
    /// Volumes that have any of them.
    pub volumes_due: u64,
    /// How pressing they are: 0 may wait, 1 clients wait for it.
    pub urgency: f64,
}

impl ReactorCounters {
    /// All reactors as one.
    #[must_use]
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.add(one);
        }
        sum
    }

    fn add(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.requests, &other.requests);
        mine.arrived += theirs.arrived;
        mine.completed += theirs.completed;
        mine.abandoned += theirs.abandoned;
        mine.reads += theirs.reads;
        mine.bytes += theirs.bytes;
        mine.latency_ns += theirs.latency_ns;
        mine.latencies.merge(&theirs.latencies);
        mine.oldest = [mine.oldest, theirs.oldest].into_iter().flatten().min();
        self.work.clients_ns += other.work.clients_ns;
        self.work.background_ns += other.work.background_ns;
        self.work.device_returns += other.work.device_returns;
        for (mine, theirs) in self.background.iter_mut().zip(&other.background) {
            mine.done_ns += theirs.done_ns;
            mine.done_blocks += theirs.done_blocks;
            mine.slices += theirs.slices;
            mine.slice_ns_max = mine.slice_ns_max.max(theirs.slice_ns_max);
            mine.backlog_blocks += theirs.backlog_blocks;
            mine.volumes_due += theirs.volumes_due;
            mine.urgency = mine.urgency.max(theirs.urgency);
        }
    }

    /// The requests under way at a time.
    #[must_use]
    pub fn in_flight(&self, now: Duration) -> InFlight {
        let gone = self.requests.completed + self.requests.abandoned;
        let requests = self.requests.arrived.saturating_sub(gone);
        let age = |since| Seconds(now.saturating_sub(since).as_secs_f64());
        InFlight { requests, oldest: self.requests.oldest.filter(|_| requests > 0).map(age) }
    }

    /// Whether nothing that only grows is less than it was.
    #[must_use]
    pub fn goes_on_from(&self, before: &Self) -> bool {
        let requests = |of: &Self| {
            let r = &of.requests;
            [r.arrived, r.completed, r.abandoned, r.reads, r.bytes, r.latency_ns]
        };
        let work = |of: &WorkTime| [of.clients_ns, of.background_ns, of.device_returns];
        let class = |of: &ClassCounters| [of.done_ns, of.done_blocks];
        let all = |of: &Self| -> Vec<u64> {
            let classes = of.background.iter().flat_map(class);
            requests(of).into_iter().chain(work(&of.work)).chain(classes).collect()
        };
        all(self).iter().zip(all(before)).all(|(now, then)| *now >= then)
    }
}
