//! The daemon's configuration file: one typed schema for `wattiod` and `wattio check`.

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

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// The host's name in results and on the page.
    pub name: String,
    /// The law.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// Where client latency comes from; with several applications, each has its own.
    #[serde(default)]
    pub latency: Option<LatencyConfig>,
    /// Where utilisation comes from.
    #[serde(default)]
    pub cpu: CpuConfig,
    /// Where the progress of background work comes from; without it the law leaves that work alone.
    #[serde(default)]
    pub background: Option<BackgroundConfig>,
    /// The groups of cores.
    #[serde(rename = "group", default)]
    pub groups: Vec<GroupConfig>,
    /// Several applications, in place of `latency`, `background` and `group`.
    #[serde(rename = "application", default)]
    pub applications: Vec<ApplicationConfig>,
    /// The knobs. Shadow mode turns none of them.
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
    /// `pacer`, `foresight`, `native`, `ondemand`, ...; `wattio simulate --list` names them all.
    pub name: String,
    /// Its hyperparameters, such as `plf = 0.1`; `wattio simulate --list` names them all.
    pub settings: Settings,
    /// The bounds, such as `["mean 20% run", "p99 2 ms window"]`; if empty, a bound on the mean by
    /// the policy's own `plf`.
    pub bounds: Vec<Bound>,
    /// Another policy to compare with: `observe` shows what it would have done.
    pub compare: Option<String>,
    /// Whether cores poll when they have nothing to do (SPDK, DPDK): turning cores off saves most
    /// then, and is tried before the frequency.
    pub idle_cores_poll: bool,
}

/// The power meter and the power model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// One of the kernel's meters by name, or the table of another source. The law uses it too, so
    /// it should measure everything that the law controls.
    pub meter: Option<MeterConfig>,
    /// A model file, or `assumed` for the one that ships with wattio.
    pub model: Option<String>,
    /// Whether knobs that only follow the law are let go now and then for some windows, to measure
    /// which of them save most for the latency that they cost; without a meter none is.
    pub try_knobs: bool,
    /// What a kilowatt-hour costs and how much CO2 it stands for: `{ eur_per_kwh = 0.25,
    /// co2_g_per_kwh = 350 }`, of which both are assumed unless named.
    pub price: Price,
}

/// When to stop saving.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SafetyConfig {
    /// Nothing is slowed down for this long after a speed-up.
    pub dwell: Seconds,
    /// A latency sample older than this many windows is missing.
    pub stale_after_windows: f64,
    /// The most cores of a group that one step may turn off.
    pub cores_off_max: u32,
    /// This many returns to full speed within `span` open the circuit breaker.
    pub flaps_max: usize,
    /// This many failures within `span` open it: the error budget.
    pub errors_max: usize,
    /// The time over which both are counted.
    pub span: Seconds,
    /// How long the breaker stays open at first.
    pub cool_down: Seconds,
    /// How long at most.
    pub cool_down_max: Seconds,
    /// Full speed while a Linux software RAID lacks a disk.
    pub md_arrays: bool,
    /// Full speed while somebody else holds a processor package below the limit of power (RAPL) that
    /// was found at the start.
    pub power_limits: bool,
    /// Further checks.
    #[serde(rename = "check")]
    pub checks: Vec<CheckConfig>,
    /// The median error above which a fitted model is not used for estimates.
    pub model_error_max: f64,
}

/// Socket, page and files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// Where page and metrics are served; `"off"` serves none.
    pub listen: Listen,
    /// Host names under which the page answers, besides `localhost` and IP addresses: those of a
    /// reverse proxy.
    pub host_names: Vec<String>,
    /// With what page and metrics are served by HTTPS; without it by HTTP.
    pub tls: Option<PageTls>,
    /// The file with the token that page and metrics ask for, as `Authorization: Bearer`, or as a
    /// browser's password with any name; it is read again when it changes. Allowed: an absolute path;
    /// with `tls`, or where only this host can ask.
    pub token: Option<PathBuf>,
    /// The control socket.
    pub socket: PathBuf,
    /// The group whose members may use the socket, besides root.
    pub socket_group: Option<String>,
    /// Where the snapshot of old values is kept.
    pub state: PathBuf,
    /// Whether `run` has a second process beside it that puts everything back where the first was
    /// killed, or stopped by a signal.
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
