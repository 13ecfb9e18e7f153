//! Page, metrics and control socket of the daemon, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod dashboard;
mod http;
mod metrics;
mod socket;
mod support;
