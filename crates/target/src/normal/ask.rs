//! Turns commands into requests to volumes.

use super::input::Payload;
use crate::messages::{Ask, Change, Kind};
use wattio_nbd::{Command, Span};
use wattio_pages::BLOCK;

/// Runs of blocks that one reply about allocation tells.
const RUNS_MAX: usize = 4096;
/// Blocks that one reply about allocation looks at: more would keep the reactor from others. The
/// client asks on from where the reply ends.
const LOOKED_AT_MAX: u64 = 1 << 16;

/// What a command asks of a volume; `Err` if it cannot be done as fast as it has to be.
pub(super) fn ask(command: &Command, payload: Option<Payload>) -> Result<Ask, ()> {
    let block = BLOCK as u64;
    let blocks = |span: Span| {
        let first = span.offset_bytes / block;
        (first, span.end_bytes().div_ceil(block) - first)
    };
    let change = |span: Span, kind, fua| {
        let length_bytes = u64::from(span.length_bytes);
        Ask::Change(Change { offset_bytes: span.offset_bytes, length_bytes, kind, fua })
    };
    Ok(match *command {
        Command::Read { span, .. } => {
            let (lba, blocks) = blocks(span);
            Ask::Read { lba, blocks: blocks as u32 }
        }
        Command::Cache { span } => {
            let (lba, blocks) = blocks(span);
            Ask::Prefetch { lba, blocks }
        }
        Command::Write { span, is_fua } => {
            let pages = payload.map(|payload| payload.pages).unwrap_or_default();
            change(span, Kind::Write(pages), is_fua)
        }
        Command::Trim { span, is_fua } => change(span, Kind::Discard, is_fua),
        Command::WriteZeroes { span, is_fua, may_make_hole, is_fast_only } => {
            let first = span.offset_bytes.div_ceil(block);
            if is_fast_only && first >= span.end_bytes() / block {
                return Err(());
            }
            change(span, Kind::Zero { discard: may_make_hole }, is_fua)
        }
        Command::BlockStatus { span, is_first_only } => {
            let (lba, blocks) = blocks(span);
            let blocks = blocks.min(LOOKED_AT_MAX);
            Ask::Allocation { lba, blocks, runs_max: if is_first_only { 1 } else { RUNS_MAX } }
        }
        Command::Flush | Command::Disconnect => Ask::Flush,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_allocation_is_answered_in_parts() {
        let span = Span { offset_bytes: 4096, length_bytes: u32::MAX };
        let command = Command::BlockStatus { span, is_first_only: false };
        let Ok(Ask::Allocation { lba: 1, blocks, .. }) = ask(&command, None) else { panic!() };
        assert_eq!(blocks, LOOKED_AT_MAX);
    }
}
