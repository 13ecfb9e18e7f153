use super::*;
use proptest::prelude::*;
use std::fs::File;
use std::sync::Arc;

fn flight(operation: Operation, total: usize) -> Flight {
    let lists = Lists::default();
    Flight {
        token: 1,
        generation: 1,
        handle: None,
        fd: -1,
        operation,
        lists,
        moved: 0,
        total,
        cancelled: false,
        quiet: false,
    }
}

fn no_socket(_: i32) -> OwnedFd {
    unreachable!("no accept here")
}

/// Where the bytes are that the kernel would be given, one address each.
fn addresses(lists: &Lists) -> Vec<usize> {
    let bytes = |piece: &libc::iovec| {
        let start = piece.iov_base as usize;
        start..start + piece.iov_len
    };
    lists.pieces.iter().flat_map(bytes).collect()
}

proptest! {
    /// However the kernel cuts a send, the pieces that are submitted next are the bytes that remain.
    #[test]
    fn what_remains_is_submitted_until_nothing_does(
        head in 0usize..40,
        sizes in prop::collection::vec(0usize..60, 0..6),
        cuts in prop::collection::vec(1usize..80, 1..9),
    ) {
        let pages = Arc::new(Pages::zeroed(1));
        let parts: Vec<Part> =
            sizes.iter().map(|&size| Part::bytes(pages.clone(), 7..7 + size)).collect();
        let total = head + sizes.iter().sum::<usize>();
        prop_assume!(total > 0);
        let mut flight = flight(Operation::Send { head: vec![0; head], parts }, total);
        let _ = flight.entry();
        let mut expected = addresses(&flight.lists);
        prop_assert_eq!(expected.len(), total);
        for cut in cuts.iter().cycle() {
            let cut = *cut.min(&expected.len());
            match flight.step(cut as i32, false, no_socket) {
                Step::Again => {
                    expected.drain(..cut);
                    let _ = flight.entry();
                    prop_assert_eq!(&addresses(&flight.lists), &expected);
                    prop_assert!(flight.lists.pieces.iter().all(|piece| piece.iov_len > 0));
                }
                Step::Done(result) => {
                    prop_assert_eq!(cut, expected.len());
                    prop_assert_eq!(result.unwrap(), total);
                    break;
                }
                Step::Connection { .. } => prop_assert!(false, "a send accepts nothing"),
            }
        }
    }
}

/// What a step came to: `None` if the rest is to be submitted.
fn stepped(flight: &mut Flight, result: i32) -> Option<Result<usize, Option<i32>>> {
    match flight.step(result, false, no_socket) {
        Step::Again => None,
        Step::Done(result) => Some(result.map_err(|error| error.raw_os_error())),
        Step::Connection { .. } => panic!("no accept here"),
    }
}

fn receive(take: Take) -> Flight {
    flight(Operation::Receive { target: Target::Bytes(vec![0; 10]), bytes: 0..10, take }, 10)
}

#[test]
fn a_receive_of_all_ends_when_full_or_at_the_peers_end() {
    let mut full = receive(Take::All);
    assert_eq!((stepped(&mut full, 4), stepped(&mut full, 6)), (None, Some(Ok(10))));
    let mut cut = receive(Take::All);
    assert_eq!((stepped(&mut cut, 4), stepped(&mut cut, 0)), (None, Some(Ok(4))));
    assert_eq!(stepped(&mut receive(Take::Some), 4), Some(Ok(4)));
    assert_eq!(stepped(&mut receive(Take::Some), 0), Some(Ok(0)));
}

#[test]
fn reads_end_at_the_end_of_the_file_and_writes_do_not() {
    let total = 3 * BLOCK;
    let read =
        || flight(Operation::Read { pages: Pages::zeroed(3), bytes: 0..total, offset: 0 }, total);
    let mut whole = read();
    assert_eq!(stepped(&mut whole, BLOCK as i32), None);
    assert_eq!(stepped(&mut whole, 2 * BLOCK as i32), Some(Ok(total)));
    let mut ended = read();
    assert_eq!(stepped(&mut ended, BLOCK as i32), None);
    assert_eq!(stepped(&mut ended, 0), Some(Ok(BLOCK)));
    assert_eq!(stepped(&mut read(), 100), Some(Ok(100)));
    let parts = vec![Part::whole(Arc::new(Pages::zeroed(3)))];
    let mut write = flight(Operation::Write { parts, offset: 0, reach: Reach::Device }, total);
    assert_eq!(stepped(&mut write, 0), Some(Err(None)));
}

#[test]
fn what_was_cancelled_is_not_submitted_again() {
    let mut cancelled = receive(Take::All);
    cancelled.cancelled = true;
    assert_eq!(stepped(&mut cancelled, -libc::EINTR), Some(Err(Some(libc::ECANCELED))));
    let mut interrupted = receive(Take::All);
    assert_eq!(stepped(&mut interrupted, -libc::EINTR), None);
    interrupted.cancelled = true;
    assert_eq!(stepped(&mut interrupted, -libc::EINTR), Some(Err(Some(libc::ECANCELED))));
}

/// A receive that was cancelled in its middle told nothing of what it had taken from the socket: a
/// connection that moves would go on in the middle of a request.
#[test]
fn what_a_receive_has_taken_is_told_however_it_ends() {
    for (end, is_cancelled) in
        [(-libc::ECANCELED, true), (-libc::ECONNRESET, false), (3, true), (-libc::EINTR, true)]
    {
        let mut receive = receive(Take::All);
        assert_eq!(stepped(&mut receive, 4), None);
        receive.cancelled = is_cancelled;
        let moved = 4 + end.max(0) as usize;
        assert_eq!(stepped(&mut receive, end), Some(Ok(moved)), "{end}");
    }
}

#[test]
fn an_old_kernel_is_asked_for_one_connection_at_a_time() {
    let socket = |_| OwnedFd::from(File::open("/dev/null").unwrap());
    let mut accept = flight(Operation::Accept { multishot: true }, 0);
    assert!(matches!(accept.step(5, true, socket), Step::Connection { again: false, .. }));
    assert!(matches!(accept.step(-libc::EINVAL, false, socket), Step::Again));
    assert!(matches!(accept.step(5, false, socket), Step::Connection { again: true, .. }));
    assert!(matches!(accept.step(-libc::EINVAL, false, socket), Step::Done(Err(_))));
}
