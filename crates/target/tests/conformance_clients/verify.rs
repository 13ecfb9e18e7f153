//! QEMU's `blkverify` does everything twice, on the target and on a plain file, and ends at the first
//! byte that is read differently.

use crate::clients::{prints, run};
use crate::process::Target;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const MIB: usize = 1 << 20;
const SIZE: usize = 64 * MIB;
/// Requests at once, each within its own part of the volume: overlapping ones would have no order.
const PARTS: usize = 8;
const BATCHES: usize = 40;

/// Bytes from anywhere, most of them few, some to whole blocks.
fn place(random: &mut Xoshiro256PlusPlus, from: usize, to: usize) -> (usize, usize) {
    let longest = [1024, 9000, 70_000, 3 * MIB][random.random_range(0..4)].min(to - from);
    let length = random.random_range(1..=longest);
    let offset = random.random_range(from..=to - length);
    if random.random_bool(0.4) && offset.next_multiple_of(4096) + 4096 <= to {
        let offset = offset.next_multiple_of(4096);
        return (offset, (length.next_multiple_of(4096)).min((to - offset) / 4096 * 4096));
    }
    (offset, length)
}

/// Requests that `blkverify` passes on: those of several parts at once, in seeded order.
fn batch(random: &mut Xoshiro256PlusPlus) -> Vec<String> {
    // Half of the work is in a small part, where blocks are written again and again.
    let from = if random.random_bool(0.5) { 0 } else { random.random_range(0..SIZE / 2) };
    let part = if from == 0 { 96 << 10 } else { (SIZE - from) / PARTS };
    let mut commands: Vec<String> = (0..PARTS)
        .map(|number| {
            let (start, end) = (from + number * part, from + (number + 1) * part);
            let (offset, length) = place(random, start, end);
            let byte = random.random_range(1..=255);
            match random.random_range(0..10) {
                0..5 => format!("aio_write -P {byte} {offset} {length}"),
                5 => format!("aio_write -f -P {byte} {offset} {length}"),
                6 if length > 3 => {
                    let (a, b) = (length / 3, length - length / 3);
                    format!("writev -P {byte} {offset} {a} {b}")
                }
                _ => format!("aio_read {offset} {length}"),
            }
        })
        .collect();
    commands.push("aio_flush".to_owned());
    commands
}

/// `blkverify` passes no discards on, and ends by an assertion when it is to write zeros (QEMU 7.2):
/// these are asked of both, one after the other. Discards are of whole blocks, as less than a block
/// need not be zeros.
fn holes(random: &mut Xoshiro256PlusPlus) -> Vec<String> {
    let hole = |random: &mut Xoshiro256PlusPlus| {
        let (offset, length) = place(random, 0, SIZE);
        let first = offset / 4096 * 4096;
        let (zeroed, discarded) = ("write -z", "write -z -u");
        match random.random_range(0..3) {
            0 => format!("{zeroed} {offset} {length}"),
            1 => format!("{discarded} {offset} {length}"),
            _ => format!("discard {first} {}", length.next_multiple_of(4096).min(SIZE - first)),
        }
    };
    (0..12).map(|_| hole(random)).chain(["flush".to_owned()]).collect()
}

/// Does commands to what `disk` names in QEMU's options.
fn io(disk: &str, commands: &[String]) -> std::process::Output {
    let mut arguments = vec!["--image-opts", disk, "-d", "unmap"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    run("qemu-io", &arguments)
}

/// What all of it is, read by QEMU of both.
fn all() -> Vec<String> {
    (0..SIZE / MIB).map(|at| format!("read {} {MIB}", at * MIB)).collect()
}

fn is_well(output: &std::process::Output, commands: &[String]) {
    let told = String::from_utf8_lossy(&output.stdout);
    let is_well = output.status.success() && !told.contains("failed") && output.stderr.is_empty();
    assert!(is_well, "{output:?}\nof {commands:#?}");
}

#[test]
#[ignore = "needs qemu-io and qemu-img"]
fn blkverify_reads_the_same_of_the_target_and_of_a_file() {
    for (reactors, seed) in [(1, 20), (2, 21)] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut target = Target::start("64MiB", reactors);
        let reference = target.path("reference");
        std::fs::File::create(&reference).unwrap().set_len(SIZE as u64).unwrap();
        let reference = reference.to_str().unwrap().to_owned();
        let socket = target.socket();
        let raw = format!("driver=file,filename={reference}");
        let nbd = format!("driver=nbd,server.type=unix,server.path={}", socket.display());
        let both = format!(
            "driver=blkverify,raw.driver=file,raw.filename={reference},test.driver=nbd,\
             test.server.type=unix,test.server.path={}",
            socket.display()
        );
        for _ in 0..4 {
            let mut commands: Vec<_> = (0..BATCHES).flat_map(|_| batch(&mut random)).collect();
            commands.push("flush".to_owned());
            is_well(&io(&both, &commands), &commands);
            let commands = holes(&mut random);
            is_well(&io(&nbd, &commands), &commands);
            is_well(&io(&raw, &commands), &commands);
            is_well(&io(&both, &all()), &commands);
            // All of it was flushed.
            target.kill();
            target.check();
            target.serve();
            prints("qemu-img", &["compare", "-f", "raw", "-F", "raw", &reference, &target.uri()]);
        }
        // One byte that differs is told.
        let other = vec![format!("write -P 7 {} 1", SIZE - 1), "flush".to_owned()];
        is_well(&io(&nbd, &other), &other);
        is_well(&io(&raw, &[format!("write -P 8 {} 1", SIZE - 1)]), &other);
        let output = io(&both, &all());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains("contents mismatch"), "{output:?}");
        target.stop();
        target.check();
    }
}
