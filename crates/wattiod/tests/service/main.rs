//! Page, metrics and control socket of the daemon, over real sockets.

mod dashboard;
mod http;
mod metrics;
mod socket;
mod support;
