//! The daemon's configuration file: one typed schema for `wattiod` and `wattio check`.
//!
//! What the structures say of their keys, with `Allowed:` and `Default:`, here and of each source and
//! knob, is the page `docs/wattiod-keys.md`: `python packaging/docs/docs_keys.py` writes it.

mod application;
mod check;
mod page;

pub use application::{Application, ApplicationConfig, CORE_KNOBS};
pub use check::{check_name, check_policy};
pub use page::{Listen, PageTls};

use crate::groups::GroupConfig;
use crate::guards::CheckConfig;
use crate::knobs::KnobConfig;
use crate::price::Price;
use crate::sources::power::MeterConfig;
use crate::sources::{BackgroundConfig, CpuConfig, LatencyConfig};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use wattio_control::Settings;
use wattio_law::Bound;
use wattio_plant::{DescriptionError, read_toml};
use wattio_units::Seconds;

/// The port of page and metrics where none is given.
pub const PORT: u16 = 9288;

/// A whole configuration. It needs `name`, and either `[latency]` with at least one `[[group]]`, or
/// an `[[application]]` for each of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// The host's name in results and on the page. Allowed: up to 64 letters, digits, `.`, `_`,
    /// `-`, the first of which is no `.`.
    pub name: String,
    /// The law, its hyperparameters and its bounds.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// Where client latency comes from. Required, unless there are several applications, each of
    /// which has its own.
    #[serde(default)]
    pub latency: Option<LatencyConfig>,
    /// Where utilisation comes from; without this table it is `kind = "proc-stat"`.
    #[serde(default)]
    pub cpu: CpuConfig,
    /// Where the progress of background work comes from; without it the law leaves that work alone.
    #[serde(default)]
    pub background: Option<BackgroundConfig>,
    /// A group of cores. At least one is required, unless there are several applications, each of
    /// which has its own.
    #[serde(rename = "group", default)]
    pub groups: Vec<GroupConfig>,
    /// One of several applications, in place of `[latency]`, `[background]` and `[[group]]`. Each has
    /// its own cores, latency and bounds.
    #[serde(rename = "application", default)]
    pub applications: Vec<ApplicationConfig>,
    /// A knob. Of each kind there is one at most, except for `background`, `nvme.power`,
    /// `disk.runtime` and `sata.alpm`. Those from `cpu.turbo` to `power.cap` only follow the law, and
    /// are refused where there is no other. Shadow mode turns no knob.
    #[serde(rename = "knob", default)]
    pub knobs: Vec<KnobConfig>,
    /// The power meter and the power model.
    #[serde(default)]
    pub power: PowerConfig,
    /// When to stop saving.
    #[serde(default)]
    pub safety: SafetyConfig,
    /// Socket, page and files.
    #[serde(default)]
    pub service: ServiceConfig,
}

/// The law and its hyperparameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// The law. Default: `"pacer"`. Allowed: `"pacer"`, `"foresight"`, `"native"` (full speed),
    /// `"ondemand"`, `"schedutil"` and others, which `wattio simulate --list` names.
    pub name: String,
    /// Its hyperparameters, such as `{ plf = 0.1 }`. Default: `{}`. Allowed: what `wattio simulate
    /// --list` names of the law.
    pub settings: Settings,
    /// The bounds on latency; if empty, one on the mean by the law's own `plf`. Default: `[]`.
    /// Allowed: a list such as `["mean 20% run", "p99 2 ms window"]`.
    pub bounds: Vec<Bound>,
    /// Another law to compare with: `observe` shows what it would have done. Allowed: as for
    /// `name`.
    pub compare: Option<String>,
    /// Whether cores poll when they have nothing to do (SPDK, DPDK): turning cores off saves most
    /// then, and is tried before the frequency. Default: `false`.
    pub idle_cores_poll: bool,
}

/// The power meter and the power model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// One of the kernel's meters by name, or the table of another source. The law uses it too, so
    /// it should measure everything that the law controls. Allowed: a name that `wattiod doctor`
    /// lists, such as `"rapl:sum"`, or a table `[power.meter]`.
    pub meter: Option<MeterConfig>,
    /// The model that estimates power; without it nothing does. Allowed: a model file, whose path
    /// is relative to the configuration's folder, or `"assumed"` for the one that ships with
    /// wattio.
    pub model: Option<String>,
    /// Whether knobs that only follow the law are let go now and then for some windows, to measure
    /// which of them save most for the latency that they cost; without a meter none is. Default:
    /// `true`.
    pub try_knobs: bool,
    /// What a kilowatt-hour costs and how much CO2 it stands for: `{ eur_per_kwh = 0.25,
    /// co2_g_per_kwh = 350 }`, of which both are assumed unless named.
    pub price: Price,
}

/// When to stop saving.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SafetyConfig {
    /// Nothing is slowed down for this long after a speed-up. Default: `"2 s"`. Allowed: 0 s to 1
    /// h.
    pub dwell: Seconds,
    /// A latency sample older than this many windows is missing. Default: `2.0`. Allowed: 1 to 60.
    pub stale_after_windows: f64,
    /// The most cores of a group that one step may turn off. Default: `8`. Allowed: at least 1.
    pub cores_off_max: u32,
    /// More returns to full speed than this within `span` open the circuit breaker. Default: `30`.
    /// Allowed: a whole number.
    pub flaps_max: usize,
    /// More failures than this within `span` open it: the error budget. Default: `30`. Allowed: a
    /// whole number.
    pub errors_max: usize,
    /// The time over which both are counted. Default: `"10 min"`. Allowed: 1 s to 1 d.
    pub span: Seconds,
    /// How long the breaker stays open at first. Default: `"10 min"`. Allowed: 1 s to 1 d.
    pub cool_down: Seconds,
    /// How long it stays open at most, as each time is twice as long as the one before. Default:
    /// `"2 h"`. Allowed: `cool_down` to 7 d.
    pub cool_down_max: Seconds,
    /// Whether there is full speed while a Linux software RAID lacks a disk. Default: `true`.
    pub md_arrays: bool,
    /// Whether there is full speed while somebody else holds a processor package below the limit of
    /// power (RAPL) that was found at the start. Default: `true`.
    pub power_limits: bool,
    /// Further checks.
    #[serde(rename = "check")]
    pub checks: Vec<CheckConfig>,
    /// The median error above which a fitted model is not used for estimates. Default: `0.15`.
    /// Allowed: 0 to 1.
    pub model_error_max: f64,
}

/// Socket, page and files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// Where page and metrics are served. Default: `"127.0.0.1:9288"`. Allowed: an IP address with
    /// a port, `"off"` for nowhere.
    pub listen: Listen,
    /// Host names under which the page answers, besides `localhost` and IP addresses, such as a
    /// reverse proxy's. Default: `[]`. Allowed: a list of names.
    pub host_names: Vec<String>,
    /// With what page and metrics are served by HTTPS; without it by HTTP.
    pub tls: Option<PageTls>,
    /// The file with the token that page and metrics ask for, as `Authorization: Bearer`, or as a
    /// browser's password with any name; it is read again when it changes. Allowed: an absolute path;
    /// with `tls`, or where only this host can ask.
    pub token: Option<PathBuf>,
    /// The control socket, for `status` and the like. Default: `"/run/wattiod/wattiod.sock"`.
    /// Allowed: a path.
    pub socket: PathBuf,
    /// The group whose members may use the socket, besides root. Allowed: a group of the host.
    pub socket_group: Option<String>,
    /// The folder where the snapshot of old values is kept. Default: `"/var/lib/wattiod"`. Allowed:
    /// a path.
    pub state: PathBuf,
    /// Whether `run` has a second process beside it that puts everything back where the first was
    /// killed, or stopped by a signal. Default: `true`.
    pub keeper: bool,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            name: "pacer".to_owned(),
            settings: Settings::new(),
            bounds: Vec::new(),
            compare: None,
            idle_cores_poll: false,
        }
    }
}

impl Default for PowerConfig {
    fn default() -> Self {
        Self { meter: None, model: None, try_knobs: true, price: Price::default() }
    }
}

impl Default for SafetyConfig {
    fn default() -> Self {
        Self {
            dwell: Seconds(2.0),
            stale_after_windows: 2.0,
            cores_off_max: 8,
            flaps_max: 30,
            errors_max: 30,
            span: Seconds(600.0),
            cool_down: Seconds(600.0),
            cool_down_max: Seconds(7200.0),
            md_arrays: true,
            power_limits: true,
            checks: Vec::new(),
            model_error_max: 0.15,
        }
    }
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            listen: Listen(Some(SocketAddr::from(([127, 0, 0, 1], PORT)))),
            host_names: Vec::new(),
            tls: None,
            token: None,
            socket: PathBuf::from("/run/wattiod/wattiod.sock"),
            socket_group: None,
            state: PathBuf::from("/var/lib/wattiod"),
            keeper: true,
        }
    }
}

impl DaemonConfig {
    /// Reads and checks a configuration, without looking at any host.
    ///
    /// # Errors
    /// [`DescriptionError`] with line or key, what was wrong and what is allowed.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let config: Self = read_toml(text)?;
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
