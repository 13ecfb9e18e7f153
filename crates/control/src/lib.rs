//! The control laws: pure steps from observation to action.
//!
//! No clock, no input or output, no threads, no logging. Every hyperparameter is defined in a TOML
//! file under `parameters/`, with its unit, range, default and source. [`policies`] lists the laws
//! and [`build`] makes a law by its name.

mod foresight;
mod mix;
mod native;
mod ondemand;
mod pacer;
mod parameters;
mod peers;
mod registry;
mod schedutil;
mod uncovered;

pub use foresight::{Foresight, ForesightSettings};
pub use native::Native;
pub use ondemand::{Ondemand, OndemandSettings, OndemandVariant};
pub use pacer::{Pacer, PacerSettings};
pub use parameters::{Parameter, ParameterTable, SettingError, Settings, Value};
pub use peers::{Pegasus, PegasusSettings, Rubik, RubikSettings};
pub use registry::{Policy, build, check_tolerance, policies, policy};
pub use schedutil::{Schedutil, SchedutilSettings};
