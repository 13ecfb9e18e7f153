//! Groups, paths and the other parts of a server description.

use serde::{Deserialize, Serialize};
use wattio_units::{Bytes, Seconds};

/// A set of cores that share a queue of tasks and run each to completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name, for example `normal`.
    pub name: String,
    /// All cores of the group.
    pub cores: u32,
    /// The fewest that may stay on.
    pub cores_min: u32,
    /// Background work that becomes due in this group, in cores' worth at the highest frequency.
    #[serde(default)]
    pub background_cores: f64,
}

/// Work that no client waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Length of one task at the highest frequency; it runs to completion.
    pub slice: Seconds,
    /// How many seconds' worth of due work is remembered, but never less than makes a task; beyond
    /// it, work is given up.
    pub backlog_limit: Seconds,
}

/// Memory that answers reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Share of random reads that it answers.
    pub hit_random: f64,
    /// Share of sequential reads that it answers (prefetched).
    pub hit_sequential: f64,
}

/// Which requests take a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// A read that a drive must answer.
    Read,
    /// A read that the cache answers.
    ReadHit,
    /// A write.
    Write,
}

/// What a stage does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A task on a core of the named group.
    Group(String),
    /// A read of a drive.
    DriveRead,
    /// A write to the drives, at the cost of their layout.
    DriveWrite,
    /// Persisting a write; the client is answered when it is done.
    Persist,
    /// The client is answered; what follows is nobody's wait.
    Answer,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Who does it.
    pub on: Work,
    /// How long it takes at the highest frequency for a request of the reference size.
    #[serde(default)]
    pub time: Seconds,
}

/// The way of a request through the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Which requests take it.
    pub kind: PathKind,
    /// Its steps.
    pub stages: Vec<Stage>,
}

/// Size of request that stage times are given for, and how they grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizing {
    /// The size that stage times are given for.
    pub reference: Bytes,
    /// Share of a core task's time that grows with the size: `T(s) = T (1 - share + share s/ref)`.
    pub core_share: f64,
}
