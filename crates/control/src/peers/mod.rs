//! Laws in the style of other authors' papers, as we read them, so that comparisons are not with
//! PACER only.
//!
//! Neither is the authors' program. Both aim at a limit on a statistic of latency. If the bound is
//! relative, the limit is learned in a first stretch at full speed and kept from then on.

mod objective;
mod pegasus;
mod rubik;

pub use pegasus::{Pegasus, PegasusSettings};
pub use rubik::{Rubik, RubikSettings};
