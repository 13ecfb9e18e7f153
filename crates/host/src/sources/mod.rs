//! The sources of latency, utilisation and the progress of background work.
//!
//! A source consists of a `Config` (its table in the daemon's file), a pure parser of the host's
//! text, and a struct that implements the governor's trait. To add one, copy `diskstats.rs` (read
//! in place) or `ceph.rs` (queried in its own thread), and list it here.

pub mod ceph;
pub mod coarse;
pub mod cores;
pub mod cores_left;
mod counted;
pub mod differences;
pub mod diskstats;
pub mod exec;
pub mod fio_log;
mod followed;
mod interpolated;
pub mod log;
pub mod md;
pub mod mountstats;
#[cfg(test)]
mod page_fake;
pub mod polled;
pub mod power;
pub mod proc_stat;
pub mod prometheus;
pub mod queued;
pub mod redis;
pub mod spdk;
mod tally;
pub mod tracepoint;
mod unix_socket;
pub mod work_beside;
mod worker;

use crate::{Root, stopwatch};
use serde::Deserialize;
use wattio_governor::{BackgroundSource, CpuSource, LatencySource, SourceError};
use wattio_units::Seconds;

/// The source of client latency: `kind` and the keys of that kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LatencyConfig {
    /// The kernel's statistics of block devices.
    Diskstats(diskstats::Config),
    /// NFS as this host's kernel sees it, as a client.
    Mountstats(mountstats::Config),
    /// A metrics page of the server or of its exporter.
    Prometheus(prometheus::Config),
    /// Operations of Ceph OSDs.
    Ceph(ceph::Config),
    /// Each request to block devices, from the kernel's tracepoints.
    Tracepoint(tracepoint::Config),
    /// A command that prints what it measured.
    Exec(exec::Config),
    /// Commands of a Redis or Valkey server.
    Redis(redis::Config),
    /// The server's log of requests.
    Log(log::Config),
    /// The log of a running fio, for tests.
    FioLog(fio_log::Config),
}

/// The source of utilisation: `kind` and the keys of that kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CpuConfig {
    /// The kernel's statistics of cores.
    ProcStat(proc_stat::Config),
    /// A command that prints what it measured.
    Exec(exec::Config),
    /// An SPDK target's own statistics of its polling cores.
    Spdk(spdk::Config),
}

/// The source that reports the progress of background work: `kind` and the keys of that kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BackgroundConfig {
    /// Resync and check of Linux software RAID.
    Md(md::Config),
}

impl Default for CpuConfig {
    fn default() -> Self {
        Self::ProcStat(proc_stat::Config::default())
    }
}

impl LatencyConfig {
    /// Checks what can be told without the host.
    ///
    /// # Errors
    /// The key below `latency`, and what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let (interval, timeout) = match self {
            Self::Prometheus(config) => (config.interval, Some(config.timeout)),
            Self::Ceph(config) => (config.interval, Some(config.timeout)),
            Self::Redis(config) => (config.interval, Some(config.timeout)),
            Self::Tracepoint(config) => (Some(config.interval), None),
            Self::Log(config) => (config.interval, None),
            Self::Diskstats(_) | Self::Mountstats(_) | Self::Exec(_) | Self::FioLog(_) => {
                (None, None)
            }
        };
        polled::check_times(interval, timeout)?;
        let (key, named, such_as) = match self {
            Self::Diskstats(config) => ("devices", &config.devices[..], "[\"sda\"]"),
            Self::Tracepoint(config) => ("devices", &config.devices[..], "[\"sda\"]"),
            Self::Mountstats(config) => ("mounts", &config.mounts[..], "[\"/srv/data\"]"),
            Self::Ceph(config) => {
                ("sockets", &config.sockets[..], "[\"/var/run/ceph/ceph-osd.*.asok\"]")
            }
            // Of a command the program; what follows are its arguments.
            Self::Exec(config) => {
                let program = config.command.get(..1).unwrap_or_default();
                ("command", program, "[\"/usr/local/bin/latency\"]")
            }
            Self::Log(config) => {
                log::check(config)?;
                ("path", std::slice::from_ref(&config.path), "\"/var/log/nginx/latency.log\"")
            }
            Self::Prometheus(config) => return prometheus::check(config),
            Self::Redis(config) => return redis::check(config),
            Self::FioLog(_) => return Ok(()),
        };
        check_named(key, named, such_as)
    }

    /// Whether it may tell percentiles; what a page or a command tells is not known before it is asked.
    #[must_use]
    pub fn may_tell_percentiles(&self) -> bool {
        match self {
            Self::Diskstats(_) | Self::Mountstats(_) | Self::Ceph(_) | Self::Redis(_) => false,
            Self::Prometheus(_)
            | Self::Tracepoint(_)
            | Self::Exec(_)
            | Self::Log(_)
            | Self::FioLog(_) => true,
        }
    }

    /// Whether a second one can be opened in this process to see whether it opens, with nothing
    /// started by that.
    #[must_use]
    pub fn opens_twice(&self) -> bool {
        match self {
            Self::Tracepoint(_) | Self::Exec(_) => false,
            Self::Diskstats(_)
            | Self::Mountstats(_)
            | Self::Prometheus(_)
            | Self::Ceph(_)
            | Self::Redis(_)
            | Self::Log(_)
            | Self::FioLog(_) => true,
        }
    }

    /// Opens the source; `period` is the governor's window.
    ///
    /// # Errors
    /// [`SourceError`] if the configuration names something that does not exist or makes no sense.
    pub fn open(
        &self,
        root: &Root,
        period: Seconds,
    ) -> Result<Box<dyn LatencySource>, SourceError> {
        Ok(match self {
            Self::Diskstats(config) => Box::new(diskstats::open(config, root)?),
            Self::Mountstats(config) => Box::new(mountstats::open(config, root)?),
            Self::Prometheus(config) => Box::new(prometheus::open(config, period, stopwatch())?),
            Self::Ceph(config) => Box::new(ceph::open(config, root, period, stopwatch())?),
            Self::Tracepoint(config) => Box::new(tracepoint::open(config, root, stopwatch())?),
            Self::Exec(config) => Box::new(exec::ExecLatency::open(config, root, stopwatch())?),
            Self::Redis(config) => Box::new(redis::open(config, root, period, stopwatch())?),
            Self::Log(config) => Box::new(log::open(config, root, period, stopwatch())?),
            Self::FioLog(config) => Box::new(fio_log::FioLog::open(config, root)),
        })
    }
}

/// Checks what a key names, and that these are absolute paths if the example is one.
fn check_named(
    key: &'static str,
    named: &[String],
    such_as: &str,
) -> Result<(), (&'static str, String)> {
    let message = match named.iter().find(|name| !name.starts_with('/')) {
        _ if named.is_empty() => "names none".to_owned(),
        Some(name) if such_as.contains('/') => format!("{name:?} is not an absolute path"),
        _ => return Ok(()),
    };
    Err((key, format!("{message}; allowed: such as {such_as}")))
}

impl CpuConfig {
    /// As [`LatencyConfig::check`], with keys below `cpu`.
    ///
    /// # Errors
    /// The key below `cpu`, and what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Self::ProcStat(_) => Ok(()),
            Self::Exec(config) => {
                let program = config.command.get(..1).unwrap_or_default();
                check_named("command", program, "[\"/usr/local/bin/utilisation\"]")
            }
            Self::Spdk(config) => {
                polled::check_times(config.interval, Some(config.timeout))?;
                let socket = std::slice::from_ref(&config.socket);
                check_named("socket", socket, "\"/var/tmp/spdk.sock\"")
            }
        }
    }

    /// As [`LatencyConfig::opens_twice`].
    #[must_use]
    pub fn opens_twice(&self) -> bool {
        match self {
            Self::Exec(_) => false,
            Self::ProcStat(_) | Self::Spdk(_) => true,
        }
    }

    /// Opens the source; `period` is the governor's window.
    ///
    /// # Errors
    /// [`SourceError`] if the configuration names something that does not exist or makes no sense.
    pub fn open(&self, root: &Root, period: Seconds) -> Result<Box<dyn CpuSource>, SourceError> {
        Ok(match self {
            Self::ProcStat(config) => Box::new(proc_stat::ProcStat::open(config, root)?),
            Self::Exec(config) => Box::new(exec::ExecCpu::open(config, root, period, stopwatch())?),
            Self::Spdk(config) => Box::new(spdk::Spdk::open(config, root, period, stopwatch())?),
        })
    }
}

impl BackgroundConfig {
    /// Opens the source, while knobs hold nothing.
    ///
    /// # Errors
    /// [`SourceError`] if the configuration names something that does not exist or makes no sense.
    pub fn open(&self, root: &Root) -> Result<Box<dyn BackgroundSource>, SourceError> {
        Ok(match self {
            Self::Md(config) => Box::new(md::Md::open(config, root)?),
        })
    }
}
