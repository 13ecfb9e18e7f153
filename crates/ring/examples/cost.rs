//! Processor time of one 4 KiB operation: system calls against the ring, alone and 32 at a time.
//!
//! `cargo run --release -p wattio-ring --example cost -- FILE` reads blocks of FILE (at least 4 KiB;
//! directly, where its file system can), then sends and receives over a pair of sockets, and at
//! last wakes a sleeping thread. Time is that of this process's threads and of the kernel on
//! their behalf; what interrupts and kernel threads take is not in it.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wattio_pages::{BLOCK, Pages};
use wattio_ring::{Back, Part, Ring, Take, Wait};

type Outcome = Result<(), Box<dyn Error>>;

const OPERATIONS: u64 = 100_000;
const DEPTHS: [u64; 2] = [1, 32];

fn main() -> Outcome {
    let path = std::env::args().nth(1).ok_or("which file is to be read?")?;
    let file = File::open(&path)?;
    let blocks = file.metadata()?.len() / BLOCK as u64;
    if blocks == 0 {
        return Err(format!("{path} has less than 4 KiB").into());
    }
    println!("ring: {}", Ring::new(64)?.setup());
    for direct in [false, true] {
        let flags = fcntl_getfl(&file)?;
        let wanted = if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
        if fcntl_setfl(&file, wanted).is_err() {
            println!("no direct reads of {path}");
            continue;
        }
        if !direct {
            // Into the page cache.
            std::io::copy(&mut &file, &mut std::io::sink())?;
        }
        reads(&file, blocks, if direct { "direct read" } else { "cached read" })?;
    }
    sockets()?;
    wakes()
}

/// Microseconds of processor time of this process.
fn cpu_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn print(name: &str, operations: u64, work: impl FnOnce() -> Outcome) -> Outcome {
    let start_us = cpu_us();
    work()?;
    println!("{name:40} {:7.2} us", (cpu_us() - start_us) / operations as f64);
    Ok(())
}

/// A walk through the blocks that is not in order.
fn place(operation: u64, blocks: u64) -> u64 {
    operation.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * BLOCK as u64
}

fn reads(file: &File, blocks: u64, name: &str) -> Outcome {
    print(&format!("{name}: pread"), OPERATIONS, || {
        let mut pages = Pages::zeroed(1);
        for operation in 0..OPERATIONS {
            file.read_exact_at(pages.as_bytes_mut(), place(operation, blocks))?;
        }
        Ok(())
    })?;
    for depth in DEPTHS {
        let mut ring = Ring::new(64)?;
        let handle = ring.add(file.try_clone()?)?;
        print(&format!("{name}: ring, depth {depth}"), OPERATIONS, || {
            let mut started = 0;
            while started < depth {
                ring.read(started, handle, place(started, blocks), Pages::zeroed(1), 0..1);
                started += 1;
            }
            let mut done = 0;
            while done < OPERATIONS {
                ring.enter(Wait::Block)?;
                while let Some(completion) = ring.next_completion() {
                    completion.result?;
                    done += 1;
                    if let (true, Back::Pages(pages)) = (started < OPERATIONS, completion.back) {
                        ring.read(started, handle, place(started, blocks), pages, 0..1);
                        started += 1;
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Depth is the pairs of sockets that are busy at once; an operation is a send with its receive.
fn sockets() -> Outcome {
    print("send and receive: system calls", OPERATIONS, || {
        let (mut one, mut two) = UnixStream::pair()?;
        let mut bytes = vec![0; 16 + BLOCK];
        for _ in 0..OPERATIONS {
            one.write_all(&bytes)?;
            two.read_exact(&mut bytes)?;
        }
        Ok(())
    })?;
    for depth in DEPTHS {
        let mut ring = Ring::new(128)?;
        let pages = Arc::new(Pages::zeroed(1));
        let mut pairs = Vec::new();
        for _ in 0..depth {
            let (one, two) = UnixStream::pair()?;
            pairs.push((ring.add(one)?, ring.add(two)?));
        }
        print(&format!("send and receive: ring, depth {depth}"), OPERATIONS, || {
            for (token, &(one, two)) in pairs.iter().enumerate() {
                ring.send(token as u64, one, vec![0; 16], vec![Part::whole(pages.clone())]);
                let len = 16 + BLOCK;
                ring.receive(token as u64, two, vec![0; len], 0..len, Take::All);
            }
            let mut done = 0;
            while done < 2 * OPERATIONS {
                ring.enter(Wait::Block)?;
                while let Some(completion) = ring.next_completion() {
                    let count = completion.result?;
                    done += 1;
                    let (one, two) = pairs[completion.token as usize];
                    match completion.back {
                        Back::Gathered { head, parts } => {
                            ring.send(completion.token, one, head, parts);
                        }
                        Back::Bytes(bytes) => {
                            ring.receive(completion.token, two, bytes, 0..count, Take::All);
                        }
                        _ => {}
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Two threads that wake each other in turn: both sides' time, for one wake.
fn wakes() -> Outcome {
    let turn = AtomicU64::new(0);
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut here = Ring::new(8)?;
    let mine = here.doorbell();
    print("wake by doorbell (both threads)", OPERATIONS, || {
        std::thread::scope(|scope| {
            let turn = &turn;
            scope.spawn(move || -> std::io::Result<()> {
                let mut ring = Ring::new(8)?;
                // Nobody listens if the other side has failed.
                let _ = sender.send(ring.doorbell());
                for round in (1..OPERATIONS).step_by(2) {
                    wait_for(&mut ring, turn, round)?;
                    turn.store(round + 1, Ordering::Release);
                    mine.ring();
                }
                Ok(())
            });
            let theirs = receiver.recv()?;
            for round in (1..OPERATIONS).step_by(2) {
                turn.store(round, Ordering::Release);
                theirs.ring();
                wait_for(&mut here, turn, round + 1)?;
            }
            Ok(())
        })
    })?;
    print("ring of a doorbell whose thread is awake", OPERATIONS, || {
        let bell = here.doorbell();
        for _ in 0..OPERATIONS {
            bell.ring();
        }
        Ok(())
    })
}

fn wait_for(ring: &mut Ring, turn: &AtomicU64, number: u64) -> std::io::Result<()> {
    while turn.load(Ordering::Acquire) < number {
        ring.enter_unless(Wait::Block, || turn.load(Ordering::Acquire) >= number)?;
        while ring.next_completion().is_some() {}
    }
    Ok(())
}
