//! Whatever arrives, and in whatever pieces: no panic, bounded memory, and the same answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its input has failed")]

use proptest::prelude::*;
use wattio_nbd::{Command, Export, Exports, FastZero, HELD_BYTES_MAX, Handshake, Header, Next};
use wattio_nbd::{Session, Span, TlsPolicy, Verdict};

fn exports() -> Exports {
    let disk = Export { can_block_status: true, can_fua: true, ..Export::new("disk", 1 << 20) };
    Exports::new(vec![disk, Export::new("other", 1 << 16)]).unwrap()
}

/// The longest answer to one option of these exports is the list of them.
const OUTPUT_BYTES_MAX: usize = 200;

/// How a handshake went: what was put out, how much was taken, and how it ended, if it did. After
/// `STARTTLS` it goes on as if TLS had taken nothing away.
fn outcome(tls: TlsPolicy, pieces: &[&[u8]]) -> (Vec<u8>, usize, Option<Next>) {
    let mut handshake = Handshake::new(exports(), tls);
    let (mut output, mut consumed_bytes) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let mut answer = Vec::new();
            let fed = handshake.feed(rest, &mut answer);
            assert!(answer.len() <= OUTPUT_BYTES_MAX, "{}", answer.len());
            assert!(handshake.held_bytes() <= HELD_BYTES_MAX);
            output.append(&mut answer);
            consumed_bytes += fed.consumed_bytes;
            rest = &rest[fed.consumed_bytes..];
            match fed.next {
                Next::Continue => assert!(fed.consumed_bytes > 0, "no progress"),
                Next::StartTls => handshake.tls_started(),
                next => return (output, consumed_bytes, Some(next)),
            }
        }
    }
    (output, consumed_bytes, None)
}

fn option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec!["", "disk", "other", "none"]);
    let query = prop::sample::select(vec!["base:", "base:allocation", "x-a:b"]);
    let string = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    let infos =
        (name.clone(), prop::collection::vec(0..5_u16, 0..4)).prop_map(move |(name, of)| {
            let wanted: Vec<u8> = of.iter().flat_map(|kind| kind.to_be_bytes()).collect();
            [string(name), (of.len() as u16).to_be_bytes().to_vec(), wanted].concat()
        });
    let queries = prop::collection::vec(query, 0..3);
    let contexts = (name.clone(), queries).prop_map(move |(name, of)| {
        let queries: Vec<u8> = of.iter().flat_map(|query| string(query)).collect();
        [string(name), (of.len() as u32).to_be_bytes().to_vec(), queries].concat()
    });
    let data = prop_oneof![
        4 => Just(Vec::new()),
        4 => infos,
        4 => contexts,
        2 => name.prop_map(|name| name.as_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (32_000..34_000_usize).prop_map(|length| vec![0; length]),
    ];
    // Those that end the handshake are rare, so that others come together.
    let number = prop_oneof![
        1 => prop::sample::select(vec![1_u32, 2]),
        12 => 3..13_u32,
    ];
    (number, data).prop_map(|(option, data)| {
        let length = (data.len() as u32).to_be_bytes();
        [b"IHAVEOPT", &option.to_be_bytes()[..], &length, &data].concat()
    })
}

/// What a client may send: its flags and options, a few of them damaged.
fn dialogue() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![8 => Just(3_u32), 1 => 0..5_u32];
    let damage = prop::option::weighted(0.2, any::<(prop::sample::Index, u8)>());
    (flags, prop::collection::vec(option(), 0..8), damage).prop_map(|(flags, options, damage)| {
        let mut bytes = [flags.to_be_bytes().to_vec(), options.concat()].concat();
        if let Some((at, byte)) = damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

fn policy() -> impl Strategy<Value = TlsPolicy> {
    prop::sample::select(vec![TlsPolicy::Off, TlsPolicy::Allowed, TlsPolicy::Required])
}

fn session() -> impl Strategy<Value = Session> {
    let sizes = prop::sample::select(vec![1_u32, 512, 4096]);
    (any::<[bool; 8]>(), sizes, 0..64_u64).prop_map(|(has, min_bytes, blocks)| {
        let mut export = Export::new("disk", blocks * u64::from(min_bytes));
        export.block_size.min_bytes = min_bytes;
        export.block_size.max_payload_bytes = 1 << 16;
        [export.is_read_only, export.can_flush, export.can_fua, export.can_trim, _, _, _, _] = has;
        export.fast_zero = if has[4] { FastZero::Served } else { FastZero::AlwaysRefused };
        export.can_write_zeroes = has[5];
        export.can_cache = has[6];
        export.can_block_status = true;
        let exports = Exports::new(vec![export]).unwrap();
        let structured = b"IHAVEOPT\0\0\0\x08\0\0\0\0";
        let context = b"IHAVEOPT\0\0\0\x0a\0\0\0\x1f\0\0\0\x04disk\0\0\0\x01\
                        \0\0\0\x0fbase:allocation";
        let before = if has[7] { [&structured[..], context].concat() } else { Vec::new() };
        let bytes = [b"\0\0\0\x03", &before[..], b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk"].concat();
        let mut handshake = Handshake::new(exports, TlsPolicy::Off);
        let mut at = 0;
        loop {
            let fed = handshake.feed(&bytes[at..], &mut Vec::new());
            at += fed.consumed_bytes;
            if let Next::Transmission(session) = fed.next {
                return session;
            }
            assert!(fed.consumed_bytes > 0);
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_give_what_the_whole_gives(
        tls in policy(),
        bytes in dialogue(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(outcome(tls, &pieces), outcome(tls, &[&bytes]));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(outcome(tls, &single), outcome(tls, &[&bytes]));
    }

    #[test]
    fn any_bytes_are_survived(
        tls in policy(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        outcome(tls, &[&bytes]);
        outcome(tls, &[b"\0\0\0\x03", &bytes]);
        outcome(tls, &[b"\0\0\0\x03IHAVEOPT\0\0\0", &bytes]);
    }

    /// What is accepted lies within the export and keeps to its sizes, and what is refused has a
    /// reason and says how much is to be dropped.
    #[test]
    fn any_request_is_judged_within_the_export(
        session in session(),
        flags in prop_oneof![Just(0_u16), 0..32_u16, any::<u16>()],
        command in prop_oneof![0..9_u16, any::<u16>()],
        (offset_bytes, length_bytes) in prop_oneof![
            (0..300_000_u64, 0..100_000_u32),
            (0..70_u64, 0..70_u32).prop_map(|(offset, length)| (offset * 4096, length * 512)),
            any::<(u64, u32)>(),
        ],
    ) {
        let header = Header { flags, command, cookie: 1, offset_bytes, length_bytes };
        let export = session.export();
        let payload_bytes = if command == 1 { length_bytes } else { 0 };
        match session.judge(&header) {
            Verdict::Close(_) => prop_assert!(payload_bytes > 1 << 25),
            Verdict::Refuse(refusal) => {
                prop_assert_eq!(refusal.payload_bytes, payload_bytes);
                prop_assert!(payload_bytes <= 1 << 25);
            }
            Verdict::Accept(accepted) => {
                prop_assert_eq!(accepted.payload_bytes(), payload_bytes);
                let (span, writes, has_payload) = match accepted {
                    Command::Disconnect | Command::Flush => return Ok(()),
                    Command::Read { span, .. } => (span, false, true),
                    Command::Write { span, .. } => (span, true, true),
                    Command::Trim { span, .. } | Command::WriteZeroes { span, .. } => {
                        (span, true, false)
                    }
                    Command::Cache { span } | Command::BlockStatus { span, .. } => {
                        (span, false, false)
                    }
                };
                let min_bytes = export.block_size.min_bytes;
                prop_assert_eq!(span, Span { offset_bytes, length_bytes });
                prop_assert!(length_bytes > 0 && span.end_bytes() <= export.size_bytes);
                prop_assert_eq!(offset_bytes % u64::from(min_bytes), 0);
                prop_assert_eq!(length_bytes % min_bytes, 0);
                prop_assert!(!(writes && export.is_read_only));
                prop_assert!(!has_payload || length_bytes <= export.block_size.max_payload_bytes);
            }
        }
    }
}
