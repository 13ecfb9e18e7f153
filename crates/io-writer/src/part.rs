//! Part files: the blocks that one writer writes of one dump.
//!
//! ```text
//! /<variable>/<rank, six digits>     attributes: global_shape, offset (where known), crc32, its own
//! /<variable>/box-<rank>             virtual: what many blocks fill together, that rank's first
//! ```
//!
//! HDF5 lays the file out and writes what describes the data. The data themselves go by plain writes
//! to where HDF5 has placed them: straight from the memory that ranks share, and with errors that are
//! seen. Compressed data go through HDF5.

use crate::boxes;
use crate::hdf5::{Attributed, Dataset, File, Hdf5, Hdf5Error};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use wattio_io::block::{Attributes, Block, Type, Value};
use wattio_io::config::Config;

/// The version of this form.
pub const VERSION: i64 = 1;
/// Bytes of a chunk of compressed data, about.
const CHUNK: u64 = 1 << 20;
/// Bytes that are written at once: in between, it is seen whether time is over.
const PIECE: usize = 8 << 20;

/// A block as the manifest tells of it.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    name: String,
    rank: usize,
    shape: Vec<u64>,
    dtype: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_shape: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32: Option<u32>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    attributes: serde_json::Map<String, serde_json::Value>,
}

/// The name of a writer's file.
#[must_use]
pub fn file_name(process: usize) -> String {
    format!("part-{process:06}.h5")
}

/// What a part is of.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The job.
    pub job: &'a str,
    /// The step.
    pub step: u64,
    /// The writer.
    pub process: usize,
}

/// A part file that is being written.
pub struct Part<'a> {
    path: PathBuf,
    hdf5: File<'a>,
    library: &'a Hdf5,
    plain: OwnedFd,
    groups: HashSet<String>,
    facts: Vec<Fact>,
    fields: bool,
    checksum: bool,
    gzip: Option<u8>,
    sync: bool,
}

impl<'a> Part<'a> {
    /// Make a part file.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn create(
        library: &'a Hdf5,
        folder: &Path,
        origin: Origin<'_>,
        config: &Config,
    ) -> Result<Self, String> {
        let path = folder.join(file_name(origin.process));
        let failed = |error: Hdf5Error| explain(&path, &error);
        let hdf5 = library.create(&path).map_err(failed)?;
        let set = |name: &str, value: i64| hdf5.set_integers(name, &[value], true);
        set("wattio_hpcio", VERSION).map_err(failed)?;
        set("step", origin.step as i64).map_err(failed)?;
        set("process", origin.process as i64).map_err(failed)?;
        hdf5.set_text("job", origin.job).map_err(failed)?;
        let plain = rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| told(&path, error.raw_os_error()))?;
        Ok(Self {
            path,
            hdf5,
            library,
            plain,
            groups: HashSet::new(),
            facts: Vec::new(),
            fields: config.fields,
            checksum: config.checksum,
            gzip: config.gzip(),
            sync: config.sync,
        })
    }

    /// Write a block of a rank; `late` tells whether there is no time any more.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn write(
        &mut self,
        rank: usize,
        block: &Block,
        data: &[u8],
        late: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let variable = &block.variable;
        let failed = |error: Hdf5Error| explain(&self.path, &error);
        if !self.groups.contains(&variable.name) {
            self.hdf5.group(&variable.name).map_err(failed)?;
            self.groups.insert(variable.name.clone());
        }
        let name = dataset_name(&variable.name, rank);
        let kind = self.library.kind(variable.kind);
        let count = &variable.count;
        let dataset = match self.gzip {
            Some(level) if !data.is_empty() && !count.is_empty() => {
                let chunk = chunk(count, variable.kind.bytes());
                let made = self.hdf5.deflated(&name, kind, count, &chunk, level).map_err(failed)?;
                let elements = count.iter().product();
                made.write(kind, elements, variable.kind.bytes(), data).map_err(failed)?;
                made
            }
            _ => {
                let made = self.hdf5.plain(&name, kind, count).map_err(failed)?;
                if !data.is_empty() {
                    self.put(&made, data, late)?;
                }
                made
            }
        };
        let crc32 = self.checksum.then(|| crc32fast::hash(data));
        if let Some((whole, offset)) = &variable.place {
            dataset.set_integers("global_shape", &signed(whole), false).map_err(failed)?;
            dataset.set_integers("offset", &signed(offset), false).map_err(failed)?;
        }
        if let Some(crc32) = crc32 {
            dataset.set_integers("crc32", &[crc32.into()], true).map_err(failed)?;
        }
        set(&dataset, &variable.attributes).map_err(failed)?;
        self.facts.push(Fact {
            name: variable.name.clone(),
            rank,
            shape: count.clone(),
            dtype: variable.kind.text(),
            global_shape: variable.place.as_ref().map(|place| place.0.clone()),
            offset: variable.place.as_ref().map(|place| place.1.clone()),
            crc32,
            attributes: as_json(&variable.attributes),
        });
        Ok(())
    }

    /// The file is complete: close it, and bring it to the disk where that is wanted.
    ///
    /// # Errors
    ///
    /// In words; nothing is left of the file then.
    pub fn finish(self) -> Result<Vec<Fact>, String> {
        let joined = if self.fields { self.join() } else { Ok(()) };
        let Self { path, hdf5, plain, facts, sync, .. } = self;
        let closed = joined.and(hdf5.close()).map_err(|error| explain(&path, &error));
        let end = closed.and_then(|()| {
            if sync {
                rustix::fs::fsync(&plain).map_err(|error| told(&path, error.raw_os_error()))?;
            }
            Ok(facts)
        });
        if end.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        end
    }

    /// The file is no use: remove it.
    pub fn abandon(self) {
        // First, so that HDF5 does not write into a disk that may be full.
        let _ = rustix::fs::ftruncate(&self.plain, 0);
        let _ = std::fs::remove_file(&self.path);
        let _ = self.hdf5.close();
    }

    /// Make datasets of what many blocks fill together, which `fields.h5` is made of.
    fn join(&self) -> Result<(), Hdf5Error> {
        let mut members: BTreeMap<&str, Vec<&Fact>> = BTreeMap::new();
        for fact in self.facts.iter().filter(|fact| !fact.shape.contains(&0)) {
            members.entry(&fact.name).or_default().push(fact);
        }
        for (name, facts) in members {
            let Some(kind) = Type::ALL.into_iter().find(|kind| kind.text() == facts[0].dtype)
            else {
                continue;
            };
            let alike = |one: &Fact| {
                (one.dtype, &one.global_shape) == (facts[0].dtype, &facts[0].global_shape)
            };
            // Whoever publishes tells of ranks that disagree.
            if facts[0].global_shape.is_none() || !facts.iter().all(|one| alike(one)) {
                continue;
            }
            let kind = self.library.kind(kind);
            let places =
                facts.iter().map(|one| (one.offset.as_deref().unwrap_or(&[]), &one.shape[..]));
            for one in boxes::filled(places) {
                if one.blocks.len() < boxes::BLOCKS_MIN {
                    continue;
                }
                let mut all = self.library.virtual_(kind, &one.count)?;
                for &at in &one.blocks {
                    let offset = facts[at].offset.iter().flatten().zip(&one.offset);
                    let offset: Vec<u64> = offset.map(|(at, begin)| at - begin).collect();
                    all.add(c".", &dataset_name(name, facts[at].rank), &offset, &facts[at].shape)?;
                }
                let made = box_name(name, facts[one.blocks[0]].rank);
                self.hdf5.made_of(&made, kind, &one.count, &all)?;
            }
        }
        Ok(())
    }

    fn put(&self, made: &Dataset<'_>, data: &[u8], late: &dyn Fn() -> bool) -> Result<(), String> {
        let mut at = made
            .offset()
            .ok_or_else(|| format!("{}: HDF5 gives a block no place", self.path.display()))?;
        let mut left = data;
        while !left.is_empty() {
            if late() {
                return Err(format!("{}: there was no time to write it", self.path.display()));
            }
            match rustix::io::pwrite(&self.plain, &left[..left.len().min(PIECE)], at) {
                Ok(0) => return Err(told(&self.path, rustix::io::Errno::IO.raw_os_error())),
                Ok(written) => {
                    left = &left[written..];
                    at += written as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(told(&self.path, error.raw_os_error())),
            }
        }
        Ok(())
    }
}

/// Where a rank's block lies in a part file.
#[must_use]
pub fn dataset_name(variable: &str, rank: usize) -> String {
    format!("{variable}/{rank:06}")
}

/// Where what many blocks fill together lies in a part file; the first of them is a rank's.
#[must_use]
pub fn box_name(variable: &str, rank: usize) -> String {
    format!("{variable}/box-{rank:06}")
}

/// Set attributes of a file or a dataset.
///
/// # Errors
///
/// HDF5's.
pub fn set(target: &impl Attributed, attributes: &Attributes) -> Result<(), Hdf5Error> {
    attributes.iter().try_for_each(|(name, value)| match value {
        Value::Number(number) => target.set_number(name, *number),
        Value::Text(text) => target.set_text(name, text),
    })
}

/// Attributes as the manifest tells of them.
#[must_use]
pub fn as_json(attributes: &Attributes) -> serde_json::Map<String, serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Number(number) => serde_json::Value::from(*number),
        Value::Text(text) => serde_json::Value::from(text.as_str()),
    };
    attributes.iter().map(|(name, found)| (name.clone(), value(found))).collect()
}

/// What the kernel says of a file, in words.
#[must_use]
pub fn told(path: &Path, errno: i32) -> String {
    let text = wattio_files::plain(std::io::Error::from_raw_os_error(errno));
    if [libc::ENOSPC, libc::EDQUOT, libc::EFBIG].contains(&errno) {
        return format!("{}: the disk is full or a limit is reached ({text})", path.display());
    }
    format!("{}: {text}", path.display())
}

/// What HDF5 says of a file, which has the kernel's number in its midst.
#[must_use]
pub fn explain(path: &Path, error: &Hdf5Error) -> String {
    let number = error
        .0
        .split("errno = ")
        .nth(1)
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    match number.and_then(|number| number.parse().ok()) {
        Some(errno) => told(path, errno),
        None => format!("{}: {error}", path.display()),
    }
}

fn signed(numbers: &[u64]) -> Vec<i64> {
    numbers.iter().map(|&number| number as i64).collect()
}

/// The extents of chunks: halved along the first axes until one is about a mebibyte.
fn chunk(count: &[u64], element: u64) -> Vec<u64> {
    let mut found = count.to_vec();
    let mut axis = 0;
    while found.iter().product::<u64>() * element > CHUNK && axis < found.len() {
        if found[axis] == 1 {
            axis += 1;
        } else {
            found[axis] = found[axis].div_ceil(2);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_a_mebibyte_at_most() {
        assert_eq!(chunk(&[4, 5], 8), [4, 5]);
        let found = chunk(&[100, 1000, 1000], 8);
        assert!(found.iter().product::<u64>() * 8 <= CHUNK && found[2] == 1000, "{found:?}");
        assert_eq!(chunk(&[1 << 30], 1), [1 << 20]);
    }

    #[test]
    fn a_full_disk_is_called_so() {
        let error = Hdf5Error("file write failed: errno = 28, error message = 'x'".to_owned());
        let text = explain(Path::new("a.h5"), &error);
        assert_eq!(text, "a.h5: the disk is full or a limit is reached (No space left on device)");
        assert_eq!(explain(Path::new("a"), &Hdf5Error("other".to_owned())), "a: other");
    }
}
