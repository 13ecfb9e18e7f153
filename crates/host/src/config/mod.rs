//! The daemon's configuration file: one typed schema for `wattiod` and `wattio check`.
//!
//! The doc comments of the keys, with `Allowed:` and `Default:`, here and in each source and knob,
//! are the source of the page `docs/wattiod-keys.md`: `python packaging/docs/docs_keys.py` writes
//! it.

mod application;
mod check;
mod page;

pub use application::{Application, ApplicationConfig, CORE_KNOBS, LEAVING_KNOBS};
pub use check::{check_name, check_policy};
pub use page::{Listen, PageTls, check_host_names, check_socket};

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

/// A complete configuration. It needs `name`, and either `[latency]` with at least one `[[group]]`,
/// or an `[[application]]` for each application if the host has several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// The host's name in results and on the page. Allowed: up to 64 letters, digits, `.`, `_`,
    /// `-`, not beginning with `.`.
    pub name: String,
    /// The law, its parameters and its bounds.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// The source of client latency. Required unless the file has `[[application]]` tables: then
    /// each of them has its own.
    #[serde(default)]
    pub latency: Option<LatencyConfig>,
    /// The source of utilisation; without this table it is `kind = "proc-stat"`.
    #[serde(default)]
    pub cpu: CpuConfig,
    /// The source that reports the progress of background work; without it the law leaves that work
    /// alone.
    #[serde(default)]
    pub background: Option<BackgroundConfig>,
    /// A group of cores. At least one is required unless the file has `[[application]]` tables:
    /// then each of them has its own groups.
    #[serde(rename = "group", default)]
    pub groups: Vec<GroupConfig>,
    /// One of several applications, in place of `[latency]`, `[background]` and `[[group]]`. Each
    /// application has its own cores, latency and bounds.
    #[serde(rename = "application", default)]
    pub applications: Vec<ApplicationConfig>,
    /// Something on the host that `wattiod` can change. Each kind may appear once, except
    /// `background`, `nvme.power`, `disk.runtime` and `sata.alpm`, which may appear several times.
    /// The knobs from `cpu.turbo` to `power.cap` only follow the law, and are refused if there is
    /// no other knob. Shadow mode changes none of them.
    #[serde(rename = "knob", default)]
    pub knobs: Vec<KnobConfig>,
    /// The power meter and the power model.
    #[serde(default)]
    pub power: PowerConfig,
    /// The conditions that stop saving.
    #[serde(default)]
    pub safety: SafetyConfig,
    /// The page, the control socket and files.
    #[serde(default)]
    pub service: ServiceConfig,
}

/// The law and its hyperparameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// The law. Default: `"pacer"`. Allowed: `"pacer"`, `"foresight"`, `"native"` (full speed),
    /// `"ondemand"`, `"schedutil"` or another law listed by `wattio simulate --list`.
    pub name: String,
    /// The law's parameters, such as `{ plf = 0.1 }`. Default: `{}`. Allowed: the parameters that
    /// `wattio simulate --list` shows for the law.
    pub settings: Settings,
    /// The bounds on latency. If empty, there is one bound, on the mean, given by the law's `plf`.
    /// Default: `[]`. Allowed: a list such as `["mean 20% run", "p99 2 ms window"]`.
    pub bounds: Vec<Bound>,
    /// Another law for comparison: `observe` also shows what it would have done. Allowed: as for
    /// `name`.
    pub compare: Option<String>,
    /// Whether idle cores poll (SPDK, DPDK). If so, turning cores off saves most, and is tried
    /// before lowering the frequency. Default: `false`.
    pub idle_cores_poll: bool,
}

/// The power meter and the power model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// The power meter: the name of one of the kernel's meters, or a table for another source. The
    /// law uses it too, so it should measure everything that the law controls. Allowed: a name that
    /// `wattiod doctor` lists, such as `"rapl:sum"`, or a table `[power.meter]`.
    pub meter: Option<MeterConfig>,
    /// The model that estimates power; without it there are no estimates. Allowed: the path of a
    /// model file, relative to the configuration's folder, or `"assumed"` for the model that ships
    /// with wattio.
    pub model: Option<String>,
    /// Whether a knob that only follows the law is set as at full speed for a few windows now and
    /// then, to measure which of these knobs save most for the latency they cost. Without a meter
    /// there are no such trials. Default: `true`.
    pub try_knobs: bool,
    /// What a kilowatt-hour costs and how much CO2 it stands for: `{ eur_per_kwh = 0.25,
    /// co2_g_per_kwh = 350 }`, of which both are assumed unless named.
    pub price: Price,
}

/// The conditions that stop saving.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SafetyConfig {
    /// How long after a speed-up nothing is slowed down. Default: `"2 s"`. Allowed: 0 s to 1 h.
    pub dwell: Seconds,
    /// A latency sample older than this many windows counts as missing. Default: `2.0`. Allowed: 1
    /// to 60.
    pub stale_after_windows: f64,
    /// How many cores of a group one step may turn off at most. Default: `8`. Allowed: at least 1.
    pub cores_off_max: u32,
    /// The circuit breaker opens (forces full speed) after more returns to full speed than this
    /// within `span`. Default: `30`. Allowed: a whole number.
    pub flaps_max: usize,
    /// The circuit breaker also opens after more failures than this within `span`. Default: `30`.
    /// Allowed: a whole number.
    pub errors_max: usize,
    /// The time over which returns to full speed and failures are counted. Default: `"10 min"`.
    /// Allowed: 1 s to 1 d.
    pub span: Seconds,
    /// How long the breaker stays open the first time. Default: `"10 min"`. Allowed: 1 s to 1 d.
    pub cool_down: Seconds,
    /// The longest that the breaker stays open: each further time is twice as long as the one
    /// before, up to this. Default: `"2 h"`. Allowed: `cool_down` to 7 d.
    pub cool_down_max: Seconds,
    /// Whether a Linux software RAID that lacks a disk forces full speed. Default: `true`.
    pub md_arrays: bool,
    /// Whether full speed is forced while somebody else holds a processor package below the power
    /// limit (RAPL) found at the start, or the cap of a processor's hwmon chip. Default: `true`.
    pub power_limits: bool,
    /// Further checks.
    #[serde(rename = "check")]
    pub checks: Vec<CheckConfig>,
    /// The median error above which the fitted latency model is not used for estimates. Default:
    /// `0.15`. Allowed: 0 to 1.
    pub model_error_max: f64,
}

/// The page, the control socket and files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// The address of the page and the metrics. Default: `"127.0.0.1:9288"`. Allowed: an IP address
    /// with a port, or `"off"` to serve neither.
    pub listen: Listen,
    /// Host names that the page answers to, such as a reverse proxy's, in addition to `localhost`
    /// and IP addresses. Default: `[]`. Allowed: a list of names.
    pub host_names: Vec<String>,
    /// With what page and metrics are served by HTTPS; without it by HTTP.
    pub tls: Option<PageTls>,
    /// A file with the token that the page and the metrics require: as `Authorization: Bearer`, or
    /// as a browser's password with any user name. The file is read again when it changes. Allowed:
    /// an absolute path; needs `tls` unless `listen` is a loopback address.
    pub token: Option<PathBuf>,
    /// The control socket, for `status` and similar commands. Default:
    /// `"/run/wattiod/wattiod.sock"`. Allowed: a path.
    pub socket: PathBuf,
    /// The group whose members may use the control socket, in addition to root. Allowed: a group of
    /// the host.
    pub socket_group: Option<String>,
    /// The folder for the snapshot of old values. Default: `"/var/lib/wattiod"`. Allowed: a path.
    pub state: PathBuf,
    /// Whether `run` starts a second process, which restores everything if the first is killed, or
    /// stopped by a signal. Default: `true`.
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
