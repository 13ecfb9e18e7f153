//! A live host as a plant of the driver: sample, apply, verify; save before the first write, restore
//! on every way out.
//!
//! Nothing here knows Linux. A host is what stands behind the traits [`Clock`], [`LatencySource`],
//! [`CpuSource`], [`Knob`], [`Look`] and [`Machine`]; the tests put the simulator there.

mod account;
mod act;
mod breaker;
mod clock;
mod cpus;
mod event;
mod governor;
mod hands;
mod host;
mod knob;
mod parts;
mod senses;
mod snapshot;
mod source;

pub use account::Account;
pub use act::Act;
pub use breaker::{Breaker, BreakerSettings, Trip};
pub use clock::Clock;
pub use cpus::{Cpus, CpusError};
pub use event::{Event, Severity};
pub use governor::Governor;
pub use hands::{Applied, Hands, LeftOver, Note, Restored};
pub use knob::{
    Address, Assignment, GroupSetting, Knob, Layer, Look, Machine, MachineError, Setting, Target,
};
pub use parts::{CoreGroup, GovernorSettings, Lens, Parts, Stepped, Tick};
pub use snapshot::{FileStore, Saved, Snapshot, SnapshotError, SnapshotStore};
pub use source::{
    BackgroundSource, CpuSource, GroupUse, Guard, LatencySample, LatencySource, PowerSource,
    SourceError,
};
