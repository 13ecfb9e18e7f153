//! Linux behind the traits of the governor: where latency and utilisation come from, what can be
//! turned, what tells power. Every path lies under a [`Root`], so that tests can hand in a folder.

mod root;

pub mod knobs;
pub mod power;
pub mod sources;

pub use root::Root;
