//! Threads of a rank that use one handle: none waits for what another one waits for.

use super::*;
use crate::client::tests::{HANGS, met};
use crate::frame::{Frames, FromRank, ToRank};
use crate::peers::Alone;
use crate::remote::Remote;
use crate::remote::tests::heard;
use std::net::TcpListener;
use std::sync::mpsc::channel;

/// A session as programs hold it, for threads.
#[derive(Clone, Copy)]
struct Held(usize);

impl Held {
    fn of(session: Session) -> Self {
        let state = State::Alone(Box::new(session), 0, "dc:1".to_owned());
        Self(handle(state).expose_provenance())
    }

    fn at(self) -> *mut Handle {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    /// Declare a variable of so many bytes.
    fn declare(self, name: &CStr, bytes: i64) -> i64 {
        let (mut found, kind, none) = (-1, Type::Int8 as i64, std::ptr::null());
        // SAFETY: the handle is open; names and numbers live as long as the call.
        let code = unsafe {
            wattio_io_variable(
                self.at(),
                name.as_ptr(),
                kind,
                1,
                &raw const bytes,
                none,
                none,
                &raw mut found,
            )
        };
        assert_eq!(code, OK);
        found
    }

    fn begin(self, step: i64) -> c_int {
        // SAFETY: the handle is open.
        unsafe { wattio_io_begin_step(self.at(), step) }
    }

    fn allocate(self, variable: i64) -> (c_int, bool) {
        let mut data = std::ptr::null_mut();
        // SAFETY: the handle is open; there is room for a pointer.
        let code = unsafe { wattio_io_allocate(self.at(), variable, &raw mut data) };
        (code, !data.is_null())
    }

    fn put_later(self, variable: i64, data: &'static [u8]) -> c_int {
        // SAFETY: the handle is open; the data stay.
        unsafe { wattio_io_put(self.at(), variable, data.as_ptr().cast(), 1) }
    }

    fn end_step(self) -> c_int {
        // SAFETY: the handle is open; what was put deferred stays.
        unsafe { wattio_io_end_step(self.at()) }
    }

    fn is_durable(self, step: i64) -> (c_int, c_int) {
        let mut yes = -1;
        // SAFETY: the handle is open; there is room for a number.
        let code = unsafe { wattio_io_is_durable(self.at(), step, &raw mut yes) };
        (code, yes)
    }

    fn close(self) -> c_int {
        let mut at = self.at();
        // SAFETY: the handle is open, and no other thread uses it any more.
        unsafe { wattio_io_close(&raw mut at, std::ptr::null_mut(), 0, std::ptr::null_mut()) }
    }
}

/// What another thread's call gives, which must not wait.
fn at_once<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(what()));
    told.recv_timeout(HANGS).expect("a call hangs that need not wait")
}

fn until(mut condition: impl FnMut() -> bool) {
    let late = Instant::now() + HANGS;
    while !condition() {
        assert!(Instant::now() < late);
        std::thread::yield_now();
    }
}

fn last_error() -> String {
    LAST_ERROR.with(|last| last.borrow().to_string_lossy().into_owned())
}

#[test]
fn while_a_step_is_waited_for_with_tp_other_threads_go_on() {
    let (client, writer) = met(4096);
    let held = Held::of(Session::new(Box::new(client), true));
    let u = held.declare(c"u", 16);
    assert_eq!((held.begin(7), held.allocate(u)), (OK, (OK, true)));
    let ends = std::thread::spawn(move || held.end_step());
    until(|| writer.slot.is_asleep());
    assert_eq!(at_once(move || held.is_durable(7)), (OK, 0));
    assert_eq!(at_once(move || held.begin(8)), OK);
    writer.settle(0);
    assert_eq!(ends.join().unwrap(), OK);
    assert_eq!(held.is_durable(7), (OK, 1));
    let lets_go = std::thread::spawn(move || writer.let_go());
    assert_eq!(held.close(), OK);
    lets_go.join().unwrap();
}

#[test]
fn while_a_block_waits_for_room_other_threads_go_on() {
    let (client, writer) = met(4096);
    let held = Held::of(Session::new(Box::new(client), false));
    let u = held.declare(c"u", 4096);
    assert_eq!((held.begin(0), held.allocate(u), held.end_step()), (OK, (OK, true), OK));
    assert_eq!(held.begin(1), OK);
    let allocates = std::thread::spawn(move || held.allocate(u));
    until(|| writer.slot.is_asleep());
    assert_eq!(at_once(move || held.is_durable(0)), (OK, 0));
    assert_eq!(at_once(move || held.declare(c"v", 1)), u + 1);
    writer.settle(0);
    assert_eq!(allocates.join().unwrap(), (OK, true));
    // What one puts deferred waits for room when the step ends, and nobody adds to it any more.
    assert_eq!(held.end_step(), OK);
    assert_eq!((held.begin(2), held.put_later(u, &[1; 4096])), (OK, OK));
    let ends = std::thread::spawn(move || held.end_step());
    until(|| writer.slot.is_asleep());
    let (refused, told) = at_once(move || (held.allocate(u + 1), last_error()));
    assert_eq!(refused, (INPUT, false));
    assert_eq!(told, "step 2: another thread is already ending it");
    assert_eq!(at_once(move || (held.end_step(), held.begin(3))), (INPUT, INPUT));
    writer.settle(1);
    assert_eq!(ends.join().unwrap(), OK);
    assert_eq!(writer.slot.posted(), 3);
    let lets_go = std::thread::spawn(move || writer.let_go());
    assert_eq!(held.close(), OK);
    lets_go.join().unwrap();
}

/// It may be another thread that hears of the room for which one waits.
#[test]
fn while_the_other_node_has_no_room_other_threads_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, room) = channel();
    let (posted, is_posted) = channel();
    let relay = std::thread::spawn(move || {
        let mut rank = Frames::new(listener.accept().unwrap().0).unwrap();
        assert!(matches!(heard(&mut rank), FromRank::Hello { .. }));
        rank.say(&ToRank::Welcome { share: 4096, attributes_max: 4096 }).unwrap();
        assert!(matches!(heard(&mut rank), FromRank::Post { step: 7, end: true, .. }));
        posted.send(()).unwrap();
        room.recv_timeout(HANGS).unwrap();
        rank.say(&ToRank::Send(1)).unwrap();
        assert_eq!(heard(&mut rank), FromRank::Close);
        rank.say(&ToRank::Ended).unwrap();
    });
    let remote = Remote::connect(&address, 0, "token", Arc::new(Alone)).unwrap();
    let held = Held::of(Session::new(Box::new(remote), false));
    let u = held.declare(c"u", 16);
    assert_eq!((held.begin(7), held.allocate(u)), (OK, (OK, true)));
    let ends = std::thread::spawn(move || held.end_step());
    is_posted.recv_timeout(HANGS).unwrap();
    assert_eq!(at_once(move || held.is_durable(6)).0, INPUT);
    tell.send(()).unwrap();
    until(|| {
        held.is_durable(6);
        ends.is_finished()
    });
    assert_eq!(ends.join().unwrap(), OK);
    assert_eq!(held.close(), OK);
    relay.join().unwrap();
}

/// Of up to 64 axes what stands behind the arrays was read, and told as extents below 0.
#[test]
fn of_more_axes_than_there_may_be_no_extent_is_read() {
    let (client, writer) = met(4096);
    let held = Held::of(Session::new(Box::new(client), false));
    let mut found = -1;
    for axes in [-1, 33, 64, 65, i64::MAX] {
        let (name, kind, none) = (c"u".as_ptr(), Type::Int8 as i64, std::ptr::null());
        let count = [-1; 64];
        // SAFETY: the handle is open; the name lives as long as the call.
        let code = unsafe {
            wattio_io_variable(
                held.at(),
                name,
                kind,
                axes,
                count.as_ptr(),
                none,
                none,
                &raw mut found,
            )
        };
        assert_eq!((code, found), (INPUT, -1));
        let words = "axes; allowed: 0 to 32, as many in count, global_shape and offset";
        assert_eq!(last_error(), format!("variable u: {axes} {words}"));
    }
    let lets_go = std::thread::spawn(move || writer.let_go());
    assert_eq!(held.close(), OK);
    lets_go.join().unwrap();
}

/// Its memory was looked into, whatever lay there.
#[test]
fn a_session_that_was_closed_is_refused_to_damaris() {
    let (client, writer) = met(4096);
    let held = Held::of(Session::new(Box::new(client), false));
    let lets_go = std::thread::spawn(move || writer.let_go());
    assert_eq!(held.close(), OK);
    lets_go.join().unwrap();
    let text = "<simulation><architecture><dedicated/></architecture><data>\
                <layout name=\"l\" type=\"char\" dimensions=\"4\"/>\
                <variable name=\"u\" layout=\"l\"/></data></simulation>";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
    let mut damaris = std::ptr::null_mut();
    // SAFETY: the name is a string; there is room for a pointer; the data are four bytes.
    let written = unsafe {
        assert_eq!(damaris::wattio_io_damaris_read(path.as_ptr(), &raw mut damaris), OK);
        let (name, data) = (c"u".as_ptr(), c"abcd".as_ptr().cast());
        damaris::wattio_io_damaris_write(damaris, held.at(), name, 0, data)
    };
    assert_eq!(written, INPUT);
    assert_eq!(last_error(), "the handle is not open: its session has been closed");
    // SAFETY: it was read above.
    unsafe { damaris::wattio_io_damaris_free(damaris) };
}
