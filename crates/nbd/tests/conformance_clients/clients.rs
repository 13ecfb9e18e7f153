//! Real clients as processes with a limit of time.

use std::process::{Command, Output};

/// Debian's packages of the programs.
const PACKAGES: [(&str, &str); 8] = [
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdsh", "libnbd-bin and python3-libnbd"),
    ("nbd-client", "nbd-client"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("fio", "fio"),
    ("openssl", "openssl"),
];

/// Runs a client for at most two minutes.
///
/// # Panics
/// The program is missing, or the time is over.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    // `nbdsh` runs the first python3 there is; the module belongs to Debian's.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("/usr/bin:/bin:/usr/sbin:{path}"));
    let output = command.args(["120", program]).args(arguments).output();
    let output = output.expect("`timeout` of coreutils runs");
    let package = PACKAGES.iter().find(|(name, _)| *name == program).expect("listed").1;
    // `timeout` says 127 where there is no such program, and 124 when the time is over.
    let code = output.status.code();
    assert_ne!(code, Some(127), "`{program}` is missing: apt install {package}");
    assert_ne!(code, Some(124), "`{program}` took more than 120 s: {output:?}");
    output
}

/// What a client that succeeds prints.
pub fn prints(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program}: {}\n{out}\n{err}", output.status);
    out
}

/// What a client that fails complains.
pub fn complains(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let out = text(&output.stdout);
    assert!(!output.status.success(), "{program} succeeds: {out}");
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
