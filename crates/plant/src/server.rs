//! A whole server description, read from TOML and checked.

use crate::cores::Cores;
use crate::description::{Background, Cache, Group, Path, PathKind, Sizing, Work};
use crate::drives::Drives;
use crate::load_error::{DescriptionError, read_toml, require};
use serde::{Deserialize, Serialize};
use wattio_units::{Seconds, Watts};

/// The most core groups that a server may have.
pub const GROUPS_MAX: usize = 8;

/// A storage server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Short name, used in results.
    pub name: String,
    /// What it is, in a sentence.
    pub title: String,
    /// What was assumed and why; printed with every result.
    pub assumptions: Vec<String>,
    /// Power of everything that is neither core nor drive.
    pub rest_power: Watts,
    /// Time on the network, both ways together.
    pub network: Seconds,
    /// Client threads that saturate it; pressure is measured with them.
    pub clients: u32,
    /// The cores.
    pub cores: Cores,
    /// The core groups.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// Background work; none: the server does nothing for itself.
    #[serde(default)]
    pub background: Option<Background>,
    /// The drives; none: no path may use them.
    #[serde(default)]
    pub drives: Option<Drives>,
    /// The read cache.
    pub cache: Cache,
    /// How times grow with the size of a request.
    pub sizing: Sizing,
    /// The ways of requests through the server.
    #[serde(rename = "path")]
    pub paths: Vec<Path>,
}

impl Server {
    /// Reads and checks a description.
    ///
    /// # Errors
    /// The line and key that cannot be used, and what is allowed there.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let server: Self = read_toml(text)?;
        server.check()?;
        Ok(server)
    }

    /// Index of a group by its name.
    #[must_use]
    pub fn group_index(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.name == name)
    }

    /// The path of a kind of request.
    #[must_use]
    pub fn path(&self, kind: PathKind) -> Option<&Path> {
        self.paths.iter().find(|path| path.kind == kind)
    }

    fn check(&self) -> Result<(), DescriptionError> {
        require(!self.name.is_empty(), "name", "must not be empty")?;
        require(self.rest_power.0 >= 0.0, "rest_power", "must not be negative")?;
        let network = (0.0..=10.0).contains(&self.network.0);
        require(network, "network", format!("is {}; allowed is 0 s to 10 s", self.network))?;
        require((1..=100_000).contains(&self.clients), "clients", "allowed is 1 to 100000")?;
        self.cores.check()?;
        self.check_groups()?;
        if let Some(background) = &self.background {
            let slice = (1e-6..=1.0).contains(&background.slice.0);
            require(slice, "background.slice", "allowed is 1 us to 1 s")?;
            let limit = (0.0..=86400.0).contains(&background.backlog_limit.0);
            require(limit, "background.backlog_limit", "allowed is 0 s to 1 d")?;
        }
        if let Some(drives) = &self.drives {
            drives.check()?;
        }
        for (key, share) in [
            ("cache.hit_random", self.cache.hit_random),
            ("cache.hit_sequential", self.cache.hit_sequential),
            ("sizing.core_share", self.sizing.core_share),
        ] {
            require((0.0..=1.0).contains(&share), key, format!("is {share}; allowed is 0 to 1"))?;
        }
        require(self.sizing.reference.0 >= 1.0, "sizing.reference", "must be at least 1 B")?;
        self.check_paths()
    }

    fn check_groups(&self) -> Result<(), DescriptionError> {
        let count = self.groups.len();
        let allowed = format!("has {count} entries; allowed is 1 to {GROUPS_MAX}");
        require((1..=GROUPS_MAX).contains(&count), "group", allowed)?;
        for (at, group) in self.groups.iter().enumerate() {
            let unique = self.group_index(&group.name) == Some(at) && !group.name.is_empty();
            require(unique, format!("group[{at}].name"), "must be unique and not empty")?;
            require(
                (1..=4096).contains(&group.cores),
                format!("group[{at}].cores"),
                format!("is {}; allowed is 1 to 4096", group.cores),
            )?;
            require(
                (1..=group.cores).contains(&group.cores_min),
                format!("group[{at}].cores_min"),
                format!("is {}; allowed is 1 to {} (its cores)", group.cores_min, group.cores),
            )?;
            require(
                (0.0..=f64::from(group.cores)).contains(&group.background_cores),
                format!("group[{at}].background_cores"),
                format!("is {}; allowed is 0 to its cores", group.background_cores),
            )?;
            require(
                group.background_cores == 0.0 || self.background.is_some(),
                format!("group[{at}].background_cores"),
                "needs a table [background]",
            )?;
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<(), DescriptionError> {
        for kind in [PathKind::Read, PathKind::Write] {
            let count = self.paths.iter().filter(|path| path.kind == kind).count();
            require(count == 1, "path", format!("{kind:?} has {count} paths; it needs one"))?;
        }
        let hits = self.paths.iter().filter(|path| path.kind == PathKind::ReadHit).count();
        require(hits <= 1, "path", format!("ReadHit has {hits} paths; it may have one"))?;
        let hits = hits == 1;
        let uncached = self.cache.hit_random == 0.0 && self.cache.hit_sequential == 0.0;
        require(hits || uncached, "path", "a cache that hits needs a path of kind \"read-hit\"")?;
        for (at, path) in self.paths.iter().enumerate() {
            require(
                (1..=32).contains(&path.stages.len()),
                format!("path[{at}].stages"),
                "needs 1 to 32 stages",
            )?;
            for (step, stage) in path.stages.iter().enumerate() {
                let key = format!("path[{at}].stages[{step}]");
                let works = !matches!(stage.on, Work::Answer | Work::Persist);
                let least_s = if works { 1e-9 } else { 0.0 };
                let time = (least_s..=60.0).contains(&stage.time.0);
                let allowed =
                    if works { "allowed is 1 ns to 60 s" } else { "allowed is 0 s to 60 s" };
                require(time, format!("{key}.time"), allowed)?;
                match &stage.on {
                    Work::Group(name) => {
                        let names: Vec<_> = self.groups.iter().map(|g| g.name.as_str()).collect();
                        let message =
                            format!("names no group: {name:?}; there are {}", names.join(", "));
                        require(self.group_index(name).is_some(), format!("{key}.on"), message)?;
                    }
                    Work::DriveRead | Work::DriveWrite => require(
                        self.drives.is_some(),
                        format!("{key}.on"),
                        "uses a drive, but the description has no [drives]",
                    )?,
                    Work::Persist | Work::Answer => {}
                }
            }
            let unanswered = path.stages.iter().take_while(|stage| stage.on != Work::Answer);
            let wait_s = self.network.0 + unanswered.map(|stage| stage.time.0).sum::<f64>();
            require(
                wait_s >= 1e-9,
                format!("path[{at}].stages"),
                "answers the client in no time: it needs a stage before, or network time",
            )?;
            let answers =
                path.stages.iter().filter(|s| matches!(s.on, Work::Persist | Work::Answer));
            require(
                answers.count() <= 1,
                format!("path[{at}].stages"),
                "answers the client more than once",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BUILT_IN, DORADO6000};
    use proptest::prelude::*;
    use wattio_units::Hertz;

    #[test]
    fn the_built_in_descriptions_are_valid_and_named_as_they_are_called() {
        for (name, text) in BUILT_IN {
            let server = Server::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(server.name, name);
            assert!(!server.assumptions.is_empty());
        }
    }

    #[test]
    fn a_mistyped_key_names_the_line_and_the_nearest_key() {
        let text = DORADO6000.replace("static_power", "static_powr");
        let line = DORADO6000.lines().position(|l| l.starts_with("static_power")).unwrap() + 1;
        let message = Server::from_toml(&text).unwrap_err().to_string();
        assert!(message.starts_with(&format!("line {line}:")), "{message}");
        assert!(message.contains("did you mean `static_power`?"), "{message}");
    }

    #[test]
    fn values_out_of_range_and_foreign_names_are_refused_by_key() {
        let cases = [
            ("cores_min = 2", "cores_min = 99", "group[0].cores_min"),
            ("hit_random = 0.10", "hit_random = 1.5", "cache.hit_random"),
            ("group = \"kv\"", "group = \"vk\"", "path[0].stages[1].on"),
            (
                "time_variation = 0.3",
                "wake = { wait = \"1 us\", work = \"1 us\" }\ntime_variation = 0.3",
                "cores.wake",
            ),
            ("rest_power = \"133 W\"", "rest_power = \"-1 W\"", "rest_power"),
        ];
        for (from, to, key) in cases {
            assert!(DORADO6000.contains(from), "{from}");
            let message =
                Server::from_toml(&DORADO6000.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(message.starts_with(key), "{message}");
        }
    }

    #[test]
    fn a_lower_frequency_stretches_only_the_bound_share() {
        let server = Server::from_toml(DORADO6000).unwrap();
        let slow = server.cores.stretch(server.cores.frequency_max * 0.3);
        assert!((slow - (0.45 + 0.55 / 0.3)).abs() < 1e-12);
        assert!((server.cores.power_running(Hertz(1.3e9)).0 - (2.5 + 0.15)).abs() < 1e-12);
    }

    #[test]
    fn a_sleeping_core_may_draw_more_at_a_higher_frequency() {
        let text = crate::SMALL.replace(
            "idle_power = \"0.4 W\"",
            "idle_power = \"0.4 W\"\nidle_frequency_power = \"0.6 W\"",
        );
        let cores = Server::from_toml(&text).unwrap().cores;
        assert!((cores.power_idle(cores.frequency_max).0 - 1.0).abs() < 1e-12);
        assert!((cores.power_idle(Hertz(1.5e9)).0 - 0.7).abs() < 1e-12);
        let polling = text
            .replace("idle = \"c-states\"", "idle = \"polling\"")
            .replace("idle_power = \"0.4 W\"", "");
        let message = Server::from_toml(&polling).unwrap_err().to_string();
        assert!(message.starts_with("cores.idle_frequency_power: "), "{message}");
    }

    #[test]
    fn native_power_of_the_document_comes_out_of_its_parts() {
        // pacer.md: 611 W at 1 %, 654 W at 10 %, 721 W at 100 % pressure, all cores at f_max.
        let server = Server::from_toml(DORADO6000).unwrap();
        let drives = server.drives.as_ref().unwrap();
        let cores = server.cores.power_running(server.cores.frequency_max) * 96.0;
        for (share, expected) in [(0.01, 611.0), (0.10, 654.0), (1.0, 721.0)] {
            let total = cores + drives.power_awake(share) * 24.0 + server.rest_power;
            assert!((total.0 - expected).abs() < 1.0, "{share}: {total}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = Server::from_toml(&text);
        }

        #[test]
        fn a_damaged_description_is_an_error_or_still_valid(at in 0usize..4000, byte in 32u8..127) {
            let mut bytes = DORADO6000.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes) {
                let _ = Server::from_toml(&text);
            }
        }
    }
}
