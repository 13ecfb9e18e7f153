//! Volumes on two devices.

use crate::client::FUA;
use crate::{Target, pattern, wait_until};
use std::path::PathBuf;
use std::process::Command;
use wattio_target::server::Server;
use wattio_volume::Compression;

#[test]
fn a_mirror_lives_through_a_device() {
    live_through_a_device(Compression::None);
}

#[test]
fn a_compressed_mirror_lives_through_a_device() {
    live_through_a_device(Compression::Lz4);
}

/// One of two devices rots, then it is replaced; clients see nothing of either.
fn live_through_a_device(compression: Compression) {
    let Some(mut target) = Target::made(1, &["disk"], 2, compression) else { return };
    let bytes = contents(compression);
    assert_eq!(target.client().write_at(0, &bytes, FUA).unwrap(), 0);
    let devices = target.settings.volumes[0].devices.clone();
    target.stop();
    // All that lies behind the superblocks and the maps.
    let mut rotten = std::fs::read(&devices[0]).unwrap();
    rotten[5 << 20..].fill(0xa5);
    std::fs::write(&devices[0], rotten).unwrap();
    target.server = Some(Server::start(&target.settings).unwrap());
    assert!(target.client().read_at(0, 2 << 20) == bytes);
    let counts = |target: &Target| target.server.as_ref().unwrap().status()[0].volumes[0].clone();
    // Compressed blocks lie beside others that the read did not look at: the scrub, which comes at
    // once, finds and repairs them all.
    if compression == Compression::None {
        assert!(counts(&target).damaged_blocks > 0);
    }
    wait_until("blocks are repaired", || {
        let told = counts(&target);
        assert!(told.damaged_blocks >= told.repaired_blocks, "{told:?}");
        told.repaired_blocks > 0
    });
    drop(target.server.take());
    std::fs::remove_file(&devices[0]).unwrap();
    let refused = Server::start(&target.settings).unwrap_err().to_string();
    assert!(refused.contains("cannot open it"), "{refused}");
    target.settings.volumes[0].open.accept_missing = true;
    target.server = Some(Server::start(&target.settings).unwrap());
    assert_eq!(counts(&target).devices, ["out", "in sync"]);
    assert!(target.client().read_at(0, 2 << 20) == bytes);
    assert_eq!(target.client().write_at(4096, &[3; 4096], FUA).unwrap(), 0);
    drop(target.server.take());
    std::fs::write(&devices[0], [1; 9000]).unwrap();
    let refused = Server::start(&target.settings).unwrap_err().to_string();
    assert!(refused.contains("holds something that is not of the volume"), "{refused}");
    std::fs::write(&devices[0], []).unwrap();
    target.server = Some(Server::start(&target.settings).unwrap());
    wait_until("the new device is filled", || {
        assert_eq!(target.client().read_at(4096, 4096), [3; 4096]);
        counts(&target).devices == ["in sync", "in sync"]
    });
    target.stop();
    // Now the other one goes.
    std::fs::remove_file(&devices[1]).unwrap();
    target.server = Some(Server::start(&target.settings).unwrap());
    assert_eq!(target.client().read_at(4096, 4096), [3; 4096]);
    assert!(target.client().read_at(8192, 1 << 20) == bytes[8192..8192 + (1 << 20)]);
}

/// Nothing but its size was said, and `accept_missing` did not help.
#[test]
fn a_device_that_was_cut_short_is_made_longer_and_filled() {
    let Some(mut target) = Target::on(1, &["disk"], 2) else { return };
    let bytes = pattern(4, 1 << 20);
    assert_eq!(target.client().write_at(0, &bytes, FUA).unwrap(), 0);
    let devices = target.settings.volumes[0].devices.clone();
    target.stop();
    let size = std::fs::metadata(&devices[1]).unwrap().len();
    let cut = std::fs::OpenOptions::new().write(true).open(&devices[1]).unwrap();
    cut.set_len(size / 2).unwrap();
    let refused = Server::start(&target.settings).unwrap_err().to_string();
    let says = format!("{} was cut short: it has {} of the ", devices[1].display(), size / 2);
    assert!(refused.contains(&says), "{refused}");
    let check = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
        program.arg("check").args(more).args(&devices).output().unwrap()
    };
    let found = check(&[]);
    let text = String::from_utf8(found.stderr).unwrap();
    assert!(found.status.code() == Some(1) && text.ends_with(": --accept-missing\n"), "{text}");
    let found = check(&["--accept-missing"]);
    let text = String::from_utf8(found.stdout).unwrap();
    assert!(text.contains("1 MiB of data, all of which was read"), "{text}");
    target.settings.volumes[0].open.accept_missing = true;
    target.server = Some(Server::start(&target.settings).unwrap());
    let told = |target: &Target| target.server.as_ref().unwrap().status()[0].volumes[0].clone();
    wait_until("it is filled", || {
        assert!(target.client().read_at(0, 1 << 20) == bytes);
        told(&target).devices == ["in sync", "in sync"]
    });
    target.stop();
    assert_eq!(std::fs::metadata(&devices[1]).unwrap().len(), size);
}

/// One of the two was recovered, and the other one served.
#[test]
fn a_copy_beside_a_device_is_refused() {
    let Some(mut target) = Target::start(1) else { return };
    let device = target.settings.volumes[0].devices[0].clone();
    let copy = device.with_extension("copy");
    drop(target.server.take());
    std::fs::copy(&device, &copy).unwrap();
    let mut settings = target.settings.clone();
    for devices in [[device.clone(), copy.clone()], [copy, device]] {
        let read = || devices.each_ref().map(|path| std::fs::read(path).unwrap());
        let before = read();
        settings.volumes[0].devices = devices.to_vec();
        let refused = Server::start(&settings).unwrap_err().to_string();
        let paths = devices.each_ref().map(|path| path.display().to_string()).join(" and ");
        assert!(refused.contains(&format!("{paths} are both device 0 of")), "{refused}");
        assert!(read() == before, "they are as they were");
    }
}

/// It was served without a mirror, and nobody was told.
#[test]
fn a_second_device_for_a_volume_on_one_is_refused() {
    let Some(mut target) = Target::start(1) else { return };
    let device = target.settings.volumes[0].devices[0].clone();
    let second = device.with_extension("second");
    drop(target.server.take());
    let before = std::fs::read(&device).unwrap();
    let mut settings = target.settings.clone();
    for (is_there, accept_missing) in [(true, false), (true, true), (false, true)] {
        if is_there {
            std::fs::write(&second, []).unwrap();
        } else {
            std::fs::remove_file(&second).unwrap();
        }
        settings.volumes[0].open.accept_missing = accept_missing;
        for devices in [[&device, &second], [&second, &device]] {
            settings.volumes[0].devices = devices.map(PathBuf::clone).to_vec();
            let refused = Server::start(&settings).unwrap_err().to_string();
            let says = format!("the volume has 1 device, and {} is not", second.display());
            assert!(refused.contains(&says), "{refused}");
        }
    }
    assert!(std::fs::read(&device).unwrap() == before, "it is as it was");
}

/// They were called by the volume's numbers, which a configuration does not have.
#[test]
fn devices_are_called_by_their_paths_in_whatever_order_they_are_named() {
    let Some(mut target) = Target::on(1, &["disk"], 2) else { return };
    let bytes = pattern(4, 1 << 20);
    assert_eq!(target.client().write_at(0, &bytes, FUA).unwrap(), 0);
    let devices = target.settings.volumes[0].devices.clone();
    let paths = devices.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    target.stop();
    target.settings.volumes[0].devices.reverse();
    target.server = Some(Server::start(&target.settings).unwrap());
    let told = target.server.as_ref().unwrap().status()[0].volumes[0].device_paths.clone();
    assert_eq!(told, [Some(paths[0].clone()), Some(paths[1].clone())], "in the volume's order");
    target.stop();
    // The volume's second device, named first, loses what it holds.
    let mut rotten = std::fs::read(&devices[1]).unwrap();
    rotten[5 << 20..].fill(0xa5);
    std::fs::write(&devices[1], rotten).unwrap();
    let check = |devices: [&str; 2]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
        program.arg("check").args(devices).output().unwrap()
    };
    for devices in [[&paths[1][..], &paths[0]], [&paths[0], &paths[1]]] {
        let found = check(devices);
        let text = String::from_utf8(found.stdout).unwrap();
        assert!(text.contains(&format!("256 blocks damaged on {}\n", paths[1])), "{text}");
        assert!(!text.contains(&paths[0]), "{text}");
        assert_eq!(found.status.code(), Some(1), "{text}");
    }
    std::fs::write(&devices[1], vec![0; 1 << 20]).unwrap();
    let refused = check([&paths[0], &paths[1]]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains(&format!("{} holds no volume", paths[1])), "{message}");
}

/// Blocks of which every other one can be compressed, where that is what is tried.
fn contents(compression: Compression) -> Vec<u8> {
    let mut bytes = pattern(8, 2 << 20);
    if compression == Compression::Lz4 {
        for block in bytes.chunks_exact_mut(8192) {
            block[1500..4096].fill(7);
        }
    }
    bytes
}
