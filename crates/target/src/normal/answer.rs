//! Builds replies from a volume's answers.

use super::output::Output;
use std::sync::Arc;
use wattio_nbd::{Ending, Errno, Extent, Reply, Session, Span};
use wattio_pages::{BLOCK, Pages};
use wattio_ring::Part;
use wattio_volume::{Fault, Piece};

/// Zeros that are sent where a client wants them written out.
#[derive(Clone, Debug)]
pub(super) struct Zeros(Arc<Pages>);

const ZEROS_BLOCKS: usize = 64;

impl Default for Zeros {
    fn default() -> Self {
        Self(Arc::new(Pages::zeroed(ZEROS_BLOCKS)))
    }
}

impl Zeros {
    fn put(&self, mut bytes: usize, output: &mut Output) {
        while bytes > 0 {
            let count = bytes.min(ZEROS_BLOCKS * BLOCK);
            output.data(Part::bytes(Arc::clone(&self.0), 0..count));
            bytes -= count;
        }
    }
}

/// The protocol's error, and what to tell people.
pub(super) const fn errno(fault: Fault) -> (Errno, &'static str) {
    match fault {
        Fault::Io => (Errno::Io, "a device failed, or the data is damaged"),
        Fault::NoSpace => (Errno::NoSpace, "the volume has no space left"),
        Fault::Beyond => (Errno::Invalid, "beyond the end of the volume"),
    }
}

/// A run of bytes of a read: zeros, or data that lies in one piece or several.
struct Run {
    is_zeros: bool,
    bytes: usize,
    parts: Vec<Part>,
}

/// Cuts what was read, in whole blocks, to the bytes that were asked for.
fn runs(span: Span, pieces: Vec<Piece>) -> Vec<Run> {
    let mut skip = (span.offset_bytes % BLOCK as u64) as usize;
    let mut left = span.length_bytes as usize;
    let mut runs: Vec<Run> = Vec::with_capacity(1);
    for piece in pieces {
        let blocks = match &piece {
            Piece::Zeros(blocks, _) => *blocks as usize,
            Piece::Data(part) => part.blocks.len(),
        };
        let bytes = (blocks * BLOCK).saturating_sub(skip).min(left);
        let start = std::mem::take(&mut skip);
        left -= bytes;
        if bytes == 0 {
            continue;
        }
        let is_zeros = matches!(piece, Piece::Zeros(..));
        if runs.last().is_none_or(|run| run.is_zeros != is_zeros) {
            runs.push(Run { is_zeros, bytes: 0, parts: Vec::new() });
        }
        let Some(run) = runs.last_mut() else { continue };
        run.bytes += bytes;
        if let Piece::Data(part) = piece {
            let start = part.blocks.start * BLOCK + start;
            run.parts.push(Part::bytes(part.pages, start..start + bytes));
        }
    }
    runs
}

/// The reply to a read.
pub(super) fn read(
    reply: Reply,
    span: Span,
    is_unfragmented: bool,
    pieces: Vec<Piece>,
    zeros: &Zeros,
    output: &mut Output,
) {
    let runs = runs(span, pieces);
    let has_zeros = runs.iter().any(|run| run.is_zeros);
    let Some(chunks) = reply.chunks().filter(|_| !is_unfragmented && has_zeros) else {
        output.head(reply.whole_read(span).as_ref());
        for run in runs {
            if run.is_zeros {
                zeros.put(run.bytes, output);
            }
            run.parts.into_iter().for_each(|part| output.data(part));
        }
        return;
    };
    let count = runs.len();
    let mut offset_bytes = span.offset_bytes;
    for (at, run) in runs.into_iter().enumerate() {
        let part = Span { offset_bytes, length_bytes: run.bytes as u32 };
        let ending = if at + 1 == count { Ending::Done } else { Ending::More };
        offset_bytes += run.bytes as u64;
        if run.is_zeros {
            output.head(chunks.hole(part, ending).as_ref());
        } else {
            output.head(chunks.data(part, ending).as_ref());
            run.parts.into_iter().for_each(|part| output.data(part));
        }
    }
}

/// The reply to a request about allocation, told of whole blocks from the one on in which the span
/// begins.
pub(super) fn block_status(
    session: &Session,
    cookie: u64,
    span: Span,
    is_first_only: bool,
    runs: &[(u64, bool, bool)],
    output: &mut Output,
) {
    let mut skip = span.offset_bytes % BLOCK as u64;
    let extents = runs.iter().map(|&(blocks, is_hole, is_zero)| {
        let length_bytes = blocks * BLOCK as u64 - std::mem::take(&mut skip);
        Extent { length_bytes, is_hole, is_zero }
    });
    output.write(|bytes| session.block_status(cookie, span, is_first_only, extents, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattio_pages::Recycler;
    use wattio_volume::Part as BlockPart;

    proptest! {
        /// Whatever runs of zeros and data a read consists of, a client puts the same bytes together.
        #[test]
        fn a_sparse_read_is_the_bytes_of_its_span(
            kinds in prop::collection::vec((any::<bool>(), 1u32..4), 1..10),
            lead in 0usize..BLOCK,
            tail in 0usize..BLOCK,
        ) {
            let (mut all, mut pieces) = (Vec::new(), Vec::new());
            for (at, &(is_zeros, blocks)) in kinds.iter().enumerate() {
                let bytes = vec![if is_zeros { 0 } else { at as u8 + 1 }; blocks as usize * BLOCK];
                pieces.push(if is_zeros {
                    Piece::Zeros(blocks, at % 2 == 0)
                } else {
                    Piece::Data(BlockPart::whole(Pages::from_slice(&bytes)))
                });
                all.extend(bytes);
            }
            let end = (all.len() - tail).max(lead + 1);
            let bytes = &all[lead..end];
            let runs = runs(
                Span { offset_bytes: (7 * BLOCK + lead) as u64, length_bytes: bytes.len() as u32 },
                pieces,
            );
            let mut output = Output::default();
            for run in &runs {
                if run.is_zeros {
                    Zeros::default().put(run.bytes, &mut output);
                } else {
                    prop_assert_eq!(run.parts.iter().map(|part| part.as_bytes().len()).sum::<usize>(), run.bytes);
                    run.parts.iter().cloned().for_each(|part| output.data(part));
                }
            }
            let parts = output.take(&mut Recycler::new(0)).parts;
            let sent: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes().iter().copied()).collect();
            prop_assert!(sent == bytes);
            prop_assert!(runs.windows(2).all(|pair| pair[0].is_zeros != pair[1].is_zeros));
        }
    }
}
