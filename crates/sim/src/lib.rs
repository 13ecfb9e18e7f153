//! A storage server, simulated event by event.
//!
//! [`Run`] plays a [`Load`] against a server description under a law that the caller passes in;
//! this crate knows no particular law. It has no clock and touches no files: traces are iterators
//! of records.
//!
//! It models core groups, each with a queue and tasks that run to completion; frequency and gating
//! with their costs; a read cache; drives with parallelism and sleep states; background work that
//! waits for idle cores; and clients that wait for their answers. It does not model contention for
//! memory, locks or the network, writes that exceed the persistent memory, or wear.

mod background;
mod drive;
mod ends;
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
