//! The parts of the configuration about the law, the page, the metrics and the socket.

use crate::written::text;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use wattio_control::Settings;
use wattio_governor::Cpus;
use wattio_host::config::{Listen, PageTls, check_host_names, check_policy, check_socket};
use wattio_host::facts;
use wattio_host::price::Price;
use wattio_law::{Bound, DriverSettings};
use wattio_plant::{DescriptionError, require};
use wattio_units::Seconds;

/// The socket of `status` and the like, where nothing else is said.
pub const SOCKET: &str = "/run/wattio-target/wattio-target.sock";
/// The port of page and metrics, beside that of `wattiod`.
const PORT: u16 = 9289;

/// The law and its hyperparameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// The law that decides how many reactors are on. Allowed: `"native"` (full speed), `"pacer"`,
    /// `"foresight"` or another law listed by `wattio simulate --list`. Default: `"native"`.
    pub name: String,
    /// The law's parameters, such as `{ plf = 0.1 }`. Allowed: the parameters that `wattio simulate
    /// --list` shows for the law. Default: `{}`.
    pub settings: Settings,
    /// The bounds on latency. If empty, there is one bound, on the mean, given by the law's `plf`.
    /// Allowed: a list such as `["mean 20% run", "p99 2 ms window"]`. Default: `[]`.
    pub bounds: Vec<Bound>,
    /// Another law for comparison: `wattio-target observe` also shows what it would have done. Allowed:
    /// as for `name`.
    pub compare: Option<String>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        let name = "native".to_owned();
        Self { name, settings: Settings::new(), bounds: Vec::new(), compare: None }
    }
}

impl PolicyConfig {
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        if let Some(name) = &self.compare
            && let Err(error) = wattio_control::policy(name)
        {
            let (key, message) = ("policy.compare".to_owned(), error.to_string());
            return Err(DescriptionError::Value { key, message });
        }
        check_policy(&self.name, &self.settings, &self.bounds)
    }
}

/// How carefully the law's decisions are carried out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SafetyConfig {
    /// How long after a speed-up no reactor is switched off and no frequency lowered. Allowed: 0 s
    /// to 1 h. Default: `"0 s"`.
    pub dwell: Seconds,
    /// How many reactors of a group one decision may switch off at most; without it, all but
    /// `reactors_min`. Allowed: at least 1.
    pub reactors_off_max: Option<u32>,
    /// The median error above which the fitted latency model is not used for estimates. Allowed: 0
    /// to 1. Default: `0.15`.
    pub model_error_max: f64,
}

impl Default for SafetyConfig {
    fn default() -> Self {
        Self { dwell: Seconds(0.0), reactors_off_max: None, model_error_max: 0.15 }
    }
}

impl SafetyConfig {
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        let dwell = format!("is {}; allowed is 0 s to 1 h", self.dwell);
        require((0.0..=3600.0).contains(&self.dwell.0), "safety.dwell", dwell)?;
        let most = "is 0; allowed is at least 1, or to leave it out";
        require(self.reactors_off_max != Some(0), "safety.reactors_off_max", most)?;
        let error = format!("is {}; allowed is 0 to 1", self.model_error_max);
        require((0.0..=1.0).contains(&self.model_error_max), "safety.model_error_max", error)
    }

    /// The same for the driver.
    #[must_use]
    pub fn driver(&self) -> DriverSettings {
        let cores_off_max = self.reactors_off_max.unwrap_or(u32::MAX);
        DriverSettings { dwell: self.dwell, cores_off_max, ..DriverSettings::default() }
    }
}

/// The frequency of the cores that reactors run on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyConfig {
    /// The cores that reactors run on, one for each reactor; the law may lower their frequency.
    /// Reactors of a group get whole physical cores and nodes first. If a core changes frequency
    /// together with others, list those too. Allowed: as many cores as `reactors`, such as `"2-5"`.
    #[serde(deserialize_with = "cores")]
    pub cores: Cpus,
    /// The folder that keeps the old frequencies from the first change until they are restored.
    /// After a kill, the next start restores them, and so does `wattiod restore` with this folder
    /// as `--state`. Allowed: an absolute path. Default: `"/var/lib/wattio-target/frequency"`.
    #[serde(default = "state")]
    pub state: PathBuf,
}

fn cores<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cpus, D::Error> {
    text(deserializer, cores_of)
}

/// Cores as a configuration lists them.
fn cores_of(list: &str) -> Result<Cpus, String> {
    let cores: Cpus = list.parse().map_err(|error| format!("{error}"))?;
    let most = rustix::thread::CpuSet::MAX_CPU;
    let is_known = !cores.is_empty() && cores.iter().all(|core| (core as usize) < most);
    let wrong = || format!("{list:?} is not a list of processors below {most}, such as \"2-5\"");
    if is_known { Ok(cores) } else { Err(wrong()) }
}

fn state() -> PathBuf {
    PathBuf::from("/var/lib/wattio-target/frequency")
}

impl FrequencyConfig {
    pub(super) fn check(&self, reactors: usize) -> Result<(), DescriptionError> {
        let cores = self.cores.len();
        let count = format!("are {cores} for {reactors} reactors; allowed is one for each");
        require(cores == reactors, "frequency.cores", count)?;
        require(self.state.is_absolute(), "frequency.state", "must be an absolute path")
    }
}

/// Power is estimated, because no meter measures the reactors alone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// The model that estimates power; without it there are no estimates. Allowed: a model file, or
    /// `"assumed"` for the model that ships with wattio.
    pub model: Option<String>,
    /// What a kilowatt-hour costs and how much CO2 it stands for. Allowed: numbers, at least 0.
    /// Default: `{ eur_per_kwh = 0.25, co2_g_per_kwh = 350 }`, which is assumed.
    pub price: Price,
}

impl PowerConfig {
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        self.price.check()
    }
}

/// Page, metrics and control socket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// The address of the page and the metrics. Allowed: an IP address with a port, or `"off"` to
    /// serve neither. Default: `"127.0.0.1:9289"`.
    pub listen: Listen,
    /// Host names that the page answers to, such as a reverse proxy's, in addition to `localhost`
    /// and IP addresses. Allowed: a list of names. Default: `[]`.
    pub host_names: Vec<String>,
    /// The certificate for HTTPS; without it, page and metrics use HTTP. The files are read again
    /// when they change. Allowed: a table with `certificate` and `key`, absolute paths of files in
    /// PEM.
    pub tls: Option<PageTls>,
    /// A file with the token that the page and the metrics require: as `Authorization: Bearer`, or
    /// as a browser's password with any user name. The file is read again when it changes. Allowed:
    /// an absolute path; needs `service.tls` unless `service.listen` is a loopback address.
    pub token: Option<PathBuf>,
    /// The control socket, for `status` and similar commands. Allowed: an absolute path. Default:
    /// `"/run/wattio-target/wattio-target.sock"`.
    pub socket: PathBuf,
    /// The group whose members may use the control socket, in addition to its owner. Allowed: a
    /// group of the host.
    pub socket_group: Option<String>,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            listen: Listen(Some(SocketAddr::from(([127, 0, 0, 1], PORT)))),
            host_names: Vec::new(),
            tls: None,
            token: None,
            socket: PathBuf::from(SOCKET),
            socket_group: None,
        }
    }
}

impl ServiceConfig {
    /// The number of the group whose members may use the control socket, if one is named.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn group_id(&self) -> Result<Option<u32>, String> {
        let group = self.socket_group.as_deref().map(facts::group_id).transpose();
        group.map_err(|error| format!("service.socket_group: {error}"))
    }

    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        require(self.socket.is_absolute(), "service.socket", "must be an absolute path")?;
        let (key, path) = ("service.socket".to_owned(), &self.socket);
        check_socket(path).map_err(|message| DescriptionError::Value { key, message })?;
        check_host_names(&self.host_names)?;
        self.listen.check(self.tls.as_ref(), self.token.as_deref())
    }
}
