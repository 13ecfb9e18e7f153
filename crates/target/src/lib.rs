//! The storage target: volumes of [`wattio_volume`] served over NBD from reactors.
//!
//! A [`reactor`] is a thread with one ring that runs lanes to completion: the [`normal`] lane
//! (connections, the protocol), and a lane for each [`volume`] that it owns (the log, its devices).
//! Lanes on one reactor call each other. Between two reactors, [`messages`] go through
//! single-producer, single-consumer queues; the receiver is woken once per batch, and only if it
//! sleeps. [`server`] puts everything together.

pub mod activation;
pub mod check;
pub mod config;
pub mod control_loop;
pub mod create;
pub mod device;
pub mod exposure;
pub mod frequency;
pub mod handle;
pub mod latency;
pub mod log;
pub mod manager;
pub mod messages;
pub mod normal;
mod open;
pub mod plant;
mod random;
pub mod reactor;
pub mod resize;
pub mod run;
pub mod server;
pub mod shown;
pub mod sockets;
pub mod status;
pub mod tls;
pub mod token;
pub mod volume;
