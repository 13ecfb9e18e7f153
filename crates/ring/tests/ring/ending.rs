use crate::{ECANCELED, completion, number, ring};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;
use wattio_pages::{BLOCK, Pages};
use wattio_ring::{Back, Interest, Part, Reach, Take, Wait};

/// A dropped ring has let go of everything: nobody is left who could write into memory that was
/// freed, which the peers of its sockets see as the end of the connection.
#[test]
fn a_dropped_ring_leaves_nothing_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    for submitted in [false, true] {
        let Some(mut ring) = ring(4) else { return };
        let listener = ring.add(UnixListener::bind(&path).unwrap()).unwrap();
        ring.accept(1, listener);
        let waiting = UnixStream::connect(&path).unwrap();
        let mut peers = Vec::new();
        let shared = Arc::new(Pages::zeroed(1000));
        for token in 0..20 {
            let (peer, socket) = UnixStream::pair().unwrap();
            let socket = ring.add(socket).unwrap();
            ring.receive_pages(token, socket, Pages::zeroed(4), 0..4 * BLOCK, Take::All);
            ring.send(token, socket, vec![0; 16], vec![Part::whole(shared.clone())]);
            ring.poll(token, socket, Interest::Read);
            peers.push(peer);
        }
        ring.timeout(99, Duration::from_secs(3600));
        let file = ring.add(tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap()).unwrap();
        for token in 0..40 {
            let parts = vec![Part::whole(shared.clone())];
            ring.write(token, file, token << 20, parts, Reach::Device);
        }
        if submitted {
            ring.enter(Wait::Poll).unwrap();
        }
        drop(ring);
        assert_eq!(Arc::strong_count(&shared), 1);
        for mut peer in peers {
            assert_eq!(peer.write(b"late").unwrap_err().kind(), ErrorKind::BrokenPipe);
            let mut sent = Vec::new();
            // What was sent before is still there, and then the end.
            let _ = peer.read_to_end(&mut sent);
            assert!(sent.len() < 16 + 1000 * BLOCK);
        }
        drop(waiting);
        assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn closing_cancels_what_is_under_way_and_nothing_else() {
    let Some(mut ring) = ring(4) else { return };
    let (mut peer, socket) = UnixStream::pair().unwrap();
    let (mut other_peer, other) = UnixStream::pair().unwrap();
    let (socket, other) = (ring.add(socket).unwrap(), ring.add(other).unwrap());
    ring.receive(1, socket, vec![5; 8], 0..8, Take::All);
    ring.receive(2, other, vec![6; 8], 0..8, Take::All);
    ring.enter(Wait::Poll).unwrap();
    ring.close(socket);
    let closed = completion(&mut ring);
    assert_eq!((closed.token, number(&closed)), (1, Some(ECANCELED)));
    assert!(matches!(closed.back, Back::Bytes(bytes) if bytes == [5; 8]));
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
    other_peer.write_all(&[7; 8]).unwrap();
    let whole = completion(&mut ring);
    assert_eq!((whole.token, whole.result.unwrap()), (2, 8));
}

#[test]
fn a_cancel_before_anything_was_submitted_is_heard() {
    let Some(mut ring) = ring(1) else { return };
    let (_peer, socket) = UnixStream::pair().unwrap();
    let socket = ring.add(socket).unwrap();
    for _ in 0..5 {
        ring.receive(1, socket, vec![0; 8], 0..8, Take::Some);
    }
    ring.cancel(1);
    for cancelled in crate::completions(&mut ring, 5) {
        assert_eq!(number(&cancelled), Some(ECANCELED));
    }
}

#[test]
fn a_ring_of_no_size_is_refused_in_words() {
    for entries in [0, 16_385, u32::MAX] {
        let error = wattio_ring::Ring::new(entries).unwrap_err().to_string();
        assert!(error.contains("from 1 to 16384 are allowed"), "{error}");
    }
}
