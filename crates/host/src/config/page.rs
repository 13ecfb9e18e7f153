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

/// Checks the names that the page answers to: those of hosts, as they stand in a request.
///
/// # Errors
/// The key `service.host_names`, and what is allowed.
pub fn check_host_names(names: &[String]) -> Result<(), DescriptionError> {
    let of_host = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let wrong = names.iter().find(|name| name.is_empty() || !name.chars().all(of_host));
    let message = wrong.map(|name| {
        format!(
            "{name:?} is not the name of a host, such as \"storage7.example\", without scheme, port \
             or path"
        )
    });
    require(wrong.is_none(), "service.host_names", message.unwrap_or_default())
}

/// The most bytes of a UNIX socket's path: the kernel keeps 108, and one of them ends it.
const SOCKET_BYTES_MAX: usize = 107;

/// Checks the path of a UNIX socket, of which the kernel keeps few bytes.
///
/// # Errors
/// What is wrong with it, and what is allowed.
pub fn check_socket(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().len();
    match bytes {
        0 => Err("is empty".to_owned()),
        1..=SOCKET_BYTES_MAX => Ok(()),
        _ => Err(format!("has {bytes} bytes; a socket's path has at most {SOCKET_BYTES_MAX}")),
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
