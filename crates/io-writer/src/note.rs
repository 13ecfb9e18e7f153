//! What writers tell the one that publishes dumps, and what it answers: lines of JSON.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use wattio_io::slot::Fate;

/// Attributes by their names, each with the rank that has set it: the lowest, where several have.
pub type Named = BTreeMap<String, (usize, serde_json::Value)>;

/// Add what others have set.
pub fn merge(
    all: &mut Named,
    others: impl IntoIterator<Item = (String, (usize, serde_json::Value))>,
) {
    for (name, found) in others {
        let known = all.entry(name).or_insert_with(|| found.clone());
        if found.0 < known.0 {
            *known = found;
        }
    }
}

/// What a writer says first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// What members of the job know.
    pub token: String,
    /// The number of its files.
    pub process: usize,
    /// The ranks that it writes for.
    pub ranks: Vec<usize>,
}

/// What a writer has done of a dump.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note {
    /// The dump, counted from 0.
    pub number: u64,
    /// Its step.
    pub step: u64,
    /// Why its part will not come.
    #[serde(default)]
    pub error: Option<String>,
    /// Whether it was given up.
    #[serde(default)]
    pub dropped: bool,
    /// Attributes of the step.
    #[serde(default)]
    pub attributes: Named,
    /// Its blocks, as the manifest tells of them.
    pub blocks: Box<RawValue>,
}

/// What a writer says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Who it is.
    Hello(Hello),
    /// What it has done.
    Note(Note),
    /// It has no dump any more.
    Bye,
}

/// What became of a dump.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settled {
    /// The dump, counted from 0.
    pub number: u64,
    /// Its step.
    pub step: u64,
    /// Whether it was given up.
    pub dropped: bool,
    /// What went wrong.
    pub error: Option<String>,
}

impl Settled {
    /// The fate, as clients are told of it.
    #[must_use]
    pub fn fate(&self) -> Fate {
        match (&self.error, self.dropped) {
            (Some(_), _) => Fate::Failed,
            (None, true) => Fate::Dropped,
            (None, false) => Fate::Whole,
        }
    }
}

/// Bytes that come and are cut into lines.
#[derive(Debug, Default)]
pub struct Incoming(Vec<u8>);

impl Incoming {
    /// Take what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The lines that are complete.
    pub fn lines(&mut self) -> Vec<Vec<u8>> {
        let Some(last) = self.0.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        let rest = self.0.split_off(last + 1);
        let whole = std::mem::replace(&mut self.0, rest);
        whole[..last].split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// Bytes that wait for the end of their line.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_attributes_that_differ_that_of_the_lowest_rank_counts() {
        let set = |rank: usize, name: &str, value: &str| (name.to_owned(), (rank, value.into()));
        let mut all = Named::new();
        merge(&mut all, [set(2, "time", "two"), set(2, "only", "two")]);
        merge(&mut all, [set(1, "time", "one")]);
        merge(&mut all, [set(3, "time", "three")]);
        assert_eq!(all, Named::from([set(1, "time", "one"), set(2, "only", "two")]));
    }

    #[test]
    fn lines_come_in_any_pieces() {
        let mut incoming = Incoming::default();
        let mut found = Vec::new();
        for piece in [&b"a"[..], b"b\ncd\n", b"", b"e", b"\n\nf"] {
            incoming.push(piece);
            found.extend(incoming.lines());
        }
        assert_eq!(found, [b"ab".to_vec(), b"cd".to_vec(), b"e".to_vec(), b"".to_vec()]);
        assert_eq!(incoming.waiting(), 1);
    }
}
