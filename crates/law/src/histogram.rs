//! Requests by latency.

/// Requests by latency: ascending upper edges in microseconds with the requests in each bucket.
/// The last edge may be infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyHistogram {
    /// Upper edge in microseconds, requests above the edge before and up to this one.
    pub buckets: Vec<(f64, u64)>,
}

/// The bucket in which a quantile lies.
struct Bucket {
    /// How many requests lie at or below the quantile.
    rank: f64,
    /// How many of them are in earlier buckets.
    below: f64,
    requests: f64,
    from_us: f64,
    to_us: f64,
}

impl LatencyHistogram {
    /// Adds another histogram's requests. Edges that only one of them has are kept.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.len() == other.buckets.len()
            && self.buckets.iter().zip(&other.buckets).all(|(a, b)| a.0 == b.0)
        {
            for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
                mine.1 = mine.1.saturating_add(theirs.1);
            }
            return;
        }
        self.buckets.extend_from_slice(&other.buckets);
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.buckets.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(later.1);
            }
            same
        });
    }

    /// Multiplies every latency by a factor above zero.
    pub fn stretch(&mut self, factor: f64) {
        for bucket in &mut self.buckets {
            bucket.0 *= factor;
        }
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.1))
    }

    /// What no request was quicker than, in microseconds; 0 without requests.
    #[must_use]
    pub fn least_us(&self) -> f64 {
        let first = self.buckets.iter().position(|&(_, requests)| requests > 0);
        first.and_then(|at| at.checked_sub(1)).map_or(0.0, |below| self.buckets[below].0)
    }

    /// The quantile in microseconds, with the requests of its bucket spread evenly over it, as
    /// [`requests_above`](Self::requests_above) counts them; `None` without requests or where that
    /// bucket has no upper edge.
    #[must_use]
    pub fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let bucket = self.bucket_of(quantile)?;
        let width_us = bucket.to_us - bucket.from_us;
        let within_us = width_us * (bucket.rank - bucket.below) / bucket.requests;
        Some(bucket.from_us + within_us).filter(|us| us.is_finite())
    }

    /// The quantile as it is shown to people: `None` also in the first bucket, where it may be anything
    /// below that one's edge.
    #[must_use]
    pub fn shown_us(&self, quantile: f64) -> Option<f64> {
        self.quantile_us(quantile).filter(|_| !self.is_in_first_bucket(quantile))
    }

    /// How wide the bucket of the quantile is, in microseconds; `None` as for the quantile.
    #[must_use]
    pub fn width_us(&self, quantile: f64) -> Option<f64> {
        let bucket = self.bucket_of(quantile)?;
        Some(bucket.to_us - bucket.from_us).filter(|us| us.is_finite())
    }

    /// Whether the quantile lies in the first bucket, so that nothing is known but what it is below;
    /// `false` without requests.
    #[must_use]
    pub fn is_in_first_bucket(&self, quantile: f64) -> bool {
        self.bucket_of(quantile).is_some_and(|bucket| bucket.from_us == 0.0)
    }

    fn bucket_of(&self, quantile: f64) -> Option<Bucket> {
        let rank = quantile.clamp(0.0, 1.0) * self.requests() as f64;
        let (mut below, mut from_us) = (0.0, 0.0);
        for &(to_us, requests) in &self.buckets {
            let requests = requests as f64;
            if requests > 0.0 && below + requests >= rank {
                return Some(Bucket { rank, below, requests, from_us, to_us });
            }
            below += requests;
            from_us = to_us;
        }
        None
    }

    /// Requests that took longer than `limit_us`, estimated from the buckets: the bucket that holds
    /// the limit counts by the part of it that lies above.
    #[must_use]
    pub fn requests_above(&self, limit_us: f64) -> f64 {
        let mut from = 0.0;
        let mut above = 0.0;
        for &(to, requests) in &self.buckets {
            if from >= limit_us {
                above += requests as f64;
            } else if to > limit_us && to.is_finite() {
                above += requests as f64 * (to - limit_us) / (to - from);
            }
            from = to;
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(buckets: &[(f64, u64)]) -> LatencyHistogram {
        LatencyHistogram { buckets: buckets.to_vec() }
    }

    #[test]
    fn a_quantile_beyond_the_last_edge_is_not_known() {
        let seen = histogram(&[(100.0, 99), (f64::INFINITY, 1)]);
        assert_eq!(seen.quantile_us(0.99), Some(100.0));
        assert_eq!(seen.quantile_us(1.0), None);
        assert_eq!(LatencyHistogram::default().quantile_us(0.5), None);
    }

    #[test]
    fn a_quantile_is_where_requests_above_it_say() {
        let seen = histogram(&[(100.0, 90), (200.0, 8), (300.0, 0), (400.0, 2)]);
        for quantile in [0.5, 0.9, 0.95, 0.985, 0.995, 1.0] {
            let us = seen.quantile_us(quantile).unwrap();
            let above = seen.requests_above(us) / 100.0;
            assert!((above - (1.0 - quantile)).abs() < 1e-9, "{quantile}: {us} us, {above} above");
        }
        assert_eq!((seen.width_us(0.5), seen.width_us(0.99)), (Some(100.0), Some(100.0)));
        assert_eq!(LatencyHistogram::default().width_us(0.5), None);
        assert!(seen.is_in_first_bucket(0.9) && !seen.is_in_first_bucket(0.95));
        assert!(!LatencyHistogram::default().is_in_first_bucket(0.5));
        assert_eq!((seen.shown_us(0.9), seen.shown_us(0.99)), (None, seen.quantile_us(0.99)));
    }

    #[test]
    fn merging_keeps_every_request_whatever_the_edges() {
        let mut same = histogram(&[(10.0, 1), (20.0, 2)]);
        same.merge(&histogram(&[(10.0, 3), (20.0, 4)]));
        assert_eq!(same.buckets, [(10.0, 4), (20.0, 6)]);
        same.merge(&histogram(&[(15.0, 5), (20.0, 1)]));
        assert_eq!(same.buckets, [(10.0, 4), (15.0, 5), (20.0, 7)]);
    }

    #[test]
    fn requests_above_a_limit_count_by_the_part_of_their_bucket() {
        let seen = histogram(&[(100.0, 10), (200.0, 10), (f64::INFINITY, 1)]);
        assert_eq!(seen.requests_above(200.0), 1.0);
        assert_eq!(seen.requests_above(150.0), 6.0);
        assert_eq!(seen.requests_above(0.0), 21.0);
    }
}
