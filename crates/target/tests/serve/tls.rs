//! TLS, with rustls as the client too. `tls/` holds a certificate for `localhost`, its key, and its
//! authority's certificate, made for this test with OpenSSL.

use crate::client::{Client, READ, WRITE};
use crate::{MIB, Target, pattern};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wattio_nbd::Header;
use wattio_target::tls::{Files, Identity};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/serve/tls").join(name)
}

/// Copies that nobody else may read, in a folder.
pub fn files(folder: &Path) -> Files {
    let copy = |name: &str| {
        let copy = folder.join(name);
        std::fs::copy(file(name), &copy).unwrap();
        std::fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
        copy
    };
    Files { certificate: copy("certificate.pem"), key: copy("key.pem"), clients: None }
}

pub type Secret = StreamOwned<ClientConnection, UnixStream>;

/// Negotiates TLS; what follows is encrypted.
fn start_tls(client: Client) -> Secret {
    let mut client = client;
    client.option(5, &[]).unwrap();
    assert_eq!(client.read(20).unwrap()[12..16], 1_u32.to_be_bytes());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(tls, client.stream)
}

/// A client of the export `disk` by TLS.
pub fn secret_client(target: &Target) -> Secret {
    let mut stream = start_tls(Client::greet(&target.socket()).unwrap());
    stream.write_all(&[&b"IHAVEOPT\0\0\0\x01\0\0\0\x04"[..], b"disk"].concat()).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

pub fn request(
    stream: &mut Secret,
    command: u16,
    offset: u64,
    length: u32,
    payload: &[u8],
) -> Vec<u8> {
    let header =
        Header { flags: 0, command, cookie: offset, offset_bytes: offset, length_bytes: length };
    stream.write_all(&header.encode()).unwrap();
    stream.write_all(payload).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[4..8], [0; 4], "no error");
    assert_eq!(head[8..], offset.to_be_bytes());
    let mut data = vec![0; if command == READ { length as usize } else { 0 }];
    stream.read_exact(&mut data).unwrap();
    data
}

#[test]
fn what_is_sent_by_tls_is_the_same() {
    let Some(target) = Target::start(1) else { return };
    let mut stream = secret_client(&target);
    for (at, size) in [1, 4096, 100_000, 3 * MIB as usize].into_iter().enumerate() {
        let (offset, bytes) = (at as u64 * MIB + 7, pattern(at as u64, size));
        request(&mut stream, WRITE, offset, size as u32, &bytes);
        assert!(request(&mut stream, READ, offset, size as u32, &[]) == bytes, "{size} bytes");
        let mut plain = target.client();
        assert!(plain.read_at(offset, size as u32) == bytes, "{size} bytes");
    }
    // The end is told, so that nobody can cut a connection unseen.
    let header = Header { flags: 0, command: 2, cookie: 0, offset_bytes: 0, length_bytes: 0 };
    stream.write_all(&header.encode()).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn nonsense_instead_of_tls_ends_the_connection_only() {
    let Some(target) = Target::start(1) else { return };
    let mut client = Client::greet(&target.socket()).unwrap();
    client.option(5, &[]).unwrap();
    client.read(20).unwrap();
    client.stream.write_all(&[0; 100]).unwrap();
    let mut rest = Vec::new();
    // An alert may come first.
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.len() < 100);
    assert_eq!(target.client().read_at(0, 4), [0; 4]);
}

#[test]
fn files_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = || files(folder.path());
    let certificate = files().certificate;
    for (files, says) in [
        (Files { key: file("none.pem"), ..files() }, "none.pem"),
        (Files { key: certificate, ..files() }, "certificate.pem: holds no private key"),
        (Files { certificate: file("key.pem"), ..files() }, "key.pem: holds no certificate"),
        (Files { certificate: file("ca.pem"), ..files() }, "ca.pem: "),
        (Files { clients: Some(file("key.pem")), ..files() }, "key.pem: holds no certificate"),
    ] {
        let message = Identity::read(&files).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }
}

/// Only the page's key was looked at.
#[test]
fn a_key_that_every_user_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    assert!(Identity::read(&files).is_ok());
    std::fs::set_permissions(&files.key, Permissions::from_mode(0o644)).unwrap();
    let message = Identity::read(&files).unwrap_err().to_string();
    assert!(
        message.ends_with("key.pem: every user of this host may read it: chmod o-r"),
        "{message}"
    );
}
