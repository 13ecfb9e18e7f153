//! How requests are served: step by step, on cores and drives.

use super::Engine;
use super::job::{Answered, Job};
use crate::event::Event;
use crate::load::LoadError;
use crate::program::Step;
use crate::queue::Nanoseconds;
use crate::sender::Arrival;
use wattio_plant::Wake;
use wattio_units::Seconds;

/// More requests than this in the server at once mean that the load exceeds it for good.
const REQUESTS_MAX: usize = 10_000_000;
/// When a request started that has its answer.
const ANSWERED: u64 = u64::MAX;

impl Engine {
    /// A request arrives.
    #[inline]
    pub(super) fn arrival(&mut self, epoch: u32) -> Result<(), LoadError> {
        if let Some(arrival) = self.sender.arrive(epoch, self.now, &mut self.queue)? {
            self.enter(arrival);
            let in_system = self.jobs.len() - self.free_jobs.len();
            if in_system > REQUESTS_MAX {
                return Err(LoadError::Value {
                    key: "load".to_owned(),
                    message: format!("exceeds the server: {in_system} requests wait in it"),
                });
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn enter(&mut self, arrival: Arrival) {
        let step = match (arrival.read, arrival.hit) {
            (false, _) => self.program.write,
            (true, false) => self.program.read,
            (true, true) => self.program.read_hit,
        };
        let job = Job {
            started: self.now,
            core_factor: arrival.core_factor,
            drive_factor: arrival.drive_factor,
            bytes: arrival.bytes,
            drive: arrival.drive,
            step,
            read: arrival.read,
        };
        self.totals.arrivals += 1;
        self.in_system.start(self.now);
        let slot = match self.free_jobs.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = job;
                slot
            }
            None => {
                self.jobs.push(job);
                u32::try_from(self.jobs.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.forget_answered();
        self.arrived.push_back((self.now, slot));
        self.walk(slot);
    }

    /// Lets go of arrivals that were answered, from the oldest one on.
    #[inline]
    pub(super) fn forget_answered(&mut self) {
        while let Some(&(started, slot)) = self.arrived.front()
            && self.jobs[slot as usize].started != started
        {
            self.arrived.pop_front();
        }
    }

    #[inline]
    pub(super) fn next_step(&mut self, job: u32) {
        self.jobs[job as usize].step += 1;
        self.walk(job);
    }

    /// Takes a job as far as it gets without waiting.
    #[inline]
    fn walk(&mut self, job: u32) {
        loop {
            let step = usize::from(self.jobs[job as usize].step);
            match self.program.steps[step] {
                Step::Core { group, time_ns } => {
                    let at = usize::from(group);
                    if self.groups[at].has_free_core() {
                        self.groups[at].busy += 1;
                        self.begin_on_idle_core(group, job, time_ns);
                    } else {
                        self.groups[at].queue.push_back(job);
                    }
                    return;
                }
                Step::DriveRead { time_ns } | Step::DriveWrite { time_ns } => {
                    self.totals.drive_requests += 1;
                    let drive = usize::from(self.jobs[job as usize].drive);
                    if let Some(wake_ns) = self.drives.accept(drive, job, self.now) {
                        self.begin_drive(job, time_ns, wake_ns);
                    }
                    return;
                }
                Step::Persist { time_ns } => {
                    self.queue.schedule(self.now + time_ns, Event::Persisted { job });
                    return;
                }
                Step::Answer => {
                    self.answer(job);
                    self.jobs[job as usize].step += 1;
                }
                Step::End { answers } => {
                    if answers {
                        self.answer(job);
                    }
                    self.free_jobs.push(job);
                    return;
                }
            }
        }
    }

    /// A task that comes to a core without one pays for its waking, unless the core has ended
    /// another just now: it does not sleep in between.
    #[inline]
    fn begin_on_idle_core(&mut self, group: u8, job: u32, time_ns: f64) {
        let sleeps = self.groups[usize::from(group)].freed_at != self.now;
        match self.wake.filter(|_| sleeps) {
            Some(wake) => {
                let at = self.now + wait_ns(wake);
                self.queue.schedule(at, Event::CoreAwake { group, job });
            }
            None => self.begin_task(group, job, time_ns),
        }
    }

    #[inline]
    pub(super) fn core_awake(&mut self, group: u8, job: u32) {
        let step = usize::from(self.jobs[job as usize].step);
        let Some(wake) = self.wake else { return };
        if let Step::Core { time_ns, .. } = self.program.steps[step] {
            let slept_since =
                self.groups[usize::from(group)].freed_at.saturating_add(wait_ns(wake));
            let sleep = Seconds(self.now.saturating_sub(slept_since) as f64 * 1e-9);
            self.begin_after(group, job, time_ns, wake.work_after(sleep).0 * 1e9);
        }
    }

    #[inline]
    fn begin_task(&mut self, group: u8, job: u32, time_ns: f64) {
        self.begin_after(group, job, time_ns, 0.0);
    }

    /// Begins a task after other work of its core.
    #[inline]
    fn begin_after(&mut self, group: u8, job: u32, time_ns: f64, before_ns: f64) {
        let slot = &mut self.groups[usize::from(group)];
        let factor = f64::from(self.jobs[job as usize].core_factor);
        let spread = self.core_spread.sample(&mut self.services);
        let stall_ns = slot.stalled_until.saturating_sub(self.now);
        let work_ns = time_ns * slot.stretch * factor * spread + before_ns * slot.stretch;
        let span_ns = whole(work_ns) + stall_ns;
        slot.clients.start(self.now);
        self.queue.schedule(self.now + span_ns, Event::CoreDone { group, job });
    }

    #[inline]
    pub(super) fn core_done(&mut self, group: u8, job: u32) {
        let at = usize::from(group);
        self.groups[at].clients.end(self.now);
        self.free_core(group);
        self.next_step(job);
    }

    /// A core of the group ended a task: it takes the next one or becomes idle.
    #[inline]
    fn free_core(&mut self, group: u8) {
        let at = usize::from(group);
        let slot = &mut self.groups[at];
        if slot.busy > slot.usable {
            slot.core_left(self.now);
            return;
        }
        let work = &mut self.background[at];
        if self.background_first && work.take(self.now) {
            self.begin_background(group);
        } else if let Some(next) = slot.queue.pop_front() {
            let step = usize::from(self.jobs[next as usize].step);
            if let Step::Core { time_ns, .. } = self.program.steps[step] {
                self.begin_task(group, next, time_ns);
            }
        } else if work.take(self.now) {
            self.begin_background(group);
        } else {
            slot.busy -= 1;
            slot.freed_at = self.now;
        }
    }

    #[inline]
    fn begin_background(&mut self, group: u8) {
        let slot = &mut self.groups[usize::from(group)];
        let spread = self.core_spread.sample(&mut self.services);
        let stall_ns = slot.stalled_until.saturating_sub(self.now);
        let span_ns = whole(self.slice_ns * slot.stretch * spread) + stall_ns;
        slot.background.start(self.now);
        self.queue.schedule(self.now + span_ns, Event::BackgroundDone { group });
    }

    #[inline]
    pub(super) fn background_done(&mut self, group: u8) {
        let at = usize::from(group);
        self.groups[at].background.end(self.now);
        self.background[at].done += 1;
        self.drives.hold_next(self.now);
        self.free_core(group);
        self.fill_with_background(at);
    }

    /// Begins released background work on idle cores.
    #[inline]
    pub(super) fn fill_with_background(&mut self, at: usize) {
        loop {
            let slot = &mut self.groups[at];
            if !slot.has_free_core() || !self.background[at].take(self.now) {
                return;
            }
            slot.busy += 1;
            self.begin_background(u8::try_from(at).unwrap_or_default());
        }
    }

    #[inline]
    fn begin_drive(&mut self, job: u32, time_ns: f64, wake_ns: u64) {
        let factor = f64::from(self.jobs[job as usize].drive_factor);
        let spread = self.drive_spread.sample(&mut self.services);
        let span_ns = whole(time_ns * factor * spread) + wake_ns;
        self.queue.schedule(self.now + span_ns, Event::DriveDone { job });
    }

    #[inline]
    pub(super) fn drive_done(&mut self, job: u32) {
        let drive = usize::from(self.jobs[job as usize].drive);
        if let Some(next) = self.drives.finish(drive, self.now) {
            let step = usize::from(self.jobs[next as usize].step);
            if let Step::DriveRead { time_ns } | Step::DriveWrite { time_ns } =
                self.program.steps[step]
            {
                self.begin_drive(next, time_ns, 0);
            }
        }
        self.next_step(job);
        let step = usize::from(self.jobs[job as usize].step);
        if let Step::Core { group, .. } = self.program.steps[step] {
            self.groups[usize::from(group)].returns_from_drives += 1;
        }
    }

    /// The client has its answer.
    #[inline]
    pub(super) fn answer(&mut self, job: u32) {
        let job = &mut self.jobs[job as usize];
        let latency_ns = self.now - job.started + self.network_ns;
        if let Some(answers) = &mut self.answers {
            answers.push(Answered { arrived_ns: job.started, latency_ns });
        }
        job.started = ANSWERED;
        self.totals.answered += 1;
        self.totals.latency_ns += latency_ns;
        self.totals.bytes += u64::from(job.bytes);
        self.totals.reads += u64::from(job.read);
        self.in_system.end(self.now);
        self.latencies.saturating_record(latency_ns);
        self.spread.record(latency_ns);
        self.sender.answered(self.now + self.network_ns, &mut self.queue);
    }

    pub(super) fn cores_on(&mut self, group: u8, epoch: u16) {
        let at = usize::from(group);
        if self.groups[at].epoch != epoch {
            return;
        }
        self.groups[at].cores_on();
        while self.groups[at].has_free_core() {
            let Some(next) = self.groups[at].queue.pop_front() else { break };
            let step = usize::from(self.jobs[next as usize].step);
            if let Step::Core { time_ns, .. } = self.program.steps[step] {
                self.groups[at].busy += 1;
                self.begin_task(group, next, time_ns);
            }
        }
        self.fill_with_background(at);
    }
}

fn wait_ns(wake: Wake) -> Nanoseconds {
    (wake.wait.0 * 1e9).round() as Nanoseconds
}

/// The whole nanoseconds of a span that is not negative. By way of a signed number, which a
/// processor makes of a float in fewer steps.
#[inline]
fn whole(span_ns: f64) -> u64 {
    span_ns as i64 as u64
}
