//! Which page is read, and what its server wants and shows: a token, a certificate.

use super::url::{self, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use wattio_files::read_text;

/// Where distributions keep the certificates of all authorities: Debian, Red Hat, SUSE.
const BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];
/// Longer than any that a server hands out.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A page, and how its server is asked.
#[derive(Debug)]
pub(in crate::sources) struct Access {
    /// Where the page is.
    pub url: Url,
    token: Option<PathBuf>,
    /// Whose certificates are trusted, with HTTPS.
    pub trust: Option<Trust>,
}

impl Access {
    /// By the keys of a source's table.
    ///
    /// # Errors
    /// The key, and what is allowed.
    pub fn new(
        url: &str,
        token_file: Option<&str>,
        ca_file: Option<&str>,
    ) -> Result<Self, (&'static str, String)> {
        let url = url::parse(url).map_err(|message| ("url", message))?;
        for (key, file) in [("token_file", token_file), ("ca_file", ca_file)] {
            if let Some(file) = file.filter(|file| !file.starts_with('/')) {
                let message = format!("{file:?} is not an absolute path");
                return Err((key, message));
            }
        }
        if ca_file.is_some() && !url.tls {
            let message = "is for addresses that begin with https://; leave it out".to_owned();
            return Err(("ca_file", message));
        }
        if token_file.is_some() && !url.tls && !is_loopback(&url.host) {
            let message = "would cross the network in the clear; the address must begin with \
                           https://, or be one of this host"
                .to_owned();
            return Err(("token_file", message));
        }
        let trust = url.tls.then(|| Trust { file: ca_file.map(PathBuf::from), read: None });
        Ok(Self { url, token: token_file.map(PathBuf::from), trust })
    }

    /// The header that shows the token as it is now, with the end of its line; empty without one.
    ///
    /// # Errors
    /// Says why the file cannot be used.
    pub fn authorization(&self) -> Result<String, String> {
        let Some(path) = &self.token else { return Ok(String::new()) };
        let failed = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let file = std::fs::metadata(path).map_err(|error| failed(&error))?;
        if file.permissions().mode() & 0o004 != 0 {
            return Err(failed(&"every user of this host may read it: chmod o-r"));
        }
        let text = read_text(path).map_err(|error| failed(&error))?;
        let token = text.trim_end_matches(['\r', '\n']);
        let is_token = (1..=TOKEN_BYTES_MAX).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err(failed(&"must hold one line with a token, without blanks"));
        }
        Ok(format!("Authorization: Bearer {token}\r\n"))
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The authorities whose certificates are trusted.
pub(in crate::sources) struct Trust {
    /// Where they are; without one, those of the host.
    file: Option<PathBuf>,
    /// What was read, of which file, when it was changed last.
    read: Option<(SystemTime, Arc<ClientConfig>)>,
}

impl Trust {
    /// What a connection needs; the file is read again once it has changed.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn config(&mut self) -> Result<Arc<ClientConfig>, String> {
        let known = || BUNDLES.map(Path::new).into_iter().find(|path| path.exists());
        let Some(path) = self.file.as_deref().or_else(known) else {
            return Err("this host has no certificates of authorities: apt install \
                        ca-certificates, or set ca_file"
                .to_owned());
        };
        let failed = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let changed = std::fs::metadata(path).and_then(|file| file.modified());
        let changed = changed.map_err(|error| failed(&error))?;
        if let Some((when, config)) = &self.read
            && *when == changed
        {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore::empty();
        let text = read_text(path).map_err(|error| failed(&error))?;
        let all = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|error| failed(&error))?;
        // One that is not understood, among those of a distribution, is no reason to trust none.
        if roots.add_parsable_certificates(all).0 == 0 {
            return Err(failed(&"holds no certificate of an authority in PEM"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        self.read = Some((changed, Arc::clone(&config)));
        Ok(config)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Trust").field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};

    #[test]
    fn keys_that_do_not_go_together_are_refused() {
        let (token, ca) = (Some("/etc/token"), Some("/etc/ca.pem"));
        for (url, token_file, ca_file) in [
            ("https://node:9000/metrics", token, ca),
            ("https://node:9000/metrics", None, None),
            ("http://127.0.0.1:9000/metrics", token, None),
            ("http://localhost/metrics", token, None),
            ("http://[::1]:9000/metrics", token, None),
        ] {
            assert!(Access::new(url, token_file, ca_file).is_ok(), "{url}");
        }
        for (url, token_file, ca_file, key, why) in [
            ("http://node/metrics", token, None, "token_file", "in the clear"),
            ("http://127.0.0.1/metrics", None, ca, "ca_file", "https://"),
            ("https://node/metrics", Some("token"), None, "token_file", "absolute"),
            ("https://node/metrics", None, Some("ca.pem"), "ca_file", "absolute"),
            ("node", None, None, "url", "http://"),
        ] {
            let (named, message) = Access::new(url, token_file, ca_file).unwrap_err();
            assert_eq!(named, key, "{message}");
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn a_token_is_read_each_time_and_is_one_line_that_not_all_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let access = Access::new("https://node/", path.to_str(), None).unwrap();
        let read = |text: &str, mode| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            access.authorization()
        };
        assert!(access.authorization().unwrap_err().contains("No such file"));
        assert_eq!(read("abc.DEF\n", 0o600).unwrap(), "Authorization: Bearer abc.DEF\r\n");
        assert_eq!(read("other", 0o640).unwrap(), "Authorization: Bearer other\r\n");
        assert!(read("other", 0o644).unwrap_err().contains("chmod o-r"));
        for wrong in ["", "\n", "a b", "a\r\nX: y", "\u{e9}"] {
            assert!(read(wrong, 0o600).unwrap_err().contains("one line"), "{wrong:?}");
        }
    }
}
