//! Replies to options.

use crate::wire::{OPTION_REPLY_MAGIC, rep};

/// An option that is refused: the type of reply, and a message for people.
pub(super) struct Denied(pub(super) u32, pub(super) &'static str);

/// Appends the replies to one option.
pub(super) struct Replies<'a> {
    pub(super) option: u32,
    pub(super) output: &'a mut Vec<u8>,
}

impl Replies<'_> {
    /// One reply, with its data in parts.
    pub(super) fn put(&mut self, kind: u32, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        // Names and descriptions are at most 4,096 bytes each, so the length fits.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.output.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        for field in [self.option, kind, length] {
            self.output.extend_from_slice(&field.to_be_bytes());
        }
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
    }

    /// One item of information about an export.
    pub(super) fn info(&mut self, kind: u16, parts: [&[u8]; 3]) {
        let [first, second, third] = parts;
        self.put(rep::INFO, &[&kind.to_be_bytes(), first, second, third]);
    }

    /// The final reply.
    pub(super) fn end(&mut self, outcome: Result<(), Denied>) {
        match outcome {
            Ok(()) => self.put(rep::ACK, &[]),
            Err(Denied(kind, message)) => self.put(kind, &[message.as_bytes()]),
        }
    }
}
