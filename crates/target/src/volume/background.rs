//! When a volume does background work: at once if clients wait for it, else while there is nothing
//! else to do.

use super::VolumeLane;
use super::budget::{Budgets, Rates};
use crate::plant::CLASSES;
use crate::reactor::Published;
use std::time::{Duration, Instant};
use wattio_volume::{Backlog, Class, Counters};

/// Background work of a volume in one turn ends with the slice that passes this: requests may have
/// come meanwhile.
const SLICE: Duration = Duration::from_micros(500);
/// Writes that were answered are on their way to the device after this, at the latest.
const GATHERING: Duration = Duration::from_millis(5);
/// The first tour begins after this part of the period: a host that restarts often has one, too.
const FIRST_TOUR: u32 = 100;
/// What is not done at a time of its own, as a scrub is.
const WANTED: [Class; 3] = [Class::Collect, Class::Checkpoint, Class::Rebuild];
/// Slices of a class that clients wait for, in a turn that has requests too.
const URGENT_SLICES: usize = 4;

/// How often everything is read, and how much devices are given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time of a tour; `None`: only when it is asked for.
    pub scrub_period: Option<Duration>,
    /// Operations that the devices of a volume are given at once, at most.
    pub device_depth: usize,
}

#[derive(Debug)]
pub(super) struct Background {
    pace: Pace,
    scrub: Scrub,
    budgets: Budgets,
    /// Whether the volume is being closed, for which there are no budgets.
    is_closing: bool,
    /// Which class comes first in the next turn with requests: it has no time left for all of them.
    first: usize,
    /// What there was to do of each class, in the order of [`CLASSES`], after the last turn's work.
    backlogs: [Backlog; CLASSES.len()],
}

/// Where the scrub is.
#[derive(Debug)]
struct Scrub {
    /// When the next tour begins, or goes on.
    next: Option<Instant>,
    /// Time between two slices of the tour under way; none if somebody waits for it.
    rest: Duration,
}

/// What is left of the background work after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// There is more to do now.
    Now,
    /// There is something to do then.
    At(Instant),
    /// Nothing, until something else happens.
    Nothing,
}

impl Left {
    /// Whichever comes first.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, _) | (_, Self::Now) => Self::Now,
            (Self::At(one), Self::At(another)) => Self::At(one.min(another)),
            (Self::Nothing, left) | (left, Self::Nothing) => left,
        }
    }
}

impl Background {
    pub(super) const fn new(pace: Pace) -> Self {
        let scrub = Scrub { next: None, rest: Duration::ZERO };
        let nothing = Backlog { blocks: 0, urgency: 0.0 };
        let backlogs = [nothing; CLASSES.len()];
        Self { pace, scrub, budgets: Budgets::new(), is_closing: false, first: 0, backlogs }
    }
}

impl VolumeLane {
    /// Does background work; `is_idle` if nothing has happened in this turn. `random` draws where a
    /// tour begins. What is done is published.
    pub fn work(
        &mut self,
        now: Instant,
        is_idle: bool,
        published: &Published,
        random: impl FnOnce() -> u64,
    ) -> Left {
        let gathering = self.gather(now);
        let left = self.work_on(now, is_idle, published, random);
        // After the work: nobody looks again before something else happens.
        self.background.backlogs = CLASSES.map(|class| self.volume.backlog(class));
        left.sooner(gathering)
    }

    /// What there is to do of each class, in the order of [`CLASSES`].
    pub const fn backlogs(&self) -> &[Backlog; CLASSES.len()] {
        &self.background.backlogs
    }

    /// How much of a core's time each class may take from now on.
    pub fn set_budgets(&mut self, rates: Rates, now: Instant) {
        if !self.background.is_closing {
            self.background.budgets.set(rates, now);
        }
    }

    /// Writes that were answered wait for others to share their record, but not for long.
    fn gather(&mut self, now: Instant) -> Left {
        if self.volume.buffered_blocks() == 0 {
            self.waiting_since = None;
            return Left::Nothing;
        }
        let until = *self.waiting_since.get_or_insert(now) + GATHERING;
        if now < until {
            return Left::At(until);
        }
        self.waiting_since = Some(now);
        self.volume.hurry();
        Left::At(now + GATHERING)
    }

    fn work_on(
        &mut self,
        now: Instant,
        is_idle: bool,
        published: &Published,
        random: impl FnOnce() -> u64,
    ) -> Left {
        let scrub_is_due = self.scrub_is_due(now, random);
        let left = if is_idle {
            self.work_until(now, published)
        } else {
            self.work_beside_requests(now, published)
        };
        if is_idle && left == Left::Now {
            return left;
        }
        // What else may be done now is done, though more of it may wait for its budget.
        left.sooner(self.scrub(now, scrub_is_due, published))
    }

    /// What a turn with requests does: what clients wait for, and a little of what would never be
    /// done if there were no other turns.
    fn work_beside_requests(&mut self, now: Instant, published: &Published) -> Left {
        if !self.is_wanted() {
            return Left::Nothing;
        }
        let began = Instant::now();
        self.background.first = (self.background.first + 1) % WANTED.len();
        let (later, first) = WANTED.split_at(self.background.first);
        for &class in first.iter().chain(later) {
            let Backlog { blocks, urgency } = self.volume.backlog(class);
            // Collecting pays only where space is scarce.
            let is_due = blocks > 0 && class != Class::Collect;
            let slices = if urgency >= 1.0 {
                URGENT_SLICES
            } else {
                usize::from(is_due && self.background.budgets.may(class, now))
            };
            for _ in 0..slices {
                if began.elapsed() >= SLICE {
                    return Left::Now;
                }
                if !self.slice(class, published) {
                    break;
                }
            }
        }
        Left::Now
    }

    /// A slice of the scrub, if one is due.
    fn scrub(&mut self, now: Instant, is_due: bool, published: &Published) -> Left {
        if !is_due {
            return self.scrub_time();
        }
        if !self.background.budgets.may(Class::Scrub, now) {
            return Left::At(self.background.budgets.next(Class::Scrub, now));
        }
        let checked = self.volume.counters().scrubbed_blocks;
        match self.slice(Class::Scrub, published) {
            // What was read is not checked yet.
            true if self.volume.counters().scrubbed_blocks == checked
                && self.volume.scrub_progress().is_some() =>
            {
                Left::Now
            }
            true => self.after_scrub(now),
            // It waits for a device.
            false => Left::Nothing,
        }
    }

    fn scrub_time(&self) -> Left {
        self.background.scrub.next.map_or(Left::Nothing, Left::At)
    }

    /// Whether there is something to collect, a checkpoint to write or a device to fill.
    fn is_wanted(&self) -> bool {
        WANTED.into_iter().any(|class| self.volume.backlog(class).blocks > 0)
    }

    /// One slice of a class; whether there was something to do.
    fn slice(&mut self, class: Class, published: &Published) -> bool {
        let blocks = blocks_done(self.volume.counters(), class);
        let began = Instant::now();
        let has_done = self.volume.background(class);
        let took = began.elapsed();
        if has_done {
            let blocks = blocks_done(self.volume.counters(), class) - blocks;
            published.worked(class as usize, took, blocks);
            self.background.budgets.spend(class, took);
        }
        has_done
    }

    /// Collects, writes checkpoints and fills a device for a while, or until nothing is to be done
    /// or may be.
    fn work_until(&mut self, now: Instant, published: &Published) -> Left {
        loop {
            let (mut has_done, mut later) = (false, Left::Nothing);
            for class in WANTED {
                // As it is now: one class makes work for another.
                let backlog = self.volume.backlog(class);
                if backlog.urgency >= 1.0 || self.background.budgets.may(class, Instant::now()) {
                    has_done |= self.slice(class, published);
                } else if backlog.blocks > 0 {
                    later = later.sooner(Left::At(self.background.budgets.next(class, now)));
                }
            }
            if !has_done {
                return later;
            }
            if now.elapsed() >= SLICE {
                return Left::Now;
            }
        }
    }

    /// Begins to close the volume; what is needed for it is background work, without a budget.
    pub fn close(&mut self) {
        self.background.budgets = Budgets::new();
        self.background.is_closing = true;
        self.volume.close();
    }

    /// Whether the volume is closed.
    pub fn is_closed(&self) -> bool {
        self.volume.is_closed()
    }

    /// Begins a tour of the scrub at once, as fast as there is time for it; whether none was under
    /// way.
    pub fn scrub_now(&mut self, now: Instant, random: u64) -> bool {
        self.background.scrub = Scrub { next: Some(now), rest: Duration::ZERO };
        let is_new = self.volume.scrub_progress().is_none();
        self.volume.begin_scrub(random);
        is_new
    }

    fn scrub_is_due(&mut self, now: Instant, random: impl FnOnce() -> u64) -> bool {
        if self.volume.has_repairs() {
            return true;
        }
        let Some(period) = self.background.pace.scrub_period else {
            return self.volume.scrub_progress().is_some();
        };
        let next = *self.background.scrub.next.get_or_insert(now + period / FIRST_TOUR);
        if now < next {
            return false;
        }
        if self.volume.scrub_progress().is_none() {
            self.volume.begin_scrub(random());
            self.background.scrub.rest = (period / 2).div_f64(self.scrub_steps() as f64);
        }
        true
    }

    /// About how many chunks a tour checks: of segments in use all is read, also what is not live, and
    /// of the map.
    fn scrub_steps(&self) -> u64 {
        let segments = self.volume.geometry().segments - self.volume.free_segments();
        let chunks = self.volume.geometry().segment_blocks / 100 + 1;
        u64::from(segments) * u64::from(chunks) + self.volume.scrub_map_chunks() + 1
    }

    fn after_scrub(&mut self, now: Instant) -> Left {
        if self.volume.has_repairs() {
            return Left::Now;
        }
        // What was repaired out of turn leaves the tour as it was.
        if let Some(next) = self.background.scrub.next.filter(|next| *next > now) {
            return Left::At(next);
        }
        let period = self.background.pace.scrub_period;
        let rest = match (self.volume.scrub_progress(), period) {
            (Some(_), _) if self.background.scrub.rest.is_zero() => {
                return Left::Now;
            }
            (Some(_), _) => self.background.scrub.rest,
            (None, Some(period)) => period / 2,
            (None, None) => {
                self.background.scrub.next = None;
                return Left::Nothing;
            }
        };
        let next = now + rest;
        self.background.scrub.next = Some(next);
        Left::At(next)
    }
}

/// Blocks that were worked through of a class.
const fn blocks_done(counters: Counters, class: Class) -> u64 {
    match class {
        Class::Collect => counters.moved_blocks,
        Class::Checkpoint => counters.checkpoint_blocks,
        Class::Scrub => counters.scrubbed_blocks,
        Class::Rebuild => counters.rebuilt_blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Plan, make};
    use crate::device::Device;
    use crate::open::open_volume;
    use crate::server::Volume;
    use crate::token::Token;
    use crate::volume::VolumeMemory;
    use std::path::PathBuf;
    use wattio_pages::Recycler;
    use wattio_ring::{Ring, Wait};
    use wattio_target_config::DEVICE_DEPTH;
    use wattio_volume::{Compression, DeviceRole, OpenOptions};

    /// More turns than anything here takes.
    const TURNS_MAX: usize = 100_000;

    struct Busy {
        _folder: tempfile::TempDir,
        lane: VolumeLane,
        ring: Ring,
        published: Published,
    }

    impl Busy {
        /// A volume on devices of which all but the first are new.
        fn new(devices: usize, pace: Pace) -> Option<Self> {
            let mut ring = Ring::new(64).ok()?;
            let folder = tempfile::tempdir().unwrap();
            let paths = |count| (0..count).map(|at: usize| folder.path().join(at.to_string()));
            let devices: Vec<PathBuf> = paths(devices).collect();
            let plan = Plan {
                devices: devices.clone(),
                size_bytes: Some(8 << 20),
                segment_bytes: 256 << 10,
                spare_share: None,
                compression: Compression::None,
                is_forced: false,
            };
            make(&plan).unwrap();
            for device in &devices[1..] {
                std::fs::write(device, []).unwrap();
            }
            let open =
                OpenOptions { map_bytes_max: 1 << 20, accept_missing: true, accept_loss: false };
            let export = "disk".to_owned();
            let wanted = Volume { export, devices, is_read_only: false, open };
            let opened = open_volume(&wanted).unwrap();
            let mut add = |device: Device| ring.add(device.descriptor().unwrap()).unwrap();
            let handles = opened.devices.into_iter().map(|device| device.map(&mut add)).collect();
            let volume = (opened.volume, opened.opening);
            let memory = VolumeMemory { cache_bytes: 0, write_buffer_bytes: 0 };
            let lane = VolumeLane::new(0, volume, handles, pace, memory);
            Some(Self { _folder: folder, lane, ring, published: Published::new(Instant::now()) })
        }

        /// Turns in each of which requests come, until something is so.
        fn until(&mut self, is_so: impl Fn(&VolumeLane) -> bool) {
            let (mut memory, mut answers) = (Recycler::new(0), Vec::new());
            for _ in 0..TURNS_MAX {
                if is_so(&self.lane) {
                    return;
                }
                self.lane.begin_turn(Instant::now());
                self.lane.work(Instant::now(), false, &self.published, || 0);
                self.lane.turn(&mut self.ring, &mut answers);
                self.ring.enter(Wait::Until(Duration::from_millis(1))).unwrap();
                while let Some(completion) = self.ring.next_completion() {
                    if let Some(Token::Device { io, .. }) = Token::unpack(completion.token) {
                        self.lane.completed(io, completion, &mut memory);
                    }
                }
            }
            panic!("it never is, however long requests come");
        }
    }

    #[test]
    fn a_device_is_filled_while_requests_never_cease() {
        let pace = Pace { scrub_period: None, device_depth: DEVICE_DEPTH };
        let Some(mut busy) = Busy::new(2, pace) else { return };
        assert_eq!(busy.lane.volume().roles()[1], DeviceRole::Rebuilding);
        busy.until(|lane| lane.volume().roles() == [DeviceRole::InSync; 2]);
    }

    #[test]
    fn a_scrub_that_is_due_goes_on_while_requests_never_cease() {
        let pace =
            Pace { scrub_period: Some(Duration::from_millis(1)), device_depth: DEVICE_DEPTH };
        let Some(mut busy) = Busy::new(1, pace) else { return };
        busy.until(|lane| lane.volume().scrub_tours().0 > 2);
    }
}
