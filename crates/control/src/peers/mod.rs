//! Laws of other people's kinds, as we read their papers: what is said against more than PACER.
//!
//! Neither is the authors' program. Both aim at a limit on the latency's statistic; where the bound
//! is relative, the limit is learned in a first stretch at full speed and kept from then on.

mod objective;
mod pegasus;
mod rubik;

pub use pegasus::{Pegasus, PegasusSettings};
pub use rubik::{Rubik, RubikSettings};
