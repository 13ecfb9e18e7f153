//! The target is killed while clients write: what was flushed is there afterwards (without a write
//! buffer, what was answered), and every block holds something that was written to it, no older than
//! that.

use crate::client::{Client, FLUSH, FUA, TRIM, WRITE};
use crate::process::Target;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::time::Duration;

const BLOCK: usize = 4096;
const BLOCKS: usize = 12_000;
/// Requests under way on a connection.
const DEPTH: usize = 16;
/// Arguments of `serve` with which a write is answered once the device has it.
const WITHOUT_BUFFER: &[&str] = &["--write-buffer", "0B"];

/// What the test knows of each block: the version that is durable, and the newest one asked for.
struct Model {
    durable: Vec<u64>,
    newest: Vec<u64>,
    /// Whether what was answered is there after a kill, even if nobody flushed.
    keeps_answers: bool,
}

/// What was asked for and not answered yet, and the version of each block that was answered last.
struct Open {
    asked: [HashMap<u64, Asked>; 2],
    answered: Vec<u64>,
    busy: Vec<bool>,
}

enum Asked {
    Write {
        first: usize,
        count: usize,
        version: u64,
        is_fua: bool,
    },
    /// The versions that were answered when it was asked for.
    Flush(Vec<u64>),
}

/// A block of a version, 0 is zeros.
pub fn block(number: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if version > 0 {
        for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
            let value = if at == 0 { version } else { (number * at) as u64 ^ version };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

/// Writes until the target is gone.
fn write_until_killed(
    target: &mut Target,
    model: &mut Model,
    random: &mut Xoshiro256PlusPlus,
    version: &mut u64,
) {
    let mut clients = [0, 1].map(|_| Client::connect(&target.socket(), "").unwrap());
    let answered = model.durable.clone();
    let mut open = Open { asked: Default::default(), answered, busy: vec![false; BLOCKS] };
    let requests = random.random_range(1..3000);
    'all: for request in 0.. {
        if request == requests {
            target.kill();
        }
        let which = random.random_range(0..2);
        let client = &mut clients[which];
        if open.asked[which].len() < DEPTH
            && ask(client, which, random, version, &mut open, model).is_err()
        {
            break;
        }
        while open.asked[which].len() >= DEPTH {
            let Ok(reply) = client.reply() else { break 'all };
            open.settle(which, reply, model);
        }
    }
    // What it had answered before it died.
    for (which, client) in clients.iter_mut().enumerate() {
        while let Ok(reply) = client.reply() {
            open.settle(which, reply, model);
        }
    }
}

impl Open {
    fn settle(&mut self, which: usize, (cookie, error): (u64, u32), model: &mut Model) {
        assert_eq!(error, 0);
        match self.asked[which].remove(&cookie).unwrap() {
            Asked::Write { first, count, version, is_fua } => {
                for at in first..first + count {
                    self.busy[at] = false;
                    self.answered[at] = version;
                    if is_fua || model.keeps_answers {
                        model.durable[at] = version;
                    }
                }
            }
            Asked::Flush(versions) => {
                for (durable, version) in model.durable.iter_mut().zip(versions) {
                    *durable = version.max(*durable);
                }
            }
        }
    }
}

fn ask(
    client: &mut Client,
    which: usize,
    random: &mut Xoshiro256PlusPlus,
    version: &mut u64,
    open: &mut Open,
    model: &mut Model,
) -> std::io::Result<()> {
    let Open { asked, answered, busy } = open;
    let asked = &mut asked[which];
    if random.random_bool(0.02) {
        let cookie = client.send(FLUSH, 0, 0, 0, &[])?;
        asked.insert(cookie, Asked::Flush(answered.clone()));
        return Ok(());
    }
    let count = random.random_range(1..20);
    let first = random.random_range(0..BLOCKS - count);
    // Two changes of a block at once would have no order.
    if busy[first..first + count].contains(&true) {
        return Ok(());
    }
    busy[first..first + count].fill(true);
    *version += 1;
    let is_fua = random.random_bool(0.05);
    let flags = if is_fua { FUA } else { 0 };
    let (offset, length) = ((first * BLOCK) as u64, (count * BLOCK) as u32);
    model.newest[first..first + count].fill(*version);
    let data = (first..first + count).map(|at| block(at, *version)).collect::<Vec<_>>().concat();
    let cookie = client.send(WRITE, flags, offset, length, &data)?;
    let version = *version;
    asked.insert(cookie, Asked::Write { first, count, version, is_fua });
    Ok(())
}

/// Every block is durable or newer, and nothing else; how many are older than the newest write.
fn look(target: &Target, model: &mut Model) -> usize {
    let mut lost = 0;
    let mut client = Client::connect(&target.socket(), "").unwrap();
    for first in (0..BLOCKS).step_by(256) {
        let count = (BLOCKS - first).min(256);
        let read = client.read_at((first * BLOCK) as u64, (count * BLOCK) as u32);
        for (at, bytes) in (first..).zip(read.chunks_exact(BLOCK)) {
            let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let (durable, newest) = (model.durable[at], model.newest[at]);
            assert!((durable..=newest).contains(&version), "{at}: {durable} {version} {newest}");
            assert!(bytes == block(at, version), "{at}: another's, or torn");
            lost += usize::from(version < newest);
            (model.durable[at], model.newest[at]) = (version, version);
        }
    }
    lost
}

/// `timeout` signals its child and then its group: the volume was not closed, and what nobody had
/// flushed could be lost.
#[test]
fn signals_that_come_at_once_are_one_stop() {
    let mut target = Target::start("64MiB", 1);
    let mut client = Client::connect(&target.socket(), "").unwrap();
    let bytes = vec![7; 1 << 20];
    for at in 0..40 {
        assert_eq!(client.write_at(at << 20, &bytes, 0).unwrap(), 0);
    }
    target.stop_by(Duration::from_millis(300));
    target.check();
}

#[test]
#[ignore = "kills the target many times"]
fn nothing_durable_is_lost_by_a_kill() {
    kill_many_times("none", &[]);
}

#[test]
#[ignore = "kills the target many times"]
fn nothing_durable_of_a_compressed_volume_is_lost_by_a_kill() {
    kill_many_times("lz4", &[]);
}

/// `fio --verify` had found blocks of zeros after a kill: they were answered from the write buffer.
#[test]
#[ignore = "kills the target many times"]
fn nothing_that_was_answered_without_a_write_buffer_is_lost_by_a_kill() {
    kill_many_times("none", WITHOUT_BUFFER);
    kill_many_times("lz4", WITHOUT_BUFFER);
}

/// `WATTIO_SEEDS` kills (500 take some seven minutes of a core), at moments that `WATTIO_SEED` draws.
fn kill_many_times(compress: &str, arguments: &[&str]) {
    let asked = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let kills: u64 = asked("WATTIO_SEEDS").unwrap_or(100);
    let mut target = Target::made("64MiB", 2, &["--compress", compress], arguments);
    let keeps_answers = arguments == WITHOUT_BUFFER;
    let mut model = Model { durable: vec![0; BLOCKS], newest: vec![0; BLOCKS], keeps_answers };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(asked("WATTIO_SEED").unwrap_or(1));
    let (mut version, mut lost) = (0, 0);
    for _ in 0..kills {
        write_until_killed(&mut target, &mut model, &mut random, &mut version);
        target.serve();
        lost += look(&target, &mut model);
    }
    println!(
        "{kills} kills: {version} writes; {lost} blocks of them were lost, none that was durable"
    );
    // A trim of all of it takes effect too.
    let mut client = Client::connect(&target.socket(), "").unwrap();
    assert_eq!(client.simple(TRIM, FUA, 0, (BLOCKS * BLOCK) as u32).unwrap(), 0);
    target.kill();
    target.check();
    target.serve();
    let mut client = Client::connect(&target.socket(), "").unwrap();
    assert!(client.read_at(0, 1 << 20).iter().all(|&byte| byte == 0));
}
