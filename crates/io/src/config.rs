//! The configuration: how steps reach their files. `wattio.hpcio` reads the same table, `[hpcio]`.

use crate::damaris::Description;
use crate::error::{Error, Result, read_text};
use serde::de::{self, IntoDeserializer, Visitor, value};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use wattio_units::{Bytes, Seconds};

/// Numbers of writers and nodes go up to this.
const NUMBER_MAX: usize = 4096;
/// The least memory for dumps, in bytes.
const BUFFER_MIN: f64 = 65536.0;
/// How long what was accepted may be written after a signal, at most.
const GRACE_MAX_S: f64 = 86400.0;

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approach {
    /// Time partitioning: each rank waits until its step is written.
    Tp,
    /// Dedicated cores: ranks of each node that only write.
    Dc,
    /// Dedicated nodes: nodes that only write.
    Dn,
}

/// What happens to a dump that does not fit into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// The rank sleeps until there is room.
    Block,
    /// The oldest waiting dump is dropped, for all ranks.
    DropOldest,
}

/// What happens to dumps of earlier jobs in the output folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// A dump fails if one of the same step exists already.
    Refuse,
    /// It replaces the existing one, once it is complete.
    Overwrite,
    /// Earlier dumps are moved to a separate folder, such as `before-0001`, at the start.
    KeepApart,
}

/// How steps reach their files; the same on all ranks. The doc comments of the fields, with
/// `Allowed:` and `Default:`, are the source of the table in `docs/io-library.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Who writes: all ranks (`"tp"`), dedicated cores of each node (`"dc"`), or dedicated nodes
    /// (`"dn"`). Allowed: `"tp"`, `"dc"`, `"dn"`. Default: `"tp"`.
    #[serde(deserialize_with = "word")]
    pub approach: Approach,
    /// With `"dc"`: how many ranks of each node write. Allowed: 1 to 4096. Default: `1`.
    pub writers: usize,
    /// With `"dn"`: how many computing nodes share one writing node. Allowed: 1 to 4096. Default:
    /// `1`.
    pub ratio: usize,
    /// Emulates nodes of this many ranks each, so that one machine can stand in for several nodes.
    /// Allowed: 1 to 4096. Default: none: each machine is a node.
    pub ranks_per_node: Option<usize>,
    /// Memory on each node for dumps that are not yet written. Allowed: 64 KiB to 4096 TiB.
    /// Default: `"256 MiB"`.
    pub buffer: Bytes,
    /// What happens to a dump that does not fit into the buffer: the rank waits for room
    /// (`"block"`), or the oldest dump that nobody has begun to write is dropped, on all ranks
    /// (`"drop_oldest"`). Allowed: `"block"`, `"drop_oldest"`. Default: `"block"`.
    #[serde(deserialize_with = "word")]
    pub when_full: WhenFull,
    /// The folder for dumps. Allowed: a path. Default: `"dumps"`.
    pub output: PathBuf,
    /// How data is compressed. Allowed: `"none"`, `"gzip:1"` to `"gzip:9"`. Default: `"none"`.
    pub compression: String,
    /// Whether each block gets a CRC-32 checksum. Default: `true`.
    pub checksum: bool,
    /// Whether files are synced to disk before a dump becomes visible. Default: `false`.
    pub sync: bool,
    /// Whether to write `fields.h5` for each dump, in which each variable is one virtual dataset,
    /// and `dumps.xdmf` for the folder. Default: `true`.
    pub fields: bool,
    /// What happens to dumps of earlier jobs. Allowed: `"refuse"`, `"overwrite"`, `"keep_apart"`.
    /// Default: `"refuse"`.
    #[serde(deserialize_with = "word")]
    pub existing: Existing,
    /// After a signal, or after ranks have died, how long a writer goes on writing what it has
    /// accepted. Allowed: up to 1 d. Default: `"20 s"`.
    pub grace: Seconds,
    /// The HDF5 library that writers load. Allowed: a path. Default: the system's own.
    pub hdf5: Option<PathBuf>,
    /// The program that writers run. Allowed: a path. Default: `wattio-io-writer`, next to the
    /// library or in `PATH`.
    pub program: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            approach: Approach::Tp,
            writers: 1,
            ratio: 1,
            ranks_per_node: None,
            buffer: Bytes(268_435_456.0),
            when_full: WhenFull::Block,
            output: PathBuf::from("dumps"),
            compression: "none".to_owned(),
            checksum: true,
            sync: false,
            fields: true,
            existing: Existing::Refuse,
            grace: Seconds(20.0),
            hdf5: None,
            program: None,
        }
    }
}

/// A configuration file; its other tables are not read here.
#[derive(Deserialize)]
struct Document {
    #[serde(default, deserialize_with = "one_table")]
    hpcio: Option<Config>,
}

/// One of some names. What `Deserialize` is derived for says nothing of them where a number stands.
fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    given: D,
) -> std::result::Result<T, D::Error> {
    struct Word<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Word<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            let none: std::result::Result<T, value::Error> = T::deserialize("".into_deserializer());
            let told = none.err().map(|error| error.to_string()).unwrap_or_default();
            formatter.write_str(told.split_once("expected ").map_or("a string", |(_, names)| names))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<T, E> {
            T::deserialize(text.into_deserializer())
        }
    }
    given.deserialize_any(Word(PhantomData))
}

/// A table, and not a list of them, which a derived `Deserialize` takes for the values of its keys.
fn one_table<'de, D: Deserializer<'de>>(given: D) -> std::result::Result<Option<Config>, D::Error> {
    struct Table;
    impl<'de> Visitor<'de> for Table {
        type Value = Config;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("one table: [hpcio]")
        }

        fn visit_map<A: de::MapAccess<'de>>(
            self,
            keys: A,
        ) -> std::result::Result<Config, A::Error> {
            Config::deserialize(value::MapAccessDeserializer::new(keys))
        }
    }
    given.deserialize_any(Table).map(Some)
}

impl Config {
    /// Reads the `[hpcio]` table of a TOML file, or who writes from a Damaris file (`.xml`). In
    /// addition returns the total number of nodes that only write, which only a Damaris file gives.
    ///
    /// # Errors
    ///
    /// As `read`.
    pub fn read_any(path: &Path) -> Result<(Self, Option<usize>)> {
        if path.extension().is_some_and(|one| one.eq_ignore_ascii_case("xml")) {
            return Description::read(path)?
                .config()
                .map_err(|error| Error::Input(format!("{}: {error}", path.display())));
        }
        Self::read(path).map(|config| (config, None))
    }

    /// As `read_any`, for ranks of one node that meet their one writer at a path: who starts first, a rank
    /// or the writer, reads the same.
    ///
    /// # Errors
    ///
    /// As `read_any`; `Input` for what needs MPI.
    pub fn read_for_path(path: &Path) -> Result<Self> {
        let (config, _) = Self::read_any(path)?;
        let shown = path.display();
        match (config.approach, config.writers) {
            (Approach::Dn, _) => Err(Error::Input(format!(
                "{shown}: approach = \"dn\" needs MPI; allowed with a path: tp, dc"
            ))),
            (Approach::Dc, 2..) => Err(Error::Input(format!(
                "{shown}: writers = {} needs MPI; allowed with a path: 1",
                config.writers
            ))),
            _ => Ok(config),
        }
    }

    /// Read the `[hpcio]` table of a TOML file.
    ///
    /// # Errors
    ///
    /// `Input`: the file, the line or the key, what is wrong and what is allowed.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = read_text(path)?;
        Self::parse(&text).map_err(|error| Error::Input(format!("{shown}: {error}")))
    }

    /// Read the text of a TOML file as `read` does.
    ///
    /// # Errors
    ///
    /// As `read`, without the file's name.
    pub fn parse(text: &str) -> Result<Self> {
        let document: Document =
            toml::from_str(text).map_err(|error| Error::Input(toml_line(text, &error)))?;
        let config =
            document.hpcio.ok_or_else(|| Error::Input("has no table [hpcio]".to_owned()))?;
        config.check()?;
        Ok(config)
    }

    /// Whether the values go together.
    ///
    /// # Errors
    ///
    /// `Input`: the key, its value, and what is allowed.
    pub fn check(&self) -> Result<()> {
        let refuse = |text: String| Err(Error::Input(text));
        for (key, number) in [
            ("writers", Some(self.writers)),
            ("ratio", Some(self.ratio)),
            ("ranks_per_node", self.ranks_per_node),
        ] {
            if number.is_some_and(|number| !(1..=NUMBER_MAX).contains(&number)) {
                let number = number.unwrap_or_default();
                return refuse(format!("{key} = {number}; allowed: 1 to {NUMBER_MAX}"));
            }
        }
        if self.buffer.value() < BUFFER_MIN || self.buffer.value() > 2f64.powi(52) {
            return refuse(format!("buffer = \"{}\"; allowed: 64 KiB to 4096 TiB", self.buffer));
        }
        if !(0.0..=GRACE_MAX_S).contains(&self.grace.value()) {
            return refuse(format!("grace = \"{}\"; allowed: 0 s to 1 d", self.grace));
        }
        for (key, path) in [
            ("output", Some(&self.output)),
            ("hdf5", self.hdf5.as_ref()),
            ("program", self.program.as_ref()),
        ] {
            let Some(text) = path.map(|path| path.to_string_lossy()) else { continue };
            if text.is_empty() || text.contains('\0') {
                return refuse(format!("{key} = {text:?}; allowed: a path"));
            }
        }
        if self.gzip().is_none() && self.compression != "none" {
            let given = &self.compression;
            return refuse(format!("compression = {given:?}; allowed: none, gzip:1 to gzip:9"));
        }
        Ok(())
    }

    /// The level of compression, if there is any.
    #[must_use]
    pub fn gzip(&self) -> Option<u8> {
        match self.compression.strip_prefix("gzip:")?.as_bytes() {
            [digit @ b'1'..=b'9'] => Some(digit - b'0'),
            _ => None,
        }
    }

    /// The approach as one writes it on a command line.
    #[must_use]
    pub fn approach_text(&self) -> String {
        match self.approach {
            Approach::Tp => "tp".to_owned(),
            Approach::Dc => format!("dc:{}", self.writers),
            Approach::Dn => format!("dn:{}", self.ratio),
        }
    }
}

/// The line of a TOML error, and what is wrong there.
fn toml_line(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let what = text[begin..].lines().next().unwrap_or_default().trim();
    let shown: String = what.chars().filter(|letter| !letter.is_control()).take(60).collect();
    format!(
        "line {line}: {shown}: {}",
        wattio_units::in_words(error.message()).trim().replace('\n', "; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_table_is_read_and_what_is_absent_has_its_default() {
        let text = "[other]\nx = 1\n[hpcio]\napproach = \"dc\"\nwriters = 2\nbuffer = \"1 MiB\"\n";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.approach_text().as_str(), config.buffer.value()), ("dc:2", 1048576.0));
        assert_eq!(config.existing, Existing::Refuse);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        for (text, words) in [
            ("[hpcio\n", vec!["line 1"]),
            ("x = 1\n", vec!["[hpcio]"]),
            ("[hpcio]\nwriter = 1\n", vec!["writer", "writers"]),
            ("[hpcio]\napproach = \"dx\"\n", vec!["approach", "tp", "dn"]),
            ("[hpcio]\nwriters = 0\n", vec!["writers = 0", "4096"]),
            ("[hpcio]\nbuffer = \"1 B\"\n", vec!["buffer", "64 KiB"]),
            ("[hpcio]\ncompression = \"gzip:0\"\n", vec!["gzip:0", "gzip:9"]),
            ("[hpcio]\ngrace = \"-1 s\"\n", vec!["grace"]),
            // The library took the program itself for HDF5, and dumps went where the job was started.
            ("[hpcio]\nhdf5 = \"\"\n", vec!["hdf5 = \"\"; allowed: a path"]),
            ("[hpcio]\noutput = \"\"\n", vec!["output = \"\"; allowed: a path"]),
            ("[hpcio]\nprogram = \"a\\u0000b\"\n", vec!["program = \"a\\0b\"; allowed: a path"]),
            ("[hpcio]\naggregation = \"dump\"\n", vec!["line 2", "aggregation", "approach"]),
            ("[hpcio]\nwhen_full = \"write_through\"\n", vec!["line 2", "drop_oldest"]),
            ("[hpcio]\nwriters = -1\n", vec!["line 2", "writers", "-1"]),
            ("[hpcio]\n\nwriters = \"2\"\n", vec!["line 3", "\"2\""]),
            ("[[hpcio]]\napproach = \"tp\"\n", vec!["line 1", "one table: [hpcio]"]),
            ("[hpcio]\napproach = 1\n", vec!["line 2", "`1`, expected one of `tp`"]),
            ("hpcio = \"tp\"\n", vec!["line 1", "one table: [hpcio]"]),
            ("[hpcio.existing]\nx = 1\n", vec!["map", "`refuse`"]),
            ("[hpcio]\nbuffer = \"99999999 TiB\"\n", vec!["64 KiB to 4096 TiB"]),
        ] {
            let told = Config::parse(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| told.contains(word)), "{text:?}: {told}");
            assert!(!told.contains('\n'), "{told:?}");
        }
    }

    /// The writer read TOML alone, took `tp` for `dc:1`, and two writers for one.
    #[test]
    fn at_a_path_one_writer_serves_what_either_kind_of_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Config::read_for_path(&path)
                .map(|config| config.approach_text())
                .map_err(|error| error.to_string())
        };
        let xml = |cores: usize, nodes: usize| {
            format!(
                "<simulation><architecture><dedicated cores=\"{cores}\" nodes=\"{nodes}\"/>\
                 </architecture></simulation>"
            )
        };
        for (name, text, found) in [
            ("a.xml", xml(0, 0), Ok("tp")),
            ("a.xml", xml(1, 0), Ok("dc:1")),
            ("a.xml", xml(2, 0), Err("writers = 2 needs MPI; allowed with a path: 1")),
            ("a.xml", xml(0, 1), Err("approach = \"dn\" needs MPI; allowed with a path: tp, dc")),
            ("a.toml", "[hpcio]\napproach = \"tp\"\nwriters = 2\n".to_owned(), Ok("tp")),
        ] {
            let shown = folder.path().join(name);
            let found = found.map_err(|told| format!("{}: {told}", shown.display()));
            assert_eq!(read(name, text.clone()), found.map(str::to_owned));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\[hpcio\\]\n)?\\PC{0,200}") {
            let _ = Config::parse(&text);
        }
    }
}
