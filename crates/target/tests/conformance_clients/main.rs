//! Real clients (libnbd, QEMU, fio) and systemd's sockets against the target, and the target killed
//! under them:
//! `cargo test -p wattio-target --test conformance_clients -- --ignored`. A client that is missing
//! is a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its target has failed")]

mod activation;
#[path = "../serve/client.rs"]
#[allow(dead_code)]
mod client;
// Programs that speak NBD are run here as the protocol's own tests run them.
#[path = "../../../nbd/tests/conformance_clients/clients.rs"]
#[allow(dead_code)]
mod clients;
mod kills;
mod outside;
mod process;
mod verify;

use clients::{prints, run};
use process::Target;
use serde_json::Value;

const MIB: usize = 1 << 20;

/// Bytes that differ from block to block, but for a quarter of zeroes.
fn sample(size_bytes: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let is_hole = (size_bytes / 4..size_bytes / 2).contains(&at);
        if is_hole { 0 } else { ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 }
    };
    (0..size_bytes).map(byte).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
#[ignore = "needs nbdinfo and nbdcopy"]
fn libnbd_copies_both_ways_and_maps() {
    for reactors in [1, 2] {
        let mut target = Target::start("64MiB", reactors);
        let (from, to) = (target.path("from"), target.path("to"));
        let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
        let sample = sample(64 * MIB);
        std::fs::write(from, &sample).unwrap();
        prints("nbdcopy", &["--connections=4", from, &target.uri()]);
        prints("nbdcopy", &["--flush", &target.uri(), to]);
        assert!(std::fs::read(to).unwrap() == sample);
        let told = json(&prints("nbdinfo", &["--json", &target.uri()]));
        let told = &told["exports"][0];
        assert_eq!(told["export-size"], 64 * MIB);
        let can = ["can_multi_conn", "can_fua", "can_flush", "can_trim", "can_zero", "can_df"];
        assert!(can.iter().all(|flag| told[flag] == true), "{told}");
        let map = json(&prints("nbdinfo", &["--json", "--map", &target.uri()]));
        let kinds: Vec<_> =
            map.as_array().unwrap().iter().map(|run| run["type"].as_u64()).collect();
        assert_eq!(kinds.first(), Some(&Some(0)), "{map}");
        assert!(kinds.contains(&Some(3)), "{map}");
        target.stop();
        target.check();
    }
}

#[test]
#[ignore = "needs qemu-img"]
fn qemu_img_converts_compares_and_maps() {
    let target = Target::start("32MiB", 1);
    let (raw, qcow2) = (target.path("raw"), target.path("qcow2"));
    let (raw, qcow2) = (raw.to_str().unwrap(), qcow2.to_str().unwrap());
    let uri = target.uri();
    std::fs::write(raw, sample(32 * MIB)).unwrap();
    prints("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", raw, &uri]);
    let same = prints("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, &uri]);
    assert!(same.contains("identical"), "{same}");
    prints("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, qcow2]);
    prints("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", qcow2, &uri]);
    let map = json(&prints("qemu-img", &["map", "--output=json", "-f", "raw", &uri]));
    let data: Vec<_> = map.as_array().unwrap().iter().map(|part| part["data"] == true).collect();
    assert_eq!(data, [true, false, true], "{map}");
    prints("qemu-io", &["-f", "raw", "-c", "write -P 1 4096 1", &uri]);
    let other = run("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, &uri]);
    assert_eq!(other.status.code(), Some(1));
}

#[test]
#[ignore = "needs qemu-io"]
fn qemu_io_writes_zeroes_and_discards() {
    let target = Target::start("16MiB", 1);
    let commands = [
        "write -P 170 0 1M",
        "write -f -P 85 8192 4096",
        "aio_write -P 119 131072 65536",
        "aio_flush",
        "write -P 51 513 100",
        "write -z 16384 4096",
        "write -z -u 20480 4096",
        "discard 24576 8192",
        "flush",
        "read -P 170 0 513",
        "read -P 51 513 100",
        "read -P 85 8192 4096",
        "read -P 0 16384 16384",
        "read -P 119 131072 65536",
        "read -P 170 196608 851968",
    ];
    let uri = target.uri();
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let told = prints("qemu-io", &arguments);
    assert!(!told.contains("failed") && !told.contains("error"), "{told}");
}

const SHELL: &str = r#"
import nbd, errno
def refused(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
        return
    assert False, "not refused"
size = h.get_size()
h.set_strict_mode(0)
h.pwrite(b"\x11" * 8192, 100)
assert h.pread(8192, 100) == b"\x11" * 8192
refused(errno.EINVAL, lambda: h.pread(4096, size - 100))
refused(errno.ENOSPC, lambda: h.pwrite(b"1" * 4096, size - 100))
refused(errno.EINVAL, lambda: h.pread(0, 0))
refused(errno.EINVAL, lambda: h.pwrite(b"1" * 4096, 0, 1 << 4))
refused(errno.EINVAL, lambda: h.trim(4096, size))
h.cache(65536, 0)
refused(errno.ENOTSUP, lambda: h.zero(100, 0, nbd.CMD_FLAG_FAST_ZERO))
h.zero(65536, 0, nbd.CMD_FLAG_FAST_ZERO)
h.pwrite(b"\x22" * (32 << 20), 0)
assert h.pread(32 << 20, 0) == b"\x22" * (32 << 20)
other = nbd.NBD()
other.connect_uri(h.get_uri())
h.pwrite(b"\x33" * 5000, 3)
other.flush()
assert other.pread(5000, 3) == b"\x33" * 5000
other.pwrite(b"\x44" * 10, 2000, nbd.CMD_FLAG_FUA)
assert h.pread(4, 2008) == b"\x44\x44\x33\x33"
h.trim(size, 0)
other.zero(4096, 0, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(65536, 0) == bytes(65536)
buffers = [nbd.Buffer.from_bytearray(bytearray([i & 255]) * 4096) for i in range(500)]
for i, buffer in enumerate(buffers):
    h.aio_pwrite(buffer, i * 4096)
while h.aio_in_flight() > 0:
    h.poll(-1)
    while h.aio_in_flight() > 0 and h.aio_peek_command_completed() > 0:
        assert h.aio_command_completed(h.aio_peek_command_completed())
data = other.pread(500 * 4096, 0)
assert all(data[i * 4096] == i & 255 for i in range(500))
"#;

#[test]
#[ignore = "needs nbdsh"]
fn nbdsh_asks_what_others_do_not() {
    for reactors in [1, 2] {
        let target = Target::start("64MiB", reactors);
        prints("nbdsh", &["-u", &target.uri(), "-c", SHELL]);
    }
}

/// Whoever fills a volume that is larger than its device is told so, and what was written before is
/// there; and it can be written again after a trim.
#[test]
#[ignore = "needs nbdcopy, qemu-img and qemu-io"]
fn a_thin_volume_that_is_full_loses_nothing() {
    let mut target = Target::start("32MiB", 1);
    target.stop();
    let grown = process::program()
        .args(["resize", "--size", "100MiB", "--thin"])
        .arg(target.path("volume"))
        .output()
        .unwrap();
    assert!(grown.status.success(), "{grown:?}");
    target.serve();
    let (from, uri) = (target.path("from"), target.uri());
    std::fs::write(&from, sample(24 * MIB)).unwrap();
    let from = from.to_str().unwrap();
    prints("nbdcopy", &["--flush", from, &uri]);
    let io = |command: &str| {
        let output =
            run("qemu-io", &["-f", "raw", "-d", "unmap", "-c", command, "-c", "flush", &uri]);
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let full = (24..100).map(|at| io(&format!("write -P 7 {at}M 1M"))).find(|told| {
        assert!(told.contains("wrote") || told.contains("No space left on device"), "{told}");
        !told.contains("wrote")
    });
    assert!(full.is_some(), "it holds more than its device");
    target.kill();
    target.check();
    target.serve();
    let read = target.path("read");
    prints("nbdcopy", &[&uri, read.to_str().unwrap()]);
    assert!(std::fs::read(&read).unwrap()[..24 * MIB] == sample(24 * MIB));
    let told = io("discard 24M 4M") + &io("write -P 9 99M 1M") + &io("read -P 9 99M 1M");
    assert!(told.contains("wrote") && !told.contains("failed"), "{told}");
    assert_eq!(target.status()["reactors"][0]["volumes"][0]["refused_writes"], 0);
    target.stop();
    target.check();
}

/// What fio wrote on several connections, and flushed, it finds after the target was killed; while
/// the volume is so full that segments are collected.
#[test]
#[ignore = "needs fio"]
fn fio_verifies_after_a_kill() {
    for reactors in [1, 2] {
        let mut target = Target::start("64MiB", reactors);
        for round in 0..4 {
            fio_verifies_over_a_kill(&mut target, round, ("14m", "16m"), &[]);
        }
        target.stop();
        target.check();
    }
}

/// One round of it.
fn fio_verifies_over_a_kill(
    target: &mut Target,
    round: u32,
    (size, apart): (&str, &str),
    more: &[&str],
) -> serde_json::Value {
    let (size, apart) = (format!("--size={size}"), format!("--offset_increment={apart}"));
    let uri = format!("--uri={}", target.uri());
    let seed = format!("--randseed={round}");
    let common = [
        "--name=job",
        "--ioengine=nbd",
        &uri,
        &seed,
        "--numjobs=4",
        &size,
        &apart,
        "--iodepth=8",
        "--rw=randwrite",
        "--bsrange=512-32k",
        "--bs_unaligned=0",
        "--blockalign=512",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--end_fsync=1",
        "--allrandrepeat=1",
        "--group_reporting",
        "--verify_state_save=0",
    ];
    prints("fio", &[&common[..], more, &["--do_verify=0"]].concat());
    let before = target.status();
    target.kill();
    target.check();
    target.serve();
    prints("fio", &[&common[..], &["--verify_only=1"]].concat());
    before
}

/// The same while a law takes reactors away and gives them back, what runs on them moves, and the
/// segments are so full that they are collected all the while.
#[test]
#[ignore = "needs fio"]
fn fio_verifies_while_a_law_governs_and_segments_are_collected() {
    let law = ["--policy", "foresight", "--idle", "poll", "--set", "plf=1.0"];
    let mut target = Target::made("128MiB", 3, &["--spare", "0.12"], &law);
    let uri = format!("--uri={}", target.uri());
    let fill = ["--name=fill", "--ioengine=nbd", &uri, "--rw=write", "--bs=1m", "--size=128m"];
    prints("fio", &fill);
    let mut changes = 0;
    for round in 0..2 {
        // Some seconds for each of them: a law looks twice a second.
        let status =
            fio_verifies_over_a_kill(&mut target, round, ("28m", "32m"), &["--rate=2500k"]);
        changes += status["counts"]["setting_changes"].as_u64().unwrap();
        let reactors = status["reactors"].as_array().unwrap().iter();
        let mut volumes = reactors.flat_map(|reactor| reactor["volumes"].as_array().unwrap());
        let volume = volumes.next().unwrap();
        let of = |key: &str| volume[key].as_f64().unwrap();
        let full = of("live_bytes") / (of("segments") * f64::from(1 << 20));
        assert!(full >= 0.85, "{full} of the segments: {volume}");
        assert!(of("collected_segments") > 50.0, "{volume}");
    }
    assert!(changes > 0, "the law has changed nothing");
    target.stop();
    target.check();
}
