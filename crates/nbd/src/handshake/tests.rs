use super::{Closed, DATA_BYTES_MAX, GREETING, HELD_BYTES_MAX, Handshake, Next, TlsPolicy};
use crate::export::{BlockSize, Export, Exports};
use crate::session::Session;

const ACK: (u32, Vec<u8>) = (1, Vec::new());
const UNSUP: u32 = 0x8000_0001;
const POLICY: u32 = 0x8000_0002;
const INVALID: u32 = 0x8000_0003;
const TLS_REQD: u32 = 0x8000_0005;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

fn exports() -> Exports {
    let block_size =
        BlockSize { min_bytes: 512, preferred_bytes: 4096, max_payload_bytes: 1 << 20 };
    let disk = Export {
        description: "a disk".to_owned(),
        block_size,
        can_flush: true,
        can_block_status: true,
        ..Export::new("disk", 1 << 20)
    };
    Exports::new(vec![disk, Export::new("plain", 77)]).unwrap()
}

/// A client that has sent its flags, and what it is told.
struct Client {
    handshake: Handshake,
}

impl Client {
    fn with_flags(flags: u32, tls: TlsPolicy) -> Self {
        let mut handshake = Handshake::new(exports(), tls);
        let fed = handshake.feed(&flags.to_be_bytes(), &mut Vec::new());
        assert_eq!((fed.consumed_bytes, fed.next), (4, Next::Continue));
        Self { handshake }
    }

    fn new() -> Self {
        Self::with_flags(3, TlsPolicy::Off)
    }

    fn raw(&mut self, option: u32, data: &[u8]) -> (Vec<u8>, Next) {
        let message = message(option, data);
        let mut output = Vec::new();
        let fed = self.handshake.feed(&message, &mut output);
        if !matches!(fed.next, Next::Close(_)) {
            assert_eq!(fed.consumed_bytes, message.len());
        }
        (output, fed.next)
    }

    /// Sends an option; its replies, as type and data, and what comes next.
    fn replies(&mut self, option: u32, data: &[u8]) -> (Vec<(u32, Vec<u8>)>, Next) {
        let (output, next) = self.raw(option, data);
        let mut rest = &output[..];
        let mut replies = Vec::new();
        while !rest.is_empty() {
            assert_eq!(rest[..8], 0x3_e889_0455_65a9_u64.to_be_bytes());
            let field = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(field(8), option);
            let end = 20 + field(16) as usize;
            replies.push((field(12), rest[20..end].to_vec()));
            rest = &rest[end..];
        }
        (replies, next)
    }

    /// The type of the only reply; the negotiation goes on.
    fn only(&mut self, option: u32, data: &[u8]) -> u32 {
        let (replies, next) = self.replies(option, data);
        assert_eq!(next, Next::Continue);
        let [(kind, _)] = replies[..] else { panic!("{replies:?}") };
        kind
    }

    fn session(&mut self, option: u32, data: &[u8]) -> Session {
        match self.raw(option, data) {
            (_, Next::Transmission(session)) => session,
            (output, next) => panic!("{next:?} {output:?}"),
        }
    }
}

fn message(option: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [b"IHAVEOPT", &option.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

fn info(name: &str, wanted: &[u16]) -> Vec<u8> {
    let count = u16::try_from(wanted.len()).unwrap().to_be_bytes();
    let wanted: Vec<u8> = wanted.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    [&string(name)[..], &count, &wanted].concat()
}

fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let count = u32::try_from(queries.len()).unwrap().to_be_bytes();
    let queries: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
    [&string(name)[..], &count, &queries].concat()
}

#[test]
fn the_greeting_is_that_of_fixed_newstyle() {
    assert_eq!(GREETING, *b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn unknown_client_flags_close() {
    for flags in [4, 1 << 31, 0x0001_0000] {
        let mut handshake = Handshake::new(exports(), TlsPolicy::Off);
        let fed = handshake.feed(&u32::to_be_bytes(flags), &mut Vec::new());
        assert_eq!(fed.next, Next::Close(Closed::UnknownClientFlags(flags)));
        let fed = handshake.feed(b"more", &mut Vec::new());
        assert_eq!((fed.consumed_bytes, fed.next), (0, Next::Close(Closed::Over)));
    }
}

#[test]
fn export_name_gives_size_flags_and_zeroes() {
    let (output, next) = Client::new().raw(1, b"disk");
    assert_eq!(output, [0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0b101]);
    assert!(matches!(next, Next::Transmission(session) if session.export_index() == 0));
    for flags in [0, 1] {
        let (output, next) = Client::with_flags(flags, TlsPolicy::Off).raw(1, b"plain");
        assert_eq!(output[..10], [0, 0, 0, 0, 0, 0, 0, 77, 0, 1]);
        assert_eq!(output[10..], [0; 124]);
        assert!(matches!(next, Next::Transmission(session) if session.export_index() == 1));
    }
}

#[test]
fn export_name_cannot_be_refused_but_by_closing() {
    let unknown = Next::Close(Closed::UnknownExport);
    // Two exports, none of them the default.
    for name in [&b"other"[..], b"", b"disk\0", &[b'x'; 4097], &[b'x'; DATA_BYTES_MAX + 1]] {
        assert_eq!(Client::new().raw(1, name), (Vec::new(), unknown.clone()));
    }
}

#[test]
fn without_fixed_newstyle_there_is_one_option() {
    for option in [2, 3, 5, 7, 99] {
        let (output, next) = Client::with_flags(0, TlsPolicy::Off).raw(option, &[]);
        assert_eq!((output, next), (Vec::new(), Next::Close(Closed::NotFixed(option))));
    }
}

#[test]
fn an_option_without_its_magic_closes() {
    let mut client = Client::new();
    let fed = client.handshake.feed(b"IHAVEOPS\0\0\0\x03\0\0\0\0", &mut Vec::new());
    assert_eq!(fed.next, Next::Close(Closed::BadMagic(0x4948_4156_454f_5053)));
}

#[test]
fn abort_is_acknowledged_whatever_it_carries() {
    for data in [&[][..], b"so long", &[0; DATA_BYTES_MAX + 1]] {
        for tls in [TlsPolicy::Off, TlsPolicy::Required] {
            let (replies, next) = Client::with_flags(3, tls).replies(2, data);
            assert_eq!((replies, next), (vec![ACK], Next::Close(Closed::Aborted)));
        }
    }
}

#[test]
fn list_tells_names_and_descriptions() {
    let (replies, next) = Client::new().replies(3, &[]);
    let disk = (2, b"\0\0\0\x04diska disk".to_vec());
    assert_eq!(replies, [disk, (2, b"\0\0\0\x05plain".to_vec()), ACK]);
    assert_eq!(next, Next::Continue);
    assert_eq!(Client::new().only(3, b"x"), INVALID);
}

#[test]
fn unknown_options_are_unsupported_whatever_they_carry() {
    let mut client = Client::new();
    // PEEK_EXPORT was withdrawn; 11 is EXTENDED_HEADERS.
    for option in [0, 4, 11, 12, 0xffff_ffff] {
        for data in [&[][..], b"data", &[0; DATA_BYTES_MAX + 1]] {
            assert_eq!(client.only(option, data), UNSUP, "{option}");
        }
    }
    assert_eq!(client.only(8, &[]), 1);
}

#[test]
fn info_tells_what_was_asked_for_and_does_not_end_the_negotiation() {
    let mut client = Client::new();
    let export = (3, b"\0\0\0\0\0\0\0\x10\0\0\0\x05".to_vec());
    let (replies, next) = client.replies(6, &info("disk", &[]));
    // Its sizes are not those that a client assumes, so they come unasked.
    let sizes = (3, b"\0\x03\0\0\x02\0\0\0\x10\0\0\x10\0\0".to_vec());
    assert_eq!((replies, next), (vec![export.clone(), sizes.clone(), ACK], Next::Continue));
    // Each once, in spite of repetition; 0 is always told; 9 is not known.
    let (replies, _) = client.replies(6, &info("disk", &[3, 1, 2, 3, 0, 9]));
    let name = (3, b"\0\x01disk".to_vec());
    let description = (3, b"\0\x02a disk".to_vec());
    assert_eq!(replies, [export, name, description, sizes, ACK]);
    let (replies, next) = client.replies(7, &info("plain", &[2]));
    assert_eq!(replies, [(3, b"\0\0\0\0\0\0\0\0\0\x4d\0\x01".to_vec()), ACK]);
    assert!(matches!(next, Next::Transmission(_)));
}

#[test]
fn structured_replies_show_in_the_flags() {
    let mut client = Client::new();
    assert_eq!(client.only(8, b"x"), INVALID);
    let (replies, _) = client.replies(6, &info("disk", &[]));
    assert_eq!(replies[0].1[10..], [0, 0b101]);
    assert_eq!(client.only(8, &[]), 1);
    let (replies, _) = client.replies(6, &info("disk", &[]));
    assert_eq!(replies[0].1[10..], [0, 0b1000_0101]);
    assert!(client.session(7, &info("disk", &[])).is_structured());
    assert!(!Client::new().session(7, &info("disk", &[])).is_structured());
}

#[test]
fn info_and_go_refuse_and_go_on() {
    let mut client = Client::new();
    let cases = [
        (info("other", &[]), UNKNOWN),
        (info("", &[]), UNKNOWN),
        (info(&"x".repeat(4096), &[]), UNKNOWN),
        (info(&"x".repeat(4097), &[]), TOO_BIG),
        (Vec::new(), INVALID),
        (string("disk"), INVALID),
        (info("disk", &[1])[..11].to_vec(), INVALID),
        ([info("disk", &[1]), vec![0]].concat(), INVALID),
        (b"\xff\xff\xff\xffdisk\0\0".to_vec(), INVALID),
        (b"\0\0\0\x05disk\0\0".to_vec(), INVALID),
        (vec![0; DATA_BYTES_MAX + 1], TOO_BIG),
    ];
    for (data, expected) in cases {
        for option in [6, 7] {
            assert_eq!(client.only(option, &data), expected, "{:?}", data.get(..20));
        }
    }
    client.session(7, &info("disk", &[]));
}

#[test]
fn contexts_are_listed_by_name_and_wildcard() {
    let mut client = Client::new();
    assert_eq!(client.only(9, &contexts("disk", &[])), INVALID);
    client.only(8, &[]);
    let found = vec![(4, b"\0\0\0\0base:allocation".to_vec()), ACK];
    for queries in [&[][..], &["base:"], &["base:allocation"], &["x-own:", "base:", "base:"]] {
        assert_eq!(client.replies(9, &contexts("disk", queries)).0, found, "{queries:?}");
    }
    for queries in [&["base:other"][..], &["x-own:"], &["allocation"], &["qemu:dirty-bitmap:a"]] {
        assert_eq!(client.replies(9, &contexts("disk", queries)).0, [ACK], "{queries:?}");
    }
    assert_eq!(client.replies(9, &contexts("plain", &[])).0, [ACK]);
    // Listing selects nothing.
    assert!(!client.session(7, &info("disk", &[])).has_block_status());
}

#[test]
fn contexts_are_selected_by_name_only() {
    let mut client = Client::new();
    assert_eq!(client.only(10, &contexts("disk", &["base:allocation"])), INVALID);
    client.only(8, &[]);
    for queries in [&[][..], &["base:"], &["base:other"], &["x-own:allocation"]] {
        assert_eq!(client.replies(10, &contexts("disk", queries)).0, [ACK], "{queries:?}");
    }
    let both = contexts("disk", &["base:allocation", "base:allocation", "x-own:a"]);
    let selected = (4, b"\0\0\0\x01base:allocation".to_vec());
    assert_eq!(client.replies(10, &both).0, [selected, ACK]);
    assert!(client.session(7, &info("disk", &[])).has_block_status());
}

/// "Issuing this command replaces all previously-set metadata contexts (including when this command
/// fails)", and the final one has to name the export that is chosen.
#[test]
fn a_selection_ends_with_the_next_one_even_if_that_fails() {
    let after = |option: u32, data: &[u8], export: &str| {
        let mut client = Client::new();
        client.only(8, &[]);
        client.replies(10, &contexts("disk", &["base:allocation"]));
        client.replies(option, data);
        client.session(1, export.as_bytes()).has_block_status()
    };
    assert!(after(3, &[], "disk"));
    assert!(!after(3, &[], "plain"));
    assert!(!after(10, &contexts("disk", &[]), "disk"));
    assert!(!after(10, &contexts("other", &[]), "disk"));
    assert!(!after(10, &contexts("plain", &["base:allocation"]), "disk"));
    assert!(!after(10, b"nonsense", "disk"));
    assert!(!after(10, &[0; DATA_BYTES_MAX + 1], "disk"));
}

#[test]
fn requests_for_contexts_that_are_malformed_are_refused() {
    let mut client = Client::new();
    client.only(8, &[]);
    let good = contexts("disk", &["base:allocation"]);
    let cases = [
        (good[..good.len() - 1].to_vec(), INVALID),
        ([&good[..], &[0]].concat(), INVALID),
        ([&string("disk")[..], &u32::MAX.to_be_bytes()].concat(), INVALID),
        (contexts("other", &["base:allocation"]), UNKNOWN),
        (contexts("disk", &[&"x".repeat(4097)]), TOO_BIG),
        (vec![0; DATA_BYTES_MAX + 1], TOO_BIG),
    ];
    for (data, expected) in cases {
        assert_eq!((client.only(9, &data), client.only(10, &data)), (expected, expected));
    }
}

#[test]
fn tls_that_is_off_is_refused_by_policy() {
    assert_eq!(Client::new().only(5, &[]), POLICY);
    assert_eq!(Client::new().only(5, b"x"), INVALID);
}

#[test]
fn tls_that_is_required_comes_first() {
    let mut client = Client::with_flags(3, TlsPolicy::Required);
    for option in [3, 6, 7, 8, 9, 10, 11, 99] {
        assert_eq!(client.only(option, &[]), TLS_REQD, "{option}");
        assert_eq!(client.only(option, &[0; DATA_BYTES_MAX + 1]), TLS_REQD, "{option}");
    }
    assert_eq!(client.only(5, b"x"), INVALID);
    for flags in [0, 3] {
        let (output, next) = Client::with_flags(flags, TlsPolicy::Required).raw(1, b"disk");
        assert_eq!((output, next), (Vec::new(), Next::Close(Closed::TlsRequired)));
    }
    assert_eq!(client.replies(5, &[]), (vec![ACK], Next::StartTls));
    client.handshake.tls_started();
    assert!(client.handshake.has_tls());
    client.session(7, &info("disk", &[]));
}

/// "The server MUST NOT preserve any negotiation state": structured replies and contexts are asked
/// for again inside of TLS, or not at all. nbdkit kept them once, and somebody in between could ask
/// for them in plain text (CVE-2021-3716).
#[test]
fn what_was_negotiated_before_tls_is_forgotten() {
    let mut client = Client::with_flags(3, TlsPolicy::Allowed);
    client.only(8, &[]);
    client.replies(10, &contexts("disk", &["base:allocation"]));
    assert_eq!(client.replies(5, &[]), (vec![ACK], Next::StartTls));
    client.handshake.tls_started();
    assert_eq!(client.only(5, &[]), INVALID);
    assert_eq!(client.only(10, &contexts("disk", &["base:allocation"])), INVALID);
    let session = client.session(7, &info("disk", &[]));
    assert!(!session.is_structured() && !session.has_block_status());
}

/// Plain text that arrives together with `STARTTLS` must never be taken for what came out of TLS:
/// somebody in between could put options there.
#[test]
fn plain_text_behind_starttls_is_not_taken() {
    let mut client = Client::with_flags(3, TlsPolicy::Allowed);
    let input = [message(5, &[]), message(8, &[])].concat();
    let mut output = Vec::new();
    let fed = client.handshake.feed(&input, &mut output);
    assert_eq!((fed.consumed_bytes, fed.next), (16, Next::StartTls));
    assert_eq!(output.len(), 20);
    let fed = client.handshake.feed(&input[16..], &mut output);
    assert_eq!((fed.consumed_bytes, fed.next, output.len()), (0, Next::StartTls, 20));
}

#[test]
fn what_is_held_of_an_option_is_bounded() {
    let mut client = Client::new();
    let full = message(99, &[7; DATA_BYTES_MAX]);
    for part in full[..full.len() - 1].chunks(1000) {
        assert_eq!(client.handshake.feed(part, &mut Vec::new()).next, Next::Continue);
    }
    assert_eq!(client.handshake.held_bytes(), HELD_BYTES_MAX);
    let mut output = Vec::new();
    client.handshake.feed(&[7], &mut output);
    assert_eq!((client.handshake.held_bytes(), output.is_empty()), (0, false));
    // Four gigabytes are promised; nothing is kept of what comes of them.
    client.handshake.feed(b"IHAVEOPT\0\0\0\x06\xff\xff\xff\xff", &mut Vec::new());
    for _ in 0..100 {
        let fed = client.handshake.feed(&[0; 65_536], &mut Vec::new());
        assert_eq!((fed.consumed_bytes, client.handshake.held_bytes()), (65_536, 0));
    }
}

#[test]
fn one_option_is_answered_at_a_time() {
    let mut client = Client::new();
    let input = [message(3, &[]), message(3, &[])].concat();
    let mut output = Vec::new();
    let fed = client.handshake.feed(&input, &mut output);
    assert_eq!((fed.consumed_bytes, fed.next), (16, Next::Continue));
    let once = output.len();
    client.handshake.feed(&input[16..], &mut output);
    assert_eq!(output.len(), 2 * once);
}
