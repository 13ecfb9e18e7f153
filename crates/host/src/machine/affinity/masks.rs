//! The masks of the threads of a process, as a value: read, written and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use wattio_governor::Cpus;

/// A thread, identified for good: its number and its start in ticks since boot.
pub type ThreadId = (u32, u64);

/// The masks of the threads of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masks {
    /// The mask of the main thread and of all that are not listed.
    pub default: Cpus,
    /// The masks of threads that differ.
    pub threads: BTreeMap<ThreadId, Cpus>,
}

impl Masks {
    /// The processors of all masks together.
    pub(super) fn all(&self) -> Cpus {
        self.threads.values().fold(self.default.clone(), |all, mask| all.or(mask))
    }

    /// The mask of one thread.
    fn of(&self, thread: &ThreadId) -> &Cpus {
        self.threads.get(thread).unwrap_or(&self.default)
    }

    /// The masks with each one changed, and without those that became the default.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Cpus) -> Cpus) -> Self {
        let default = change(&self.default);
        let threads = self.threads.iter().map(|(&thread, mask)| (thread, change(mask)));
        Self { threads: threads.filter(|(_, mask)| *mask != default).collect(), default }
    }

    /// The masks that threads have here and had not before: whoever has one of them later has it
    /// from the writing of this value, or was born to a thread that had.
    pub(super) fn marks(&self, before: &Self) -> BTreeSet<Cpus> {
        let named = self.threads.keys().chain(before.threads.keys());
        let pairs = named.map(|thread| (self.of(thread), before.of(thread)));
        let all = pairs.chain([(&self.default, &before.default)]);
        all.filter(|(now, before)| now != before).map(|(now, _)| now.clone()).collect()
    }

    /// What puts these masks back to the `original` ones: threads with a mask of `ours` get theirs
    /// again, or the default where they were born since; a thread that was set to another mask
    /// keeps it. So does not one of the original's that the kernel gave `everything`, as it does
    /// when all processors leave that a thread may run on.
    ///
    /// Of the threads that neither value names nothing is known: `lives` tells of those that only
    /// the original names whether they have the default mask or are no more.
    pub(super) fn put_back(
        &self,
        original: &Self,
        ours: impl Fn(&Cpus) -> bool,
        everything: Option<&Cpus>,
        lives: impl Fn(&ThreadId) -> bool,
    ) -> Self {
        let goes_back = |thread: &ThreadId, mask: &Cpus| {
            ours(mask) || (original.threads.contains_key(thread) && everything == Some(mask))
        };
        let back = |thread: &ThreadId, mask: &Cpus| {
            if goes_back(thread, mask) { original.of(thread).clone() } else { mask.clone() }
        };
        let default =
            if ours(&self.default) { original.default.clone() } else { self.default.clone() };
        let found = self.threads.iter().map(|(thread, mask)| (*thread, back(thread, mask)));
        let hidden = original.threads.keys();
        let hidden = hidden.filter(|thread| !self.threads.contains_key(thread) && lives(thread));
        let hidden = hidden.map(|thread| (*thread, back(thread, &self.default)));
        let threads = found.chain(hidden).filter(|(_, mask)| *mask != default).collect();
        Self { default, threads }
    }

    /// Whether two values mean the same.
    ///
    /// A thread that only one of them names came, went or pinned itself meanwhile; it may have any
    /// mask within those that the other allows. All else must agree.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let agree = |a: &Self, b: &Self| {
            let allowed = b.all();
            a.threads.iter().all(|(thread, mask)| match b.threads.get(thread) {
                Some(theirs) => theirs == mask,
                None => mask.without(&allowed).is_empty(),
            })
        };
        self.default == other.default && agree(self, other) && agree(other, self)
    }
}

impl fmt::Display for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.default)?;
        self.threads
            .iter()
            .try_for_each(|((number, start), mask)| write!(f, ";{number}@{start}={mask}"))
    }
}

impl FromStr for Masks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';');
        let list = |text: &str| text.parse::<Cpus>().map_err(|error| error.to_string());
        let default = list(parts.next().unwrap_or_default())?;
        let mut threads = BTreeMap::new();
        for part in parts {
            let bad = || format!("{part:?} is not a thread's mask such as \"1240@5680=0-3\"");
            let (name, mask) = part.split_once('=').ok_or_else(bad)?;
            threads.insert(numbered(name).ok_or_else(bad)?, list(mask)?);
        }
        if default.is_empty() || threads.values().any(Cpus::is_empty) {
            return Err(format!("{text:?} has an empty mask: a thread must run somewhere"));
        }
        Ok(Self { default, threads })
    }
}

/// `number@start`.
pub(super) fn numbered(text: &str) -> Option<ThreadId> {
    let (number, start) = text.split_once('@')?;
    Some((number.parse().ok()?, start.parse().ok()?))
}
