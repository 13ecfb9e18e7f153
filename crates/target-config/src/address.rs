//! Where clients connect.

use crate::written::text;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use wattio_host::config::check_socket;

/// Where connections come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A UNIX socket.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
    /// The sockets that systemd passes to the service that they start.
    Systemd,
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, |text| {
            if text == "systemd" {
                return Ok(Self::Systemd);
            }
            if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
                check_socket(Path::new(path)).map_err(|what| format!("{text:?}: it {what}"))?;
                return Ok(Self::Unix(PathBuf::from(path)));
            }
            let tcp = text.strip_prefix("tcp:").and_then(|tcp| tcp.parse::<SocketAddr>().ok());
            tcp.map(Self::Tcp).ok_or_else(|| {
                format!(
                    "{text:?} is neither \"unix:\" with an absolute path nor \"tcp:\" with an \
                     IP address and a port from 0 (any free one) to 65535, such as \
                     \"tcp:127.0.0.1:10809\", nor \"systemd\""
                )
            })
        })
    }
}

/// An address that is named twice: the second time, something would listen there already. Each port 0
/// is another one.
#[must_use]
pub fn named_twice(addresses: &[Address]) -> Option<&Address> {
    let is_any = |one: &Address| matches!(one, Address::Tcp(tcp) if tcp.port() == 0);
    let mut all = addresses.iter().enumerate();
    all.find(|(at, one)| !is_any(one) && addresses[..*at].contains(one)).map(|(_, one)| one)
}
