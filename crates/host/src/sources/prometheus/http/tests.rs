//! The client against a server in this process, well-behaved and not.

use super::*;
use crate::sources::prometheus::access::Access;
use proptest::prelude::*;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

#[test]
fn chunks_are_joined_once_they_are_all_there() {
    let text = b"4\r\nwatt\r\n2;x=y\r\nio\r\n0\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(unchunk(&text[..end]), Ok(None), "{end}");
    }
    assert_eq!(unchunk(text), Ok(Some(b"wattio".to_vec())));
    assert!(unchunk(b"zz\r\n").is_err());
    assert!(unchunk(b"fffffffffffffff\r\n").is_err());
}

#[test]
fn heads_say_how_long_the_page_is() {
    let head = |text: &str| parse_head(text.as_bytes());
    assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
    let known = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap().unwrap();
    assert_eq!((known.length, known.keep), (Length::Known(5), true));
    let old = head("HTTP/1.0 200 OK\r\n\r\n").unwrap().unwrap();
    assert_eq!((old.length, old.keep), (Length::UntilClosed, false));
    let error = head("HTTP/1.1 403 Forbidden\r\n\r\n").unwrap_err();
    assert_eq!(error, "answered 403 Forbidden, not 200 OK");
    let error = head("HTTP/1.1 302 Found\r\nLocation: /graph\r\n\r\n").unwrap_err();
    assert_eq!(error, "answered 302 Found (see \"/graph\"), not 200 OK");
    assert!(head("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n").is_err());
    assert!(head("SSH-2.0-OpenSSH\r\n").unwrap_err().contains("HTTP"));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, text in "HTTP/1.1 200 OK\r\n(\\PC{0,20}\r\n){0,5}") {
        let _ = unchunk(&bytes);
        let _ = parse_head(&bytes);
        let _ = parse_head(text.as_bytes());
    }
}

/// What the server does with one connection after another.
type Serve = Box<dyn FnOnce(TcpStream, &Receiver<()>) + Send>;

struct Server {
    client: Client,
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(timeout: Duration, connections: Vec<Serve>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (release, released) = channel();
        let thread = std::thread::spawn(move || {
            for serve in connections {
                serve(listener.accept().unwrap().0, &released);
            }
        });
        let access = Access::new(&format!("http://{address}/metrics"), None, None).unwrap();
        Self { client: Client::new(access, timeout), release: Some(release), thread: Some(thread) }
    }

    /// A server that answers the first question of its only connection with these bytes.
    fn saying(answer: Vec<u8>) -> Self {
        let serve = move |mut stream: TcpStream, _: &Receiver<()>| {
            question(&mut stream);
            // The client may hang up in the middle of a page that is too long.
            let _ = stream.write_all(&answer);
        };
        Self::new(Duration::from_secs(10), vec![Box::new(serve)])
    }

    /// One that says the beginning of an answer and then no more.
    fn hanging_after(answer: &'static str) -> Self {
        let serve = move |mut stream: TcpStream, released: &Receiver<()>| {
            question(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            let _ = released.recv();
        };
        Self::new(Duration::from_millis(30), vec![Box::new(serve)])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.client.kept = None;
        self.release = None;
        let served = self.thread.take().unwrap().join();
        assert!(served.is_ok() || std::thread::panicking());
    }
}

/// Reads one request; false when the client has hung up.
fn question(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap() == 0 {
            return false;
        }
        bytes.push(byte[0]);
    }
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{text}");
    true
}

fn page(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

#[test]
fn one_connection_serves_many_questions() {
    let serve = |mut stream: TcpStream, _: &Receiver<()>| {
        for at in 0..3 {
            assert!(question(&mut stream));
            stream.write_all(page(&format!("up {at}")).as_bytes()).unwrap();
        }
        assert!(!question(&mut stream));
    };
    let mut server = Server::new(Duration::from_secs(10), vec![Box::new(serve)]);
    for at in 0..3 {
        assert_eq!(server.client.get(), Ok(format!("up {at}").as_bytes()));
    }
}

#[test]
fn a_kept_connection_that_was_closed_is_made_again() {
    let serve = |text: &'static str| {
        let serve = move |mut stream: TcpStream, _: &Receiver<()>| {
            assert!(question(&mut stream));
            stream.write_all(page(text).as_bytes()).unwrap();
        };
        Box::new(serve) as Serve
    };
    let connections = vec![serve("first"), serve("second")];
    let mut server = Server::new(Duration::from_secs(10), connections);
    assert_eq!(server.client.get(), Ok(&b"first"[..]));
    assert_eq!(server.client.get(), Ok(&b"second"[..]));
}

#[test]
fn pages_in_chunks_and_pages_that_end_with_the_connection_are_read() {
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nup\r\n2\r\n 1\r\n0\r\n\r\n";
    assert_eq!(Server::saying(chunked.into()).client.get(), Ok(&b"up 1"[..]));
    let closed = "HTTP/1.0 200 OK\r\n\r\nup 1";
    assert_eq!(Server::saying(closed.into()).client.get(), Ok(&b"up 1"[..]));
}

#[test]
fn what_is_no_whole_page_is_an_error() {
    let error = |answer: &[u8]| Server::saying(answer.to_vec()).client.get().unwrap_err();
    let short = error(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nup");
    assert_eq!(short, "the page ends early, after 2 bytes");
    let chunk = error(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nup");
    assert!(chunk.contains("ends early"), "{chunk}");
    let failed = error(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(failed, "answered 500 Internal Server Error, not 200 OK");
    let mut huge = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    huge.resize(BODY_BYTES_MAX + HEAD_BYTES_MAX + 1_000, b'x');
    assert!(error(&huge).contains("longer than 8 MiB"));
    let mut headers = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    headers.resize(HEAD_BYTES_MAX + 1_000, b'x');
    assert!(error(&headers).contains("headers are longer"));
    assert!(error(b"").contains("closed before an answer"));
}

#[test]
fn a_server_that_hangs_is_given_up() {
    let answers = ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nup"];
    for answer in answers {
        let mut server = Server::hanging_after(answer);
        assert_eq!(server.client.get().unwrap_err(), "no complete answer within 30ms");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let access = Access::new(&format!("http://{address}/"), None, None).unwrap();
    let error = Client::new(access, Duration::from_secs(10)).get().unwrap_err();
    assert!(error.contains(&address.to_string()), "{error}");
}

/// The file of the storage target's tests with this name: a certificate for `localhost`, its key, the
/// authority.
fn of_localhost(name: &str) -> String {
    format!("{}/../target/tests/serve/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A server of OpenSSL's, which serves the files of a folder by HTTPS.
struct Secure {
    child: Child,
    port: u16,
}

impl Secure {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-WWW"])
            .args(["-cert", &of_localhost("certificate.pem"), "-key", &of_localhost("key.pem")])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let place = lines.map(Result::unwrap).find_map(|line| {
            line.strip_prefix("ACCEPT 127.0.0.1:").map(|port| port.parse().unwrap())
        });
        Self { child, port: place.unwrap() }
    }

    fn get(&self, host: &str, ca_file: Option<&str>) -> Result<String, String> {
        let url = format!("https://{host}:{}/metrics", self.port);
        let access = Access::new(&url, None, ca_file).unwrap();
        let mut client = Client::new(access, Duration::from_secs(20));
        client.get().map(|page| String::from_utf8(page.to_vec()).unwrap())
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_page_comes_by_https_from_a_server_whose_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let text = "waits_count 3\n".repeat(5_000);
    std::fs::write(folder.path().join("metrics"), &text).unwrap();
    let server = Secure::start(folder.path());
    let ca = of_localhost("ca.pem");
    assert_eq!(server.get("localhost", Some(&ca)), Ok(text));
    for (host, ca_file, why) in [
        ("127.0.0.1", Some(ca.as_str()), "its certificate is refused"),
        ("localhost", Some(&of_localhost("key.pem")), "holds no certificate of an authority"),
        ("localhost", Some("/nowhere/ca.pem"), "No such file"),
    ] {
        let error = server.get(host, ca_file).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    // No authority that this host knows signed it, if it knows any.
    assert!(server.get("localhost", None).is_err());
}

#[test]
fn a_server_without_tls_is_not_asked_by_https_and_one_that_hangs_is_given_up() {
    for (answer, why) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "it does not speak TLS"),
        (&b""[..], "no complete answer within 50ms"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let (release, released) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(answer).unwrap();
            let _ = released.recv();
        });
        let access = Access::new(&url, None, Some(&of_localhost("ca.pem"))).unwrap();
        let timeout = Duration::from_millis(if answer.is_empty() { 50 } else { 20_000 });
        let error = Client::new(access, timeout).get().unwrap_err();
        assert!(error.contains(why), "{error}");
        drop(release);
        thread.join().unwrap();
    }
}

#[test]
fn a_token_is_shown_with_each_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let set = |token: &str| {
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    };
    set("first.token\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        ["first.token", "second.token"].map(|token| {
            let (mut bytes, mut byte) = (Vec::new(), [0]);
            while !bytes.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                bytes.push(byte[0]);
            }
            stream.write_all(page("up 1").as_bytes()).unwrap();
            let shown = format!("\r\nAuthorization: Bearer {token}\r\n\r\n");
            String::from_utf8(bytes).unwrap().ends_with(&shown)
        })
    });
    let access = Access::new(&url, path.to_str(), None).unwrap();
    let mut client = Client::new(access, Duration::from_secs(20));
    client.get().unwrap();
    set("second.token");
    client.get().unwrap();
    assert_eq!(thread.join().unwrap(), [true, true]);
    std::fs::remove_file(&path).unwrap();
    assert!(client.get().unwrap_err().contains("No such file"));
}
