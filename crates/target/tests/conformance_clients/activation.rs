//! The target started by a socket, as systemd does it: `systemd-socket-activate` passes what its
//! socket units pass.

use crate::clients::prints;
use crate::process::program;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use tempfile::TempDir;

/// A folder with a volume, and a configuration that listens where it is told to.
fn configured(listen: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    let mut create = program();
    create.arg("create").arg(&volume).args(["--size", "8MiB", "--segment-size", "1MiB"]);
    assert!(create.output().unwrap().status.success());
    let text = format!(
        "listen = [{listen:?}]\nservice = {{ listen = \"off\", socket = {:?} }}\n\
         [[export]]\nname = \"disk\"\ndevices = [{volume:?}]\n",
        folder.path().join("control")
    );
    fs::write(folder.path().join("target.toml"), text).unwrap();
    folder
}

/// An address with a port that nobody has. A connection to it has just ended: the kernel gives the port
/// to nobody else for a minute, and who names it may listen there (SO_REUSEADDR).
fn free_address() -> SocketAddr {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listening.local_addr().unwrap();
    let _client = TcpStream::connect(address).unwrap();
    // Who ends first keeps the port.
    drop(listening.accept().unwrap());
    address
}

/// Listens on addresses, and becomes the target at the first connection.
struct Activated {
    process: Child,
    said: BufReader<ChildStderr>,
}

impl Activated {
    /// Returns once clients can connect.
    fn on(folder: &Path, addresses: &[String]) -> Self {
        let process = Command::new("systemd-socket-activate")
            .args(addresses.iter().map(|address| format!("--listen={address}")))
            .arg(program().get_program())
            .arg("serve")
            .arg(folder.join("target.toml"))
            .stderr(Stdio::piped())
            .spawn();
        let mut process =
            process.expect("`systemd-socket-activate` is missing: apt install systemd");
        let mut said = BufReader::new(process.stderr.take().unwrap());
        for _ in addresses {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            assert!(line.starts_with("Listening on"), "{line}");
        }
        Self { process, said }
    }

    /// The exit code, and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.process.wait().unwrap().code();
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (code, said)
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs systemd-socket-activate and nbdinfo"]
fn the_first_client_starts_it_and_all_sockets_serve() {
    let folder = configured("systemd");
    let socket = folder.path().join("socket");
    let tcp = free_address();
    let addresses = [socket.display().to_string(), tcp.to_string()];
    let target = Activated::on(folder.path(), &addresses);
    assert!(!folder.path().join("control").exists(), "nothing has started it yet");
    for uri in
        [format!("nbd+unix:///disk?socket={}", socket.display()), format!("nbd://{tcp}/disk")]
    {
        assert_eq!(prints("nbdinfo", &["--size", &uri]).trim(), (8 << 20).to_string());
    }
    // The same process, which answers on its control socket and ends in order.
    let control = folder.path().join("control");
    assert!(program().arg("status").arg(&control).output().unwrap().status.success());
    let asked = Command::new("kill").args(["-TERM", &target.process.id().to_string()]).status();
    assert!(asked.unwrap().success());
    let (code, said) = target.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("closed"), "{said}");
    assert!(socket.exists(), "the file of a socket of systemd's stays");
    let mut check = program();
    assert!(check.arg("check").arg(folder.path().join("volume")).status().unwrap().success());
}

/// Clients of a socket that nobody accepts from would wait for ever.
#[test]
#[ignore = "needs systemd-socket-activate"]
fn a_socket_that_the_configuration_does_not_name_is_refused() {
    let folder = configured("tcp:127.0.0.1:1");
    let socket = folder.path().join("socket");
    let target = Activated::on(folder.path(), &[socket.display().to_string()]);
    let _client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let (code, said) = target.end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("systemd passed 1 sockets and \"systemd\" is not in the list"), "{said}");
}

#[test]
fn without_a_socket_it_says_what_starts_it() {
    let folder = configured("systemd");
    let told = program().arg("serve").arg(folder.path().join("target.toml")).output().unwrap();
    let said = String::from_utf8(told.stderr).unwrap();
    assert_eq!(told.status.code(), Some(2), "{said}");
    assert!(said.contains("systemctl start wattio-target.socket"), "{said}");
}
