//! Sets of processors, as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The highest processor number that is believed.
const CPU_MAX: u32 = 65_535;

/// A set of processors by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpus(BTreeSet<u32>);

/// Why a text is not a list of processors.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{text:?} is not a list of processors: {part:?} is no number up to {CPU_MAX} and no range \"2-5\""
)]
pub struct CpusError {
    text: String,
    part: String,
}

impl Cpus {
    /// Whether there is none.
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
        self.0.contains(&cpu)
    }

    /// The processors, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Adds a processor.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// Those in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Those in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Those in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Self, CpusError> {
        let mut cpus = BTreeSet::new();
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
        Ok(Self(cpus))
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
