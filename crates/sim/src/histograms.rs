//! The histograms of all latency windows, packed.
//!
//! A window's histogram is a list of (bucket, count). Both differ little from their neighbours, so
//! the differences are stored as variable-length integers: two to three bytes a bucket instead of
//! sixteen.

/// Histograms by window, in order.
#[derive(Clone, Debug, Default)]
pub struct WindowHistograms {
    bytes: Vec<u8>,
    /// Where each window's bytes end, and how many buckets it has.
    ends: Vec<(usize, u32)>,
}

/// One bucket: the highest latency in it, in nanoseconds, and how many fell into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Upper edge in nanoseconds.
    pub latency_ns: u64,
    /// Requests.
    pub count: u64,
}

impl WindowHistograms {
    /// Adds a window; buckets ascend.
    pub fn push(&mut self, buckets: impl Iterator<Item = Bucket>) {
        let mut before_ns = 0;
        let mut buckets_in_window = 0;
        for bucket in buckets {
            put(&mut self.bytes, bucket.latency_ns - before_ns);
            put(&mut self.bytes, bucket.count);
            before_ns = bucket.latency_ns;
            buckets_in_window += 1;
        }
        self.ends.push((self.bytes.len(), buckets_in_window));
    }

    /// How many windows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many buckets each window has.
    pub fn bucket_counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.ends.iter().map(|&(_, buckets)| buckets)
    }

    /// The buckets of all windows, one window after the other.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let mut at = 0;
        self.ends.iter().flat_map(move |&(end, buckets)| {
            let mut rest = &self.bytes[at..end];
            at = end;
            let mut latency_ns = 0;
            (0..buckets).map(move |_| {
                latency_ns += take(&mut rest);
                Bucket { latency_ns, count: take(&mut rest) }
            })
        })
    }
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            windows in proptest::collection::vec(
                proptest::collection::btree_map(0u64..1 << 50, 1u64..1 << 40, 0..20), 0..8)
        ) {
            let mut packed = WindowHistograms::default();
            for window in &windows {
                packed.push(window.iter().map(|(&latency_ns, &count)| Bucket { latency_ns, count }));
            }
            let counts: Vec<usize> = packed.bucket_counts().map(|n| n as usize).collect();
            prop_assert_eq!(counts, windows.iter().map(|w| w.len()).collect::<Vec<_>>());
            let expected: Vec<_> = windows
                .iter()
                .flatten()
                .map(|(&latency_ns, &count)| Bucket { latency_ns, count })
                .collect();
            prop_assert_eq!(packed.buckets().collect::<Vec<_>>(), expected);
        }
    }
}
