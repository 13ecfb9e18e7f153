//! Background work of one core group: how much is due, and how much may start.

use crate::queue::Nanoseconds;

/// Work becomes due at a steady rate and is released at that rate, or at the rate of a budget, while
/// there is any; released work begins whenever a core is free. Amounts are tasks ("slices") of one
/// length at the highest frequency.
#[derive(Debug)]
pub struct BackgroundWork {
    /// Tasks that become due per nanosecond.
    due_rate: f64,
    /// Tasks that are released per nanosecond.
    release_rate: f64,
    /// The most that is released and not begun.
    release_depth: f64,
    slice_ns: f64,
    /// Due and not begun.
    due: f64,
    due_limit: f64,
    /// Released and not begun, in a bucket of limited depth so that a starved group does not save
    /// up a flood.
    released: f64,
    updated: Nanoseconds,
    /// The most tasks that were ever due at once, since the last [`Self::forget_delay`].
    due_most: f64,
    /// Tasks that became due since the start.
    pub offered: f64,
    /// Tasks that ended since the start.
    pub done: u64,
}

/// Depth of the bucket of released work, in nanoseconds' worth at the released rate.
const RELEASE_DEPTH_NS: f64 = 1e6;

impl BackgroundWork {
    /// `cores` is the work due in cores' worth, `slice_ns` the length of a task, `limit_s` how
    /// many seconds' worth of due work is remembered; what makes a task is, always.
    pub fn new(cores: f64, slice_ns: f64, limit_s: f64) -> Self {
        let due_rate = cores / slice_ns;
        Self {
            due_rate,
            release_rate: due_rate,
            release_depth: release_depth(due_rate, slice_ns),
            slice_ns,
            due: 0.0,
            due_limit: (due_rate * limit_s * 1e9).max(task_and_more(due_rate, slice_ns)),
            released: 0.0,
            updated: 0,
            due_most: 0.0,
            offered: 0.0,
            done: 0,
        }
    }

    /// Whether there is any background work in this group at all.
    pub fn exists(&self) -> bool {
        self.due_rate > 0.0
    }

    /// Makes so much work due that there is always some.
    pub fn fill(&mut self) {
        if self.exists() {
            self.due_limit = f64::INFINITY;
            self.due = f64::INFINITY;
        }
    }

    /// Tasks that are due and not begun.
    pub fn backlog(&self) -> f64 {
        self.due
    }

    /// Work that becomes due, in cores' worth.
    pub fn cores_due(&self) -> f64 {
        self.due_rate * self.slice_ns
    }

    /// The longest that work which is done in the order in which it becomes due has waited, in
    /// nanoseconds.
    pub fn delay_ns_max(&self) -> f64 {
        if self.exists() { self.due_most / self.due_rate } else { 0.0 }
    }

    /// Measures the longest delay from now on.
    pub fn forget_delay(&mut self) {
        self.due_most = self.due;
    }

    /// Releases so many cores' worth of work from `now` on; `None`: as it becomes due.
    pub fn set_budget(&mut self, cores: Option<f64>, now: Nanoseconds) {
        self.update(now);
        self.release_rate = cores.map_or(self.due_rate, |cores| cores / self.slice_ns);
        self.release_depth = release_depth(self.release_rate, self.slice_ns);
        self.released = least(self.released, self.release_depth);
        if self.release_rate == 0.0 {
            self.released = 0.0;
        }
    }

    /// Takes one task to begin now, if one is due and released.
    #[inline]
    pub fn take(&mut self, now: Nanoseconds) -> bool {
        self.update(now);
        let ready = self.due >= 1.0 && self.released >= 1.0;
        if ready {
            self.due -= 1.0;
            self.released -= 1.0;
        }
        ready
    }

    /// Brings the amounts up to `now`; twice at one time is as good as once.
    #[inline]
    pub fn update(&mut self, now: Nanoseconds) {
        if now == self.updated {
            return;
        }
        // By way of a signed number, which a processor turns into a float in one step.
        let span_ns = (now - self.updated) as i64 as f64;
        let became_due = span_ns * self.due_rate;
        self.updated = now;
        self.offered += became_due;
        self.due = least(self.due + became_due, self.due_limit);
        if self.due > self.due_most {
            self.due_most = self.due;
        }
        self.released = least(self.released + span_ns * self.release_rate, self.release_depth);
    }
}

/// How many tasks may be saved up at a rate of release.
fn release_depth(rate: f64, slice_ns: f64) -> f64 {
    (rate * RELEASE_DEPTH_NS).max(task_and_more(rate, slice_ns))
}

/// A task and what comes at a rate while one lasts. Idle cores look for work that often, and leave
/// less than a task: with no less room, none of what comes until they look again is lost.
fn task_and_more(rate: f64, slice_ns: f64) -> f64 {
    1.0 + rate * slice_ns
}

/// The lesser of two numbers, neither of which is NaN: one instruction where `f64::min` takes five.
#[inline]
fn least(one: f64, other: f64) -> f64 {
    if one > other { other } else { one }
}
