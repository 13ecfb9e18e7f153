//! A target in this process, on a file, and a small client over a UNIX socket.

#![allow(clippy::unwrap_used, reason = "a client that cannot go on has failed its test")]

mod background;
mod checking;
mod client;
mod failing;
mod mirror;
mod moving;
mod random;
mod refusing;
mod tls;

use client::{
    BLOCK_STATUS, CACHE, Client, DF, DISCONNECT, FAST_ZERO, FLUSH, FUA, NO_HOLE, READ, TRIM, WRITE,
    WRITE_ZEROES,
};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wattio_nbd::Errno;
use wattio_target::create::{Plan, make};
use wattio_target::server::{Server, Settings, Volume};
use wattio_target::volume::{Pace, VolumeMemory};
use wattio_target_config::{Address, Idle};
use wattio_volume::{Compression, OpenOptions};

/// Longer than anything takes that a test waits for, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
const SIZE: u64 = 8 * MIB;

/// A target on files of a folder of its own.
struct Target {
    folder: TempDir,
    server: Option<Server>,
    settings: Settings,
}

/// Whether there is io_uring here; with `CI` set it has to be.
fn has_ring() -> bool {
    match wattio_ring::Ring::new(4) {
        Ok(_) => true,
        Err(error)
            if error.kind() == ErrorKind::Unsupported && std::env::var_os("CI").is_none() =>
        {
            eprintln!("not tested: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

impl Target {
    /// One that serves an export, on so many reactors; `None` where there is no io_uring.
    fn start(reactors: usize) -> Option<Self> {
        Self::with(reactors, &["disk"])
    }

    fn with(reactors: usize, names: &[&str]) -> Option<Self> {
        Self::on(reactors, names, 1)
    }

    /// Each volume on so many devices.
    fn on(reactors: usize, names: &[&str], devices: usize) -> Option<Self> {
        Self::made(reactors, names, devices, Compression::None)
    }

    /// Each volume compressed or not.
    fn made(
        reactors: usize,
        names: &[&str],
        devices: usize,
        compression: Compression,
    ) -> Option<Self> {
        if !has_ring() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let volumes = names.iter().map(|name| {
            let device = |at: usize| folder.path().join(format!("{name}-{at}"));
            let devices: Vec<PathBuf> = (0..devices).map(device).collect();
            make(&Plan {
                devices: devices.clone(),
                size_bytes: Some(SIZE),
                segment_bytes: 256 << 10,
                spare_share: None,
                compression,
                is_forced: false,
            })
            .unwrap();
            Volume {
                export: (*name).to_owned(),
                devices,
                is_read_only: name.starts_with("still"),
                open: OpenOptions { map_bytes_max: MIB, accept_missing: false, accept_loss: false },
            }
        });
        let settings = Settings {
            volumes: volumes.collect(),
            listen: vec![Address::Unix(folder.path().join("socket"))],
            reactors,
            cores: Vec::new(),
            idle: Idle::Block,
            pace: Pace { scrub_period: None, device_depth: 3 },
            memory: VolumeMemory { cache_bytes: MIB, write_buffer_bytes: MIB },
            tls: Some((tls::files(folder.path()), true)),
        };
        let server = Some(Server::start(&settings).unwrap());
        Some(Self { folder, server, settings })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket(), "disk").unwrap()
    }

    /// Ends it as a kill does, and starts it again.
    fn kill_and_restart(&mut self) {
        drop(self.server.take());
        self.server = Some(Server::start(&self.settings).unwrap());
    }

    /// Ends it in order.
    fn stop(&mut self) {
        let server = self.server.take().unwrap();
        server.handle().stop();
        server.wait().unwrap();
        assert!(!self.socket().exists());
    }

    fn restart(&mut self) {
        self.stop();
        self.server = Some(Server::start(&self.settings).unwrap());
    }
}

/// Looks until it is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

fn number(errno: Errno) -> u32 {
    errno.number()
}

/// Bytes that differ from place to place.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let byte = |at: u64| ((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed) >> 56) as u8;
    (0..length as u64).map(byte).collect()
}

#[test]
fn what_is_written_is_read_by_all_and_after_a_restart() {
    for reactors in [1, 3] {
        let Some(target) = Target::start(reactors) else { return };
        writes_and_reads(target);
    }
}

fn writes_and_reads(mut target: Target) {
    let mut one = target.client();
    assert_eq!(one.size_bytes, SIZE);
    let mut other = target.client();
    assert_eq!(one.read_at(0, 65_536), [0; 65_536]);
    let sizes = [1, 511, 4096, 10_000, 65_536, 1 << 20, 3_000_001];
    for (at, size) in sizes.into_iter().enumerate() {
        let (offset, bytes) = (at as u64 * 777_777, pattern(at as u64, size));
        let length = bytes.len() as u32;
        assert_eq!(one.write_at(offset, &bytes, 0).unwrap(), 0);
        assert!(other.read_at(offset, length) == bytes, "{size} bytes");
    }
    let all = one.read_at(0, SIZE as u32);
    target.restart();
    assert!(target.client().read_at(0, SIZE as u32) == all);
    target.restart();
    assert!(target.client().read_at(0, SIZE as u32) == all);
}

/// The reactor slept after each receive and each reply: two turns for a request, and two system calls.
#[test]
fn a_request_alone_takes_one_turn() {
    const REQUESTS: u64 = 300;
    let Some(target) = Target::start(1) else { return };
    let has_quiet_sends = wattio_ring::Ring::new(4).unwrap().setup().starts_with("deferred");
    let mut client = target.client();
    let turns = || target.server.as_ref().unwrap().status()[0].turns;
    client.read_at(0, 4096);
    let before = turns();
    (0..REQUESTS).for_each(|at| assert_eq!(client.read_at(at * 4096, 4096), [0; 4096]));
    let taken = turns() - before;
    assert!(!has_quiet_sends || taken < REQUESTS + REQUESTS / 3, "{taken} turns");
}

#[test]
fn what_was_flushed_on_another_connection_survives_a_kill() {
    let Some(mut target) = Target::start(1) else { return };
    let (mut one, mut other) = (target.client(), target.client());
    let bytes = pattern(1, 100_000);
    assert_eq!(one.write_at(5000, &bytes, 0).unwrap(), 0);
    other.flush();
    let durable = pattern(2, 4096);
    assert_eq!(one.write_at(MIB, &durable, FUA).unwrap(), 0);
    assert_eq!(one.simple(TRIM, FUA, 8192, 4096).unwrap(), 0);
    target.kill_and_restart();
    let mut client = target.client();
    let mut expected = bytes;
    expected[8192 - 5000..12_288 - 5000].fill(0);
    assert!(client.read_at(5000, 100_000) == expected);
    assert!(client.read_at(MIB, 4096) == durable);
}

#[test]
fn trims_and_zeroes_read_as_zeros_and_leave_their_neighbours() {
    let Some(target) = Target::start(1) else { return };
    let mut client = Client::connect_structured(&target.socket(), "disk").unwrap();
    let bytes = pattern(3, 65_536);
    assert_eq!(client.write_at(0, &bytes, 0).unwrap(), 0);
    assert_eq!(client.simple(WRITE_ZEROES, 0, 4096, 4096).unwrap(), 0);
    assert_eq!(client.simple(WRITE_ZEROES, NO_HOLE, 8192, 4096).unwrap(), 0);
    assert_eq!(client.simple(WRITE_ZEROES, FAST_ZERO, 20_000, 10_000).unwrap(), 0);
    assert_eq!(client.simple(TRIM, 0, 40_000, 10_000).unwrap(), 0);
    let mut expected = bytes;
    expected[4096..12_288].fill(0);
    expected[20_000..30_000].fill(0);
    // A trim reaches whole blocks only.
    expected[40_960..49_152].fill(0);
    let cookie = client.send(READ, DF, 0, 65_536, &[]).unwrap();
    let chunk = client.chunk().unwrap();
    assert_eq!((chunk.cookie, chunk.kind, chunk.is_last), (cookie, 1, true));
    assert!(chunk.payload[8..] == expected);
    // The same in chunks, with holes that are not sent.
    client.send(READ, 0, 100, 60_000, &[]).unwrap();
    let (mut read, mut holes) = (vec![0xee; 65_536], 0);
    loop {
        let chunk = client.chunk().unwrap();
        let at = u64::from_be_bytes(chunk.payload[..8].try_into().unwrap()) as usize;
        if chunk.kind == 2 {
            let length = u32::from_be_bytes(chunk.payload[8..].try_into().unwrap()) as usize;
            read[at..at + length].fill(0);
            holes += length;
        } else {
            assert_eq!(chunk.kind, 1);
            read[at..at + chunk.payload.len() - 8].copy_from_slice(&chunk.payload[8..]);
        }
        if chunk.is_last {
            break;
        }
    }
    assert!(read[100..60_100] == expected[100..60_100]);
    assert_eq!(holes, 8192 + 8192 + 8192);
    // Allocation: data, a hole, zeros that are not one, data ...
    client.send(BLOCK_STATUS, 0, 1000, 20_000, &[]).unwrap();
    let told = client.chunk().unwrap().payload;
    let words: Vec<u32> =
        told.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words[1..], [3096, 0, 4096, 3, 4096, 2, 8192, 0, 520, 3]);
    let refused = client.send(WRITE_ZEROES, FAST_ZERO, 100, 100, &[]).unwrap();
    let chunk = client.chunk().unwrap();
    assert_eq!((chunk.cookie, chunk.kind), (refused, 0x8001));
    assert_eq!(chunk.payload[..4], number(Errno::NotSupported).to_be_bytes());
}

#[test]
fn what_is_not_valid_is_refused_and_the_connection_goes_on() {
    let Some(target) = Target::start(1) else { return };
    let mut client = target.client();
    let huge = vec![0; (32 * MIB) as usize];
    for (error, told) in [
        (Errno::NoSpace, client.write_at(SIZE - 4095, &[1; 4096], 0)),
        (Errno::NoSpace, client.write_at(0, &huge, 0)),
        (Errno::Invalid, client.simple(READ, 0, SIZE, 1)),
        (Errno::Invalid, client.simple(READ, 0, 0, 0)),
        (Errno::Invalid, client.simple(FLUSH, 0, 1, 0)),
        (Errno::Invalid, client.simple(TRIM, 0, SIZE, 4096)),
        (Errno::Invalid, client.simple(99, 0, 0, 1)),
        (Errno::Invalid, client.write_at(0, &[1; 10], 1 << 9)),
    ] {
        assert_eq!(told.unwrap(), number(error));
    }
    assert_eq!(client.write_at(SIZE - 1, &[7], 0).unwrap(), 0);
    assert_eq!(client.read_at(SIZE - 2, 2), [0, 7]);
    // What is too long to be read is a reason to go.
    client.send(WRITE, 0, 0, u32::MAX, &[1; 100]).unwrap();
    assert!(client.is_closed());
    let mut client = target.client();
    client.stream.write_all(&[0; 28]).unwrap();
    assert!(client.is_closed(), "no request begins with zeros");
    assert_eq!(target.client().read_at(SIZE - 1, 1), [7]);
}

#[test]
fn clients_that_go_in_the_middle_leave_the_others_alone() {
    let Some(target) = Target::start(1) else { return };
    let socket = target.socket();
    drop(std::os::unix::net::UnixStream::connect(&socket).unwrap());
    drop(Client::greet(&socket).unwrap());
    for sent in [10, 28, 1000, 28 + 20_000, 28 + 65_535] {
        let mut client = target.client();
        client.send(READ, 0, 0, 1 << 20, &[]).unwrap();
        let header = wattio_nbd::Header {
            flags: 0,
            command: WRITE,
            cookie: 1,
            offset_bytes: 0,
            length_bytes: 65_536,
        };
        let message = [&header.encode()[..], &[0xff; 65_536]].concat();
        client.stream.write_all(&message[..sent]).unwrap();
    }
    let mut client = target.client();
    assert_eq!(client.read_at(0, 65_536), [0; 65_536], "no half of a write is done");
    client.send(DISCONNECT, 0, 0, 0, &[]).unwrap();
    assert!(client.is_closed());
}

/// A target that was stopped as soon as it had started slept for ever: its volumes had begun to
/// close after the turn's background work, which is what closes them.
#[test]
fn a_target_ends_whenever_it_is_asked_to() {
    for at in 0..30 {
        let Some(mut target) = Target::start(1 + at % 2) else { return };
        target.stop();
    }
}

/// Requests that are sent at once are all answered, in whatever order, and a disconnect waits for
/// them.
#[test]
fn requests_at_once_are_all_answered() {
    let spin = Idle::Spin(Duration::from_micros(20));
    for (reactors, idle) in [(1, Idle::Block), (2, Idle::Block), (3, spin), (2, Idle::Poll)] {
        let Some(mut target) = Target::start(reactors) else { return };
        target.settings.idle = idle;
        target.restart();
        asks_at_once(&target);
        target.stop();
    }
}

fn asks_at_once(target: &Target) {
    let mut client = target.client();
    let mut cookies = std::collections::BTreeSet::new();
    for at in 0..200_u64 {
        let bytes = pattern(at, 3000);
        cookies.insert(client.send(WRITE, 0, at * 3000, 3000, &bytes).unwrap());
    }
    cookies.insert(client.send(FLUSH, 0, 0, 0, &[]).unwrap());
    client.send(DISCONNECT, 0, 0, 0, &[]).unwrap();
    while !cookies.is_empty() {
        let (cookie, error) = client.reply().unwrap();
        assert!(cookies.remove(&cookie) && error == 0, "{cookie}");
    }
    assert!(client.is_closed());
    let mut client = target.client();
    for at in 0..200_u64 {
        assert!(client.read_at(at * 3000, 3000) == pattern(at, 3000), "{at}");
    }
}

/// A client that asks for much and reads nothing holds up nobody else, nor the end.
#[test]
fn a_client_that_reads_nothing_is_not_waited_for() {
    let Some(target) = Target::start(1) else { return };
    let mut greedy = target.client();
    greedy.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut asked = 0;
    while asked < 100_000 && greedy.send(READ, 0, 0, SIZE as u32, &[]).is_ok() {
        asked += 1;
    }
    assert!(asked < 100_000, "the target reads without end");
    assert_eq!(target.client().write_at(0, &[1; 4096], FUA).unwrap(), 0);
    let status = target.server.as_ref().unwrap().status();
    assert!(status[0].lane.read_bytes <= 80 * MIB, "{status:?}");
}

#[test]
fn what_was_cached_is_read_without_the_device_and_never_out_of_date() {
    let Some(target) = Target::start(1) else { return };
    let mut client = target.client();
    let counts = || {
        let status = target.server.as_ref().unwrap().status();
        let volume = &status[0].volumes[0];
        (volume.cache_hit_blocks, volume.cache_miss_blocks)
    };
    let bytes = pattern(5, 1 << 20);
    assert_eq!(client.write_at(0, &bytes, 0).unwrap(), 0);
    assert_eq!(client.simple(FLUSH, 0, 0, 0).unwrap(), 0);
    assert_eq!(client.simple(CACHE, 0, 100, 50_000).unwrap(), 0);
    let (hits, misses) = counts();
    assert!(client.read_at(300, 40_000) == bytes[300..40_300]);
    assert_eq!(counts(), (hits + 10, misses), "10 blocks, all of them from memory");
    assert_eq!(client.write_at(5000, &[7; 10], 0).unwrap(), 0);
    assert_eq!(client.simple(WRITE_ZEROES, 0, 12_288, 4096).unwrap(), 0);
    let mut expected = bytes[..20_000].to_vec();
    expected[5000..5010].fill(7);
    expected[12_288..16_384].fill(0);
    for _ in 0..2 {
        assert!(client.read_at(0, 20_000) == expected);
    }
    assert_eq!(client.write_at(4096, &[9; 4096], 0).unwrap(), 0);
    let (_, misses) = counts();
    assert_eq!(client.read_at(4096, 4096), [9; 4096]);
    assert_eq!(counts().1, misses, "what was written is in memory");
}

#[test]
fn exports_are_apart_and_a_read_only_one_is() {
    let Some(target) = Target::with(1, &["disk", "still", "second"]) else { return };
    let mut still = Client::connect(&target.socket(), "still").unwrap();
    assert_eq!(still.flags & 2, 2, "read-only");
    assert_eq!(still.write_at(0, &[1; 4096], 0).unwrap(), number(Errno::NotPermitted));
    assert_eq!(still.simple(TRIM, 0, 0, 4096).unwrap(), number(Errno::NotPermitted));
    let mut second = Client::connect(&target.socket(), "second").unwrap();
    assert_eq!(second.write_at(0, &[9; 4096], 0).unwrap(), 0);
    assert_eq!(target.client().read_at(0, 4096), [0; 4096]);
    assert_eq!(still.read_at(0, 4096), [0; 4096]);
    assert_eq!(second.read_at(0, 4096), [9; 4096]);
    let none = Client::connect(&target.socket(), "nothing");
    assert!(none.is_err());
}

/// A port that was taken was noticed after the volumes had been opened and recovered.
#[test]
fn sockets_are_opened_before_volumes() {
    let Some(mut target) = Target::start(1) else { return };
    target.stop();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut settings = Settings { listen: vec![Address::Tcp(address)], ..target.settings.clone() };
    settings.volumes[0].devices = vec![target.folder.path().join("nothing")];
    let refused = Server::start(&settings).unwrap_err().to_string();
    assert!(refused.starts_with(&format!("cannot listen on {address}")), "{refused}");
}

#[test]
fn a_volume_in_use_is_not_served_twice() {
    let Some(target) = Target::start(1) else { return };
    let elsewhere = target.folder.path().join("elsewhere");
    let settings = Settings { listen: vec![Address::Unix(elsewhere)], ..target.settings.clone() };
    let refused = Server::start(&settings).unwrap_err().to_string();
    assert!(refused.ends_with("in use by another process"), "{refused}");
    let path = &target.settings.volumes[0].devices[0];
    let forced = Plan {
        devices: vec![path.clone()],
        size_bytes: Some(SIZE),
        segment_bytes: 256 << 10,
        spare_share: None,
        compression: Compression::None,
        is_forced: true,
    };
    assert!(make(&forced).unwrap_err().to_string().contains("in use"));
    assert_eq!(target.client().read_at(0, 10), [0; 10]);
}

/// Where the frequency of a reactor's core is turned, the reactor is on no other.
#[test]
fn reactors_stay_on_the_cores_that_they_are_given() {
    let Some(mut target) = Target::start(1) else { return };
    target.stop();
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&core| allowed.is_set(core)).unwrap();
    target.settings.cores = vec![core as u32];
    target.server = Some(Server::start(&target.settings).unwrap());
    assert_eq!(target.client().read_at(0, 4096), [0; 4096]);
    let stays = std::fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let list = format!("Cpus_allowed_list:\t{core}\n");
        read("comm") == "reactor 0\n" && read("status").contains(&list)
    });
    assert!(stays, "no reactor is on core {core} alone");
    target.stop();
    target.settings.cores = vec![rustix::thread::CpuSet::MAX_CPU as u32 - 1];
    let refused = Server::start(&target.settings).unwrap_err().to_string();
    assert!(refused.starts_with("reactor 0"), "{refused}");
}
