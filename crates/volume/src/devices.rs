//! One or two devices as one: writes go to every device, reads to any of them.

use crate::format::DeviceRole;
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wattio_pages::Pages;

/// Blocks of shared memory.
#[derive(Clone, Debug)]
pub struct Part {
    /// The memory.
    pub pages: Arc<Pages>,
    /// Which blocks of it.
    pub blocks: Range<usize>,
}

impl Part {
    /// All blocks of a run.
    #[must_use]
    pub fn whole(pages: Pages) -> Self {
        let blocks = 0..pages.len_blocks();
        Self { pages: Arc::new(pages), blocks }
    }
}

/// Something that a device should do. The volume never waits for it: whoever drives the volume
/// does it and says so with [`crate::Volume::complete`].
#[derive(Debug)]
pub struct Io {
    /// Under which number to report it.
    pub id: u64,
    /// Which device.
    pub device: u8,
    /// What to do.
    pub op: Op,
}

/// What a device can do. Offsets are in bytes, at whole blocks.
#[derive(Debug)]
pub enum Op {
    /// Fills `pages`.
    Read {
        /// From where.
        offset: u64,
        /// Where to.
        pages: Pages,
    },
    /// Writes the parts, one after another.
    Write {
        /// To where.
        offset: u64,
        /// What.
        parts: Vec<Part>,
    },
    /// Makes durable what was written and reported before.
    Flush,
}

/// What became of an [`Io`].
#[derive(Debug)]
pub enum Done {
    /// A read, with the memory it was given.
    Read(io::Result<Pages>),
    /// A write.
    Write(io::Result<()>),
    /// A flush.
    Flush(io::Result<()>),
}

/// What became of something asked of all devices.
#[derive(Debug)]
pub(crate) enum Outcome {
    Read { pages: io::Result<Pages>, device: u8 },
    Written(io::Result<()>),
    Flushed(io::Result<()>),
}

/// Why something was asked: the volume's own word, handed back with the outcome.
#[derive(Debug)]
struct Ask<P> {
    purpose: P,
    waiting: u8,
    succeeded: bool,
    error: Option<io::Error>,
    is_flush: bool,
    since: Duration,
}

#[derive(Debug)]
struct Issued {
    ask: usize,
    device: u8,
    /// For a read: where from, how many blocks, and which devices failed already.
    read: Option<(u64, usize, u8)>,
}

#[derive(Debug)]
pub(crate) struct Devices<P> {
    roles: Vec<DeviceRole>,
    asks: Slab<Ask<P>>,
    issued: Slab<Issued>,
    ios: VecDeque<Io>,
    /// Which device reads next, so that both share the work.
    turn: usize,
    /// Whether a device failed and the others do not say so yet.
    has_lost_one: bool,
    /// Whether no device can be written any more.
    is_lost: bool,
    /// What time it is.
    pub(crate) now: Duration,
}

impl<P> Devices<P> {
    pub(crate) fn new(roles: Vec<DeviceRole>) -> Self {
        Self {
            roles,
            asks: Slab::new(),
            issued: Slab::new(),
            ios: VecDeque::new(),
            turn: 0,
            has_lost_one: false,
            is_lost: false,
            now: Duration::ZERO,
        }
    }

    pub(crate) fn roles(&self) -> &[DeviceRole] {
        &self.roles
    }

    pub(crate) fn set_role(&mut self, device: u8, role: DeviceRole) {
        self.roles[usize::from(device)] = role;
    }

    /// The next thing to do.
    pub(crate) fn next_io(&mut self) -> Option<Io> {
        self.ios.pop_front()
    }

    /// Whether anything is to be done or under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.issued.is_empty()
    }

    /// What has been asked for longest and is not done, and since when.
    pub(crate) fn oldest(&self) -> Option<(&P, Duration)> {
        let asks = self.asks.iter().map(|(_, ask)| (&ask.purpose, ask.since));
        asks.min_by_key(|&(_, since)| since)
    }

    /// Whether no device can be written any more.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether a device has failed since the last call.
    pub(crate) fn take_lost_one(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_one)
    }

    fn issue(&mut self, ask: usize, device: u8, op: Op) {
        let id = self.issued.insert(Issued { ask, device, read: None }) as u64;
        self.ios.push_back(Io { id, device, op });
    }

    /// `without`: devices that are not tried if this one fails, as bits.
    fn issue_read(&mut self, ask: usize, device: u8, offset: u64, pages: Pages, without: u8) {
        let read = Some((offset, pages.len_blocks(), without));
        let id = self.issued.insert(Issued { ask, device, read }) as u64;
        self.ios.push_back(Io { id, device, op: Op::Read { offset, pages } });
    }

    fn writable(&self) -> Vec<u8> {
        let is_written = |device: &u8| self.roles[usize::from(*device)] != DeviceRole::Out;
        (0..self.roles.len() as u8).filter(is_written).collect()
    }

    fn readable(&self, without: u8) -> Option<u8> {
        let count = self.roles.len();
        (0..count).map(|step| (self.turn + step) % count).map(|device| device as u8).find(
            |device| {
                self.roles[usize::from(*device)] == DeviceRole::InSync && without & 1 << device == 0
            },
        )
    }

    fn ask(&mut self, purpose: P, is_flush: bool, waiting: usize) -> usize {
        let waiting = waiting as u8;
        let since = self.now;
        self.asks.insert(Ask { purpose, waiting, succeeded: false, error: None, is_flush, since })
    }

    /// Writes to every device that takes part.
    pub(crate) fn write(&mut self, purpose: P, offset: u64, parts: &[Part]) {
        let devices = self.writable();
        let ask = self.ask(purpose, false, devices.len());
        for device in devices {
            self.issue(ask, device, Op::Write { offset, parts: parts.to_vec() });
        }
    }

    /// Writes to one device.
    pub(crate) fn write_to(&mut self, purpose: P, device: u8, offset: u64, parts: Vec<Part>) {
        let ask = self.ask(purpose, false, 1);
        self.issue(ask, device, Op::Write { offset, parts });
    }

    /// Flushes every device that takes part.
    pub(crate) fn flush(&mut self, purpose: P) {
        let devices = self.writable();
        let ask = self.ask(purpose, true, devices.len());
        for device in devices {
            self.issue(ask, device, Op::Flush);
        }
    }

    /// Reads from a device that has it, but from none of those in `without`, as bits.
    ///
    /// `Err` if there is no such device: the purpose comes back.
    pub(crate) fn read(
        &mut self,
        purpose: P,
        offset: u64,
        pages: Pages,
        without: u8,
    ) -> Result<(), P> {
        let Some(device) = self.readable(without) else { return Err(purpose) };
        self.turn = usize::from(device) + 1;
        let ask = self.ask(purpose, false, 1);
        self.issue_read(ask, device, offset, pages, without);
        Ok(())
    }

    /// Reads from one device, and from no other if that fails.
    pub(crate) fn read_from(&mut self, purpose: P, device: u8, offset: u64, pages: Pages) {
        let ask = self.ask(purpose, false, 1);
        self.issue_read(ask, device, offset, pages, !(1 << device));
    }

    /// Takes in what became of an io. `Some` when all that was asked is done.
    pub(crate) fn complete(&mut self, id: u64, done: Done) -> Option<(P, Outcome)> {
        let issued = self.issued.try_remove(id as usize)?;
        match done {
            Done::Read(Ok(pages)) => {
                let ask = self.asks.remove(issued.ask);
                Some((ask.purpose, Outcome::Read { pages: Ok(pages), device: issued.device }))
            }
            Done::Read(Err(error)) => self.retry_read(&issued, error),
            Done::Write(result) | Done::Flush(result) => self.join(&issued, result),
        }
    }

    fn retry_read(&mut self, issued: &Issued, error: io::Error) -> Option<(P, Outcome)> {
        let (offset, blocks, failed) = issued.read?;
        let failed = failed | 1 << issued.device;
        let Some(device) = self.readable(failed) else {
            let ask = self.asks.remove(issued.ask);
            let outcome = Outcome::Read { pages: Err(error), device: issued.device };
            return Some((ask.purpose, outcome));
        };
        self.issue_read(issued.ask, device, offset, Pages::zeroed(blocks), failed);
        None
    }

    fn join(&mut self, issued: &Issued, result: io::Result<()>) -> Option<(P, Outcome)> {
        let device = usize::from(issued.device);
        match result {
            Ok(()) => self.asks[issued.ask].succeeded |= self.counts(device),
            Err(error) => {
                self.asks[issued.ask].error = Some(error);
                self.lose(device);
            }
        }
        let ask = &mut self.asks[issued.ask];
        ask.waiting -= 1;
        if ask.waiting > 0 {
            return None;
        }
        let ask = self.asks.remove(issued.ask);
        let result = match ask.error {
            Some(error) if !ask.succeeded => Err(error),
            _ if !ask.succeeded => Err(io::Error::other("no device holds the data")),
            _ => Ok(()),
        };
        let outcome =
            if ask.is_flush { Outcome::Flushed(result) } else { Outcome::Written(result) };
        Some((ask.purpose, outcome))
    }

    /// Whether what a device did counts: one that is still being filled is no place to rely on.
    fn counts(&self, device: usize) -> bool {
        self.roles[device] == DeviceRole::InSync && !self.is_lost
    }

    /// A device failed to write: it is left out from now on, unless it is the last.
    fn lose(&mut self, device: usize) {
        if self.roles[device] == DeviceRole::Out {
            return;
        }
        let others = self.roles.iter().enumerate();
        let mut others = others.filter(|&(other, _)| other != device);
        if others.any(|(_, &role)| role == DeviceRole::InSync)
            || self.roles[device] == DeviceRole::Rebuilding
        {
            self.roles[device] = DeviceRole::Out;
            self.has_lost_one = true;
        } else {
            self.is_lost = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceRole::{InSync, Out};

    fn devices(count: usize) -> Devices<&'static str> {
        Devices::new(vec![InSync; count])
    }

    fn failure() -> io::Result<()> {
        Err(io::Error::other("broken"))
    }

    #[test]
    fn a_write_is_done_when_every_device_has_it() {
        let mut devices = devices(2);
        devices.write("w", 0, &[Part::whole(Pages::zeroed(1))]);
        let ids: Vec<_> = std::iter::from_fn(|| devices.next_io()).map(|io| io.id).collect();
        assert!(devices.complete(ids[1], Done::Write(Ok(()))).is_none());
        let done = devices.complete(ids[0], Done::Write(Ok(())));
        assert!(matches!(done, Some(("w", Outcome::Written(Ok(()))))));
        assert!(devices.complete(ids[0], Done::Write(Ok(()))).is_none(), "said twice");
    }

    #[test]
    fn a_device_that_fails_to_write_is_left_out_and_the_last_one_is_not() {
        let mut devices = devices(2);
        for failing in [0, 1] {
            devices.write("w", 0, &[]);
            let mut outcome = None;
            while let Some(io) = devices.next_io() {
                let result = if io.device == failing { failure() } else { Ok(()) };
                outcome = devices.complete(io.id, Done::Write(result)).or(outcome);
            }
            let Some((_, Outcome::Written(result))) = outcome else { panic!("not done") };
            assert_eq!(result.is_ok(), failing == 0);
            assert_eq!(devices.roles(), [Out, InSync]);
            assert_eq!(devices.take_lost_one(), failing == 0);
        }
    }

    #[test]
    fn a_read_that_fails_is_tried_on_the_other_device() {
        let mut devices = devices(2);
        devices.read("r", 4096, Pages::zeroed(1), 0).unwrap();
        let first = devices.next_io().unwrap();
        assert!(devices.complete(first.id, Done::Read(Err(io::Error::other("bad")))).is_none());
        let second = devices.next_io().unwrap();
        assert_ne!(first.device, second.device);
        let done = devices.complete(second.id, Done::Read(Err(io::Error::other("bad too"))));
        assert!(matches!(done, Some(("r", Outcome::Read { pages: Err(_), .. }))));
        assert_eq!(devices.roles(), [InSync, InSync], "a bad block is not a lost device");
        assert!(devices.read("r", 0, Pages::zeroed(1), 0b11).is_err());
    }
}
