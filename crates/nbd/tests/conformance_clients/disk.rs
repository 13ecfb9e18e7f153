//! Bytes in memory that know which of their blocks were written.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use wattio_nbd::{Extent, Span};

const BLOCK_BYTES: usize = 4096;

pub struct Disk {
    content: Mutex<Content>,
    /// Reading this byte fails.
    pub broken_at_bytes: Option<u64>,
}

struct Content {
    bytes: Vec<u8>,
    is_written: Vec<bool>,
}

fn range(span: Span) -> Range<usize> {
    usize::try_from(span.offset_bytes).unwrap()..usize::try_from(span.end_bytes()).unwrap()
}

impl Disk {
    pub fn new(size_bytes: u64, broken_at_bytes: Option<u64>) -> Self {
        let size = usize::try_from(size_bytes).unwrap();
        let is_written = vec![false; size.div_ceil(BLOCK_BYTES)];
        Self { content: Mutex::new(Content { bytes: vec![0; size], is_written }), broken_at_bytes }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }

    pub fn read(&self, span: Span) -> Vec<u8> {
        self.content().bytes[range(span)].to_vec()
    }

    pub fn write(&self, span: Span, data: &[u8]) {
        let range = range(span);
        let mut content = self.content();
        content.bytes[range.clone()].copy_from_slice(data);
        content.is_written[range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)].fill(true);
    }

    /// Zeroes; whole blocks become holes if they may.
    pub fn zero(&self, span: Span, may_make_hole: bool) {
        let range = range(span);
        let mut content = self.content();
        content.bytes[range.clone()].fill(0);
        let (from, to) = (range.start.div_ceil(BLOCK_BYTES), range.end / BLOCK_BYTES);
        if may_make_hole && from < to {
            content.is_written[from..to].fill(false);
        }
        if !may_make_hole {
            let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
            content.is_written[blocks].fill(true);
        }
    }

    /// Block by block; neighbours of one state are not joined.
    pub fn extents(&self, span: Span) -> Vec<Extent> {
        let range = range(span);
        let content = self.content();
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let end = (at / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES).min(range.end);
            let is_hole = !content.is_written[at / BLOCK_BYTES];
            extents.push(Extent { length_bytes: (end - at) as u64, is_hole, is_zero: is_hole });
            at = end;
        }
        extents
    }
}
