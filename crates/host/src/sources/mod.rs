//! Where latency and utilisation come from.
//!
//! A source is a `Config` (its table in the daemon's file), a pure parser of what the host says,
//! and a struct behind the governor's trait. To add one, copy `diskstats.rs` (read at once) or
//! `ceph.rs` (asked for in a thread of its own), and list it here.

pub mod differences;
pub mod diskstats;
pub mod exec;
mod fine;
pub mod polled;
pub mod proc_stat;
pub mod prometheus;
pub mod tracepoint;
mod worker;

pub use worker::{Stopwatch, stopwatch};

use crate::Root;
use serde::Deserialize;
use wattio_governor::{CpuSource, LatencySource, SourceError};
use wattio_units::Seconds;

/// Where client latency comes from: `kind` and the keys of that kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LatencyConfig {
    /// The kernel's account of block devices.
    Diskstats(diskstats::Config),
    /// A metrics page of the server or of its exporter.
    Prometheus(prometheus::Config),
    /// Each request to block devices, from the kernel's tracepoints.
    Tracepoint(tracepoint::Config),
    /// A command that prints what it measured.
    Exec(exec::Config),
}

/// Where utilisation comes from: `kind` and the keys of that kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CpuConfig {
    /// The kernel's account of cores.
    ProcStat(proc_stat::Config),
    /// A command that prints what it measured.
    Exec(exec::Config),
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self::ProcStat(proc_stat::Config::default())
    }
}

impl LatencyConfig {
    /// Opens the source; `period` is the governor's window.
    ///
    /// # Errors
    /// [`SourceError`] where the configuration names what is not there or makes no sense.
    pub fn open(
        &self,
        root: &Root,
        period: Seconds,
    ) -> Result<Box<dyn LatencySource>, SourceError> {
        Ok(match self {
            Self::Diskstats(config) => Box::new(diskstats::Diskstats::open(config, root)?),
            Self::Prometheus(config) => Box::new(prometheus::open(config, period, stopwatch())?),
            Self::Tracepoint(config) => Box::new(tracepoint::open(config, root, stopwatch())?),
            Self::Exec(config) => Box::new(exec::ExecLatency::open(config, root, stopwatch())?),
        })
    }
}

impl CpuConfig {
    /// Opens the source; `period` is the governor's window.
    ///
    /// # Errors
    /// [`SourceError`] where the configuration names what is not there or makes no sense.
    pub fn open(&self, root: &Root, period: Seconds) -> Result<Box<dyn CpuSource>, SourceError> {
        Ok(match self {
            Self::ProcStat(config) => Box::new(proc_stat::ProcStat::open(config, root)?),
            Self::Exec(config) => Box::new(exec::ExecCpu::open(config, root, period, stopwatch())?),
        })
    }
}
