//! The clients: when the next request comes and what it is.

use crate::event::Event;
use crate::load::{Load, LoadError, Pattern, Phase, SPAN_S_MAX, Senders, TraceSource};
use crate::queue::{EventQueue, Nanoseconds};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;
use wattio_plant::Server;
use wattio_trace::{Kind, Record};

/// A request that enters the server.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub read: bool,
    pub hit: bool,
    pub drive: u16,
    pub bytes: u32,
    pub core_factor: f32,
    pub drive_factor: f32,
}

/// Sends the requests of a load.
pub struct Sender {
    rng: Xoshiro256PlusPlus,
    shape: Shape,
    source: Source,
}

enum Source {
    Phases(Phases),
    Trace(Trace),
}

/// How a request's size and kind become work.
struct Shape {
    reference_bytes: f64,
    core_share: f64,
    drive_share: f64,
    hit_random: f64,
    hit_sequential: f64,
    drives: u64,
}

struct Phases {
    senders: Senders,
    phases: Vec<Phase>,
    at: usize,
    /// Ends of the phases.
    ends: Vec<Nanoseconds>,
    epoch: u32,
    gap_ns_mean: f64,
    outstanding: u32,
    /// Requests that are due and wait for a client to become free.
    waiting: u64,
    thresholds: Thresholds,
}

/// The draw of a request's kind from 32-bit integers.
#[derive(Clone, Copy, Debug, Default)]
struct Thresholds {
    read: u64,
    hit: u64,
    core_factor: f32,
    drive_factor: f32,
    bytes: u32,
}

struct Trace {
    records: Box<dyn TraceSource>,
    next: Option<Record>,
    /// End of the last request of each of a few devices, to tell sequential from random.
    ends: [(u32, u64); 8],
    exhausted_at: Option<Nanoseconds>,
}

const TWO_POW_32: f64 = 4_294_967_296.0;

impl Sender {
    /// `warmup_s` lengthens the first phase.
    ///
    /// # Errors
    /// When the load has a value out of its range or its trace cannot be read.
    pub fn new(load: Load, server: &Server, seed: u64, warmup_s: f64) -> Result<Self, LoadError> {
        load.check()?;
        let shape = Shape {
            reference_bytes: server.sizing.reference.0,
            core_share: server.sizing.core_share,
            drive_share: server.drives.as_ref().map_or(0.0, |drives| drives.size_share),
            hit_random: server.cache.hit_random,
            hit_sequential: server.cache.hit_sequential,
            drives: server.drives.as_ref().map_or(1, |drives| u64::from(drives.count)),
        };
        let source = match load {
            Load::Phases { senders, phases } => {
                let mut end_s = warmup_s;
                let ends = phases.iter().map(|phase| {
                    end_s += phase.span_s;
                    (end_s * 1e9).round() as u64
                });
                Source::Phases(Phases {
                    ends: ends.collect(),
                    senders,
                    phases,
                    at: 0,
                    epoch: 0,
                    gap_ns_mean: f64::INFINITY,
                    outstanding: 0,
                    waiting: 0,
                    thresholds: Thresholds::default(),
                })
            }
            Load::Trace(mut records) => {
                let next = next_of(&mut *records)?;
                let ends = [(u32::MAX, 0); 8];
                Source::Trace(Trace { records, next, ends, exhausted_at: None })
            }
        };
        Ok(Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed), shape, source })
    }

    /// Schedules the first request and the first change of phase.
    pub fn begin(&mut self, queue: &mut EventQueue<Event>) {
        match &mut self.source {
            Source::Phases(phases) => phases.enter(0, &self.shape, &mut self.rng, queue),
            Source::Trace(trace) => match trace.next {
                Some(first) => queue.schedule(first.time_ns, Event::Arrival { epoch: 0 }),
                None => trace.exhausted_at = Some(0),
            },
        }
    }

    /// Enters the next phase.
    pub fn next_phase(&mut self, now: Nanoseconds, queue: &mut EventQueue<Event>) {
        if let Source::Phases(phases) = &mut self.source {
            phases.at += 1;
            phases.enter(now, &self.shape, &mut self.rng, queue);
        }
    }

    /// The request that arrives now, unless the event is stale or no client is free; schedules the
    /// next one.
    #[inline]
    pub fn arrive(
        &mut self,
        epoch: u32,
        now: Nanoseconds,
        queue: &mut EventQueue<Event>,
    ) -> Result<Option<Arrival>, LoadError> {
        match &mut self.source {
            Source::Phases(phases) => {
                if epoch != phases.epoch {
                    return Ok(None);
                }
                phases.schedule_arrival(now, &mut self.rng, queue);
                if let Senders::Clients(clients) = phases.senders {
                    if phases.outstanding >= clients {
                        phases.waiting += 1;
                        return Ok(None);
                    }
                    phases.outstanding += 1;
                }
                Ok(Some(phases.draw(&self.shape, &mut self.rng)))
            }
            Source::Trace(trace) => trace.arrive(now, &self.shape, &mut self.rng, queue),
        }
    }

    /// The request that a client sends because its last one was answered.
    #[inline]
    pub fn draw_resend(&mut self) -> Arrival {
        match &mut self.source {
            Source::Phases(phases) => phases.draw(&self.shape, &mut self.rng),
            Source::Trace(_) => unreachable!("nobody resends in a trace"),
        }
    }

    /// A client has its answer at `at`, and may send again.
    #[inline]
    pub fn answered(&mut self, at: Nanoseconds, queue: &mut EventQueue<Event>) {
        let Source::Phases(phases) = &mut self.source else { return };
        if phases.senders == Senders::Open {
            return;
        }
        if phases.unlimited() {
            queue.schedule(at, Event::Resend);
        } else if phases.waiting > 0 {
            phases.waiting -= 1;
            queue.schedule(at, Event::Resend);
        } else {
            phases.outstanding -= 1;
        }
    }

    /// The share of a trace that was read.
    pub fn share_read(&self) -> Option<f64> {
        match &self.source {
            Source::Phases(_) => None,
            Source::Trace(trace) => Some(trace.records.share_read()),
        }
    }

    /// When the last request of a trace arrived.
    pub fn exhausted_at(&self) -> Option<Nanoseconds> {
        match &self.source {
            Source::Phases(_) => None,
            Source::Trace(trace) => trace.exhausted_at,
        }
    }
}

impl Shape {
    fn core_factor(&self, bytes: u32) -> f32 {
        let relative = f64::from(bytes) / self.reference_bytes;
        (1.0 - self.core_share + self.core_share * relative) as f32
    }

    fn drive_factor(&self, bytes: u32) -> f32 {
        let relative = f64::from(bytes) / self.reference_bytes;
        (1.0 - self.drive_share + self.drive_share * relative) as f32
    }

    fn thresholds(&self, pattern: &Pattern) -> Thresholds {
        let random = pattern.random_fraction;
        let hit = random * self.hit_random + (1.0 - random) * self.hit_sequential;
        Thresholds {
            read: (pattern.read_fraction * TWO_POW_32) as u64,
            hit: (hit * TWO_POW_32) as u64,
            core_factor: self.core_factor(pattern.io_bytes),
            drive_factor: self.drive_factor(pattern.io_bytes),
            bytes: pattern.io_bytes,
        }
    }
}

impl Phases {
    fn unlimited(&self) -> bool {
        self.phases[self.at].iops.is_none()
    }

    fn enter(
        &mut self,
        now: Nanoseconds,
        shape: &Shape,
        rng: &mut Xoshiro256PlusPlus,
        queue: &mut EventQueue<Event>,
    ) {
        let phase = self.phases[self.at];
        self.epoch += 1;
        self.thresholds = shape.thresholds(&phase.pattern);
        if self.at + 1 < self.phases.len() {
            queue.schedule(self.ends[self.at], Event::NextPhase);
        }
        match phase.iops {
            Some(rate) if rate > 0.0 => {
                self.gap_ns_mean = 1e9 / rate;
                self.schedule_arrival(now, rng, queue);
            }
            Some(_) => {}
            None => {
                let Senders::Clients(clients) = self.senders else { return };
                self.waiting = 0;
                for _ in self.outstanding..clients {
                    self.outstanding += 1;
                    queue.schedule(now, Event::Resend);
                }
            }
        }
    }

    #[inline]
    fn schedule_arrival(
        &mut self,
        now: Nanoseconds,
        rng: &mut Xoshiro256PlusPlus,
        queue: &mut EventQueue<Event>,
    ) {
        let exponential: f64 = rng.sample(Exp1);
        let gap_ns = (exponential * self.gap_ns_mean).min(1e18) as u64;
        queue.schedule(now + gap_ns, Event::Arrival { epoch: self.epoch });
    }

    #[inline]
    fn draw(&self, shape: &Shape, rng: &mut Xoshiro256PlusPlus) -> Arrival {
        let kind = rng.next_u64();
        let place = rng.next_u64() >> 32;
        Arrival {
            read: (kind & 0xffff_ffff) < self.thresholds.read,
            hit: (kind >> 32) < self.thresholds.hit,
            drive: ((place * shape.drives) >> 32) as u16,
            bytes: self.thresholds.bytes,
            core_factor: self.thresholds.core_factor,
            drive_factor: self.thresholds.drive_factor,
        }
    }
}

/// The next record of a trace, if there is one.
fn next_of(records: &mut dyn TraceSource) -> Result<Option<Record>, LoadError> {
    let next = records.next().transpose()?;
    match next {
        Some(record) if record.time_ns as f64 > SPAN_S_MAX * 1e9 => {
            let days = record.time_ns as f64 / 86400e9;
            Err(LoadError::Value {
                key: "trace".to_owned(),
                message: format!("a request comes {days:.0} days after the start"),
            })
        }
        next => Ok(next),
    }
}

impl Trace {
    fn arrive(
        &mut self,
        now: Nanoseconds,
        shape: &Shape,
        rng: &mut Xoshiro256PlusPlus,
        queue: &mut EventQueue<Event>,
    ) -> Result<Option<Arrival>, LoadError> {
        let Some(record) = self.next else { return Ok(None) };
        self.next = next_of(&mut *self.records)?;
        match self.next {
            Some(next) => queue.schedule(next.time_ns.max(now), Event::Arrival { epoch: 0 }),
            None => self.exhausted_at = Some(now),
        }
        let sequential = self.follows_on(&record);
        let hit_share = if sequential { shape.hit_sequential } else { shape.hit_random };
        let draw = rng.next_u64() >> 32;
        // Stripes of 64 KiB go round the drives.
        let stripe = (record.offset_bytes >> 16).wrapping_add(u64::from(record.device) * 7919);
        Ok(Some(Arrival {
            read: record.kind == Kind::Read,
            hit: (draw as f64) < hit_share * TWO_POW_32,
            drive: (stripe % shape.drives) as u16,
            bytes: record.bytes,
            core_factor: shape.core_factor(record.bytes),
            drive_factor: shape.drive_factor(record.bytes),
        }))
    }

    /// Whether a request begins where the last one on its device ended.
    fn follows_on(&mut self, record: &Record) -> bool {
        let slot = &mut self.ends[record.device as usize % 8];
        let follows = *slot == (record.device, record.offset_bytes);
        *slot = (record.device, record.offset_bytes.saturating_add(u64::from(record.bytes)));
        follows
    }
}
