//! The configuration file.

mod law;

pub use law::{FrequencyConfig, PolicyConfig, PowerConfig, SOCKET, SafetyConfig, ServiceConfig};

use crate::written::{duration, text};
use crate::{Address, Idle, check_groups, named_twice};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use wattio_host::config::check_name;
use wattio_plant::{DescriptionError, read_toml, require};
use wattio_units::Bytes;

/// Memory for blocks of each volume, if nothing else is said.
const CACHE_BYTES: u64 = 256 << 20;
/// Memory for what is written, where nothing else is said.
const WRITE_BUFFER_BYTES: u64 = 16 << 20;
/// Operations that a volume's devices are given at once, where nothing else is said: more than they
/// take.
pub const DEVICE_DEPTH: usize = 256;
/// Operations that they may be given at once.
pub const DEVICE_DEPTH_MAX: usize = 4096;
/// Reactors that there may be.
pub const REACTORS_MAX: usize = 64;
/// Volumes that one target may serve.
pub const EXPORTS_MAX: usize = 4096;

/// What the target serves, and how. The doc comments of the keys, with `Allowed:` and `Default:`,
/// are the source of the table in `docs/target.md`: `python packaging/docs/docs_keys.py` puts it
/// there.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The target's name in results and on the page. Allowed: up to 64 letters, digits, `.`, `_`,
    /// `-`. Default: `"target"`.
    #[serde(default = "name")]
    pub name: String,
    /// The addresses that clients connect to. Allowed: a list of `"unix:/path"`,
    /// `"tcp:address:port"` and `"systemd"` (the sockets that systemd passes to the service).
    pub listen: Vec<Address>,
    /// The volumes to serve: one table or several.
    #[serde(rename = "export")]
    pub exports: Vec<ExportConfig>,
    /// The number of threads that serve clients; volumes are spread over them. Allowed: 1 to 64.
    /// Default: `1`.
    #[serde(default = "one")]
    pub reactors: usize,
    /// The most operations that a volume's devices are given at once. Allowed: 1 to 4096. Default:
    /// `256`.
    #[serde(default = "device_depth")]
    pub device_depth: usize,
    /// What a reactor does when it has no work: `"block"` sleeps, `"spin 20 us"` looks for work for
    /// that long and then sleeps, `"poll"` never sleeps. Allowed: `"block"`, `"spin 20 us"` with a
    /// time up to 1 s, `"poll"`. Default: `"block"`.
    #[serde(default)]
    pub idle: Idle,
    /// How many reactors of each group always stay on. Allowed: 1 to the number of reactors in the
    /// smaller group. Default: `1`.
    #[serde(default = "one")]
    pub reactors_min: usize,
    /// How many reactors (the last ones) serve volumes only. The law governs them as a separate
    /// group. Allowed: less than `reactors`; with `0` every reactor serves volumes and connections.
    /// Default: `0`.
    #[serde(default)]
    pub volume_reactors: usize,
    /// Limits of memory.
    #[serde(default)]
    pub memory: Memory,
    /// Regular reading of all data.
    #[serde(default)]
    pub scrub: Scrub,
    /// The target's certificate for clients that use TLS; without this table, none can.
    pub tls: Option<TlsConfig>,
    /// The law that decides how many reactors are on.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// How carefully the law's decisions are carried out.
    #[serde(default)]
    pub safety: SafetyConfig,
    /// The frequency of the reactors' cores. Without this table, the target leaves the frequency
    /// alone, and the kernel chooses the cores that reactors run on.
    pub frequency: Option<FrequencyConfig>,
    /// Estimates of power.
    #[serde(default)]
    pub power: PowerConfig,
    /// Page, metrics and control socket.
    #[serde(default)]
    pub service: ServiceConfig,
}

/// Certificates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate, followed by any intermediate ones, in PEM. Allowed: an absolute path.
    pub certificate: PathBuf,
    /// The certificate's private key, in PEM. Allowed: an absolute path.
    pub key: PathBuf,
    /// The certificate of the authority that signs clients' certificates, in PEM. Without it,
    /// clients need no certificate. Allowed: an absolute path.
    pub clients: Option<PathBuf>,
    /// Whether clients that connect by TCP must use TLS. Default: `true`.
    #[serde(default = "yes")]
    pub required: bool,
}

/// A volume under a name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// The name by which clients request the volume. Allowed: up to 4096 bytes, even `""`; unique.
    pub name: String,
    /// The file or block device that holds the volume, or two that mirror each other. Allowed: a
    /// list of one or two absolute paths; each path only once in the configuration.
    pub devices: Vec<PathBuf>,
    /// Whether clients can only read. Default: `false`.
    #[serde(default)]
    pub read_only: bool,
    /// Whether the volume is served even if one of its devices is missing, or fails while it is
    /// opened. Default: `false`.
    #[serde(default)]
    pub accept_missing: bool,
    /// Whether the volume is served even if durable data is lost: blocks whose content cannot be
    /// determined return read errors, and a damaged log ends where the damage begins; whatever came
    /// after that is lost. Copy the device first. Default: `false`.
    #[serde(default)]
    pub accept_loss: bool,
}

/// Limits of memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// The most memory that the map of each volume may use: it needs 8 bytes for each 4096 bytes of
    /// the volume. A volume whose map is larger is refused. Allowed: 1 MiB to 1 TiB. Default: `"4
    /// GiB"`.
    pub map: Bytes,
    /// Memory to cache blocks that are likely to be read again, for each volume. Allowed: `"0 B"`
    /// (no cache) to 1 TiB. Default: `"256 MiB"`.
    pub cache: Bytes,
    /// Memory for writes that are acknowledged before they are on the device, for each volume. As
    /// with a disk's write cache, a flush waits for them. Allowed: `"0 B"` (a write is acknowledged
    /// once it is on the device) to 1 TiB. Default: `"16 MiB"`.
    pub write_buffer: Bytes,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            map: Bytes(4.0 * f64::from(1 << 30)),
            cache: Bytes(CACHE_BYTES as f64),
            write_buffer: Bytes(WRITE_BUFFER_BYTES as f64),
        }
    }
}

/// Regular reading of all data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scrub {
    /// How often all data is read, and repaired if there is a second device. Allowed: 1 h to 365 d,
    /// or `"off"` (only on request). Default: `"7 d"`.
    pub period: Period,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { period: Period(Some(Duration::from_secs(7 * 86_400))) }
    }
}

/// A time, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Option<Duration>);

fn device_depth() -> usize {
    DEVICE_DEPTH
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn name() -> String {
    "target".to_owned()
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer, |text| match text {
            "off" => Ok(Self(None)),
            _ => duration(text)
                .map(|period| Self(Some(period)))
                .map_err(|error| format!("{error}; allowed is a time such as \"7 d\", or \"off\"")),
        })
    }
}

impl TlsConfig {
    fn paths(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let clients = self.clients.iter().map(|clients| ("clients", clients));
        [("certificate", &self.certificate), ("key", &self.key)].into_iter().chain(clients)
    }
}

impl Config {
    /// Reads and checks a configuration, without looking at devices.
    ///
    /// # Errors
    /// [`DescriptionError`] with line or key, what was wrong and what is allowed.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let config: Self = read_toml(text)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), DescriptionError> {
        require(!self.listen.is_empty(), "listen", "is empty: nobody could connect")?;
        require(named_twice(&self.listen).is_none(), "listen", "names an address twice")?;
        require(!self.exports.is_empty(), "export", "is missing: at least one [[export]]")?;
        let exports = format!("are {}; allowed are up to {EXPORTS_MAX}", self.exports.len());
        require(self.exports.len() <= EXPORTS_MAX, "export", exports)?;
        let reactors = format!("is {}; allowed is 1 to {REACTORS_MAX}", self.reactors);
        require((1..=REACTORS_MAX).contains(&self.reactors), "reactors", reactors)?;
        let depth = format!("is {}; allowed is 1 to {DEVICE_DEPTH_MAX}", self.device_depth);
        require((1..=DEVICE_DEPTH_MAX).contains(&self.device_depth), "device_depth", depth)?;
        let absolute = |path: &PathBuf| path.is_absolute();
        check_name(&self.name)?;
        self.policy.check()?;
        self.safety.check()?;
        self.power.check()?;
        self.service.check()?;
        let shared = "is an address of listen, too: clients and commands need a socket each";
        let is_shared = self.listen.contains(&Address::Unix(self.service.socket.clone()));
        require(!is_shared, "service.socket", shared)?;
        check_groups(self.reactors, self.volume_reactors, self.reactors_min).map_err(|error| {
            DescriptionError::Value { key: error.key.to_owned(), message: error.to_string() }
        })?;
        self.frequency.iter().try_for_each(|frequency| frequency.check(self.reactors))?;
        let map = format!("is {}; allowed is 1 MiB to 1 TiB", self.memory.map);
        let allowed = f64::from(1 << 20)..=f64::from(1 << 20) * f64::from(1 << 20);
        require(allowed.contains(&self.memory.map.0), "memory.map", map)?;
        for (key, bytes) in [
            ("memory.cache", &self.memory.cache),
            ("memory.write_buffer", &self.memory.write_buffer),
        ] {
            let wrong = format!("is {bytes}; allowed is 0 B to 1 TiB");
            require((0.0..=*allowed.end()).contains(&bytes.0), key, wrong)?;
        }
        for (key, path) in self.tls.iter().flat_map(TlsConfig::paths) {
            require(absolute(path), format!("tls.{key}"), "must be an absolute path")?;
        }
        if let Period(Some(period)) = self.scrub.period {
            let hour = Duration::from_secs(3600);
            let allowed = "must be from 1 h to 365 d, or \"off\"";
            require((hour..=8760 * hour).contains(&period), "scrub.period", allowed)?;
        }
        let (mut names, mut devices) = (BTreeSet::new(), BTreeSet::new());
        for (at, export) in self.exports.iter().enumerate() {
            let key = |name: &str| format!("export[{at}].{name}");
            let count = format!(
                "are {}; allowed is one, or two that mirror each other",
                export.devices.len()
            );
            require((1..=2).contains(&export.devices.len()), key("devices"), count)?;
            for device in &export.devices {
                let path = device.display();
                let message = format!("{path} is not an absolute path");
                require(absolute(device), key("devices"), message)?;
                let message = format!("{path} is named twice");
                require(devices.insert(device), key("devices"), message)?;
            }
            let message = format!("{:?} is the name of an earlier export", export.name);
            require(names.insert(&export.name), key("name"), message)?;
            let length = "must be up to 4096 bytes without NUL";
            let fits = export.name.len() <= 4096 && !export.name.contains('\0');
            require(fits, key("name"), length)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
