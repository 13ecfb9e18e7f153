//! What the configuration says of the law, and of page, metrics and socket.

use crate::frequency::{FrequencySettings, cores_of};
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::PathBuf;
use wattio_control::Settings;
use wattio_governor::Cpus;
use wattio_host::config::{Listen, PageTls, check_policy};
use wattio_law::Bound;
use wattio_plant::{DescriptionError, require};

/// The socket of `status` and the like, where nothing else is said.
pub const SOCKET: &str = "/run/wattio-target/wattio-target.sock";
/// The port of page and metrics, beside that of `wattiod`.
const PORT: u16 = 9289;

/// The law and its hyperparameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyConfig {
    /// The law that decides how many reactors are on. Allowed: `"native"` (full speed), `"pacer"`,
    /// `"foresight"` and others, which `wattio simulate --list` names. Default: `"native"`.
    pub name: String,
    /// Its hyperparameters, such as `{ plf = 0.1 }`. Allowed: what `wattio simulate --list` names of
    /// the law. Default: `{}`.
    pub settings: Settings,
    /// The bounds on latency; if empty, one on the mean by the law's own `plf`. Allowed: a list such
    /// as `["mean 20% run", "p99 2 ms window"]`. Default: `[]`.
    pub bounds: Vec<Bound>,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self { name: "native".to_owned(), settings: Settings::new(), bounds: Vec::new() }
    }
}

impl PolicyConfig {
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        check_policy(&self.name, &self.settings)
    }
}

/// The frequency of the cores that reactors run on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyConfig {
    /// The cores that reactors run on, one each, whose frequency the law may lower; reactors of a group
    /// get whole cores and nodes first. A core that changes frequency together with others needs those
    /// listed, too. Allowed: as many as `reactors`, such as `"2-5"`.
    #[serde(deserialize_with = "cores")]
    pub cores: Cpus,
    /// Where the old frequencies are kept, from the first change to the restore: after a kill the next
    /// start restores them, or `wattiod restore` with this folder as `--state`. Allowed: an absolute path. Default:
    /// `"/var/lib/wattio-target/frequency"`.
    #[serde(default = "state")]
    pub state: PathBuf,
}

fn cores<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cpus, D::Error> {
    super::text(deserializer, cores_of)
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

    pub(super) fn settings(&self) -> FrequencySettings {
        FrequencySettings { cores: self.cores.clone(), state: self.state.clone() }
    }
}

/// Power, which is estimated: nothing measures that of reactors alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// The model that estimates power; without it nothing does. Allowed: a model file, or `"assumed"`
    /// for the one that ships with wattio.
    pub model: Option<String>,
}

/// Page, metrics and control socket.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// Where page and metrics are served. Allowed: an address with a port, `"off"` for nowhere.
    /// Default: `"127.0.0.1:9289"`.
    pub listen: Listen,
    /// Host names under which the page answers, besides `localhost` and IP addresses, such as
    /// a reverse proxy's. Allowed: a list of names. Default: `[]`.
    pub host_names: Vec<String>,
    /// What page and metrics need for HTTPS; without it they are served by HTTP. Files that change are
    /// read again. Allowed: a table with `certificate` and `key`, absolute paths of files in PEM.
    pub tls: Option<PageTls>,
    /// The file with the token that page and metrics ask for, as `Authorization: Bearer`, or as a
    /// browser's password with any name; it is read again when it changes. Allowed: an absolute path;
    /// with `service.tls`, or where only this host can ask.
    pub token: Option<PathBuf>,
    /// The control socket, for `status` and the like. Allowed: an absolute path. Default:
    /// `"/run/wattio-target/wattio-target.sock"`.
    pub socket: PathBuf,
    /// The group whose members may use the socket, besides its owner. Allowed: a group of the host.
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
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        require(self.socket.is_absolute(), "service.socket", "must be an absolute path")?;
        self.listen.check(self.tls.as_ref(), self.token.as_deref())
    }
}
