//! The event-driven server: requests walk their steps, cores and drives serve them.

use crate::background::BackgroundWork;
use crate::drive::DriveArray;
use crate::group::{CoreGroup, Gating};
use crate::load::LoadError;
use crate::program::{Program, Step};
use crate::queue::{EventQueue, Nanoseconds};
use crate::sender::{Arrival, Sender};
use hdrhistogram::Histogram;
use rand::RngExt;
use rand::SeedableRng;
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;
use wattio_law::{Action, BackgroundPriority, Limits};
use wattio_plant::Server;

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A request arrives; stale when its epoch has passed.
    Arrival { epoch: u32 },
    /// A client sends its next request.
    Resend,
    /// The load goes into its next phase.
    NextPhase,
    /// A client task ends.
    CoreDone { group: u8, job: u32 },
    /// A background task ends.
    BackgroundDone { group: u8 },
    /// Time to look whether background work may begin on idle cores.
    BackgroundDue { group: u8 },
    /// A drive ends a request.
    DriveDone { job: u32 },
    /// A write is persistent.
    Persisted { job: u32 },
    /// Gated cores stop drawing power.
    CoresOff { group: u8, count: u16 },
    /// Cores are back.
    CoresOn { group: u8, count: u16 },
    /// The drives' energy is added up.
    SettleDrives,
    /// The caller wants control at this time; void when its epoch has passed.
    Stop { epoch: u32 },
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Job {
    started: Nanoseconds,
    core_factor: f32,
    drive_factor: f32,
    bytes: u32,
    drive: u16,
    step: u16,
}

/// Sums since the start of the run; differences of two copies describe what lies between them.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Requests that arrived.
    pub arrivals: u64,
    /// Requests answered.
    pub answered: u64,
    /// Reads among them.
    pub reads: u64,
    /// Their latencies in nanoseconds.
    pub latency_ns: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that went to a drive.
    pub drive_requests: u64,
    /// Integral of requests in the system, in request nanoseconds (for Little's law).
    pub in_system_ns: u64,
    /// Events of the kernel.
    pub events: u64,
}

/// Why [`Engine::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The time asked for has come.
    AtTime,
    /// As many requests arrived as the alarm was set to.
    Alarm,
}

/// A server under a load.
pub struct Engine {
    pub now: Nanoseconds,
    pub groups: Vec<CoreGroup>,
    pub drives: DriveArray,
    pub background: Vec<BackgroundWork>,
    pub totals: Totals,
    /// Latencies in nanoseconds since the caller last cleared it.
    pub latencies: Histogram<u32>,
    queue: EventQueue<What>,
    server: Server,
    program: Program,
    sender: Sender,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    in_system: crate::group::BusyClock,
    service_rng: Xoshiro256PlusPlus,
    core_spread: Spread,
    drive_spread: Spread,
    slice_ns: f64,
    network_ns: u64,
    background_first: bool,
    alarm_arrivals: u64,
    stop_epoch: u32,
}

/// How often the drives' energy is added up: their load is a mean over this time.
const SETTLE_DRIVES_NS: u64 = 100_000_000;
/// Latencies up to 1000 s are told apart; longer ones count as that.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// A shifted exponential factor with mean 1: constant at variation 0, exponential at 1.
#[derive(Clone, Copy, Debug)]
struct Spread {
    variation: f64,
}

impl Spread {
    #[inline]
    fn sample(self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        let exponential: f64 = rng.sample(Exp1);
        1.0 - self.variation + self.variation * exponential
    }
}

impl Engine {
    pub fn new(server: &Server, limits: &Limits, mut sender: Sender, seed: u64) -> Self {
        let slice_ns = server.background.as_ref().map_or(1.0, |work| work.slice.0 * 1e9);
        let limit_s = server.background.as_ref().map_or(0.0, |work| work.backlog_limit.0);
        let exists = f64::from(u8::from(server.background.is_some()));
        let mut queue = EventQueue::new();
        sender.begin(&mut queue);
        let mut engine = Self {
            now: 0,
            groups: limits
                .groups
                .iter()
                .map(|l| CoreGroup::new(l.clone(), &server.cores))
                .collect(),
            drives: DriveArray::new(server.drives.as_ref()),
            background: server
                .groups
                .iter()
                .map(|group| {
                    BackgroundWork::new(group.background_cores * exists, slice_ns, limit_s)
                })
                .collect(),
            totals: Totals::default(),
            latencies: new_histogram(),
            queue,
            program: Program::compile(server),
            sender,
            jobs: Vec::with_capacity(4096),
            free_jobs: Vec::with_capacity(4096),
            in_system: crate::group::BusyClock::default(),
            // Services draw from a stream of their own, so that twins see the same arrivals.
            service_rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5e71_1ce5),
            core_spread: Spread { variation: server.cores.time_variation },
            drive_spread: Spread {
                variation: server.drives.as_ref().map_or(0.0, |drives| drives.time_variation),
            },
            slice_ns,
            network_ns: (server.network.0 * 1e9).round() as u64,
            background_first: false,
            alarm_arrivals: u64::MAX,
            stop_epoch: 0,
            server: server.clone(),
        };
        for (at, work) in engine.background.iter().enumerate() {
            if work.exists() {
                let group = u8::try_from(at).unwrap_or_default();
                engine.queue.schedule(slice_ns as u64, What::BackgroundDue { group });
            }
        }
        if engine.drives.count() > 0 {
            engine.queue.schedule(SETTLE_DRIVES_NS, What::SettleDrives);
        }
        engine
    }

    /// Runs until `until`, or until `alarm` requests have arrived from now on.
    ///
    /// # Errors
    /// When the trace turns out to be damaged.
    pub fn run(&mut self, until: Nanoseconds, alarm: Option<u64>) -> Result<Stopped, LoadError> {
        self.alarm_arrivals = alarm.map_or(u64::MAX, |n| self.totals.arrivals.saturating_add(n));
        self.stop_epoch = self.stop_epoch.wrapping_add(1);
        let epoch = self.stop_epoch;
        self.queue.schedule(until, What::Stop { epoch });
        while let Some(event) = self.queue.next() {
            self.now = event.at;
            self.totals.events += 1;
            match event.what {
                What::CoreDone { group, job } => self.core_done(group, job),
                What::DriveDone { job } => self.drive_done(job),
                What::Arrival { epoch } => {
                    if self.arrival(epoch)? {
                        return Ok(Stopped::Alarm);
                    }
                }
                What::BackgroundDone { group } => self.background_done(group),
                What::Persisted { job } => {
                    self.answer(job);
                    self.next_step(job);
                }
                What::Resend => {
                    let arrival = self.sender.draw_resend();
                    self.enter(arrival);
                }
                What::BackgroundDue { group } => {
                    self.fill_with_background(usize::from(group));
                    let next = self.now + self.slice_ns as u64;
                    self.queue.schedule(next, What::BackgroundDue { group });
                }
                What::NextPhase => self.sender.next_phase(self.now, &mut self.queue),
                What::CoresOn { group, count } => self.cores_on(group, u32::from(count)),
                What::CoresOff { group, count } => {
                    self.groups[usize::from(group)].cores_off(u32::from(count), self.now);
                }
                What::SettleDrives => {
                    self.drives.settle(self.now);
                    self.queue.schedule(self.now + SETTLE_DRIVES_NS, What::SettleDrives);
                }
                What::Stop { epoch } if epoch == self.stop_epoch => break,
                What::Stop { .. } => {}
            }
        }
        Ok(Stopped::AtTime)
    }

    /// Puts an action into force.
    pub fn apply(&mut self, action: &Action) {
        let cores = &self.server.cores;
        for (at, &setting) in action.groups.iter().enumerate() {
            let group = u8::try_from(at).unwrap_or_default();
            let narrow = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
            match self.groups[at].apply(setting, cores, self.now) {
                Gating::None => {}
                Gating::Off(count) => {
                    let at = self.now + (cores.gate_off.0 * 1e9) as u64;
                    self.queue.schedule(at, What::CoresOff { group, count: narrow(count) });
                }
                Gating::On(count) => {
                    let at = self.now + (cores.gate_on.0 * 1e9) as u64;
                    self.queue.schedule(at, What::CoresOn { group, count: narrow(count) });
                }
            }
        }
        self.background_first = action.background.priority == BackgroundPriority::High;
        for work in &mut self.background {
            work.set_pace(action.background.pace, self.now);
        }
    }

    /// Adds up the cores' energy and the background work until now.
    pub fn settle(&mut self) {
        for group in &mut self.groups {
            group.settle(self.now);
        }
        for work in &mut self.background {
            work.update(self.now);
        }
        self.totals.in_system_ns = self.in_system.read(self.now);
    }

    /// Adds up the drives' energy until now. Their load is a mean between two settlings, so that
    /// laws with short windows must not cause any.
    pub fn settle_drives(&mut self) {
        self.drives.settle(self.now);
    }

    /// The share of the load's input that was read, for loads that have an end.
    pub fn load_share_read(&self) -> Option<f64> {
        self.sender.share_read()
    }

    /// When the last request of a trace arrived, once it has.
    pub fn exhausted_at(&self) -> Option<Nanoseconds> {
        self.sender.exhausted_at()
    }

    /// A request arrives; returns whether the alarm goes off.
    #[inline]
    fn arrival(&mut self, epoch: u32) -> Result<bool, LoadError> {
        if let Some(arrival) = self.sender.arrive(epoch, self.now, &mut self.queue)? {
            self.enter(arrival);
        }
        Ok(self.totals.arrivals >= self.alarm_arrivals)
    }

    #[inline]
    fn enter(&mut self, arrival: Arrival) {
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
        };
        self.totals.arrivals += 1;
        self.totals.reads += u64::from(arrival.read);
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
        self.walk(slot);
    }

    #[inline]
    fn next_step(&mut self, job: u32) {
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
                        self.begin_task(group, job, time_ns);
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
                    self.queue.schedule(self.now + time_ns, What::Persisted { job });
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

    #[inline]
    fn begin_task(&mut self, group: u8, job: u32, time_ns: f64) {
        let slot = &mut self.groups[usize::from(group)];
        let factor = f64::from(self.jobs[job as usize].core_factor);
        let spread = self.core_spread.sample(&mut self.service_rng);
        let stall_ns = slot.stalled_until.saturating_sub(self.now);
        let span_ns = (time_ns * slot.stretch * factor * spread) as u64 + stall_ns;
        slot.clients.start(self.now);
        self.queue.schedule(self.now + span_ns, What::CoreDone { group, job });
    }

    #[inline]
    fn core_done(&mut self, group: u8, job: u32) {
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
            slot.busy -= 1;
            return;
        }
        if self.background_first && self.background[at].take(self.now) {
            self.begin_background(group);
            return;
        }
        if let Some(next) = self.groups[at].queue.pop_front() {
            let step = usize::from(self.jobs[next as usize].step);
            if let Step::Core { time_ns, .. } = self.program.steps[step] {
                self.begin_task(group, next, time_ns);
            }
            return;
        }
        if self.background[at].take(self.now) {
            self.begin_background(group);
        } else {
            self.groups[at].busy -= 1;
        }
    }

    #[inline]
    fn begin_background(&mut self, group: u8) {
        let slot = &mut self.groups[usize::from(group)];
        let spread = self.core_spread.sample(&mut self.service_rng);
        let stall_ns = slot.stalled_until.saturating_sub(self.now);
        let span_ns = (self.slice_ns * slot.stretch * spread) as u64 + stall_ns;
        slot.background.start(self.now);
        self.queue.schedule(self.now + span_ns, What::BackgroundDone { group });
    }

    #[inline]
    fn background_done(&mut self, group: u8) {
        let at = usize::from(group);
        self.groups[at].background.end(self.now);
        self.background[at].done += 1;
        self.drives.hold_next(self.now);
        self.free_core(group);
        self.fill_with_background(at);
    }

    /// Begins released background work on idle cores.
    #[inline]
    fn fill_with_background(&mut self, at: usize) {
        while self.groups[at].has_free_core() && self.background[at].take(self.now) {
            self.groups[at].busy += 1;
            self.begin_background(u8::try_from(at).unwrap_or_default());
        }
    }

    #[inline]
    fn begin_drive(&mut self, job: u32, time_ns: f64, wake_ns: u64) {
        let factor = f64::from(self.jobs[job as usize].drive_factor);
        let spread = self.drive_spread.sample(&mut self.service_rng);
        let span_ns = (time_ns * factor * spread) as u64 + wake_ns;
        self.queue.schedule(self.now + span_ns, What::DriveDone { job });
    }

    #[inline]
    fn drive_done(&mut self, job: u32) {
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
    }

    /// The client has its answer.
    #[inline]
    fn answer(&mut self, job: u32) {
        let job = &self.jobs[job as usize];
        let latency_ns = self.now - job.started + self.network_ns;
        self.totals.answered += 1;
        self.totals.latency_ns += latency_ns;
        self.totals.bytes += u64::from(job.bytes);
        self.in_system.end(self.now);
        self.latencies.saturating_record(latency_ns);
        self.sender.answered(self.now + self.network_ns, &mut self.queue);
    }

    fn cores_on(&mut self, group: u8, count: u32) {
        let at = usize::from(group);
        if !self.groups[at].cores_on(count) {
            return;
        }
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

/// A histogram of latencies in nanoseconds, true to three digits.
pub fn new_histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).unwrap_or_else(|_| unreachable_bounds())
}

fn unreachable_bounds() -> Histogram<u32> {
    unreachable!("the bounds of the histogram are constants that its library accepts")
}
