//! The address of the page and the metrics, and who may see them.

use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wattio_plant::{DescriptionError, require};

/// Where page and metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

/// With what page and metrics are served by HTTPS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTls {
    /// The certificate, followed by any intermediate ones, in PEM. Allowed: an absolute path.
    pub certificate: PathBuf,
    /// The certificate's private key, in PEM. Allowed: an absolute path.
    pub key: PathBuf,
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Self(None));
        }
        let wrong = || {
            let message = format!(
                "listen = {text:?} is neither an IP address with a port from 0 (any free one) to \
                 65535, such as \"127.0.0.1:9288\", nor \"off\""
            );
            serde::de::Error::custom(message)
        };
        text.parse().map(|address| Self(Some(address))).map_err(|_| wrong())
    }
}

impl Listen {
    /// Whether only this host can ask.
    #[must_use]
    pub fn is_local(self) -> bool {
        self.0.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// Checks the keys of the table `service` that say who sees the page.
    ///
    /// # Errors
    /// [`DescriptionError`] with the key and what is allowed.
    pub fn check(
        self,
        tls: Option<&PageTls>,
        token: Option<&Path>,
    ) -> Result<(), DescriptionError> {
        let paths = tls.map(|tls| [("tls.certificate", &*tls.certificate), ("tls.key", &*tls.key)]);
        let paths = paths.into_iter().flatten().chain(token.map(|token| ("token", token)));
        for (key, path) in paths {
            require(path.is_absolute(), format!("service.{key}"), "must be an absolute path")?;
        }
        let message = "would cross the network for everybody to read: add service.tls, or listen \
                       on an address of this host only, such as 127.0.0.1";
        require(token.is_none() || tls.is_some() || self.is_local(), "service.token", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_crosses_the_network_by_https_only() {
        let tls = PageTls { certificate: "/etc/c.pem".into(), key: "/etc/k.pem".into() };
        let check = |listen: &str, tls: Option<&PageTls>, token: Option<&str>| {
            let listen = Listen(listen.parse().ok());
            listen.check(tls, token.map(Path::new)).map_err(|error| error.to_string())
        };
        let token = Some("/etc/token");
        for local in ["off", "127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check(local, None, token), Ok(()), "{local}");
        }
        assert_eq!(check("0.0.0.0:1", Some(&tls), token), Ok(()));
        assert_eq!(check("0.0.0.0:1", None, None), Ok(()));
        let message = check("0.0.0.0:1", None, token).unwrap_err();
        assert!(message.starts_with("service.token: would cross the network"), "{message}");
        let relative = PageTls { key: "k.pem".into(), ..tls };
        let message = check("off", Some(&relative), None).unwrap_err();
        assert_eq!(message, "service.tls.key: must be an absolute path");
    }
}
