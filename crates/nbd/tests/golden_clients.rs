//! What libnbd 1.14.2 (`nbdinfo`, `nbdinfo --map`) and QEMU 7.2 (`qemu-io`) sent to an export of
//! 1 MiB, as it was captured, and the answers, byte for byte. Those are the bytes with which nbdkit
//! 1.32 answered, but for the transmission flags, and the block sizes that it did not tell.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its input has failed")]

use wattio_nbd::{Command, Export, Exports, Extent, Handshake, Header, Next, Session, Span};
use wattio_nbd::{TlsPolicy, Verdict};

/// Without a name, as the captured server's export.
fn export() -> Export {
    Export {
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        can_multi_conn: true,
        can_cache: true,
        can_block_status: true,
        ..Export::new("", 1 << 20)
    }
}

/// Flags of `export` with structured replies: bits 0, 2, 3, 5, 6, 7, 8 and 10.
const FLAGS: [u8; 2] = [0b101, 0b1110_1101];

/// A dialogue of options: what the client sends, and what it has to be answered.
fn negotiated(dialogue: &[(&[u8], Vec<u8>)]) -> Session {
    let mut handshake = Handshake::new(Exports::new(vec![export()]).unwrap(), TlsPolicy::Off);
    let (last, before) = dialogue.split_last().unwrap();
    for (sent, expected) in before {
        let mut output = Vec::new();
        let fed = handshake.feed(sent, &mut output);
        assert_eq!((fed.consumed_bytes, fed.next), (sent.len(), Next::Continue));
        assert_eq!(&output, expected);
    }
    let mut output = Vec::new();
    let fed = handshake.feed(last.0, &mut output);
    assert_eq!((fed.consumed_bytes, output), (last.0.len(), last.1.clone()));
    match fed.next {
        Next::Transmission(session) => session,
        next => panic!("{next:?}"),
    }
}

const FLAGS_AND_STRUCTURED: &[u8] = b"\x00\x00\x00\x03IHAVEOPT\x00\x00\x00\x08\x00\x00\x00\x00";
const STRUCTURED_ACK: &[u8] =
    b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00";
/// The information about the export behind the head of its reply, up to the flags.
const SIZE: &[u8] = b"\x00\x00\x00\x03\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00";

fn judged(session: &Session, bytes: &[u8]) -> (u64, Command) {
    let header = Header::parse(bytes.try_into().unwrap()).unwrap();
    match session.judge(&header) {
        Verdict::Accept(command) => (header.cookie, command),
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn nbdinfo() {
    let info = b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\x06";
    let name = b"\x00\x00\x00\x03\x00\x00\x00\x02\x00\x01";
    let sizes = b"\x00\x00\x00\x03\x00\x00\x00\x0e\x00\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0";
    let end = b"\x00\x00\x00\x01\x00\x00\x00\x00";
    let told = |head: &[u8]| [head, SIZE, &FLAGS, head, name, head, sizes, head, end].concat();
    let go = b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\x07";
    let session = negotiated(&[
        (FLAGS_AND_STRUCTURED, STRUCTURED_ACK.to_vec()),
        (
            b"IHAVEOPT\x00\x00\x00\x06\x00\x00\x00\x0c\
              \x00\x00\x00\x00\x00\x03\x00\x03\x00\x01\x00\x02",
            told(info),
        ),
        (
            b"IHAVEOPT\x00\x00\x00\t\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\t\x00\x00\x00\x04\x00\x00\x00\x13\
              \x00\x00\x00\x00base:allocation\
              \x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\t\x00\x00\x00\x01\x00\x00\x00\x00"
                .to_vec(),
        ),
        (
            b"IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x0c\
              \x00\x00\x00\x00\x00\x03\x00\x03\x00\x01\x00\x02",
            told(go),
        ),
    ]);
    let (cookie, command) = judged(
        &session,
        b"%`\x95\x13\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\
          \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 \x00",
    );
    let span = Span { offset_bytes: 0, length_bytes: 8192 };
    assert_eq!((cookie, command), (1, Command::Read { span, is_unfragmented: false }));
    let head = b"f\x8e3\xef\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00 \x08\
                 \x00\x00\x00\x00\x00\x00\x00\x00";
    assert_eq!(session.reply(cookie).whole_read(span).as_ref(), head);
    let (_, command) = judged(
        &session,
        b"%`\x95\x13\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\
          \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    );
    assert_eq!(command, Command::Disconnect);
}

/// The dialogue that `nbdinfo --map` and QEMU have in common.
fn with_allocation(go: &[u8], wanted: &[u8]) -> Session {
    let told = [b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\x07", SIZE, &FLAGS].concat();
    let end = b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00";
    negotiated(&[
        (FLAGS_AND_STRUCTURED, STRUCTURED_ACK.to_vec()),
        (
            b"IHAVEOPT\x00\x00\x00\n\x00\x00\x00\x1b\x00\x00\x00\x00\x00\x00\x00\x01\
              \x00\x00\x00\x0fbase:allocation",
            b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\n\x00\x00\x00\x04\x00\x00\x00\x13\
              \x00\x00\x00\x01base:allocation\
              \x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\n\x00\x00\x00\x01\x00\x00\x00\x00"
                .to_vec(),
        ),
        (go, [&told, wanted, end].concat()),
    ])
}

const GO_WITH_SIZES: &[u8] =
    b"IHAVEOPT\x00\x00\x00\x07\x00\x00\x00\x08\x00\x00\x00\x00\x00\x01\x00\x03";
const SIZES: &[u8] = b"\x00\x03\xe8\x89\x04Ue\xa9\x00\x00\x00\x07\x00\x00\x00\x03\x00\x00\x00\x0e\
                       \x00\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0";

#[test]
fn nbdinfo_map() {
    let session = with_allocation(GO_WITH_SIZES, SIZES);
    let (cookie, command) = judged(
        &session,
        b"%`\x95\x13\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x01\
          \x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00",
    );
    let span = Span { offset_bytes: 0, length_bytes: 1 << 20 };
    assert_eq!(command, Command::BlockStatus { span, is_first_only: false });
    let hole = Extent { length_bytes: 1 << 20, is_hole: true, is_zero: true };
    let mut output = Vec::new();
    session.block_status(cookie, span, false, [hole], &mut output);
    let expected = b"f\x8e3\xef\x00\x01\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0c\
                     \x00\x00\x00\x01\x00\x10\x00\x00\x00\x00\x00\x03";
    assert_eq!(output, expected);
}

/// `write -f -P 7 0 4096`, `write -z 4096 4096`, `discard 8192 4096` and what QEMU adds at the end.
#[test]
fn qemu_io() {
    let session = with_allocation(GO_WITH_SIZES, SIZES);
    let span = |offset_bytes| Span { offset_bytes, length_bytes: 4096 };
    let zeroes = Command::WriteZeroes {
        span: span(4096),
        is_fua: true,
        may_make_hole: false,
        is_fast_only: false,
    };
    let requests: [(&[u8], Command); 4] = [
        (
            b"\x00\x01\x00\x01\x00\x00V\t#|\xdf\x90\
              \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00",
            Command::Write { span: span(0), is_fua: true },
        ),
        (
            b"\x00\x03\x00\x06\x00\x00V\t#|\xdf\x90\
              \x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x10\x00",
            zeroes,
        ),
        (
            b"\x00\x00\x00\x04\x00\x00V\t#|\xdf\x90\
              \x00\x00\x00\x00\x00\x00 \x00\x00\x00\x10\x00",
            Command::Trim { span: span(8192), is_fua: false },
        ),
        (
            b"\x00\x00\x00\x03\x00\x00V\t#|\xdf\x90\
              \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            Command::Flush,
        ),
    ];
    for (bytes, expected) in requests {
        let (cookie, command) = judged(&session, &[b"%`\x95\x13", bytes].concat());
        assert_eq!(command, expected);
        let done = b"gDf\x98\x00\x00\x00\x00\x00\x00V\t#|\xdf\x90";
        assert_eq!(session.reply(cookie).done().as_ref(), done);
    }
}
