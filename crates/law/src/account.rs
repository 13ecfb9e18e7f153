//! The account of a run: what the law did, and how well its bounds were kept.

use crate::{Bound, LatencyObservation, Limit, Scope, Statistic};
use serde::Serialize;
use wattio_units::Seconds;

/// Sums since the start, or since the end of a warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Time accounted for.
    pub span: Seconds,
    /// Steps of the law, one for each window.
    pub windows: u64,
    /// Windows whose latency was missing, too old or impossible.
    pub windows_missing: u64,
    /// Windows after which full speed was forced.
    pub windows_forced: u64,
    /// Requests that completed in windows with a usable latency.
    pub requests: u64,
    /// Windows that an alarm closed early.
    pub windows_alarmed: u64,
    /// Time spent in each of the law's modes, in the order in which they were first seen.
    pub span_by_mode: Vec<(&'static str, Seconds)>,
    /// Changes from one mode to another.
    pub mode_changes: u64,
    /// Steps that changed cores, frequencies or drives.
    pub knob_changes: u64,
    /// One entry for each bound.
    pub bounds: Vec<BoundAccount>,
}

/// How well one bound was kept, over the windows in which it was in force and could be judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundAccount {
    /// Which bound.
    pub bound: Bound,
    /// Windows that were judged.
    pub windows: u64,
    /// Windows over the limit.
    pub windows_over: u64,
    /// The statistic over its limit, of the worst window.
    pub worst: Option<f64>,
    /// Requests in judged windows.
    pub requests: u64,
    /// Requests that took longer than their window's limit, by the source's histogram; `None` if a
    /// window had none.
    pub requests_over: Option<f64>,
    /// Sum over the requests of the window's statistic, in microseconds.
    pub value_us_sum: f64,
    /// Sum over the requests of the window's limit, in microseconds.
    pub limit_us_sum: f64,
    /// Sum over the requests of the statistic at full speed, in microseconds, where that is known.
    pub full_speed_us_sum: f64,
    /// Sum over these requests of their window's own statistic, in microseconds.
    pub compared_us_sum: f64,
}

impl Account {
    /// An account of these bounds.
    #[must_use]
    pub fn of(bounds: &[Bound]) -> Self {
        let bounds = bounds.iter().map(|&bound| BoundAccount::new(bound)).collect();
        Self { bounds, ..Self::default() }
    }

    /// The bound on the mean whose [`loss`](BoundAccount::loss) is told as that of the mean latency: the
    /// tightest of those that are relative, or else the first.
    #[must_use]
    pub fn on_mean(&self) -> Option<&BoundAccount> {
        let share = |account: &BoundAccount| account.bound.share().unwrap_or(f64::INFINITY);
        let of_mean = self.bounds.iter().filter(|one| one.bound.statistic == Statistic::Mean);
        of_mean.reduce(|least, one| if share(one) < share(least) { one } else { least })
    }

    /// The share of the time in each mode; empty for laws without modes.
    #[must_use]
    pub fn mode_shares(&self) -> Vec<(&'static str, f64)> {
        let total: Seconds = self.span_by_mode.iter().map(|&(_, span)| span).sum();
        let share = |&(mode, span): &(&'static str, Seconds)| (mode, span / total);
        if total.0 > 0.0 { self.span_by_mode.iter().map(share).collect() } else { Vec::new() }
    }

    /// Adds everything since `before` again, `times` over.
    pub(crate) fn repeat(&mut self, before: &Self, times: u64) {
        let add = |now: &mut u64, then: u64| *now += (*now - then) * times;
        add(&mut self.windows, before.windows);
        add(&mut self.windows_missing, before.windows_missing);
        add(&mut self.windows_forced, before.windows_forced);
        add(&mut self.requests, before.requests);
        add(&mut self.windows_alarmed, before.windows_alarmed);
        add(&mut self.mode_changes, before.mode_changes);
        add(&mut self.knob_changes, before.knob_changes);
        let more = |now: Seconds, then: Seconds| now + (now - then) * times as f64;
        self.span = more(self.span, before.span);
        for (mode, span) in &mut self.span_by_mode {
            let then = before.span_by_mode.iter().find(|(known, _)| known == mode);
            *span = more(*span, then.map_or(Seconds(0.0), |&(_, then)| then));
        }
        for (now, then) in self.bounds.iter_mut().zip(&before.bounds) {
            now.repeat(then, times);
        }
    }

    pub(crate) fn spend(&mut self, mode: Option<&'static str>, dt: Seconds) {
        self.span = self.span + dt;
        let Some(mode) = mode else { return };
        match self.span_by_mode.iter_mut().find(|(known, _)| *known == mode) {
            Some((_, span)) => *span = *span + dt,
            None => self.span_by_mode.push((mode, dt)),
        }
    }
}

impl BoundAccount {
    /// Nothing judged yet.
    #[must_use]
    pub const fn new(bound: Bound) -> Self {
        Self {
            bound,
            windows: 0,
            windows_over: 0,
            worst: None,
            requests: 0,
            requests_over: Some(0.0),
            value_us_sum: 0.0,
            limit_us_sum: 0.0,
            full_speed_us_sum: 0.0,
            compared_us_sum: 0.0,
        }
    }

    /// Judges a window whose statistic would be `full_speed_us` at full speed. A window without
    /// requests, without its statistic or with an unknown limit is not judged.
    pub fn judge_against(&mut self, seen: &LatencyObservation, full_speed_us: Option<f64>) {
        let value_us = match self.bound.statistic {
            Statistic::Mean => seen.latency_us_mean,
            Statistic::Quantile(q) => seen.histogram.as_ref().and_then(|h| h.quantile_us(q)),
        };
        let limit_us = self.bound.limit_us(full_speed_us).filter(|&limit_us| limit_us > 0.0);
        let (Some(value_us), Some(limit_us), 1..) = (value_us, limit_us, seen.requests) else {
            return;
        };
        let weight = seen.requests as f64;
        self.windows += 1;
        self.windows_over += u64::from(value_us > limit_us);
        self.worst = Some(self.worst.unwrap_or(0.0).max(value_us / limit_us));
        self.requests = self.requests.saturating_add(seen.requests);
        let above = seen.histogram.as_ref().map(|histogram| histogram.requests_above(limit_us));
        self.requests_over = self.requests_over.zip(above).map(|(sum, above)| sum + above);
        self.value_us_sum += value_us * weight;
        self.limit_us_sum += limit_us * weight;
        if let Some(full_speed_us) = full_speed_us {
            self.full_speed_us_sum += full_speed_us * weight;
            self.compared_us_sum += value_us * weight;
        }
    }

    fn repeat(&mut self, before: &Self, times: u64) {
        self.windows += (self.windows - before.windows) * times;
        self.windows_over += (self.windows_over - before.windows_over) * times;
        self.requests += (self.requests - before.requests) * times;
        let more = |now: f64, then: f64| now + (now - then) * times as f64;
        let over = self.requests_over.zip(before.requests_over);
        self.requests_over = over.map(|(now, then)| more(now, then));
        self.value_us_sum = more(self.value_us_sum, before.value_us_sum);
        self.limit_us_sum = more(self.limit_us_sum, before.limit_us_sum);
        self.full_speed_us_sum = more(self.full_speed_us_sum, before.full_speed_us_sum);
        self.compared_us_sum = more(self.compared_us_sum, before.compared_us_sum);
    }

    /// The share of judged windows that were over the limit.
    #[must_use]
    pub fn windows_over_share(&self) -> Option<f64> {
        (self.windows > 0).then(|| self.windows_over as f64 / self.windows as f64)
    }

    /// The share of requests that took longer than their window's limit.
    #[must_use]
    pub fn requests_over_share(&self) -> Option<f64> {
        let over = self.requests_over.filter(|_| self.requests > 0);
        over.map(|over| over / self.requests as f64)
    }

    /// The statistic over its limit, over all judged windows: below 1 there is room. For a
    /// quantile that is the mean of the windows' quantiles.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.limit_us_sum > 0.0).then(|| self.value_us_sum / self.limit_us_sum)
    }

    /// The growth of the statistic over full speed, over the judged windows in which that is known.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        (self.full_speed_us_sum > 0.0).then(|| self.compared_us_sum / self.full_speed_us_sum - 1.0)
    }

    /// Whether the promise was kept; `None` if nothing was judged. A quantile over the run is kept
    /// where no greater share of the requests than it allows was over the limit.
    #[must_use]
    pub fn is_kept(&self) -> Option<bool> {
        let kept = match (self.bound.scope, self.bound.statistic) {
            (Scope::Window, _) => self.windows_over == 0,
            (Scope::Run, Statistic::Mean) => self.ratio()? <= 1.0,
            (Scope::Run, Statistic::Quantile(q)) => self.requests_over_share()? <= 1.0 - q,
        };
        (self.windows > 0).then_some(kept)
    }

    /// Changes the share of a relative bound; absolute ones stay.
    pub(crate) fn set_share(&mut self, share: f64) {
        if let Limit::Relative(old) = &mut self.bound.limit {
            *old = share;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LatencyHistogram;

    fn window(requests: u64, latency_us: f64, slow: u64) -> LatencyObservation {
        let buckets = vec![(100.0, requests - slow), (1000.0, slow)];
        LatencyObservation {
            requests,
            latency_us_mean: Some(latency_us),
            histogram: Some(LatencyHistogram { buckets }),
            ..LatencyObservation::quiet(Seconds(0.0))
        }
    }

    #[test]
    fn a_mean_over_the_run_may_be_over_in_a_window() {
        let mut account = BoundAccount::new(Bound::mean_relative(0.2));
        account.judge_against(&window(100, 130.0, 0), Some(100.0));
        account.judge_against(&window(300, 110.0, 0), Some(100.0));
        assert_eq!((account.windows_over, account.windows_over_share()), (1, Some(0.5)));
        assert!((account.loss().unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(account.is_kept(), Some(true));
        assert!((account.worst.unwrap() - 130.0 / 120.0).abs() < 1e-12);
        let mut strict = BoundAccount {
            bound: Bound { scope: Scope::Window, ..account.bound },
            ..account.clone()
        };
        assert_eq!(strict.is_kept(), Some(false));
        strict = BoundAccount::new(strict.bound);
        assert_eq!(strict.is_kept(), None, "nothing was judged");
    }

    #[test]
    fn a_quantile_over_the_run_counts_requests() {
        let bound: Bound = "p99 200 us".parse().unwrap();
        let mut account = BoundAccount::new(bound);
        account.judge_against(&window(1000, 90.0, 0), None);
        account.judge_against(&window(1000, 95.0, 18), None);
        // Of the 18 in the bucket from 100 to 1000 us, 8 of 9 lie above 200 us.
        assert!((account.requests_over.unwrap() - 16.0).abs() < 1e-9);
        assert_eq!(account.is_kept(), Some(true));
        assert_eq!(account.windows_over, 1, "one window's own p99 was over");
        account.judge_against(&window(1000, 95.0, 50), None);
        assert_eq!(account.is_kept(), Some(false));
    }

    /// The law learned a tail of 4 ms by straight lines within its bucket, and each window was judged
    /// by the bucket's upper edge, 5 ms: a constant load at full speed broke a bound of 20 % in all.
    #[test]
    fn a_load_that_stays_as_it_is_breaks_no_bound_above_what_it_is() {
        let buckets = vec![(1000.0, 80), (3000.0, 18), (5000.0, 2)];
        let histogram = LatencyHistogram { buckets };
        let full_speed_us = histogram.quantile_us(0.99);
        assert_eq!(full_speed_us, Some(4000.0));
        let seen = LatencyObservation { histogram: Some(histogram), ..window(100, 1310.0, 0) };
        for text in ["p99 20% run", "p99 1% window"] {
            let mut account = BoundAccount::new(text.parse().unwrap());
            account.judge_against(&seen, full_speed_us);
            assert_eq!((account.windows, account.windows_over), (1, 0), "{text}");
            assert_eq!((account.loss(), account.is_kept()), (Some(0.0), Some(true)), "{text}");
        }
    }

    /// Windows before a law knew full speed were a loss of all that they took.
    #[test]
    fn a_limit_that_is_a_time_is_judged_without_full_speed_and_the_loss_is_not() {
        let mut account = BoundAccount::new("mean 150 us run".parse().unwrap());
        account.judge_against(&window(100, 100.0, 0), None);
        assert_eq!((account.windows, account.is_kept(), account.loss()), (1, Some(true), None));
        account.judge_against(&window(100, 110.0, 0), Some(100.0));
        assert!((account.loss().unwrap() - 0.1).abs() < 1e-12, "{account:?}");
        assert!((account.ratio().unwrap() - 0.7).abs() < 1e-12, "{account:?}");
    }

    #[test]
    fn what_cannot_be_judged_is_not() {
        let mut account = BoundAccount::new(Bound::mean_relative(0.2));
        account.judge_against(&window(10, 130.0, 0), None);
        account.judge_against(&LatencyObservation::quiet(Seconds(0.0)), Some(100.0));
        assert_eq!((account.windows, account.is_kept(), account.ratio()), (0, None, None));
    }
}
