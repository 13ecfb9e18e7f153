//! A live host as a plant of the driver. It samples, applies and verifies; it saves old values
//! before the first write and restores them however it ends.
//!
//! Nothing here is specific to Linux. A host is anything that implements the traits [`Clock`],
//! [`LatencySource`], [`CpuSource`], [`Knob`], [`MachineView`] and [`Machine`]; the tests use the
//! simulator.

mod account;
mod actuator;
mod arbiter;
mod bound_status;
mod breaker;
mod clock;
mod cpus;
mod effect;
mod event;
mod governor;
mod host;
pub mod journal;
mod knob;
mod parts;
mod priority;
mod sensors;
mod snapshot;
mod source;
mod writer;

pub use account::Account;
pub use actuator::Actuator;
pub use arbiter::Requester;
pub use bound_status::{BoundStatus, mean_limit_us};
pub use breaker::{Breaker, BreakerSettings, Trip};
pub use clock::Clock;
pub use cpus::{Cpus, CpusError};
pub use effect::Interval;
pub use event::{Event, Severity};
pub use governor::Governor;
pub use knob::{
    Address, Assignment, GroupSetting, Knob, Layer, Machine, MachineError, MachineView, Setting,
    Target,
};
pub use parts::{CoreGroup, GovernorSettings, Parts, ShadowModel, Stepped, Tick};
pub use priority::{Basis, Follower, FollowerStatus};
pub use snapshot::{FileStore, Saved, Snapshot, SnapshotError, SnapshotStore};
pub use source::{
    BackgroundSource, CpuSource, GroupUse, Guard, LatencySample, LatencySource, PowerSource,
    SourceError,
};
pub use writer::{Applied, Note, RestorableWriter, Restored, Unrestored};
