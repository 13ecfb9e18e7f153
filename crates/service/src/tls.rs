//! TLS: certificates and keys from files.

use crate::reloaded::Reloaded;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use wattio_files::read_whole;

/// Far more than all authorities of a distribution take.
const FILE_BYTES_MAX: u64 = 16 << 20;

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
        error: pem::Error,
    },
    /// A file holds none.
    #[error("{}: holds no certificate", .0.display())]
    Empty(PathBuf),
    /// Everybody knows it.
    #[error("{}: every user of this host may read it: chmod o-r", .0.display())]
    Open(PathBuf),
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
        if is_open(&files.key) {
            return Err(TlsError::Open(files.key.clone()));
        }
        let key = read(&files.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| match error {
            pem::Error::NoItemsFound => refused(&files.key, &"holds no private key in PEM"),
            error => TlsError::File { path: files.key.clone(), error },
        })?;
        let config = builder.with_single_cert(certificates(&files.certificate)?, key);
        let config = config.map_err(|error| {
            let why = format!("is not used with the key {}: {error}", files.key.display());
            refused(&files.certificate, &why)
        })?;
        Ok(Self(Arc::new(config)))
    }

    /// For a connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// Whether every user of this host may read a file.
fn is_open(path: &Path) -> bool {
    let mode = std::fs::metadata(path).map(|file| file.permissions().mode());
    mode.is_ok_and(|mode| mode & 0o004 != 0)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let wrong = |error| TlsError::File { path: path.to_owned(), error: pem::Error::Io(error) };
    read_whole(path, FILE_BYTES_MAX).map_err(wrong)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |error| TlsError::File { path: path.to_owned(), error };
    let text = read(path)?;
    let all =
        CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if all.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(all) }
}

/// That of a page, whose files are read again once they change.
pub(crate) type PageIdentity = Reloaded<Identity, TlsError>;

/// Reads the files of a page.
pub(crate) fn of_page(files: Files) -> Result<PageIdentity, TlsError> {
    let named = vec![files.certificate.clone(), files.key.clone()];
    Reloaded::new(named, move || Identity::read(&files))
}
