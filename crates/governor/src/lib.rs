//! The loop on a live host: sample, step the law, apply, verify, account; save before the first
//! write, restore on every way out.
//!
//! Nothing here knows Linux. A host is what stands behind the traits [`Clock`], [`LatencySource`],
//! [`CpuSource`], [`Knob`] and [`Machine`]; the tests put the simulator there.

mod clock;
mod cpus;
mod knob;
mod source;

pub use clock::Clock;
pub use cpus::{Cpus, CpusError};
pub use knob::{
    Address, Assignment, GroupSetting, Knob, Layer, Machine, MachineError, Setting, Target,
};
pub use source::{
    BackgroundSource, CpuSource, GroupUse, LatencyHistogram, LatencySample, LatencySource,
    Reaction, SourceError,
};
