//! TLS: certificates from files, and what becomes of the bytes of a connection.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use wattio_ring::Part;

/// Room for what is received.
const RECEIVED_BYTES: usize = 64 << 10;

/// Files that TLS needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, with those that lead to its authority, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The authority of clients' certificates; without it clients need none.
    pub clients: Option<PathBuf>,
}

/// Why they cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is not what it should be.
    #[error("{}: {error}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// A file holds none.
    #[error("{}: holds no certificate", .0.display())]
    Empty(PathBuf),
    /// They do not go together.
    #[error("{}: {why}", path.display())]
    Refused {
        /// Of which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// What all connections with TLS share.
#[derive(Clone, Debug)]
pub struct Identity(Arc<ServerConfig>);

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    /// Which one is wrong, and why.
    pub fn read(files: &Files) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refused = |path: &Path, why: &dyn std::fmt::Display| TlsError::Refused {
            path: path.to_owned(),
            why: why.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&files.certificate, &error))?;
        let builder = match &files.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| refused(path, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| refused(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| TlsError::File { path: files.key.clone(), error })?;
        let config = builder.with_single_cert(certificates(&files.certificate)?, key);
        let config = config.map_err(|error| refused(&files.certificate, &error))?;
        Ok(Self(Arc::new(config)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error| TlsError::File { path: path.to_owned(), error };
    let all = CertificateDer::pem_file_iter(path).map_err(wrong)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(wrong)?;
    if all.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(all) }
}

/// TLS on one connection.
#[derive(Debug)]
pub struct Layer {
    tls: Box<ServerConnection>,
    /// What was received and not decrypted yet; empty while the kernel has the memory.
    received: Vec<u8>,
    from: usize,
    to: usize,
    /// What was to be sent before TLS began.
    plain: Vec<u8>,
}

impl Layer {
    /// Begins; `plain` is sent before anything else, and `received` has come already.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(identity: &Identity, plain: Vec<u8>, received: &[u8]) -> Result<Self, String> {
        let tls = ServerConnection::new(Arc::clone(&identity.0));
        let mut tls = tls.map_err(|error| error.to_string())?;
        // Replies are bounded by what a connection may have under way.
        tls.set_buffer_limit(None);
        let mut memory = vec![0; RECEIVED_BYTES.max(received.len())];
        memory[..received.len()].copy_from_slice(received);
        Ok(Self { tls: Box::new(tls), received: memory, from: 0, to: received.len(), plain })
    }

    /// Whether the handshake is over.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Memory to receive into: all that was received is decrypted.
    pub fn lend(&mut self) -> Vec<u8> {
        (self.from, self.to) = (0, 0);
        std::mem::take(&mut self.received)
    }

    /// The memory comes back with so many bytes.
    pub fn take_back(&mut self, received: Vec<u8>, count: usize) {
        self.received = received;
        self.to = count;
    }

    /// Decrypts into `room`, as much as it holds; 0 if more has to be received.
    ///
    /// # Errors
    /// The client does not follow the protocol, or is not who it should be.
    pub fn read(&mut self, room: &mut [u8]) -> Result<usize, String> {
        loop {
            match self.tls.reader().read(room) {
                Ok(count) if count > 0 || room.is_empty() => return Ok(count),
                // The client has ended TLS: the connection ends after that.
                Ok(_) => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
            if self.from == self.to {
                return Ok(0);
            }
            let mut rest = &self.received[self.from..self.to];
            let count = self.tls.read_tls(&mut rest).map_err(|error| error.to_string())?;
            self.from += count;
            self.tls.process_new_packets().map_err(|error| error.to_string())?;
            if count == 0 {
                return Ok(0);
            }
        }
    }

    /// Encrypts what is to be sent.
    ///
    /// # Errors
    /// None, as long as there is memory.
    pub fn write(&mut self, head: &[u8], parts: &[Part]) -> io::Result<()> {
        let mut writer = self.tls.writer();
        writer.write_all(head)?;
        parts.iter().try_for_each(|part| writer.write_all(part.as_bytes()))
    }

    /// Says that nothing follows.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
    }

    /// Whether there is something to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.plain.is_empty() || self.tls.wants_write()
    }

    /// What is to be sent as it is.
    pub fn output(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.clear();
        bytes.append(&mut self.plain);
        // Writing to a Vec cannot fail.
        while self.tls.wants_write() && self.tls.write_tls(&mut bytes).is_ok() {}
        bytes
    }
}
