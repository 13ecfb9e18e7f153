//! Output of parallel simulations by time partitioning, dedicated cores or dedicated nodes: what the
//! ranks of a simulation link. It knows no MPI and no HDF5; who writes is a program of its own.

#![warn(missing_docs)]

pub mod block;
pub mod client;
pub mod config;
pub mod connection;
pub mod damaris;
pub mod error;
pub mod ffi;
pub mod frame;
pub mod free_memory;
pub mod job;
pub mod launch;
pub mod open;
pub mod peers;
pub mod relay;
pub mod remote;
pub mod ring;
pub mod session;
pub mod shared;
pub mod slot;
pub mod topology;
pub mod transport;
pub mod turns;

pub use config::Config;
pub use error::{Error, Result};
pub use session::Session;
