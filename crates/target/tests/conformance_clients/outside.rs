//! Crash safety seen from outside: QEMU's `blklogwrites` keeps every write and flush that reaches
//! the device; any beginning of that log is a device after a loss of power. Every one is opened,
//! checked and read.

use crate::client::Client;
use crate::kills::block;
use crate::process::{Target, program};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Blocks of the volume: 4 MiB, so that garbage collection has work.
const BLOCKS: usize = 1024;
const WRITES: u64 = 1500;

/// An entry of the log: where its data goes, if it has any.
struct Entry {
    offset: u64,
    data: Vec<u8>,
}

/// Numbers at the start of the log: magic, version, how many entries, and bytes of a sector.
fn head(log: &Path) -> (u64, u64) {
    let mut bytes = [0; 28];
    std::fs::File::open(log).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(number(0), 0x006a_7366_7773_6872, "the kernel's dm-log-writes format");
    (number(16), u64::from(u32::from_le_bytes(bytes[24..28].try_into().unwrap())))
}

/// All entries, by the format of the kernel's `dm-log-writes`.
fn entries(log: &Path) -> Vec<Entry> {
    const DISCARD: u64 = 4;
    let (count, sector) = head(log);
    let file = std::fs::File::open(log).unwrap();
    let mut at = sector;
    let mut next = || {
        let mut head = [0; 32];
        file.read_exact_at(&mut head, at).unwrap();
        let number = |from: usize| u64::from_le_bytes(head[from..from + 8].try_into().unwrap());
        let (first, sectors, flags) = (number(0), number(8), number(16));
        assert_eq!(flags & DISCARD, 0, "nothing is discarded");
        let mut data = vec![0; (sectors * sector) as usize];
        file.read_exact_at(&mut data, at + sector).unwrap();
        at += sector + data.len() as u64;
        Entry { offset: first * sector, data }
    };
    (0..count).map(|_| next()).collect()
}

struct Logging(Child);

impl Logging {
    /// `disk` appears as `volume`, and what is written to it is kept in `log`.
    fn start(disk: &Path, log: &Path, volume: &Path) -> Self {
        let file = |node: &str, path: &Path| {
            format!("driver=file,node-name={node},filename={}", path.display())
        };
        std::fs::write(volume, []).unwrap();
        std::fs::File::create(log).unwrap().set_len(1 << 30).unwrap();
        let kept = "driver=blklogwrites,node-name=kept,file=disk,log=log,log-sector-size=4096,\
                    log-super-update-interval=1";
        let shown = format!(
            "type=fuse,id=shown,node-name=kept,mountpoint={},writable=on",
            volume.display()
        );
        let child = Command::new("qemu-storage-daemon")
            .args(["--blockdev", &file("disk", disk), "--blockdev", &file("log", log)])
            .args(["--blockdev", kept, "--export", &shown])
            .spawn();
        let child =
            child.expect("`qemu-storage-daemon` is missing: apt install qemu-system-common");
        let until = Instant::now() + Duration::from_secs(30);
        while std::fs::metadata(volume).unwrap().len() == 0 {
            assert!(Instant::now() < until, "the disk does not appear");
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// The version of each block.
fn versions(client: &mut Client) -> Vec<u64> {
    let all = client.read_at(0, (BLOCKS * BLOCK) as u32);
    let version = |(number, bytes): (usize, &[u8])| {
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == block(number, version), "block {number} is torn, or another's");
        version
    };
    all.chunks_exact(BLOCK).enumerate().map(version).collect()
}

#[test]
#[ignore = "needs qemu-storage-daemon and FUSE"]
fn every_beginning_of_what_reached_the_device_is_a_whole_volume() {
    try_every_beginning("none");
}

#[test]
#[ignore = "needs qemu-storage-daemon and FUSE"]
fn every_beginning_of_what_reached_the_device_is_a_whole_compressed_volume() {
    try_every_beginning("lz4");
}

fn try_every_beginning(compress: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (disk, first, log) = (path("disk"), path("first"), path("log"));
    let size = format!("{}KiB", BLOCKS * BLOCK / 1024);
    let mut create = program();
    create.arg("create").arg(&disk).args(["--size", &size, "--segment-size", "256KiB"]);
    create.args(["--compress", compress]);
    assert!(create.output().unwrap().status.success());
    std::fs::copy(&disk, &first).unwrap();
    let logging = Logging::start(&disk, &log, &path("volume"));
    // One operation at a time: this FUSE export of QEMU, before 9.1, mixes up the data of writes that
    // other requests overtake.
    let mut target = Target::on(folder, 1);
    let mut client = Client::connect(&target.socket(), "").unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    // Which block each write went to; and after how many entries of the log how many of the writes
    // were known to be durable.
    let (mut written, mut durable) = (Vec::new(), Vec::new());
    for version in 1..=WRITES {
        let hot = if random.random_bool(0.7) { BLOCKS / 8 } else { BLOCKS };
        let number = random.random_range(0..hot);
        let offset = (number * BLOCK) as u64;
        assert_eq!(client.write_at(offset, &block(number, version), 0).unwrap(), 0);
        written.push(number);
        if random.random_bool(0.1) || version == WRITES {
            client.flush();
            durable.push((head(&log).0 as usize, written.len()));
        }
    }
    target.stop();
    drop(logging);
    let entries = entries(&log);
    let mut device = std::fs::read(&first).unwrap();
    println!("{} beginnings of {WRITES} writes", entries.len() + 1);
    for crash in 0..=entries.len() {
        if let Some(Entry { offset, data }) = crash.checked_sub(1).map(|last| &entries[last]) {
            device[*offset as usize..*offset as usize + data.len()].copy_from_slice(data);
        }
        let after = tempfile::tempdir().unwrap();
        std::fs::write(after.path().join("volume"), &device).unwrap();
        let mut target = Target::on(after, 64);
        let found = versions(&mut Client::connect(&target.socket(), "").unwrap());
        target.kill();
        target.check();
        // The state after some of the writes, from the first one on, and no fewer than are durable.
        let newest = found.iter().copied().max().unwrap_or(0) as usize;
        let mut expected = vec![0; BLOCKS];
        for (version, &number) in (1..).zip(&written[..newest]) {
            expected[number] = version;
        }
        assert!(found == expected, "after {crash} entries: not the first {newest} writes");
        let known = durable.iter().rev().find(|(seen, _)| *seen <= crash);
        assert!(known.is_none_or(|&(_, count)| newest >= count), "{crash}: {newest} of {known:?}");
    }
}
