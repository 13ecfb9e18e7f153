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
    broadcast: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64) -> c_int>,
    gather: Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int>,
    meet: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    send: Option<unsafe extern "C" fn(*mut c_void, *const c_void, usize, i64) -> c_int>,
    receive: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i64) -> c_int>,
    abort: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: `wattio_io.h` asks for functions that may be called by any thread, one at a time but for
// `abort`.
unsafe impl Send for CPeers {}
// SAFETY: as above: the calls of a handle are made one at a time, under its lock.
unsafe impl Sync for CPeers {}

impl CPeers {
    /// What a program gives, if it is whole: from here on every function is there.
    ///
    /// # Errors
    ///
    /// `Input`.
    ///
    /// # Safety
    ///
    /// `at` is null or points to one.
    pub unsafe fn given(at: *const Self) -> Result<Self> {
        let refuse = |told: &str| Err(Error::Input(told.to_owned()));
        // SAFETY: as the caller says.
        let Some(&found) = (unsafe { at.as_ref() }) else { return refuse("peers is NULL") };
        for (name, is_there) in [
            ("broadcast", found.broadcast.is_some()),
            ("gather", found.gather.is_some()),
            ("meet", found.meet.is_some()),
            ("send", found.send.is_some()),
            ("receive", found.receive.is_some()),
            ("abort", found.abort.is_some()),
        ] {
            if !is_there {
                return refuse(&format!("peers: {name} is NULL"));
            }
        }
        crate::open::rank_of(found.rank, found.size)?;
        Ok(found)
    }

    fn check(what: &str, code: Option<c_int>) -> Result<()> {
        match code {
            Some(0) => Ok(()),
            code => Err(Error::Host(format!("{what} failed with code {}", code.unwrap_or(-1)))),
        }
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
        let code = self.broadcast.map(|call| unsafe { call(self.context, at, bytes, root as i64) });
        Self::check("a broadcast", code)
    }

    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        if all.len() != own.len() * self.size() {
            return Err(Error::Host("a gather of wrong lengths".to_owned()));
        }
        let at = all.as_mut_ptr().cast();
        // SAFETY: there is room for the bytes of all ranks, as just seen.
        let code = self
            .gather
            .map(|call| unsafe { call(self.context, own.as_ptr().cast(), own.len(), at) });
        Self::check("a gather", code)
    }

    fn meet(&self) -> Result<()> {
        // SAFETY: no memory is handed over.
        Self::check("a barrier", self.meet.map(|call| unsafe { call(self.context) }))
    }

    fn send(&self, data: &[u8], to: usize) -> Result<()> {
        let (at, bytes) = (data.as_ptr().cast(), data.len());
        // SAFETY: the slice can be read, all of it.
        let code = self.send.map(|call| unsafe { call(self.context, at, bytes, to as i64) });
        Self::check("a send", code)
    }

    fn receive(&self, data: &mut [u8], from: usize) -> Result<()> {
        let (at, bytes) = (data.as_mut_ptr().cast(), data.len());
        // SAFETY: the slice can be written to, all of it.
        let code = self.receive.map(|call| unsafe { call(self.context, at, bytes, from as i64) });
        Self::check("a receive", code)
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        let own = *self;
        Box::new(move || {
            let whole = own;
            // SAFETY: no memory is handed over.
            let _ = whole.abort.map(|call| unsafe { call(whole.context) });
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

    /// One of two ranks.
    fn whole(rank: i64, context: *mut c_void) -> CPeers {
        CPeers {
            context,
            rank,
            size: 2,
            machine: 0,
            broadcast: Some(broadcast),
            gather: Some(gather),
            meet: Some(meet),
            send: Some(send),
            receive: Some(receive),
            abort: Some(abort),
        }
    }

    /// What opening without a configuration returns.
    fn open(number: i64, mut rank: Rank) -> c_int {
        let peers = whole(number, (&raw mut rank).cast());
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

    /// A structure of zeros was a call of NULL, and without a place for the session it was lost.
    #[test]
    fn peers_that_are_not_whole_are_refused_before_anybody_is_called() {
        let peers = whole(0, std::ptr::null_mut());
        let refused = |peers: CPeers| {
            // SAFETY: it is one.
            unsafe { CPeers::given(&raw const peers) }.map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(refused(CPeers { meet: None, ..peers }), "peers: meet is NULL");
        assert_eq!(refused(CPeers { abort: None, ..peers }), "peers: abort is NULL");
        assert_eq!(refused(CPeers { size: 0, ..peers }), "ranks = 0; allowed: 1 or more");
        assert_eq!(refused(CPeers { rank: 2, ..peers }), "rank = 2 of 2; allowed: 0 to 1");
        let none = std::ptr::null_mut();
        // SAFETY: nobody is called.
        let code =
            unsafe { crate::ffi::wattio_io_open_peers(&raw const peers, std::ptr::null(), none) };
        assert_eq!(code, crate::ffi::INPUT);
    }
}
