//! The clients: when the next request comes and what it is.

use crate::ends::Ends;
use crate::event::Event;
use crate::load::{Load, LoadError, Pattern, Phase, SPAN_S_MAX, Senders, TraceSource};
use crate::queue::{EventQueue, Nanoseconds};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;
use wattio_plant::Server;
use wattio_trace::{Kind, Record};
use wattio_units::splitmix64;

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
    ends: Ends,
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
                Source::Trace(Trace { records, next, ends: Ends::default(), exhausted_at: None })
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
        let hit_share =
            if self.ends.follow(&record) { shape.hit_sequential } else { shape.hit_random };
        let draw = rng.next_u64() >> 32;
        // Stripes of 64 KiB go round the drives, each device's from a drive of its own on.
        let stripe = (record.offset_bytes >> 16).wrapping_add(first_stripe(record.device));
        Ok(Some(Arrival {
            read: record.kind == Kind::Read,
            hit: (draw as f64) < hit_share * TWO_POW_32,
            drive: (stripe % shape.drives) as u16,
            bytes: record.bytes,
            core_factor: shape.core_factor(record.bytes),
            drive_factor: shape.drive_factor(record.bytes),
        }))
    }
}

/// Where the stripes of a device begin. Numbers of devices are often multiples of a power of two,
/// as the number of drives may be: they are mixed, so that such devices do not share their drives.
fn first_stripe(device: u32) -> u64 {
    // The number before the first one of the sequence: device 0 begins at 0.
    splitmix64(u64::from(device), u64::MAX) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;
    use wattio_plant::SMALL;
    use wattio_trace::{Excerpt, Reader, Scaled};

    const COUNT: u64 = 10_000;

    /// The requests of sequential reads, of each device in turn, as they enter the server.
    fn arrivals(devices: &[u32], rate_scale: f64) -> Vec<Arrival> {
        let mut text = String::new();
        for at in 0..COUNT {
            let devices_count = devices.len() as u64;
            let device = devices[(at % devices_count) as usize];
            let offset = at / devices_count * 4096;
            writeln!(text, "{device},R,{offset},4096,{}", at * 1_000).expect("a string takes it");
        }
        let reader = Reader::from_bytes(text).expect("a trace");
        let records = Excerpt::new(reader, 0.0).expect("from its beginning");
        let records = Scaled::new(records, rate_scale, 1.0, 1).expect("in range");
        let server = Server::from_toml(SMALL).expect("sound");
        let mut sender =
            Sender::new(Load::Trace(Box::new(records)), &server, 1, 0.0).expect("a load");
        let mut queue = EventQueue::new();
        sender.begin(&mut queue);
        let mut found = Vec::new();
        while let Some(event) = queue.next() {
            found.extend(sender.arrive(0, event.at, &mut queue).expect("sound"));
        }
        found
    }

    /// Copies of a scaled trace stand on devices that differ in the upper bits only, and disks have
    /// minor numbers 0, 16, 32: sequential reads of several devices were random ones.
    #[test]
    fn sequential_reads_are_that_on_every_device() {
        let server = Server::from_toml(SMALL).expect("sound");
        let many: Vec<u32> = (0..500).map(|device| device * 3).collect();
        let cases: [(&[u32], f64); 5] = [
            (&[0], 1.0),
            (&[0], 4.0),
            (&[0, 16], 1.0),
            (&[8 << 20, 8 << 20 | 16], 3.0),
            (&many, 1.0),
        ];
        for (devices, rate_scale) in cases {
            let found = arrivals(devices, rate_scale);
            assert_eq!(found.len() as f64, COUNT as f64 * rate_scale);
            let hits = found.iter().filter(|arrival| arrival.hit).count() as f64;
            let firsts = devices.len() as f64 / COUNT as f64;
            let cache = &server.cache;
            let expected = firsts * cache.hit_random + (1.0 - firsts) * cache.hit_sequential;
            let off = hits / found.len() as f64 - expected;
            assert!(off.abs() < 0.015, "{} devices x{rate_scale}: off by {off}", devices.len());
        }
    }

    /// They all went to the drive of the request itself, where there is a power of two of them.
    #[test]
    fn copies_of_a_request_do_not_all_go_to_one_drive() {
        let mut same = 0;
        for copies in arrivals(&[0], 4.0).chunks(4) {
            same += u32::from(copies.iter().all(|copy| copy.drive == copies[0].drive));
        }
        assert_eq!(same, 0);
        let devices: Vec<u32> = (0..64).map(|device| device * 16).collect();
        for drive in 0..4 {
            let begun = devices.iter().filter(|&&device| first_stripe(device) % 4 == drive).count();
            assert!((8..=24).contains(&begun), "drive {drive}: {begun} of 64");
        }
    }
}
