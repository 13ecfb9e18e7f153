//! The ranks' own communication, as a program hands it over.

use crate::error::{Error, Result};
use crate::peers::Peers;
use std::ffi::{c_int, c_void};

/// `wattio_io_peers` of `wattio_io.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CPeers {
    context: *mut c_void,
    rank: i64,
    size: i64,
    machine: i64,
    broadcast: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64) -> c_int,
    gather: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int,
    meet: unsafe extern "C" fn(*mut c_void) -> c_int,
    send: unsafe extern "C" fn(*mut c_void, *const c_void, usize, i64) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64) -> c_int,
    abort: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: `wattio_io.h` asks for functions that may be called by any thread, one at a time but for
// `abort`.
unsafe impl Send for CPeers {}
// SAFETY: as above: the calls of a handle are made one at a time, under its lock.
unsafe impl Sync for CPeers {}

impl CPeers {
    fn check(what: &str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(Error::Host(format!("{what} failed with code {code}"))) }
    }
}

// The calls of this implementation pass pointers and lengths of Rust's own slices.
impl Peers for CPeers {
    fn rank(&self) -> usize {
        self.rank as usize
    }

    fn size(&self) -> usize {
        self.size as usize
    }

    fn machine(&self) -> usize {
        self.machine as usize
    }

    fn broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        let (at, bytes) = (data.as_mut_ptr().cast(), data.len());
        // SAFETY: the slice can be written to, all of it.
        let code = unsafe { (self.broadcast)(self.context, at, bytes, root as i64) };
        Self::check("a broadcast", code)
    }

    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        if all.len() != own.len() * self.size() {
            return Err(Error::Host("a gather of wrong lengths".to_owned()));
        }
        let at = all.as_mut_ptr().cast();
        // SAFETY: there is room for the bytes of all ranks, as just seen.
        let code = unsafe { (self.gather)(self.context, own.as_ptr().cast(), own.len(), at) };
        Self::check("a gather", code)
    }

    fn meet(&self) -> Result<()> {
        // SAFETY: no memory is handed over.
        Self::check("a barrier", unsafe { (self.meet)(self.context) })
    }

    fn send(&self, data: &[u8], to: usize) -> Result<()> {
        let (at, bytes) = (data.as_ptr().cast(), data.len());
        // SAFETY: the slice can be read, all of it.
        Self::check("a send", unsafe { (self.send)(self.context, at, bytes, to as i64) })
    }

    fn receive(&self, data: &mut [u8], from: usize) -> Result<()> {
        let (at, bytes) = (data.as_mut_ptr().cast(), data.len());
        // SAFETY: the slice can be written to, all of it.
        Self::check("a receive", unsafe { (self.receive)(self.context, at, bytes, from as i64) })
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        let own = *self;
        Box::new(move || {
            let whole = own;
            // SAFETY: no memory is handed over.
            unsafe { (whole.abort)(whole.context) };
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// A rank of two.
    enum Rank {
        First(Sender<Vec<u8>>),
        Second(Receiver<Vec<u8>>),
    }

    unsafe extern "C" fn broadcast(
        context: *mut c_void,
        data: *mut c_void,
        bytes: usize,
        _: i64,
    ) -> c_int {
        // SAFETY: the context is a rank, and there are so many bytes.
        let (rank, data) = unsafe {
            (&*context.cast::<Rank>(), std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes))
        };
        match rank {
            Rank::First(other) => c_int::from(other.send(data.to_vec()).is_err()),
            Rank::Second(other) => match other.recv_timeout(Duration::from_secs(20)) {
                Ok(found) => {
                    data.copy_from_slice(&found);
                    0
                }
                Err(_) => 1,
            },
        }
    }

    unsafe extern "C" fn gather(
        _: *mut c_void,
        _: *const c_void,
        _: usize,
        _: *mut c_void,
    ) -> c_int {
        1
    }

    unsafe extern "C" fn meet(_: *mut c_void) -> c_int {
        1
    }

    unsafe extern "C" fn send(_: *mut c_void, _: *const c_void, _: usize, _: i64) -> c_int {
        1
    }

    unsafe extern "C" fn receive(_: *mut c_void, _: *mut c_void, _: usize, _: i64) -> c_int {
        1
    }

    unsafe extern "C" fn abort(_: *mut c_void) {}

    /// What opening without a configuration returns.
    fn open(number: i64, mut rank: Rank) -> c_int {
        let context = (&raw mut rank).cast();
        let (rank, size, machine) = (number, 2, 0);
        let peers =
            CPeers { context, rank, size, machine, broadcast, gather, meet, send, receive, abort };
        let mut io = std::ptr::null_mut();
        // SAFETY: the functions are there until it comes back.
        unsafe { crate::ffi::wattio_io_open_peers(&raw const peers, std::ptr::null(), &raw mut io) }
    }

    #[test]
    fn a_first_rank_without_a_configuration_keeps_no_other_one_waiting() {
        let (one, other) = channel();
        let first = std::thread::spawn(|| open(0, Rank::First(one)));
        assert_eq!(open(1, Rank::Second(other)), crate::ffi::INPUT);
        assert_eq!(first.join().unwrap(), crate::ffi::INPUT);
    }
}
