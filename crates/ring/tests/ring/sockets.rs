use crate::{ECANCELED, completion, completions, number, ring};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};
use wattio_ring::{Back, Interest, Part, Ring, Take, Wait};

fn tiny_pair() -> (UnixStream, UnixStream) {
    let (one, two) = UnixStream::pair().expect("a pair of sockets");
    for socket in [&one, &two] {
        set_socket_send_buffer_size(socket, 1).expect("a size");
        set_socket_recv_buffer_size(socket, 1).expect("a size");
    }
    (one, two)
}

/// A message a hundred times the socket's buffer, and its receiver, which takes it in three parts.
#[test]
fn a_long_send_is_one_completion() {
    let Some(mut ring) = ring(8) else { return };
    let (one, two) = tiny_pair();
    let (one, two) = (ring.add(one).unwrap(), ring.add(two).unwrap());
    let mut data = Pages::zeroed(130);
    Xoshiro256PlusPlus::seed_from_u64(1).fill(data.as_bytes_mut());
    let data = Arc::new(data);
    let parts = vec![
        Part::blocks(data.clone(), 3..40),
        Part::bytes(data.clone(), 5..5),
        Part::bytes(data.clone(), 5..500_005),
    ];
    let total = 16 + 37 * BLOCK + 500_000;
    ring.send(1, one, (0..16).collect(), parts);
    ring.receive(2, two, vec![0; 20], 2..18, Take::All);
    let head = completion(&mut ring);
    assert_eq!((head.token, *head.result.as_ref().unwrap()), (2, 16));
    let Back::Bytes(bytes) = head.back else { panic!("{:?}", head.back) };
    assert_eq!(bytes[2..18], (0..16).collect::<Vec<u8>>());
    ring.receive_pages(3, two, Pages::zeroed(37), 0..37 * BLOCK, Take::All);
    let body = completion(&mut ring);
    assert_eq!((body.token, *body.result.as_ref().unwrap()), (3, 37 * BLOCK));
    let Back::Pages(pages) = body.back else { panic!("{:?}", body.back) };
    assert!(pages.as_bytes() == &data.as_bytes()[3 * BLOCK..40 * BLOCK]);
    ring.receive(4, two, vec![0; 500_000], 0..500_000, Take::All);
    let mut ends = completions(&mut ring, 2);
    ends.sort_by_key(|end| end.token);
    let tokens: Vec<_> =
        ends.iter().map(|end| (end.token, *end.result.as_ref().unwrap())).collect();
    assert_eq!(tokens, [(1, total), (4, 500_000)]);
    let Back::Bytes(rest) = &ends[1].back else { panic!("{:?}", ends[1].back) };
    assert!(*rest == data.as_bytes()[5..500_005]);
    let Back::Gathered { head, parts } = &ends[0].back else { panic!("{:?}", ends[0].back) };
    assert_eq!((head.len(), parts.len()), (16, 3));
}

#[test]
fn a_receive_of_all_tells_how_far_the_peer_came() {
    let Some(mut ring) = ring(8) else { return };
    let (mut one, two) = UnixStream::pair().unwrap();
    let two = ring.add(two).unwrap();
    one.write_all(b"abc").unwrap();
    ring.receive(1, two, vec![0; 8], 0..8, Take::Some);
    assert_eq!(completion(&mut ring).result.unwrap(), 3);
    one.write_all(b"defg").unwrap();
    ring.receive(2, two, vec![0; 8], 0..8, Take::All);
    ring.enter(Wait::Poll).unwrap();
    drop(one);
    assert_eq!(completion(&mut ring).result.unwrap(), 4);
    ring.receive(3, two, vec![0; 8], 0..8, Take::All);
    assert_eq!(completion(&mut ring).result.unwrap(), 0);
    ring.send(4, two, vec![1], Vec::new());
    let broken = completion(&mut ring);
    assert_eq!(broken.result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

/// Takes `count` connections that are waiting.
fn accepted(ring: &mut Ring, count: usize) -> Vec<std::os::fd::OwnedFd> {
    let socket = |connection: wattio_ring::Completion| {
        assert!(connection.more && connection.token == 9, "{connection:?}");
        let Back::Socket(socket) = connection.back else { panic!("{:?}", connection.back) };
        socket
    };
    completions(ring, count).into_iter().map(socket).collect()
}

#[test]
fn connections_are_accepted_until_that_is_cancelled() {
    let Some(mut ring) = ring(8) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // The ring waits for it all the same.
    listener.set_nonblocking(true).unwrap();
    let listener = ring.add(listener).unwrap();
    ring.accept(9, listener);
    for round in 0..3u8 {
        let mut clients: Vec<_> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for (client, socket) in clients.iter_mut().zip(accepted(&mut ring, 3)) {
            let socket = ring.add(socket).unwrap();
            ring.send(1, socket, vec![round; 4], Vec::new());
            assert_eq!(completion(&mut ring).result.unwrap(), 4);
            let mut bytes = [9; 4];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, [round; 4]);
            ring.close(socket);
            assert_eq!(client.read(&mut bytes).unwrap(), 0);
        }
    }
    ring.cancel(9);
    let end = completion(&mut ring);
    assert_eq!((end.more, number(&end)), (false, Some(ECANCELED)));
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_client_over_tcp_is_answered() {
    let Some(mut ring) = ring(8) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let listener = ring.add(listener).unwrap();
    ring.accept(9, listener);
    let mut client = TcpStream::connect(address).unwrap();
    let socket = accepted(&mut ring, 1).remove(0);
    let socket = ring.add(socket).unwrap();
    ring.poll(1, socket, Interest::Write);
    assert!(completion(&mut ring).result.unwrap() > 0);
    ring.receive_pages(2, socket, Pages::zeroed(1), 10..15, Take::All);
    client.write_all(b"hello").unwrap();
    let Back::Pages(pages) = completion(&mut ring).back else { panic!("pages come back") };
    assert_eq!(&pages.as_bytes()[9..16], b"\0hello\0");
    ring.send(3, socket, b"head".to_vec(), vec![Part::bytes(Arc::new(pages), 10..15)]);
    assert_eq!(completion(&mut ring).result.unwrap(), 9);
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"headhello");
}
