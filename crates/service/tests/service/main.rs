//! Page, metrics and control socket, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod http;
mod socket;
mod support;
mod tls;
