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
