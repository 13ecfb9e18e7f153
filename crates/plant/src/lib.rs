//! Models of a storage server's parts: the power they draw and the time they take. Pure arithmetic.
//!
//! A server is described in TOML ([`Server::from_toml`]); the two descriptions that come with
//! wattio are [`DORADO6000`] and [`SMALL`]. The crate `sim` models how the parts work together over
//! time.

mod cores;
mod description;
mod drives;
mod load_error;
mod power_model;
mod server;

pub use cores::{Cores, IdleKind, Wake};
pub use description::{Background, Cache, Group, Path, PathKind, Sizing, Stage, Work};
pub use drives::{Drives, LoadPoint, SleepState, WriteLayout};
pub use load_error::{DescriptionError, read_toml, require};
pub use power_model::{Coefficient, CorePoint, Origin, PowerModel};
pub use server::{GROUPS_MAX, Server};

/// The PACER document's storage server, as calibrated from its Table I and sections III, V.
pub const DORADO6000: &str = include_str!("../servers/dorado6000.toml");
/// A small x86 server with NVMe drives.
pub const SMALL: &str = include_str!("../servers/small.toml");

/// The power model of a host without a meter: assumed, for orders of magnitude.
pub const ASSUMED_POWER_MODEL: &str = include_str!("../servers/assumed-power-model.toml");

/// The descriptions that come with wattio: name and TOML text.
pub const BUILT_IN: [(&str, &str); 2] = [("dorado6000", DORADO6000), ("small", SMALL)];
