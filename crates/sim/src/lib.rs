//! A storage server, simulated event by event.
//!
//! [`Run`] plays a [`Load`] against a server description with a law that is handed in; this crate
//! names none. It has no clock and touches no file: traces come as iterators of records.
//!
//! What is modelled: core groups with a queue each and tasks that run to completion, frequency
//! and gating with their costs, a read cache, drives with parallelism and sleep states,
//! background work that waits for idle cores, clients that wait for their answers. What is not:
//! contention for memory, locks or the network, writes that outgrow the persistent memory, and
//! anything that wears.

mod background;
mod drive;
mod engine;
mod event;
mod group;
mod histograms;
mod load;
mod observe;
pub mod oracle;
mod plant;
mod program;
mod queue;
mod rows;
mod run;
mod sender;
mod summary;

pub use engine::Answered;
pub use histograms::{Bucket, WindowHistograms};
pub use load::{Load, LoadError, Pattern, Phase, Senders, TraceSource};
pub use observe::Reading;
pub use plant::{SimulatedServer, limits};
pub use rows::Row;
pub use run::{Run, RunSettings};
pub use summary::{EnergyByComponent, Summary};
