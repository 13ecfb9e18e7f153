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
use wattio_service::{ServiceError, ServiceSettings, Token};

const TOKEN: &str = "b3f0c7d2e1a4b3f0c7d2e1a4";

/// Files that a test may change.
fn files(folder: &Path) -> Files {
    let shipped = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/tests/serve/tls");
    for name in ["certificate.pem", "key.pem", "ca.pem"] {
        std::fs::copy(shipped.join(name), folder.join(name)).unwrap();
    }
    let file = |name: &str| folder.join(name);
    Files { certificate: file("certificate.pem"), key: file("key.pem"), clients: None }
}

fn start(folder: &Path, token: Option<Token>) -> Running {
    let settings = ServiceSettings { tls: Some(files(folder)), token, ..any_port() };
    Running::try_start(settings).unwrap()
}

fn token(folder: &Path) -> Token {
    let path = folder.join("token");
    std::fs::write(&path, TOKEN).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    Token::read(&path).unwrap()
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

/// A certificate that is replaced before it runs out takes no restart.
#[test]
fn a_new_certificate_is_served_once_told_to_and_a_wrong_one_never() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), None);
    let ca = folder.path().join("ca.pem");
    let is_served = || ask(&running, &ca, "/metrics HTTP/1.1\r\n").is_ok();
    std::fs::write(folder.path().join("certificate.pem"), "no certificate").unwrap();
    let message = running.service.renew().unwrap_err().to_string();
    assert!(message.contains("certificate.pem: holds no certificate"), "{message}");
    assert!(is_served(), "with what it had");
    // The authority is no certificate of this key: what does not go together is refused.
    std::fs::copy(&ca, folder.path().join("certificate.pem")).unwrap();
    assert!(running.service.renew().is_err() && is_served());
    files(folder.path());
    running.service.renew().unwrap();
    assert!(is_served());
}

#[test]
fn files_that_are_wrong_are_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path());
    files.key = folder.path().join("nothing.pem");
    let settings = ServiceSettings { tls: Some(files), ..any_port() };
    let Err(error) = Running::try_start(settings) else { panic!("started") };
    assert!(matches!(error, ServiceError::Tls(_)));
    assert!(error.to_string().contains("nothing.pem"), "{error}");
}

#[test]
fn who_does_not_know_the_token_is_told_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), Some(token(folder.path())));
    let ca = folder.path().join("ca.pem");
    for path in ["/", "/metrics", "/v1/status", "/v1/events", "/main.js", "/nothing-here"] {
        let answer = ask(&running, &ca, &format!("{path} HTTP/1.1\r\n")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
        assert!(answer.contains("www-authenticate: Basic realm=\"kettle\""), "{answer}");
        assert!(!answer.contains(TOKEN) && !answer.contains("celsius"), "{answer}");
    }
    let known = format!("/metrics HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n");
    let answer = ask(&running, &ca, &known).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
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
