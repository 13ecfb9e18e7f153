//! The ring on the kernel of this machine.

mod ending;
mod files;
mod quiet;
mod sockets;
mod waking;

use std::io::ErrorKind;
use wattio_ring::{Completion, Ring, Wait};

/// A ring, or `None` where the kernel allows none (a container); with `CI` set that is a failure.
fn ring(entries: u32) -> Option<Ring> {
    match Ring::new(entries) {
        Ok(ring) => Some(ring),
        Err(error)
            if error.kind() == ErrorKind::Unsupported && std::env::var_os("CI").is_none() =>
        {
            eprintln!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The next completions, as many as are told.
fn completions(ring: &mut Ring, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    loop {
        while let Some(completion) = ring.next_completion() {
            all.push(completion);
        }
        if all.len() >= count {
            assert_eq!(all.len(), count, "{all:?}");
            return all;
        }
        ring.enter(Wait::Block).expect("the kernel takes it");
    }
}

fn completion(ring: &mut Ring) -> Completion {
    completions(ring, 1).remove(0)
}

/// The error's number.
fn number(completion: &Completion) -> Option<i32> {
    completion.result.as_ref().err().and_then(std::io::Error::raw_os_error)
}

const ECANCELED: i32 = rustix::io::Errno::CANCELED.raw_os_error();
const EBADF: i32 = rustix::io::Errno::BADF.raw_os_error();
