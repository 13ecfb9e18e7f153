//! Any bytes as requests: no panic, nothing accepted that is outside of the export, and every
//! refusal says how much payload there is.
//!
//! The first byte chooses what the export offers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_nbd::{
    BlockSize, Command, Errno, Export, Exports, FastZero, Handshake, Header, Next, Session, Span,
    TlsPolicy, Verdict,
};

fn session(choice: u8) -> Session {
    let has = |bit: u8| choice & (1 << bit) != 0;
    let min_bytes = if has(0) { 512 } else { 1 };
    let export = Export {
        block_size: BlockSize { min_bytes, preferred_bytes: 4096, max_payload_bytes: 1 << 16 },
        is_read_only: has(1),
        can_flush: has(2),
        can_fua: has(3),
        can_trim: has(4),
        can_write_zeroes: has(5),
        fast_zero: if has(6) { FastZero::Served } else { FastZero::AlwaysRefused },
        can_cache: true,
        can_block_status: true,
        ..Export::new("", 1 << 20)
    };
    let exports = Exports::new(vec![export]).expect("valid");
    let mut handshake = Handshake::new(exports, TlsPolicy::Off);
    let structured = b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0".as_slice();
    let context = b"IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
    let start = if has(7) { [structured, context].concat() } else { b"\0\0\0\x03".to_vec() };
    let bytes = [&start[..], b"IHAVEOPT\0\0\0\x01\0\0\0\0"].concat();
    let mut at = 0;
    loop {
        let fed = handshake.feed(&bytes[at..], &mut Vec::new());
        at += fed.consumed_bytes;
        match fed.next {
            Next::Continue => {}
            Next::Transmission(session) => return session,
            next => panic!("{next:?}"),
        }
    }
}

fn check(session: &Session, header: &Header) {
    let export = session.export();
    let payload_bytes = if header.command == 1 { header.length_bytes } else { 0 };
    let (span, is_bounded): (Span, bool) = match session.judge(header) {
        Verdict::Close(_) => return assert!(payload_bytes > 1 << 25),
        Verdict::Refuse(refusal) => {
            assert_eq!(refusal.payload_bytes, payload_bytes);
            let mut output = Vec::new();
            session.reply(header.cookie).error(refusal.errno, refusal.message, &mut output);
            return assert!(!output.is_empty());
        }
        Verdict::Accept(command) => match command {
            Command::Disconnect | Command::Flush => return,
            Command::Read { span, .. } => {
                let mut output = Vec::new();
                let reply = session.reply(header.cookie);
                reply.broken_read(span, header.length_bytes / 2, Errno::Io, "", &mut output);
                (span, true)
            }
            Command::Write { span, .. } => (span, true),
            Command::Trim { span, .. }
            | Command::Cache { span }
            | Command::WriteZeroes { span, .. }
            | Command::BlockStatus { span, .. } => (span, false),
        },
    };
    assert!(span.length_bytes > 0 && span.end_bytes() <= export.size_bytes);
    let min_bytes = export.block_size.min_bytes;
    assert!(span.length_bytes % min_bytes == 0 && span.offset_bytes % u64::from(min_bytes) == 0);
    assert!(!is_bounded || span.length_bytes <= export.block_size.max_payload_bytes);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let session = session(choice);
    for bytes in bytes.as_chunks::<{ Header::BYTES }>().0 {
        let Ok(header) = Header::parse(bytes) else { return };
        assert_eq!(&header.encode(), bytes);
        check(&session, &header);
    }
});
