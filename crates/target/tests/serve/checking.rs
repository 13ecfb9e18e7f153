//! `check` as a process, on what a target left.

use crate::client::FUA;
use crate::{Target, pattern};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wattio_target::server::Server;
use wattio_volume::Compression;

fn check(device: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
    program.arg("check").arg(device);
    program
}

/// What a check prints, and its exit code.
fn checked(device: &Path) -> (String, Option<i32>) {
    let output = check(device).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// The device of a volume in which one block rotted after it was closed; nothing without io_uring.
fn rotten() -> Option<(Target, PathBuf)> {
    let mut target = Target::start(1)?;
    let block = pattern(6, 4096);
    assert_eq!(target.client().write_at(0, &block, FUA).unwrap(), 0);
    target.stop();
    let path = target.settings.volumes[0].devices[0].clone();
    rot(&path, |one| one == block);
    Some((target, path))
}

/// Damages the blocks of a device that hold something.
fn rot(path: &Path, is_it: impl Fn(&[u8]) -> bool) {
    let bytes = std::fs::read(path).unwrap();
    let device = OpenOptions::new().write(true).open(path).unwrap();
    let blocks = bytes.chunks(4096).enumerate().filter(|(_, block)| is_it(block));
    let rotted = blocks.map(|(at, _)| device.write_all_at(&[0xa5; 9], at as u64 * 4096).unwrap());
    assert!(rotted.count() > 0, "there is such a block");
}

/// The exit code was 0, as of one that is whole, as soon as nothing could be printed.
#[test]
fn a_damaged_volume_is_one_whoever_reads_what_is_printed() {
    let Some((_target, path)) = rotten() else { return };
    let code = |output: Stdio| {
        let status = check(&path).stdout(output).stderr(Stdio::null()).status();
        status.unwrap().code()
    };
    let (nobody, closed) = std::io::pipe().unwrap();
    drop(nobody);
    assert_eq!(code(closed.into()), Some(1));
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(code(full.into()), Some(1));
}

/// A target whose log was on a full file system panicked at its next line, as did every command.
#[test]
fn what_finds_no_room_on_stderr_is_lost_and_nothing_else_is() {
    let code = |errors: Stdio| {
        let status = check(Path::new("/nowhere/volume")).stderr(errors).status();
        status.unwrap().code()
    };
    let (nobody, closed) = std::io::pipe().unwrap();
    drop(nobody);
    assert_eq!(code(closed.into()), Some(2));
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(code(full.into()), Some(2));
}

#[test]
fn a_closed_pipe_fails_no_command_and_a_full_disk_does() {
    let Some(mut target) = Target::start(1) else { return };
    target.stop();
    let path = &target.settings.volumes[0].devices[0];
    let (nobody, closed) = std::io::pipe().unwrap();
    drop(nobody);
    assert_eq!(check(path).stdout(closed).status().unwrap().code(), Some(0));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = check(path).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cannot write to standard output"), "{message}");
}

/// It said "not ok" and nothing else.
#[test]
fn a_check_says_why_a_volume_is_not_whole() {
    let Some((_target, path)) = rotten() else { return };
    let (text, code) = checked(&path);
    let says = format!(
        "1 block damaged on {}\n1 of them on every device: their data is lost\n\
         the first one is at 0 B\nnot ok\n",
        path.display()
    );
    assert!(text.ends_with(&says), "{text}");
    assert_eq!(code, Some(1));
    // What has been overwritten since is damaged in the log alone.
    let Some(mut target) = Target::start(1) else { return };
    let blocks = [[1; 4096], [2; 4096], [3; 4096]];
    let mut client = target.client();
    blocks.iter().for_each(|block| assert_eq!(client.write_at(0, block, FUA).unwrap(), 0));
    drop(target.server.take());
    let path = target.settings.volumes[0].devices[0].clone();
    rot(&path, |one| one == blocks[0]);
    let (text, code) = checked(&path);
    let says = "1 block damaged on every device in what is to be replayed\nnot ok\n";
    assert!(text.ends_with(says) && !text.contains("damaged on /"), "{text}");
    assert_eq!(code, Some(1));
}

#[test]
fn blocks_that_were_lost_before_are_told_as_such() {
    let Some(mut target) = Target::start(1) else { return };
    assert_eq!(target.client().write_at(0, &[1; 4096], FUA).unwrap(), 0);
    target.stop();
    let path = target.settings.volumes[0].devices[0].clone();
    // The map, in either area.
    rot(&path, |block| block.starts_with(b"WMAP"));
    target.settings.volumes[0].open.accept_loss = true;
    target.server = Some(Server::start(&target.settings).unwrap());
    target.stop();
    let (text, code) = checked(&path);
    assert!(text.contains(" blocks lost before this check: reading fails\n"), "{text}");
    assert!(!text.contains("of them"), "{text}");
    assert_eq!(code, Some(1));
}

/// No option asked for what the message said must be asked for, which it said twice on one line.
#[test]
fn what_is_left_of_a_mirror_can_be_checked() {
    let Some(mut target) = Target::made(1, &["disk"], 2, Compression::None) else { return };
    let block = pattern(6, 4096);
    assert_eq!(target.client().write_at(0, &block, FUA).unwrap(), 0);
    target.stop();
    let half = target.settings.volumes[0].devices[1].clone();
    let output = check(&half).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.matches("must be asked for: --accept-missing\n").count(), 1, "{message}");
    let asked = |half: &Path| {
        let output = check(half).arg("--accept-missing").output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let (text, code) = asked(&half);
    assert!(text.ends_with("left out: 1 device\nok\n"), "{text}");
    assert_eq!(code, Some(0));
    rot(&half, |one| one == block);
    let (text, code) = asked(&half);
    assert!(text.contains("their data is lost\n") && text.ends_with("\nnot ok\n"), "{text}");
    assert_eq!(code, Some(1));
}
