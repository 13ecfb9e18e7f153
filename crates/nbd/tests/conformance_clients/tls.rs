//! TLS with a shared key, by `openssl s_server`: what the client sends goes to its socket, and what
//! came out of TLS is read from its output.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Who may connect, and the key, in hexadecimal digits.
pub const USER: &str = "alice";
pub const KEY: &str = "0123456789abcdef0123456789abcdef";

const PATIENCE: Duration = Duration::from_secs(10);

/// Both directions of a connection.
pub type Ends = (Box<dyn Read + Send>, Box<dyn Write + Send>);

/// TLS over a connection of which `arrived` was read already and is the first part.
pub fn start(client: &UnixStream, arrived: Vec<u8>) -> io::Result<Ends> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("tls");
    let mut child = Command::new("timeout")
        .args(["60", "openssl", "s_server", "-quiet", "-nocert", "-naccept", "1"])
        .args(["-psk_identity", USER, "-psk", KEY, "-unix"])
        .arg(&socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("`timeout` of coreutils runs");
    let (output, input) = (child.stdout.take(), child.stdin.take());
    let tls = connect(&mut child, &socket);
    thread::spawn(move || {
        let _directory = directory;
        child.wait()
    });
    let mut tls = tls?;
    tls.write_all(&arrived)?;
    relay(client.try_clone()?, tls.try_clone()?);
    relay(tls, client.try_clone()?);
    Ok((Box::new(output.expect("piped")), Box::new(input.expect("piped"))))
}

/// Connects as soon as the process listens.
fn connect(child: &mut Child, socket: &Path) -> io::Result<UnixStream> {
    let started = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(tls) => return Ok(tls),
            Err(error) if started.elapsed() > PATIENCE => return Err(error),
            Err(_) if child.try_wait()?.is_some() => {
                return Err(io::Error::other("`openssl s_server` ended"));
            }
            Err(_) => thread::yield_now(),
        }
    }
}

fn relay(mut from: UnixStream, mut to: UnixStream) {
    thread::spawn(move || {
        // Whatever ends one direction ends it for the other side, too.
        let copied = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
        copied
    });
}
