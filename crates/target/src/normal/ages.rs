//! The age of the oldest request in flight.

use std::collections::VecDeque;
use std::time::Instant;

/// Requests that have been answered stay in the list until it is twice as long as it need be.
const SLACK: usize = 1024;

/// Requests in the order in which they came, some of them answered since.
#[derive(Debug, Default)]
pub(super) struct Ages(VecDeque<(usize, Instant)>);

impl Ages {
    /// A request has come, under this number.
    pub(super) fn came(&mut self, number: usize, since: Instant) {
        self.0.push_back((number, since));
    }

    /// When the oldest came of those `under_way`, which tells since when a number is, if it is.
    /// Numbers are used again.
    pub(super) fn oldest(
        &mut self,
        count: usize,
        under_way: impl Fn(usize) -> Option<Instant>,
    ) -> Option<Instant> {
        let is_there = |&(number, since): &(usize, Instant)| under_way(number) == Some(since);
        while self.0.front().is_some_and(|first| !is_there(first)) {
            self.0.pop_front();
        }
        // One that waits for long would keep all that came after it.
        if self.0.len() > 2 * count + SLACK {
            self.0.retain(is_there);
        }
        self.0.front().map(|&(_, since)| since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    proptest! {
        #[test]
        fn the_oldest_is_the_first_of_those_that_are_there(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200),
        ) {
            let start = Instant::now();
            let (mut ages, mut open) = (Ages::default(), BTreeMap::new());
            for (at, (ends, which)) in steps.into_iter().enumerate() {
                if ends && !open.is_empty() {
                    let number = *open.keys().nth(which.index(open.len())).unwrap();
                    open.remove(&number);
                } else {
                    let number = (0..).find(|number| !open.contains_key(number)).unwrap();
                    let since = start + Duration::from_micros(at as u64);
                    ages.came(number, since);
                    open.insert(number, since);
                }
                let oldest = ages.oldest(open.len(), |number| open.get(&number).copied());
                prop_assert_eq!(oldest, open.values().min().copied());
            }
        }
    }

    #[test]
    fn one_that_waits_for_ever_does_not_keep_the_others() {
        let start = Instant::now();
        let mut ages = Ages::default();
        for at in 0..100_000_u64 {
            ages.came(usize::from(at > 0), start + Duration::from_micros(at));
            assert_eq!(ages.oldest(1, |number| (number == 0).then_some(start)), Some(start));
        }
        assert!(ages.0.len() < 2 * SLACK);
    }
}
