//! Sets of processors, as the kernel writes them: `0-3,8`.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The highest processor number that is believed.
const CPU_MAX: u32 = 65_535;

/// A set of processors by number: ascending, each once. One contiguous list, as it is made, copied
/// and compared in every window and hardly ever changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpus(Vec<u32>);

/// Why a text is not a list of processors.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} is not a list of processors: {part:?} is neither a number up to {CPU_MAX} nor a \
     range \"2-5\""
)]
pub struct CpusError {
    text: String,
    part: String,
}

impl Cpus {
    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a processor is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The processors, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Adds a processor.
    pub fn insert(&mut self, cpu: u32) {
        if let Err(at) = self.0.binary_search(&cpu) {
            self.0.insert(at, cpu);
        }
    }

    /// Those in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| other.contains(cpu)).collect())
    }

    /// Those in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Those in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.iter().filter(|&cpu| !other.contains(cpu)).collect())
    }

    /// Whether a processor is in both sets.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let (few, many) = if self.len() < other.len() { (self, other) } else { (other, self) };
        few.iter().any(|cpu| many.contains(cpu))
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Self, CpusError> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let number = |digits: &str| {
                let digits = digits.trim();
                let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|&cpu: &u32| plain && cpu <= CPU_MAX)
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err(CpusError { text: text.to_owned(), part: part.to_owned() }),
            }
        }
        Ok(cpus.into_iter().collect())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_kernels_lists_are_read_and_written() {
        for (text, written) in
            [("0-3,8\n", "0-3,8"), ("", ""), ("3,1,2", "1-3"), ("0", "0"), (" 5 - 6 ", "5-6")]
        {
            assert_eq!(text.parse::<Cpus>().unwrap().to_string(), written);
        }
        for bad in ["a", "3-1", "-1", "1-", "99999999", "+1", "1-70000"] {
            let message = bad.parse::<Cpus>().unwrap_err().to_string();
            assert!(message.contains("not a list of processors"), "{message}");
        }
    }

    proptest! {
        /// The sets of the standard library are the slow reference.
        #[test]
        fn sets_are_sets(
            one in proptest::collection::vec(0u32..20, 0..12),
            other in proptest::collection::vec(0u32..20, 0..12),
            more in 0u32..20,
        ) {
            let set = |cpus: &[u32]| cpus.iter().copied().collect::<BTreeSet<u32>>();
            let (mut a, b): (Cpus, Cpus) =
                (one.iter().copied().collect(), other.iter().copied().collect());
            let (mut x, y) = (set(&one), set(&other));
            let same = |cpus: &Cpus, set: BTreeSet<u32>| {
                cpus.iter().collect::<Vec<_>>() == set.into_iter().collect::<Vec<_>>()
            };
            prop_assert!(same(&a.and(&b), &x & &y) && same(&a.or(&b), &x | &y));
            prop_assert!(same(&a.without(&b), &x - &y));
            prop_assert_eq!(a.meets(&b), !x.is_disjoint(&y));
            prop_assert_eq!(a.contains(more), x.contains(&more));
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            a.insert(more);
            x.insert(more);
            prop_assert!(same(&a, x));
        }

        #[test]
        fn what_is_written_is_read_again(cpus in proptest::collection::btree_set(0u32..200, 0..40)) {
            let cpus: Cpus = cpus.into_iter().collect();
            prop_assert_eq!(cpus.to_string().parse::<Cpus>().unwrap(), cpus);
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Cpus>();
        }
    }
}
