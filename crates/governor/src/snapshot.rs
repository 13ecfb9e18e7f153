//! The snapshot of old values, which is on disk before the first write.

use crate::knob::Address;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The version of the file that this code writes. It reads those before too.
const VERSION: u32 = 2;

/// One place's old value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// Where.
    pub address: Address,
    /// The value before wattio wrote.
    pub value: String,
    /// The knob that wrote, or whose write changes this place as a side effect.
    pub knob: String,
    /// The marks of the values that wattio wrote, see [`crate::MachineView::marks`]; if empty,
    /// whatever is found there counts as wattio's: the place leaves none, or nobody knows what the
    /// machine made of the last value.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub marks: BTreeSet<String>,
}

/// All old values of one start, in the order in which they were saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    version: u32,
    /// The boot of the machine that the values belong to.
    pub boot_id: String,
    /// The old values.
    pub saved: Vec<Saved>,
}

/// Why a snapshot could not be read or written.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// An I/O error.
    #[error("{}: {error}", path.display())]
    System {
        /// Which file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// The file is not a snapshot.
    #[error(
        "{}: not a snapshot of version {VERSION}: {message}; look at it, put its values back by hand, then remove it",
        path.display()
    )]
    Content {
        /// Which file.
        path: PathBuf,
        /// What was wrong.
        message: String,
    },
}

/// Where a snapshot is kept.
pub trait SnapshotStore: Send {
    /// The snapshot that an earlier start left.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError>;

    /// Saves a snapshot; returns once it would survive a power cut.
    ///
    /// # Errors
    /// When it could not be saved; the previous one is then still there.
    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError>;

    /// Everything was restored.
    ///
    /// # Errors
    /// When the snapshot could not be removed.
    fn clear(&mut self) -> Result<(), SnapshotError>;
}

impl Snapshot {
    /// An empty one.
    #[must_use]
    pub fn new(boot_id: impl Into<String>) -> Self {
        Self { version: VERSION, boot_id: boot_id.into(), saved: Vec::new() }
    }

    /// Reads the JSON text of a snapshot.
    ///
    /// # Errors
    /// What was wrong, as a sentence.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let snapshot: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if (1..=VERSION).contains(&snapshot.version) {
            Ok(snapshot)
        } else {
            Err(format!("its version is {}", snapshot.version))
        }
    }
}

/// A snapshot in a file that only its owner may read: written beside, synced, renamed.
///
/// It is rewritten for each batch of new places. The cost is in the syncs, which an append would
/// need too: on a virtual disk 10 to 20 ms, for one place as for five thousand (whose text takes 3
/// ms); in memory 0.02 ms for one and 1.2 ms for five thousand.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// In this file; its folder must be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn system(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError + use<> {
        let path = path.to_owned();
        |error| SnapshotError::System { path, error }
    }

    fn sync_folder(&self) -> Result<(), SnapshotError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        fs::File::open(folder).and_then(|file| file.sync_all()).map_err(Self::system(folder))
    }
}

impl SnapshotStore for FileStore {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Self::system(&self.path)(error)),
        };
        let snapshot = Snapshot::from_json(&text)
            .map_err(|message| SnapshotError::Content { path: self.path.clone(), message })?;
        Ok(Some(snapshot))
    }

    fn save(&mut self, snapshot: &Snapshot) -> Result<(), SnapshotError> {
        let beside = self.path.with_extension("new");
        let write = || {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&beside)?;
            file.write_all(&serde_json::to_vec_pretty(snapshot)?)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(Self::system(&self.path))?;
        self.sync_folder()
    }

    fn clear(&mut self) -> Result<(), SnapshotError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Self::system(&self.path)(error))
            }
            _ => self.sync_folder(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::new("boot");
        snapshot.saved.push(Saved {
            address: Address::new("file", "/sys/a"),
            value: "0-3".to_owned(),
            knob: "cpu.cpuset".to_owned(),
            marks: BTreeSet::from(["0".to_owned()]),
        });
        snapshot
    }

    #[test]
    fn a_snapshot_survives_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = FileStore::new(folder.path().join("snapshot.json"));
        assert_eq!(store.load().unwrap(), None);
        store.save(&snapshot()).unwrap();
        assert_eq!(store.load().unwrap(), Some(snapshot()));
        let mode = fs::metadata(&store.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        store.clear().unwrap();
        store.clear().unwrap();
        assert_eq!(store.load().unwrap(), None);
    }

    #[test]
    fn a_snapshot_of_the_version_before_is_read() {
        let place = r#"{"address": "file:/sys/a", "value": "0-3", "knob": "cpu.cpuset"}"#;
        let text = format!(r#"{{"version": 1, "boot_id": "boot", "saved": [{place}]}}"#);
        let read = Snapshot::from_json(&text).unwrap();
        assert_eq!(read.saved[0].address, snapshot().saved[0].address);
        assert!(read.saved[0].marks.is_empty());
    }

    #[test]
    fn what_is_no_snapshot_says_so_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshot.json");
        for (text, says) in [
            ("{", "EOF"),
            (r#"{"version": 3, "boot_id": "", "saved": []}"#, "its version is 3"),
            (r#"{"version": 0, "boot_id": "", "saved": []}"#, "its version is 0"),
            (r#"{"version": 1, "saved": []}"#, "boot_id"),
        ] {
            fs::write(&path, text).unwrap();
            let message = FileStore::new(&path).load().unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
            assert!(path.exists());
        }
    }
}
