//! The latency tail of the run: of all its requests as they were, and as they would be at full
//! speed.
//!
//! The quantile of a run is not the mean of its windows' quantiles, so windows are merged. What they
//! would be at full speed is told in two ways. Windows at full speed are a sample: each represents the
//! requests since the previous one. It errs by chance, and by much where a window of few requests
//! stands for many. Or every window is scaled to the mean that is expected at full speed: that errs as
//! far as the tail grows by another factor than the mean. So the scaled windows are believed as long
//! as the sample does not contradict them.

use wattio_law::LatencyHistogram;

/// Requests by latency, each window with a weight.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Ascending upper edges in microseconds, and the requests up to them.
    buckets: Vec<(f64, f64)>,
    requests: f64,
    /// The same with squared weights: how many requests the sample is worth.
    squares: f64,
}

/// No source has more edges; one that changes them without end starts anew.
const EDGES_MAX: usize = 8192;

impl Tail {
    /// Adds a window's requests, each for `weight` of them.
    pub fn add(&mut self, window: &LatencyHistogram, weight: f64) {
        self.add_at(window, weight, |edge| edge);
    }

    /// The same with other edges.
    fn add_at(&mut self, window: &LatencyHistogram, weight: f64, edge_at: impl Fn(f64) -> f64) {
        let part = |&(edge, requests): &(f64, u64)| (edge_at(edge), requests as f64 * weight);
        let parts = window.buckets.iter().map(part);
        if self.buckets.len() + window.buckets.len() > EDGES_MAX {
            *self = Self::default();
        }
        self.buckets.extend(parts.filter(|(edge, _)| !edge.is_nan()));
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.buckets.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        let requests = window.requests() as f64;
        self.requests += requests * weight;
        self.squares += requests * weight * weight;
    }

    /// What was added so far counts for less.
    pub fn forget(&mut self, keep: f64) {
        self.buckets.iter_mut().for_each(|bucket| bucket.1 *= keep);
        self.requests *= keep;
        self.squares *= keep * keep;
    }

    pub fn requests(&self) -> f64 {
        self.requests
    }

    /// Requests above a limit, by straight lines within buckets.
    pub fn above(&self, limit_us: f64) -> f64 {
        let (mut from, mut above) = (0.0, 0.0);
        for &(to, requests) in &self.buckets {
            if from >= limit_us {
                above += requests;
            } else if to > limit_us && to.is_finite() {
                above += requests * (to - limit_us) / (to - from);
            }
            from = to;
        }
        above
    }

    /// The quantile in microseconds, lower by as many standard deviations of its rank as asked; `None`
    /// without requests, where it lies in a bucket without an end, or where it may be above all of them.
    pub fn quantile_us(&self, quantile: f64, deviations: f64) -> Option<f64> {
        if self.requests <= 0.0 || self.squares <= 0.0 {
            return None;
        }
        let (share, worth) = (1.0 - quantile, self.requests * self.requests / self.squares);
        let off = deviations * (share * quantile / worth).sqrt();
        let mut above = (share + off).min(1.0) * self.requests;
        if above <= 0.0 {
            return None;
        }
        let mut froms = self.buckets.iter().rev().skip(1).map(|bucket| bucket.0);
        for &(to, requests) in self.buckets.iter().rev() {
            let from = froms.next().unwrap_or(0.0);
            if requests >= above {
                let us = to - (to - from) * above / requests.max(f64::MIN_POSITIVE);
                return us.is_finite().then_some(us);
            }
            above -= requests;
        }
        None
    }
}

/// All requests, and what they would be at full speed.
#[derive(Clone, Debug, Default)]
pub struct Tails {
    pub all: Tail,
    /// All requests, scaled to full speed.
    scaled: Tail,
    /// Those at full speed, for all.
    sampled: Tail,
    /// Requests since the last window at full speed.
    since: f64,
}

impl Tails {
    /// Takes in a window, of which `keep` of the past is kept. Its mean was `slower` times that at full
    /// speed: 1 at full speed itself.
    pub fn learn(
        &mut self,
        window: &LatencyHistogram,
        at_full_speed: bool,
        slower: f64,
        keep: f64,
    ) {
        for tail in [&mut self.all, &mut self.scaled, &mut self.sampled] {
            tail.forget(keep);
        }
        self.all.add(window, 1.0);
        let factor = slower.max(1.0).powf(TAIL_GROWTH);
        self.scaled.add_at(window, 1.0, |edge| on_grid(edge / factor));
        let requests = window.requests() as f64;
        self.since += requests;
        if at_full_speed && requests > 0.0 {
            self.sampled.add(window, self.since / requests);
            self.since = 0.0;
        }
    }

    /// The quantile at full speed in microseconds, lower by as many standard deviations of its rank as
    /// asked; `None` while it is not known.
    pub fn full_speed_us(&self, quantile: f64, deviations: f64) -> Option<f64> {
        let scaled_us = self.scaled.quantile_us(quantile, deviations)?;
        let most_us = self.sampled.quantile_us(quantile, -SAMPLE_DEVIATIONS);
        Some(most_us.map_or(scaled_us, |most_us| scaled_us.min(most_us)))
    }
}

/// The nearest of the edges that all scaled windows have in common.
fn on_grid(edge_us: f64) -> f64 {
    if edge_us.is_finite() {
        ((edge_us.clamp(1.0, EDGE_US_MAX).ln() * GRID).round() / GRID).exp()
    } else {
        edge_us
    }
}

/// Longest finite edge of scaled windows, in microseconds.
const EDGE_US_MAX: f64 = 1e8;
/// Their number for each factor of e.
const GRID: f64 = 200.0;
/// The power of the mean's growth by which the tail is taken to grow: where cores are fewer, those that
/// wait longest wait longer still. At 1, single runs end far above a bound on the 99th percentile (1.6
/// times); at 1.5, some 3 % more is saved and steady loads come within 2 % of it.
const TAIL_GROWTH: f64 = 2.0;
/// The scaled windows' quantile is not believed where it is further above the sample's, in standard
/// deviations of the sample's rank.
const SAMPLE_DEVIATIONS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(buckets: &[(f64, u64)]) -> LatencyHistogram {
        LatencyHistogram { buckets: buckets.to_vec() }
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let mut tail = Tail::default();
        assert_eq!(tail.quantile_us(0.95, 0.0), None);
        tail.add(&seen(&[(100.0, 90), (200.0, 10)]), 1.0);
        assert!((tail.quantile_us(0.95, 0.0).unwrap() - 150.0).abs() < 1e-9);
        assert!((tail.above(150.0) - 5.0).abs() < 1e-9);
        assert!(tail.quantile_us(0.95, 1.0).unwrap() < 130.0);
        tail.add(&seen(&[(f64::INFINITY, 100)]), 1.0);
        assert_eq!(tail.quantile_us(0.95, 0.0), None);
    }

    /// A mean of the windows' quantiles was taken for the run's: a first window with a long tail made
    /// it twice as high.
    #[test]
    fn windows_count_by_their_requests() {
        let (odd, usual) = (seen(&[(1000.0, 0), (2000.0, 100)]), seen(&[(100.0, 0), (200.0, 100)]));
        let mut tails = Tails::default();
        tails.learn(&odd, true, 1.0, 1.0);
        for window in 0..300 {
            tails.learn(&usual, window % 100 == 99, 1.0, 1.0);
        }
        assert_eq!((tails.all.requests(), tails.sampled.requests()), (30_100.0, 30_100.0));
        assert!(tails.full_speed_us(0.99, 0.0).unwrap() < 202.0);
        // Four windows of a hundred are a small sample, and say so.
        let sampled_us = |deviations| tails.sampled.quantile_us(0.99, deviations);
        assert!(sampled_us(1.0) < sampled_us(0.0));
    }

    /// A window with so many requests up to 100 us and so many from 300 to 400.
    fn two_kinds(quick: u64, late: u64) -> LatencyHistogram {
        seen(&[(50.0, 0), (100.0, quick), (300.0, 0), (400.0, late)])
    }

    /// Twenty requests at full speed stood for all of the minutes before, and there were none late among
    /// them: the limit fell from 420 to 120 us, and the bound was taken to be broken for good.
    #[test]
    fn few_requests_at_full_speed_do_not_stand_for_many() {
        let mut tails = Tails::default();
        tails.learn(&two_kinds(980, 20), true, 1.0, 1.0);
        let before_us = tails.full_speed_us(0.99, 0.0).unwrap();
        (0..100).for_each(|_| tails.learn(&two_kinds(980, 20), false, 1.0, 1.0));
        tails.learn(&two_kinds(20, 0), true, 1.0, 1.0);
        let after_us = tails.full_speed_us(0.99, 0.0).unwrap();
        assert!(before_us > 300.0 && (after_us / before_us - 1.0).abs() < 0.05, "{after_us}");
    }

    /// Were the scaled windows alone believed, a tail that grows faster than the mean would raise the
    /// limit with itself.
    #[test]
    fn the_sample_has_the_last_word_once_it_is_sure() {
        let mut tails = Tails::default();
        for _ in 0..50 {
            tails.learn(&two_kinds(1000, 0), true, 1.0, 1.0);
            (0..5).for_each(|_| tails.learn(&two_kinds(900, 100), false, 1.1, 1.0));
        }
        assert!(tails.scaled.quantile_us(0.99, 0.0).unwrap() > 300.0);
        assert!(tails.full_speed_us(0.99, 0.0).unwrap() <= 100.0);
    }

    #[test]
    fn slower_windows_are_scaled_to_full_speed_with_care() {
        let mut tails = Tails::default();
        tails.learn(&two_kinds(0, 1000), false, 1.1, 1.0);
        let full_us = tails.full_speed_us(0.5, 0.0).unwrap();
        assert!((300.0 / 1.1 / 1.1..400.0 / 1.1).contains(&full_us), "{full_us}");
        // What cannot be slower than full speed is not taken to be quicker at it.
        let mut quick = Tails::default();
        quick.learn(&two_kinds(0, 1000), false, 0.5, 1.0);
        assert!((quick.full_speed_us(0.5, 0.0).unwrap() / 350.0 - 1.0).abs() < 0.02);
    }

    /// Sources choose their edges: whatever they are, those of scaled windows are not too many to keep.
    #[test]
    fn scaled_windows_keep_all_requests_whatever_their_edges() {
        let mut tails = Tails::default();
        for window in 0..400_u32 {
            let edge = |at: u32| 1e-3 * 1.021_f64.powi(at as i32) * f64::from(window + 1);
            let mut buckets: Vec<_> = (0..1200).map(|at| (edge(at), 1)).collect();
            buckets.extend([(f64::INFINITY, 1), (f64::NAN, 0)]);
            tails.learn(&LatencyHistogram { buckets }, false, 1.3, 1.0);
        }
        assert_eq!(tails.scaled.requests(), 400.0 * 1201.0);
        assert!(tails.scaled.buckets.len() < EDGES_MAX / 2);
    }
}
