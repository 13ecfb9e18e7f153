//! Flushes: which requests wait for which data to be durable.

use crate::format::DeviceRole;
use crate::request::Fault;
use crate::volume::{Purpose, Volume, Waiting};
use std::io;

impl Volume {
    /// A client's flush covers everything that was answered: where writes are answered before they
    /// are in the log, it waits for those first.
    pub(crate) fn flush_answered(&mut self, tag: u64) {
        let (submitted, finished) = self.log.requests();
        if self.buffered_max == 0 || submitted == finished {
            return self.flush(Waiting::Client(tag));
        }
        self.hurry();
        self.flush_later.push_back((submitted, Waiting::Client(tag)));
    }

    /// Flushes that waited for requests that have taken effect.
    pub(crate) fn flush_due(&mut self) {
        let (_, finished) = self.log.requests();
        while self.flush_later.front().is_some_and(|(after, _)| *after <= finished) {
            self.flush_next.extend(self.flush_later.pop_front().map(|(_, waiting)| waiting));
        }
        self.flush_if_free();
    }

    pub(crate) fn flush(&mut self, waiting: Waiting) {
        self.flush_next.push(waiting);
        self.flush_if_free();
    }

    pub(crate) fn flush_if_free(&mut self) {
        if self.flush_now.is_none() && !self.flush_next.is_empty() {
            let waiting = std::mem::take(&mut self.flush_next);
            self.flush_now = Some((self.log.applied(), waiting));
            self.devices.flush(Purpose::Flush);
        }
    }

    pub(crate) fn flushed(&mut self, result: io::Result<()>) {
        let Some((applied, waiting)) = self.flush_now.take() else { return };
        if let Err(error) = result {
            self.fail(format!("a flush failed: {error}"));
            for waiting in waiting {
                if let Waiting::Client(tag) = waiting {
                    self.answer(tag, Err(Fault::Io));
                }
            }
            return;
        }
        self.log.durable = applied;
        for waiting in waiting {
            match waiting {
                Waiting::Client(tag) => self.flush_held.push(tag),
                Waiting::Superblock => self.superblock_flushed(),
            }
        }
        self.answer_flushes();
        self.flush_if_free();
    }

    /// Answers flushes that are done. If a device has failed, and no superblock says so, that comes first:
    /// after a loss of power the device might be opened alone, and taken for one that holds all that
    /// was flushed. Once nothing can be written, nothing will say so.
    pub(crate) fn answer_flushes(&mut self) {
        let lacks = |device: usize| self.devices.roles()[device] == DeviceRole::Out;
        let mut counting = (0..).zip(&self.superblock.roles);
        let is_unsaid = counting.any(|(device, &role)| role == DeviceRole::InSync && lacks(device));
        let result = match (&self.failed, is_unsaid) {
            (Some(_), _) => Err(Fault::Io),
            (None, true) => return,
            (None, false) => Ok(Vec::new()),
        };
        for tag in std::mem::take(&mut self.flush_held) {
            self.answer(tag, result.clone());
        }
    }
}
