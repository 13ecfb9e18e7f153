//! Servers as fluids: rates and queueing formulas in place of events.
//!
//! A [`FluidServer`] is a plant of the driver like the simulator's server, made of the same
//! description and driven by the same laws, but it has no requests: between two changes of load or
//! setting it is in equilibrium ([`Steady`]), or a backlog grows or shrinks. That costs a window of
//! a law a fraction of a microsecond in place of milliseconds, so that fleets can be run over days.
//!
//! What it leaves out: how a queue gets from one equilibrium to the next (other than a backlog),
//! the pause of a group when its frequency changes and the time that handing tasks over costs
//! (microseconds of a window), and that means of neighbouring windows hang together.

mod demand;
mod drives;
mod fleet;
mod group;
mod load;
mod memo;
mod noise;
mod plant;
mod pool;
mod run;
mod setting;
mod steady;
mod sums;
mod tail;

pub use demand::{Class, Demand, Mix, Tasks};
pub use drives::DriveState;
pub use fleet::each;
pub use load::{Load, LoadError, Part};
pub use plant::{FluidServer, FluidSettings};
pub use pool::{Pool, Wait};
pub use run::{FluidRun, RunSettings, Totals};
pub use setting::Setting;
pub use steady::{Steady, of as steady_of};
pub use sums::Sums;
pub use tail::Spread;
