//! Where a format's parser puts its records: a batch, checked for the order of time.

use serde::Serialize;

use crate::Record;

/// Requests of a trace that carry no data and are therefore left out of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Reads or writes of zero bytes.
    pub zero_length: u64,
    /// Flushes and other barriers.
    pub flushes: u64,
    /// Discards (trim, unmap).
    pub discards: u64,
    /// Other commands without data for or from a client, such as an inquiry.
    pub others: u64,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.zero_length + self.flushes + self.discards + self.others
    }
}

/// Farthest that time may go back between two records before it counts as damage.
///
/// Tracers write a record when the request ends, or collect records per processor, so neighbours
/// swap; a jump of more than this comes from a damaged stamp or from files glued together.
pub(crate) const BACKWARDS_NS_MAX: u64 = 60_000_000_000;

/// Latest time stamp taken; leaves room to add spans to it without overflow.
pub(crate) const TIME_NS_MAX: u64 = u64::MAX - BACKWARDS_NS_MAX;

/// A batch of records as they stand in the file, time stamps not yet counted from the first.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// The batch.
    pub records: Vec<Record>,
    /// Whether a record of the batch is earlier than one before it.
    pub disordered: bool,
    /// What was left out so far, over all batches.
    pub skipped: Skipped,
    /// Records put here or skipped so far, over all batches.
    pub seen: u64,
    latest_ns: u64,
}

impl Sink {
    /// Take a record; the text of the fault where its time is impossible.
    #[inline]
    pub fn push(&mut self, record: Record) -> Result<(), String> {
        if record.time_ns < self.latest_ns {
            self.disordered = true;
            let back_ns = self.latest_ns - record.time_ns;
            if back_ns > BACKWARDS_NS_MAX {
                return Err(backwards(back_ns));
            }
        } else {
            if record.time_ns > TIME_NS_MAX {
                return Err(format!("the time {} ns is too large", record.time_ns));
            }
            self.latest_ns = record.time_ns;
        }
        self.seen += 1;
        if record.bytes == 0 {
            self.skipped.zero_length += 1;
            return Ok(());
        }
        self.records.push(record);
        Ok(())
    }

    /// Count a request that is left out.
    pub fn skip(&mut self, what: impl FnOnce(&mut Skipped) -> &mut u64) {
        self.seen += 1;
        *what(&mut self.skipped) += 1;
    }
}

#[cold]
fn backwards(back_ns: u64) -> String {
    format!(
        "time goes back by {:.3} s; records may be out of order by at most {} s",
        back_ns as f64 / 1e9,
        BACKWARDS_NS_MAX / 1_000_000_000
    )
}
