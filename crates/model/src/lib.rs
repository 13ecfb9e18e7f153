//! Analytic models of a host that a law can predict with: arithmetic that takes microseconds.

mod fitter;
mod host_model;
mod station;

pub use fitter::{Fitter, Forecast};
pub use host_model::{Demand, HostModel, NoModel, Prediction, WINDOWS_MIN, Window};
pub use station::{Station, erlang_c};
