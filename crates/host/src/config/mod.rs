//! The daemon's configuration file: one typed schema for `wattiod` and `wattio check`.

mod application;
mod check;

pub use application::{Application, ApplicationConfig};
pub use check::{check_name, check_policy};

use crate::groups::GroupConfig;
use crate::guards::CheckConfig;
use crate::knobs::KnobConfig;
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// One of the kernel's meters by name, or the table of another source. The law uses it too, so
    /// it should measure everything that the law controls.
    pub meter: Option<MeterConfig>,
    /// A model file, or `assumed` for the one that ships with wattio.
    pub model: Option<String>,
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

/// Where page and metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Self(None));
        }
        let wrong = || {
            let message = format!(
                "listen = {text:?} is neither an address with a port such as \"127.0.0.1:9288\" \
                 nor \"off\""
            );
            serde::de::Error::custom(message)
        };
        text.parse().map(|address| Self(Some(address))).map_err(|_| wrong())
    }
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALLEST: &str = r#"
name = "nas"

[latency]
kind = "diskstats"
devices = ["sda"]

[[group]]
name = "all"
cores = "0-3"
"#;

    fn refusal(more: &str) -> String {
        DaemonConfig::from_toml(&format!("{SMALLEST}{more}")).unwrap_err().to_string()
    }

    #[test]
    fn the_smallest_file_is_enough() {
        let config = DaemonConfig::from_toml(SMALLEST).unwrap();
        assert_eq!(config.policy.name, "pacer");
        assert!(config.safety.md_arrays);
        assert!(config.service.listen.0.unwrap().ip().is_loopback());
        assert!(config.knobs.is_empty());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_do() {
        for (more, says) in [
            ("[policy]\nname = \"pacerr\"", "did you mean \"pacer\"?"),
            ("[policy]\nsettings = { plff = 0.1 }", "policy.settings.plff"),
            ("[policy]\ncompare = \"pacerr\"", "policy.compare"),
            ("[policy]\nbounds = [\"p99\"]", "the limit is missing"),
            ("[policy]\nsettings = { plf = 99 }", "allowed is 0.001 to 10"),
            (
                "[power]\nmeter = { kind = \"file\", path = \"p\", unit = \"W\" }",
                "power.meter.path: is",
            ),
            ("[power.meter]\nkind = \"file\"\npath = \"/p\"\nunit = \"kW\"", "expected one of `W`"),
            ("[safty]\n", "did you mean `safety`"),
            ("[safety]\nstale_after_windows = 0.5", "safety.stale_after_windows: is 0.5"),
            ("[safety]\ncool_down = \"2 h\"\ncool_down_max = \"1 h\"", "safety.cool_down_max"),
            ("[service]\nlisten = \"everywhere\"", "127.0.0.1:9288"),
            ("[[group]]\nname = \"more\"\ncores = \"0-\"", "group[1].cores"),
            ("[[group]]\nname = \"more\"\ncores = \"3-4\"", "3 already belong to another group"),
            (
                "queue = { url = \"h\", metric = \"m\" }",
                "group[0].queue.url: url = \"h\" does not begin",
            ),
            ("queue = { url = \"http://h/\", metric = \"m\", unit = 1 }", "unknown field `unit`"),
            ("kind = \"fast\"", "unknown variant `fast`"),
            (
                "kind = \"efficiency\"\n[[group]]\nname = \"p\"\ncores = \"3-4\"",
                "3 already belong to another group",
            ),
            ("cores_min = 5", "group[0].cores_min: is 5; allowed is 1 to the group's 4"),
            ("[[knob]]\nkind = \"cpu.trubo\"", "cpu.trubo"),
            (
                "[[knob]]\nkind = \"cpu.epp\"\n[[knob]]\nkind = \"cpu.epb\"",
                "cpu.epp, cpu.epb would never act",
            ),
            ("[[group]]\nname = \"all\"\ncores = \"4\"", "group[1].name: \"all\" is there twice"),
            ("[[knob]]\nkind = \"cpu.cpuset\"\n[[knob]]\nkind = \"cpu.cpuset\"", "2 times"),
            (
                "[background]\nkind = \"md\"\ndevices = [\"md0\"]\n[[knob]]\nkind = \"background\"\n\
                 md = [\"md0\", \"md1\"]",
                "background.devices: are [\"md0\"], and the knob background slows md = [\"md0\", \
                 \"md1\"]",
            ),
            ("[background]\nkind = \"md\"\ndevices = []\nspeed = 1", "speed"),
            (
                "cgroup = \"/a\"\nprocesses = { comm = \"b\" }\n[[knob]]\nkind = \"cpu.cpuset\"\n\
                 [[knob]]\nkind = \"cpu.affinity\"",
                "let one of them",
            ),
        ] {
            let message = refusal(more);
            assert!(message.contains(says), "{more}\n{message}");
        }
        let line = refusal("[service]\nlisten = \"everywhere\"");
        assert!(line.starts_with("line 12"), "{line}");
    }

    const SEVERAL: &str = r#"
name = "host"
policy = { bounds = ["mean 10% run"] }
[[application]]
name = "redis"
latency = { kind = "redis", server = "127.0.0.1:6379" }
[[application.group]]
name = "redis"
cores = "0-1"
[[application]]
name = "disks"
policy = { name = "foresight" }
latency = { kind = "diskstats", devices = ["sda"] }
[[application.group]]
name = "disks"
cores = "2-3"
"#;

    #[test]
    fn applications_have_their_own_and_what_the_host_has_for_all() {
        let config = DaemonConfig::from_toml(SEVERAL).unwrap();
        let [redis, disks] = config.applications()[..] else { panic!("{config:?}") };
        assert_eq!((redis.name, disks.name), (Some("redis"), Some("disks")));
        assert_eq!((redis.policy, redis.cpu), (&config.policy, &config.cpu));
        assert_eq!((disks.policy.name.as_str(), disks.policy.bounds.len()), ("foresight", 0));
        assert_eq!(config.all_groups().len(), 2);
        let alone = DaemonConfig::from_toml(SMALLEST).unwrap();
        let [alone] = alone.applications()[..] else { panic!("{alone:?}") };
        assert_eq!((alone.name, alone.groups.len()), (None, 1));
    }

    #[test]
    fn what_is_wrong_with_an_application_is_named_with_its_place() {
        for (from, to, says) in [
            ("cores = \"2-3\"", "cores = \"1-3\"", "application[1].group[0].cores: 1 already"),
            ("\"disks\"\ncores", "\"redis\"\ncores", "application[1].group[0].name: \"redis\""),
            ("\"disks\"\npolicy", "\"redis\"\npolicy", "application[1].name: \"redis\" is there"),
            ("\"disks\"\npolicy", "\"a/b\"\npolicy", "application[1].name: must be up to 64"),
            ("foresight", "foresigt", "application[1].policy.name"),
            (
                "name = \"host\"",
                "name = \"host\"\nlatency = { kind = \"diskstats\", devices = [\"a\"] }",
                "latency: is beside",
            ),
            (
                "[[application.group]]\nname = \"disks\"\ncores = \"2-3\"",
                "",
                "application[1].group: is missing",
            ),
            (
                "latency = { kind = \"diskstats\"",
                "latncy = { kind = \"diskstats\"",
                "did you mean `latency`",
            ),
        ] {
            let wrong = SEVERAL.replacen(from, to, 1);
            assert_ne!(wrong, SEVERAL, "{from}");
            let message = DaemonConfig::from_toml(&wrong).unwrap_err().to_string();
            assert!(message.contains(says), "{to}\n{message}");
        }
        let paced = SEVERAL
            .replace("latency =", "background = { kind = \"md\", devices = [\"md0\"] }\nlatency =");
        let message = DaemonConfig::from_toml(&paced).unwrap_err().to_string();
        assert!(message.contains("background: several applications have one"), "{message}");
        let message = DaemonConfig::from_toml("name = \"host\"").unwrap_err().to_string();
        assert!(
            message.contains("latency: is missing: a [latency] table, or an [[app"),
            "{message}"
        );
    }

    #[test]
    fn kinds_of_cores_may_share_a_list() {
        let more =
            "kind = 'efficiency'\n[[group]]\nname = 'p'\ncores = '0-3'\nkind = 'performance'";
        let config = DaemonConfig::from_toml(&format!("{SMALLEST}{more}")).unwrap();
        assert_eq!(config.groups.len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z\\[\\]=\"0-9 .\n]{0,200}") {
            let _ = DaemonConfig::from_toml(&text);
            let _ = DaemonConfig::from_toml(&format!("{SMALLEST}{text}"));
        }
    }
}
