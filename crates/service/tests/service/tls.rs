//! The page by HTTPS, and to those who know the token. The certificate for `localhost` and its
//! authority are those of the storage target's tests.

use crate::support::{DEADLINE, Running, any_port};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wattio_service::tls::Files;
use wattio_service::{ServiceError, ServiceSettings};

const TOKEN: &str = "b3f0c7d2e1a4b3f0c7d2e1a4";

/// Files that a test may change.
fn files(folder: &Path) -> Files {
    let shipped = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/tests/serve/tls");
    for name in ["certificate.pem", "key.pem", "ca.pem"] {
        std::fs::copy(shipped.join(name), folder.join(name)).unwrap();
    }
    let file = |name: &str| folder.join(name);
    std::fs::set_permissions(file("key.pem"), Permissions::from_mode(0o600)).unwrap();
    Files { certificate: file("certificate.pem"), key: file("key.pem"), clients: None }
}

fn start(folder: &Path, token: Option<PathBuf>) -> Running {
    let settings = ServiceSettings { tls: Some(files(folder)), token, ..any_port() };
    Running::try_start(settings).unwrap()
}

fn token(folder: &Path, token: &str) -> PathBuf {
    let path = folder.join("token");
    std::fs::write(&path, token).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// What a client that trusts the authority is answered.
fn ask(running: &Running, ca: &Path, head: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(running.address())?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut stream = StreamOwned::new(client, stream);
    let head = format!("GET {head}Host: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // The connection may end without TLS' own goodbye.
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(String::from_utf8(answer).unwrap()),
    }
}

#[test]
fn the_page_comes_by_https_and_not_by_http() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), None);
    let answer = ask(&running, &folder.path().join("ca.pem"), "/metrics HTTP/1.1\r\n").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.ends_with("\nkettle_boiled_total 3\n"), "{answer}");
    let mut plain = TcpStream::connect(running.address()).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // It may be closed with what was sent still unread, which is an error here.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

/// A certificate that is replaced before it runs out takes neither a restart nor a signal.
#[test]
fn a_new_certificate_is_served_and_a_wrong_one_never() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), None);
    // Of the authority that is in force at the start, whatever comes into its file.
    let ca = folder.path().join("trusted.pem");
    std::fs::copy(folder.path().join("ca.pem"), &ca).unwrap();
    let is_served = || ask(&running, &ca, "/metrics HTTP/1.1\r\n").is_ok();
    std::fs::write(folder.path().join("certificate.pem"), "no certificate").unwrap();
    assert!(is_served(), "with what it had");
    // The authority's is no certificate of this key.
    std::fs::copy(&ca, folder.path().join("certificate.pem")).unwrap();
    assert!(is_served());
    files(folder.path());
    assert!(is_served());
    let (certificate, key) = self_signed(folder.path());
    assert!(!is_served(), "another authority's by now");
    assert!(ask(&running, &certificate, "/metrics HTTP/1.1\r\n").is_ok(), "{}", key.display());
}

/// Another certificate, and its key, in the place of those that are served.
fn self_signed(folder: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[test]
fn files_that_are_wrong_are_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = |key: &str, says: &str| {
        let files = Files { key: folder.path().join(key), ..files(folder.path()) };
        let settings = ServiceSettings { tls: Some(files), ..any_port() };
        let Err(error) = Running::try_start(settings) else { panic!("started") };
        assert!(matches!(error, ServiceError::Tls(_)));
        assert!(error.to_string().contains(says), "{error}");
    };
    wrong("nothing.pem", "nothing.pem: ");
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    std::fs::set_permissions(folder.path().join("empty.pem"), Permissions::from_mode(0o600))
        .unwrap();
    wrong("empty.pem", "empty.pem: holds no private key in PEM");
    std::fs::write(folder.path().join("open.pem"), "").unwrap();
    std::fs::set_permissions(folder.path().join("open.pem"), Permissions::from_mode(0o644))
        .unwrap();
    wrong("open.pem", "open.pem: every user of this host may read it: chmod o-r");
}

#[test]
fn who_does_not_know_the_token_is_told_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), Some(token(folder.path(), TOKEN)));
    let ca = folder.path().join("ca.pem");
    for path in ["/", "/metrics", "/v1/status", "/v1/events", "/main.js", "/nothing-here"] {
        let answer = ask(&running, &ca, &format!("{path} HTTP/1.1\r\n")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
        assert!(answer.contains("www-authenticate: Basic realm=\"kettle\""), "{answer}");
        assert!(!answer.contains(TOKEN) && !answer.contains("celsius"), "{answer}");
    }
    let knows = |token: &str| {
        let head = format!("/metrics HTTP/1.1\r\nAuthorization: Bearer {token}\r\n");
        ask(&running, &ca, &head).unwrap().starts_with("HTTP/1.1 200")
    };
    assert!(knows(TOKEN));
    // One that leaked is replaced, and lets nobody in any more.
    let other = TOKEN.replace('b', "e");
    token(folder.path(), &other);
    assert!(knows(&other) && !knows(TOKEN));
}

/// Somebody who connects and says nothing is no hindrance to others.
#[test]
fn handshakes_that_never_come_keep_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), None);
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(running.address()).unwrap()).collect();
    let answer = ask(&running, &folder.path().join("ca.pem"), "/metrics HTTP/1.1\r\n").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(silent);
}
