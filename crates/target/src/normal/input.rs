//! Bytes that a connection has received but not processed yet.

use wattio_pages::{BLOCK, Pages, Recycler};

/// Room for many requests at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Room for a request and not much of its payload: after large writes, so that payload is received
/// where it is wanted.
const BUFFER_BYTES_SMALL: usize = 4 << 10;
/// Payload from this length on is received where it is wanted; less is copied.
const DIRECT_BYTES_MIN: usize = 16 << 10;

/// Bytes in the order in which they came.
#[derive(Debug)]
pub(super) struct Input {
    /// Empty while the kernel has it.
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Whether the payloads of late are large.
    has_large: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], from: 0, to: 0, has_large: false }
    }

    /// What is there.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Takes the first `count` bytes away.
    pub(super) fn take(&mut self, count: usize) {
        self.from += count;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Takes all of it away.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        let all = self.bytes().to_vec();
        self.take(all.len());
        all
    }

    /// Puts what `read` gives behind what is there, as much as there is room for; how much.
    pub(super) fn append(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> Result<usize, String>,
    ) -> Result<usize, String> {
        self.move_up();
        let count = read(&mut self.buffer[self.to..])?;
        self.to += count;
        Ok(count)
    }

    fn move_up(&mut self) {
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
    }

    /// The buffer to receive into, and where: behind what is there.
    pub(super) fn lend(&mut self) -> (Vec<u8>, std::ops::Range<usize>) {
        self.move_up();
        let room = if self.has_large { BUFFER_BYTES_SMALL } else { BUFFER_BYTES };
        let end = (self.to + room).min(BUFFER_BYTES);
        (std::mem::take(&mut self.buffer), self.to..end)
    }

    /// The buffer comes back with so many bytes more.
    pub(super) fn take_back(&mut self, buffer: Vec<u8>, count: usize) {
        self.buffer = buffer;
        self.to += count;
    }
}

/// The payload of a write on its way into aligned memory.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) pages: Pages,
    /// Where in the pages the next byte goes, and where the last one ends.
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Payload {
    /// For `length` bytes that belong at `offset` of the export.
    pub(super) fn new(memory: &mut Recycler, offset_bytes: u64, length_bytes: u32) -> Self {
        let lead = (offset_bytes % BLOCK as u64) as usize;
        let end = lead + length_bytes as usize;
        Self { pages: memory.take(end.div_ceil(BLOCK)), at: lead, end }
    }

    /// Copies what is there; whether all has come.
    pub(super) fn fill(&mut self, input: &mut Input) -> bool {
        let bytes = input.bytes();
        let count = bytes.len().min(self.end - self.at);
        self.pages.as_bytes_mut()[self.at..self.at + count].copy_from_slice(&bytes[..count]);
        self.at += count;
        input.take(count);
        let length = self.end;
        input.has_large = length >= 2 * DIRECT_BYTES_MIN;
        self.at == self.end
    }

    /// Whether the rest is worth a receive of its own.
    pub(super) const fn is_worth_receiving(&self) -> bool {
        self.end - self.at >= DIRECT_BYTES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In whatever pieces bytes come and are taken, they are the same bytes.
        #[test]
        fn bytes_come_out_as_they_went_in(steps in prop::collection::vec((0usize..70_000, 0usize..70_000), 1..40)) {
            let mut input = Input::new();
            let (mut sent, mut taken) = (0usize, 0usize);
            let byte = |at: usize| (at % 251) as u8;
            for (come, take) in steps {
                let (mut buffer, range) = input.lend();
                let come = come.min(range.len());
                for place in &mut buffer[range.start..range.start + come] {
                    *place = byte(sent);
                    sent += 1;
                }
                input.take_back(buffer, come);
                prop_assert_eq!(input.bytes().len(), sent - taken);
                let take = take.min(input.bytes().len());
                for &found in &input.bytes()[..take] {
                    prop_assert_eq!(found, byte(taken));
                    taken += 1;
                }
                input.take(take);
            }
        }
    }

    #[test]
    fn a_payload_goes_where_it_belongs_in_its_blocks() {
        let mut memory = Recycler::new(1 << 20);
        let mut input = Input::new();
        let mut payload = Payload::new(&mut memory, 4096 + 100, 5000);
        let (mut buffer, range) = input.lend();
        buffer[range.start..range.start + 6000].fill(7);
        input.take_back(buffer, 3000);
        assert!(!payload.fill(&mut input));
        let (buffer, _) = input.lend();
        input.take_back(buffer, 3000);
        assert!(payload.fill(&mut input));
        assert_eq!(payload.pages.len_blocks(), 2);
        assert!(payload.pages.as_bytes()[100..5100].iter().all(|&byte| byte == 7));
        assert_eq!(input.bytes().len(), 1000, "the rest is the next request");
    }
}
