use super::{Broken, Chunks, Ending, Extent, Reply};
use crate::errno::Errno;
use crate::request::Span;
use proptest::prelude::*;

const COOKIE: u64 = 0x0102_0304_0506_0708;
const SPAN: Span = Span { offset_bytes: 0x10_0000, length_bytes: 0x200 };
const STRUCTURED: Reply = Reply { cookie: COOKIE, is_structured: true };
const SIMPLE: Reply = Reply { cookie: COOKIE, is_structured: false };

/// Layouts by hand, from the section "Transmission" of the specification.
fn simple(errno: u8) -> Vec<u8> {
    let cookie = [1, 2, 3, 4, 5, 6, 7, 8];
    [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, errno][..], &cookie].concat()
}

fn chunk(flags: u8, kind: [u8; 2], length: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let cookie = [1, 2, 3, 4, 5, 6, 7, 8];
    let magic = [0x66, 0x8e, 0x33, 0xef];
    [&magic[..], &[0, flags], &kind, &cookie, &[0, 0], &length, payload].concat()
}

fn output(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut output = Vec::new();
    write(&mut output);
    output
}

fn chunks() -> Chunks {
    STRUCTURED.chunks().unwrap()
}

#[test]
fn simple_replies() {
    assert_eq!(SIMPLE.done().as_ref(), simple(0));
    assert_eq!(STRUCTURED.done().as_ref(), simple(0));
    assert_eq!(SIMPLE.whole_read(SPAN).as_ref(), simple(0));
    assert_eq!(output(|out| SIMPLE.error(Errno::NoSpace, "full", out)), simple(28));
    assert!(SIMPLE.chunks().is_none());
    let (head, after) = SIMPLE.start_read(SPAN);
    assert_eq!((head.as_ref(), after), (&simple(0)[..], None));
}

#[test]
fn chunks_of_a_read() {
    let offset = [0, 0, 0, 0, 0, 0x10, 0, 0];
    let data = chunk(1, [0, 1], [0x02, 0x08], &offset);
    assert_eq!(STRUCTURED.whole_read(SPAN).as_ref(), data);
    assert_eq!(chunks().data(SPAN, Ending::Done).as_ref(), data);
    let more = chunk(0, [0, 1], [0x02, 0x08], &offset);
    assert_eq!(chunks().data(SPAN, Ending::More).as_ref(), more);
    let none = chunk(1, [0, 0], [0, 0], &[]);
    assert_eq!(chunks().none().as_ref(), none);
    let (head, after) = STRUCTURED.start_read(SPAN);
    assert_eq!((head.as_ref(), after.unwrap().as_ref()), (&more[..], &none[..]));
    let hole = [&offset[..], &[0, 0, 2, 0]].concat();
    let expected = chunk(0, [0, 2], [0, 12], &hole);
    assert_eq!(chunks().hole(SPAN, Ending::More).as_ref(), expected);
}

#[test]
fn chunks_of_errors() {
    let plain = chunk(1, [0x80, 1], [0, 8], b"\0\0\0\x16\0\x02no");
    assert_eq!(output(|out| STRUCTURED.error(Errno::Invalid, "no", out)), plain);
    let silent = chunk(0, [0x80, 1], [0, 6], b"\0\0\0\x05\0\0");
    assert_eq!(output(|out| chunks().error(Errno::Io, "", Ending::More, out)), silent);
    let at = chunk(1, [0x80, 2], [0, 16], b"\0\0\0\x05\0\x02no\0\0\0\0\0\0\x10\0");
    let found = output(|out| chunks().error_at(Errno::Io, "no", 4096, Ending::Done, out));
    assert_eq!(found, at);
}

#[test]
fn messages_are_cut_between_characters_and_before_a_nul() {
    let sent = |message: &str| {
        let bytes = output(|out| chunks().error(Errno::Io, message, Ending::Done, out));
        assert_eq!(bytes[16..20], u32::try_from(bytes.len() - 20).unwrap().to_be_bytes());
        assert_eq!(bytes[24..26], u16::try_from(bytes.len() - 26).unwrap().to_be_bytes());
        String::from_utf8(bytes[26..].to_vec()).unwrap()
    };
    assert_eq!(sent(&"x".repeat(5000)), "x".repeat(4096));
    assert_eq!(sent(&format!("{}é", "x".repeat(4095))), "x".repeat(4095));
    assert_eq!(sent("one\0two"), "one");
}

/// The chunk is completed with zeroes, and the error names the first byte that is missing.
#[test]
fn a_read_that_breaks_is_padded_or_closed() {
    let broken = |reply: Reply, sent| {
        let mut output = Vec::new();
        let broken = reply.broken_read(SPAN, sent, Errno::Io, "", &mut output);
        (broken, output)
    };
    assert_eq!(broken(SIMPLE, 0x80), (Broken::Close, Vec::new()));
    let error = |low: [u8; 2]| {
        let payload = [&[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0x10][..], &low].concat();
        chunk(1, [0x80, 2], [0, 14], &payload)
    };
    for (sent, low) in [(0, [0, 0]), (0x80, [0, 0x80]), (0x1ff, [1, 0xff])] {
        let zeroes_bytes = 0x200 - sent;
        assert_eq!(broken(STRUCTURED, sent), (Broken::Pad { zeroes_bytes }, error(low)));
    }
    let last = (Broken::Pad { zeroes_bytes: 0 }, error([1, 0xff]));
    assert_eq!(broken(STRUCTURED, 0x200), last);
}

fn extent(length_bytes: u64, is_hole: bool, is_zero: bool) -> Extent {
    Extent { length_bytes, is_hole, is_zero }
}

fn told(span: Span, first: bool, bytes_max: u32, extents: &[Extent]) -> Vec<(u32, u32)> {
    let extents = extents.iter().copied();
    let bytes = output(|out| chunks().block_status(span, first, bytes_max, extents, out));
    let count = (bytes.len() - 24) / 8;
    let length = u32::try_from(4 + 8 * count).unwrap();
    assert_eq!(bytes[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5]);
    assert_eq!(bytes[8..16], COOKIE.to_be_bytes());
    assert_eq!(bytes[16..20], length.to_be_bytes());
    assert_eq!(bytes[20..24], [0, 0, 0, 1]);
    let field = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    bytes[24..].chunks(8).map(|both| (field(&both[..4]), field(&both[4..]))).collect()
}

#[test]
fn extents_are_cut_joined_and_limited() {
    let span = Span { offset_bytes: 0, length_bytes: 4096 };
    let max = 1 << 20;
    let parts = [
        extent(512, false, false),
        extent(0, true, false),
        extent(512, false, false),
        extent(1024, true, true),
        extent(u64::MAX, false, true),
        extent(512, true, false),
    ];
    assert_eq!(told(span, false, max, &parts), [(1024, 0), (1024, 3), (2048, 2)]);
    assert_eq!(told(span, true, max, &parts), [(1024, 0)]);
    assert_eq!(told(span, false, 16, &parts), [(1024, 0), (1024, 3)]);
    assert_eq!(told(span, true, max, &[extent(8192, true, false)]), [(4096, 1)]);
    assert_eq!(told(span, false, max, &parts[..2]), [(512, 0)]);
    assert_eq!(told(span, false, max, &[]), [(4096, 0)]);
    assert_eq!(told(span, false, max, &[extent(0, true, true)]), [(4096, 0)]);
}

#[test]
fn no_chunk_has_more_than_a_million_extents() {
    let span = Span { offset_bytes: 0, length_bytes: u32::MAX };
    let extents: Vec<_> = (0..(1 << 20) + 5).map(|at| extent(1, at % 2 == 0, false)).collect();
    assert_eq!(told(span, false, u32::MAX - 8, &extents).len(), 1 << 20);
}

proptest! {
    /// Byte for byte what the extents say, as far as it goes, with the limits of the specification.
    #[test]
    fn extents_say_what_they_were_given(
        parts in prop::collection::vec((0..40_u64, any::<bool>(), any::<bool>()), 0..12),
        length_bytes in 1..200_u32,
        first in any::<bool>(),
        bytes_max in 8..64_u32,
    ) {
        let extents: Vec<_> =
            parts.iter().map(|&(length, hole, zero)| extent(length, hole, zero)).collect();
        let span = Span { offset_bytes: 77, length_bytes };
        let told = told(span, first, bytes_max, &extents);
        let states = |pairs: &[(u64, u32)]| -> Vec<u32> {
            let of_one = |&(length, state): &(u64, u32)| vec![state; length as usize];
            pairs.iter().flat_map(of_one).collect()
        };
        let given: Vec<(u64, u32)> = parts
            .iter()
            .map(|&(length, hole, zero)| (length, u32::from(hole) + 2 * u32::from(zero)))
            .collect();
        let given = states(&given);
        let wide = |&(length, state): &(u32, u32)| (u64::from(length), state);
        let found = states(&told.iter().map(wide).collect::<Vec<_>>());
        let count_max = if first { 1 } else { (bytes_max / 8) as usize };
        prop_assert!(told.iter().all(|&(length, _)| length > 0));
        prop_assert!((1..=count_max).contains(&told.len()));
        prop_assert!(found.len() <= length_bytes as usize);
        if given.is_empty() {
            prop_assert_eq!(told, [(length_bytes, 0)]);
        } else {
            prop_assert_eq!(&found[..], &given[..found.len()]);
            let whole = given.len().min(length_bytes as usize);
            let is_limited = told.len() == count_max;
            prop_assert!(found.len() == whole || is_limited);
        }
    }
}
