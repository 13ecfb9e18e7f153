//! Any bytes as a client's negotiation, in pieces: no panic, progress, bounded memory, and the same
//! answer as in one piece.
//!
//! The first byte chooses the policy and the length of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattio_nbd::{Export, Exports, Fed, HELD_BYTES_MAX, Handshake, Next, TlsPolicy};

/// The longest answer to one option: a list of these exports.
const OUTPUT_BYTES_MAX: usize = 200;

fn outcome(handshake: &mut Handshake, pieces: &[&[u8]]) -> (Vec<u8>, usize, Option<Next>) {
    let (mut output, mut consumed) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let mut answer = Vec::new();
            let Fed { consumed_bytes, next } = handshake.feed(rest, &mut answer);
            assert!(answer.len() <= OUTPUT_BYTES_MAX, "a long answer");
            assert!(handshake.held_bytes() <= HELD_BYTES_MAX, "too much is held");
            output.append(&mut answer);
            consumed += consumed_bytes;
            rest = &rest[consumed_bytes..];
            match next {
                Next::Continue => assert!(consumed_bytes > 0, "no progress"),
                Next::StartTls => handshake.tls_started(),
                next => return (output, consumed, Some(next)),
            }
        }
    }
    (output, consumed, None)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let policies = [TlsPolicy::Off, TlsPolicy::Allowed, TlsPolicy::Required];
    let tls = policies[usize::from(choice) % policies.len()];
    let disk = Export { can_block_status: true, ..Export::new("disk", 1 << 20) };
    let exports = Exports::new(vec![disk, Export::new("", 1)]).expect("valid");
    let whole = outcome(&mut Handshake::new(exports.clone(), tls), &[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(choice / 3) + 1).collect();
    let parts = outcome(&mut Handshake::new(exports, tls), &pieces);
    assert_eq!(whole, parts, "pieces differ from the whole");
});
