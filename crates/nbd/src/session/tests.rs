use super::{Refusal, Session, TooLong, Verdict};
use crate::errno::Errno;
use crate::export::{BlockSize, Export, Exports, FastZero};
use crate::request::{Command, Header, Span};

const MIB: u32 = 1 << 20;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;
const ON_RANGES: [u16; 6] = [READ, WRITE, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS];

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;

/// 64 MiB in blocks of 512 bytes, with everything offered; at most 1 MiB in one piece.
fn everything() -> Export {
    Export {
        block_size: BlockSize { min_bytes: 512, preferred_bytes: 4096, max_payload_bytes: MIB },
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        fast_zero: FastZero::Served,
        can_cache: true,
        can_block_status: true,
        ..Export::new("disk", 64 << 20)
    }
}

fn session(export: Export) -> Session {
    Session::new(Exports::new(vec![export]).unwrap(), 0, true, true)
}

fn simple(export: Export) -> Session {
    Session::new(Exports::new(vec![export]).unwrap(), 0, false, false)
}

fn request(command: u16, flags: u16, offset_bytes: u64, length_bytes: u32) -> Header {
    Header { flags, command, cookie: 9, offset_bytes, length_bytes }
}

fn accepted(session: &Session, header: Header) -> Command {
    match session.judge(&header) {
        Verdict::Accept(command) => command,
        other => panic!("{header:?}: {other:?}"),
    }
}

fn refused(session: &Session, header: Header) -> (Errno, u32) {
    match session.judge(&header) {
        Verdict::Refuse(Refusal { errno, message, payload_bytes }) => {
            assert!(!message.is_empty());
            (errno, payload_bytes)
        }
        other => panic!("{header:?}: {other:?}"),
    }
}

/// The error of a request, when all of its payload is to be dropped.
fn errno(session: &Session, header: Header) -> Errno {
    let (errno, payload_bytes) = refused(session, header);
    assert_eq!(payload_bytes, if header.command == WRITE { header.length_bytes } else { 0 });
    errno
}

#[test]
fn commands_come_with_their_flags() {
    let session = session(everything());
    let span = Span { offset_bytes: 512, length_bytes: 1024 };
    let of = |command, flags| accepted(&session, request(command, flags, 512, 1024));
    assert_eq!(of(READ, 0), Command::Read { span, is_unfragmented: false });
    assert_eq!(of(READ, DF), Command::Read { span, is_unfragmented: true });
    assert_eq!(of(WRITE, 0), Command::Write { span, is_fua: false });
    assert_eq!(of(WRITE, FUA), Command::Write { span, is_fua: true });
    assert_eq!(of(TRIM, 0), Command::Trim { span, is_fua: false });
    assert_eq!(of(TRIM, FUA), Command::Trim { span, is_fua: true });
    assert_eq!(of(CACHE, 0), Command::Cache { span });
    assert_eq!(of(BLOCK_STATUS, 0), Command::BlockStatus { span, is_first_only: false });
    assert_eq!(of(BLOCK_STATUS, REQ_ONE), Command::BlockStatus { span, is_first_only: true });
    let zeroes = |is_fua, may_make_hole, is_fast_only| Command::WriteZeroes {
        span,
        is_fua,
        may_make_hole,
        is_fast_only,
    };
    assert_eq!(of(WRITE_ZEROES, 0), zeroes(false, true, false));
    assert_eq!(of(WRITE_ZEROES, NO_HOLE), zeroes(false, false, false));
    assert_eq!(of(WRITE_ZEROES, FUA | FAST_ZERO), zeroes(true, true, true));
    assert_eq!(accepted(&session, request(FLUSH, 0, 0, 0)), Command::Flush);
    assert_eq!(of(WRITE, 0).payload_bytes(), 1024);
    assert_eq!(of(READ, 0).payload_bytes(), 0);
}

/// Existing clients set `FUA` on commands that do not write; the specification has it accepted.
#[test]
fn fua_goes_with_every_command_if_it_is_offered() {
    let with = session(everything());
    let without = session(Export { can_fua: false, ..everything() });
    for command in ON_RANGES {
        accepted(&with, request(command, FUA, 0, 512));
        assert_eq!(errno(&without, request(command, FUA, 0, 512)), Errno::Invalid);
        accepted(&without, request(command, 0, 0, 512));
    }
    accepted(&with, request(FLUSH, FUA, 0, 0));
    assert_eq!(errno(&without, request(FLUSH, FUA, 0, 0)), Errno::Invalid);
}

#[test]
fn flags_of_other_commands_and_unknown_ones_are_invalid() {
    let session = session(everything());
    let own = [(READ, DF), (WRITE_ZEROES, NO_HOLE | FAST_ZERO), (BLOCK_STATUS, REQ_ONE)];
    for command in ON_RANGES {
        let known = own.iter().find(|(of, _)| *of == command).map_or(0, |(_, flags)| *flags) | FUA;
        for bit in 0..16 {
            let header = request(command, 1 << bit, 0, 512);
            if known & (1 << bit) == 0 {
                assert_eq!(errno(&session, header), Errno::Invalid, "{command} {bit}");
            } else {
                accepted(&session, header);
            }
        }
    }
    // DF belongs to structured replies.
    let simple = simple(everything());
    assert_eq!(errno(&simple, request(READ, DF, 0, 512)), Errno::Invalid);
}

#[test]
fn what_is_not_offered_is_invalid() {
    let bare = simple(Export::new("disk", 1 << 20));
    for command in [TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        assert_eq!(errno(&bare, request(command, 0, 0, 512)), Errno::Invalid, "{command}");
    }
    assert_eq!(errno(&bare, request(FLUSH, 0, 0, 0)), Errno::Invalid);
    accepted(&bare, request(READ, 0, 1, 1));
    accepted(&bare, request(WRITE, 0, 1, 1));
}

#[test]
fn unknown_commands_are_invalid_and_have_no_payload() {
    for command in [8, 9, 0x7fff, 0xffff] {
        let header = request(command, 0, 0, u32::MAX);
        assert_eq!(refused(&session(everything()), header), (Errno::Invalid, 0));
    }
}

#[test]
fn a_read_only_export_permits_no_write() {
    let session = session(Export { is_read_only: true, ..everything() });
    for command in [WRITE, TRIM, WRITE_ZEROES] {
        // Whatever else is wrong with it.
        for (flags, offset, length) in [(0, 0, 512), (0xff, 1, 1), (0, 64 << 20, 4096)] {
            let header = request(command, flags, offset, length);
            assert_eq!(errno(&session, header), Errno::NotPermitted, "{command}");
        }
    }
    for command in [READ, CACHE, BLOCK_STATUS] {
        accepted(&session, request(command, 0, 0, 512));
    }
    accepted(&session, request(FLUSH, 0, 0, 0));
}

#[test]
fn ranges_are_aligned_and_not_empty() {
    let session = session(everything());
    for command in ON_RANGES {
        for (offset, length) in [(1, 512), (0, 511), (513, 511), (256, 256), (0, 0), (512, 0)] {
            let header = request(command, 0, offset, length);
            assert_eq!(errno(&session, header), Errno::Invalid, "{command} {offset} {length}");
        }
        accepted(&session, request(command, 0, 0, 512));
    }
}

#[test]
fn ranges_end_with_the_export() {
    let session = session(everything());
    let size = 64 << 20;
    for command in ON_RANGES {
        accepted(&session, request(command, 0, size - 512, 512));
        let beyond =
            if [WRITE, WRITE_ZEROES].contains(&command) { Errno::NoSpace } else { Errno::Invalid };
        let top = u64::MAX - 511;
        for (offset, length) in [(size - 512, 1024), (size, 512), (top, 512), (1 << 63, 512)] {
            let header = request(command, 0, offset, length);
            assert_eq!(errno(&session, header), beyond, "{command} {offset} {length}");
        }
    }
}

#[test]
fn an_export_without_bytes_refuses_all_ranges() {
    let session = session(Export { size_bytes: 0, ..everything() });
    for command in ON_RANGES {
        errno(&session, request(command, 0, 0, 512));
        errno(&session, request(command, 0, 0, 0));
    }
}

/// 32 MiB are no attack, so that they are read and refused; more are not read at all.
#[test]
fn writes_that_are_too_long_are_refused_and_then_closed() {
    let narrow = session(everything());
    accepted(&narrow, request(WRITE, 0, 0, MIB));
    for length_bytes in [MIB + 512, 32 * MIB] {
        let refusal = refused(&narrow, request(WRITE, 0, 0, length_bytes));
        assert_eq!(refusal, (Errno::Invalid, length_bytes));
    }
    for length_bytes in [32 * MIB + 512, u32::MAX] {
        let verdict = narrow.judge(&request(WRITE, 0xff, 0, length_bytes));
        assert_eq!(verdict, Verdict::Close(TooLong { length_bytes, max_bytes: 32 * MIB }));
    }
    // An export may take more.
    let block_size = BlockSize { max_payload_bytes: 48 * MIB, ..everything().block_size };
    let wide = session(Export { block_size, ..everything() });
    accepted(&wide, request(WRITE, 0, 0, 48 * MIB));
    let verdict = wide.judge(&request(WRITE, 0, 0, 48 * MIB + 512));
    assert!(matches!(verdict, Verdict::Close(TooLong { max_bytes, .. }) if max_bytes == 48 * MIB));
}

#[test]
fn reads_that_are_too_long_overflow_where_a_chunk_can_say_so() {
    for flags in [0, DF] {
        let long = request(READ, flags, 0, MIB + 512);
        assert_eq!(errno(&session(everything()), long), Errno::Overflow);
    }
    assert_eq!(errno(&simple(everything()), request(READ, 0, 0, MIB + 512)), Errno::Invalid);
    accepted(&session(everything()), request(READ, DF, 0, MIB));
    // What has no payload may be longer.
    for command in [TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS] {
        accepted(&session(everything()), request(command, 0, 0, 64 * MIB));
    }
}

#[test]
fn fast_zeroes_are_served_refused_or_unknown() {
    let with = |fast_zero| session(Export { fast_zero, ..everything() });
    let fast = request(WRITE_ZEROES, FAST_ZERO, 0, 512);
    accepted(&with(FastZero::Served), fast);
    assert_eq!(errno(&with(FastZero::AlwaysRefused), fast), Errno::NotSupported);
    assert_eq!(errno(&with(FastZero::NotOffered), fast), Errno::Invalid);
    let slow = request(WRITE_ZEROES, 0, 0, 512);
    accepted(&with(FastZero::AlwaysRefused), slow);
    // An invalid request is that first.
    let bad = request(WRITE_ZEROES, FAST_ZERO | DF, 0, 512);
    assert_eq!(errno(&with(FastZero::AlwaysRefused), bad), Errno::Invalid);
}

#[test]
fn a_flush_has_no_range() {
    let session = session(everything());
    assert_eq!(errno(&session, request(FLUSH, 0, 512, 0)), Errno::Invalid);
    assert_eq!(errno(&session, request(FLUSH, 0, 0, 512)), Errno::Invalid);
}

#[test]
fn disconnecting_is_never_refused() {
    for header in [request(DISC, 0, 0, 0), request(DISC, 0xffff, 5, 5)] {
        assert_eq!(accepted(&simple(Export::new("disk", 1)), header), Command::Disconnect);
    }
}

#[test]
fn block_status_needs_the_context() {
    let exports = Exports::new(vec![everything()]).unwrap();
    let without = Session::new(exports, 0, true, false);
    assert_eq!(errno(&without, request(BLOCK_STATUS, 0, 0, 512)), Errno::Invalid);
}
