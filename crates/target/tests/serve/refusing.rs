//! What is refused before a volume is opened, by the target as a process.

use crate::Target;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `serve` says of bad input; it exits with 2, and the devices are as they were.
fn refused(devices: &[&Path], arguments: &[&str]) -> String {
    let read = || devices.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
    let before = read();
    let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
    let output = program.arg("serve").args(arguments).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(read() == before, "no volume was opened: {message}");
    message
}

/// The exit code was that of a problem of the host, and some were served under an empty name.
#[test]
fn what_is_no_volume_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("garbage"), [7; 20_000]).unwrap();
    std::fs::write(path("short"), [7; 100]).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    let (garbage, socket) = (path("garbage"), path("socket"));
    for (export, says) in [
        (path("nosuch"), "No such file or directory"),
        (format!("name={garbage}"), "No such file or directory"),
        (format!("{garbage}/x"), "Not a directory"),
        (path("folder"), "is neither a file nor a block device"),
        ("/dev/null".to_owned(), "is neither a file nor a block device"),
        (garbage.clone(), "holds no volume"),
        (path("short"), "holds no volume"),
    ] {
        let told = refused(&[], &["--export", &export, "--unix", &socket]);
        let allowed =
            "allowed for --export: the path of a volume, as `wattio-target create` makes it";
        assert!(told.contains(says) && told.contains(allowed), "{told}");
        assert!(!told.contains("os error"), "{told}");
        for command in [&["check", &export][..], &["resize", &export, "--size", "1GiB"]] {
            let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
            let output = program.args(command).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?}: {output:?}");
        }
    }
    let told = refused(&[], &["--export", "/", "--export", &garbage, "--unix", &socket]);
    assert!(told.contains("--export \"/\": among several volumes"), "{told}");
    let told = refused(&[], &["--export", &garbage, "--unix", &socket, "--control", &socket]);
    assert!(told.contains("is also given as --unix"), "{told}");
    // Folders that are missing or are none: the exit code was that of a problem of the host.
    let page = ["--page", "127.0.0.1:0"];
    for (arguments, says) in [
        (["--unix", &path("nosuch/n.sock")], "nosuch/n.sock: No such file or directory"),
        (["--unix", &path("garbage/n.sock")], "garbage/n.sock: Not a directory"),
        (["--unix", &garbage], "it is there and is not a socket"),
        (["--control", &path("nosuch/c.sock")], "nosuch/c.sock: No such file or directory"),
        (["--control", &garbage], "is not a socket and is left alone"),
        (["--out", &path("garbage/results")], "results cannot be kept there: Not a directory"),
        (["--out", &garbage], "results cannot be kept there: "),
    ] {
        let words = [&["--export", &garbage, "--unix", &socket][..], &page, &arguments].concat();
        let told = refused(&[], &words);
        assert!(told.contains(says), "{arguments:?}: {told}");
    }
    // The message named a key of the configuration, and there was none.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let page = taken.local_addr().unwrap().to_string();
    let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
    program.args(["serve", "--export", &garbage, "--unix", &socket, "--page", &page]);
    let output = program.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("--page: cannot listen on {page}: ")), "{told}");
    assert!(!told.contains("service.listen"), "{told}");
    // A device of a configuration may come later; one that is no volume stays so.
    let config = path("target.toml");
    for (device, code) in [(path("nosuch"), 1), (garbage, 2)] {
        let text = format!(
            "listen = [\"unix:{socket}\"]\n[service]\nlisten = \"off\"\nsocket = \"{socket}-control\"\n\
             [[export]]\nname = \"a\"\ndevices = [{device:?}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
        let output = program.args(["serve", &config]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

/// They were opened first, recovered and all, and the exit code was that of a problem of the host.
#[test]
fn bad_input_is_told_before_volumes_are_opened() {
    let Some(mut target) = Target::with(1, &["one", "two"]) else { return };
    target.stop();
    let folder = target.folder.path();
    let path = |name: &str| folder.join(name).display().to_string();
    let paths: Vec<&PathBuf> = target.settings.volumes.iter().map(|one| &one.devices[0]).collect();
    let devices = [paths[0].as_path(), paths[1].as_path()];
    let [one, two] = devices.map(|path| path.display().to_string());
    // Two exports of one name.
    std::fs::create_dir(path("other")).unwrap();
    let (same_name, same_device) = (path("other/one-0"), path("alias"));
    std::fs::copy(&two, &same_name).unwrap();
    let socket = path("socket");
    let says = refused(&devices, &["--export", &one, "--export", &same_name, "--unix", &socket]);
    assert!(says.contains("export `one-0`: another export has this name"), "{says}");
    // One device under two names.
    symlink(&one, &same_device).unwrap();
    let says = refused(&devices, &["--export", &one, "--export", &same_device, "--unix", &socket]);
    assert!(says.contains(&format!("{same_device} is the same device as {one}")), "{says}");
    // Files of TLS that are not there.
    let config = path("target.toml");
    let text = format!(
        "listen = [\"tcp:127.0.0.1:0\"]\n[service]\nsocket = {socket:?}\n\
         [tls]\ncertificate = \"/nowhere/c.pem\"\nkey = \"/nowhere/k.pem\"\n\
         [[export]]\nname = \"a\"\ndevices = [{one:?}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let says = refused(&devices, &[&config]);
    assert!(says.contains("/nowhere/k.pem"), "{says}");
    // More devices than the volume has.
    let text = format!(
        "listen = [\"unix:{socket}\"]\n[service]\nsocket = \"{socket}-control\"\n\
         [[export]]\nname = \"a\"\ndevices = [{one:?}, {:?}]\n",
        path("new")
    );
    std::fs::write(path("new"), []).unwrap();
    std::fs::write(&config, text).unwrap();
    let says = refused(&devices, &[&config]);
    assert!(says.contains("the volume has 1 device"), "{says}");
}

/// A device named twice was in use by another process or a copy of itself, a socket named twice was
/// another process's, and each had the exit code of a problem of the host.
#[test]
fn what_is_named_twice_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let told = |words: &[&str], code| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
        let output = program.args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let (one, two, copy, link) = (path("one"), path("two"), path("copy"), path("link"));
    let sizes = ["--size", "1MiB", "--segment-size", "64KiB"];
    let create = |devices: &[&str], code| told(&[&["create"][..], devices, &sizes].concat(), code);
    let same = create(&[&one, &one], 2);
    assert!(same.contains(&format!("{one}: is the same device as {one}")), "{same}");
    assert!(!Path::new(&one).exists());
    create(&[&one, &two], 0);
    std::fs::copy(&one, &copy).unwrap();
    symlink(&one, &link).unwrap();
    for command in [&["check"][..], &["resize", "--size", "2MiB"]] {
        for (other, says) in [(&one, "same device"), (&link, "same device"), (&copy, "is a copy")] {
            let wrong = told(&[command, &[&one, other]].concat(), 2);
            assert!(wrong.contains(says), "{wrong}");
        }
    }
    let serve = ["serve", "--export", &one];
    let half = told(&[&serve[..], &["--unix", &path("socket")]].concat(), 1);
    assert!(half.contains("a configuration can ask for it, or name both devices"), "{half}");
    // It named a key where there is no configuration.
    let half = told(&["resize", &one, "--size", "2MiB"], 1);
    assert!(half.contains("must be asked for: name both, or if one is gone"), "{half}");
    let config = folder.path().join("half.toml");
    let gone = path("gone");
    // Neither the export nor the key was named where a device was not there.
    for devices in [&[one.as_str()][..], &[&one, &gone]] {
        let text = format!(
            "listen = ['unix:{}']\n[[export]]\nname = 'd'\ndevices = {devices:?}\n\
             [service]\nlisten = 'off'\nsocket = '{}'\n",
            path("s"),
            path("c")
        );
        std::fs::write(&config, text).unwrap();
        let half = told(&["serve", config.to_str().unwrap()], 1);
        assert!(half.contains("export `d`: "), "{half}");
        let key = "accept_missing = true in its [[export]] serves the volume without it";
        assert!(half.contains(key), "{half}");
    }
    let (socket, page) = (path("socket"), "127.0.0.1:10809");
    for (option, address) in [("--unix", socket.as_str()), ("--tcp", page)] {
        let twice = told(&[&serve[..], &[option, address, option, address]].concat(), 2);
        assert!(twice.contains(&format!("{option} {address}: is given twice")), "{twice}");
    }
    let config = told(&["serve", &one], 2);
    assert!(config.contains("--export names a volume"), "{config}");
}

/// `wattio` and `wattiod` have it with any command.
#[test]
fn details_are_told_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("garbage");
    std::fs::write(&path, [7; 8192]).unwrap();
    for (words, is_told) in [(&["--verbose"][..], true), (&[], false)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wattio-target"));
        let output = program.arg("check").arg(&path).args(words).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let opened = format!("wattio-target: opened {} to look at it, ", path.display());
        assert_eq!(told.contains(&opened), is_told, "{told}");
    }
}
