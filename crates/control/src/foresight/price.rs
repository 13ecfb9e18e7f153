//! The price of latency: one virtual queue for each bound.
//!
//! Drift plus penalty (M. Neely, *Stochastic Network Optimization*, 2010): loss above what is
//! allowed becomes a debt, and the price of further loss follows the debt. For loads that repeat,
//! the mean loss then meets the bound, and the power is close to the least that any policy draws.

use super::doubt::Unknown;
use super::onsets::Waking;
use super::settings::ForesightSettings;
use super::tail::Tails;
use wattio_law::{Bound, LatencyObservation, Limit, Scope, Statistic};

/// A window's requests and what they lost.
#[derive(Clone, Copy, Debug)]
pub struct Spent<'a> {
    pub seen: &'a LatencyObservation,
    /// What the setting cost each of them, in microseconds.
    pub extra_us: f64,
    /// Their mean latency at full speed, in microseconds.
    pub full_speed_us: f64,
    /// All requests by latency, with this window's.
    pub tails: &'a Tails,
    /// Whether the setting was full speed.
    pub at_full_speed: bool,
    /// The share of the promise that is meant to be spent.
    pub aim: f64,
    /// Length over the length of a usual window.
    pub span: f64,
    /// What is unknown of all that was spent.
    pub unknown: Unknown,
    /// Whether the setting would be another one if latency had no price. A price that holds nothing has
    /// no reason to come down, and would be far too low once what held the setting is gone.
    pub price_binds: bool,
}

/// What one bound has cost and allowed.
#[derive(Clone, Debug)]
pub struct Account {
    pub bound: Bound,
    /// Decaying sums: spent and allowed, in request-microseconds (or requests, for quantiles). Where
    /// full speed itself is over the limit, what is allowed may be below 0.
    spent: f64,
    allowed: f64,
    /// The same since the start.
    spent_ever: f64,
    allowed_ever: f64,
    /// What may have been spent besides.
    unknown: Unknown,
    /// What a usual window allows, or takes of what others allow.
    usual: f64,
    /// Of a bound on a quantile: that at full speed, at its least, in microseconds.
    tail_us: Option<f64>,
    /// Requests that are over the limit, each by so many microseconds as the mean is below it.
    slack_us: f64,
    /// Logarithm of the price in watts for each request under way; `None` before it is known.
    ln_price: Option<f64>,
}

impl Account {
    pub fn new(bound: Bound) -> Self {
        Self {
            bound,
            spent: 0.0,
            allowed: 0.0,
            spent_ever: 0.0,
            allowed_ever: 0.0,
            unknown: Unknown::default(),
            usual: 0.0,
            tail_us: None,
            slack_us: 0.0,
            ln_price: None,
        }
    }

    /// By how much the mean may be above that at full speed, in microseconds; what a quantile
    /// leaves to the mean is a guess that the price corrects.
    pub fn allowance_us(&self, full_speed_us: f64) -> f64 {
        match (self.bound.statistic, self.bound.limit) {
            (_, Limit::Relative(share)) => share * full_speed_us,
            (Statistic::Mean, Limit::Absolute(limit)) => (limit.0 * 1e6 - full_speed_us).max(0.0),
            (Statistic::Quantile(_), Limit::Absolute(limit)) => {
                let left_us = |tail_us: f64| (limit.0 * 1e6 - tail_us).max(0.0);
                self.tail_us.map_or(0.0, |tail_us| left_us(tail_us) * TAIL_TO_MEAN)
            }
        }
    }

    /// The limit of a mean over the run, in microseconds, where it is a time.
    fn limit_of_run_us(&self) -> Option<f64> {
        let of_run = self.bound.scope == Scope::Run && self.bound.statistic == Statistic::Mean;
        self.bound.limit_us(None).filter(|_| of_run)
    }

    /// What the account allows for each of a window's requests, in microseconds. Of a limit that is a
    /// time, all that was measured and the setting did not cost is taken off: what full speed itself is
    /// over the limit by others make up for, and what is left is told by no estimate.
    fn allowed_us(&self, window: &Spent) -> f64 {
        match self.limit_of_run_us().zip(window.seen.latency_us_mean) {
            Some((limit_us, latency_us)) => limit_us - (latency_us - window.extra_us),
            None => self.allowance_us(window.full_speed_us),
        }
    }

    /// Takes in a window.
    pub fn spend(&mut self, window: &Spent, settings: &ForesightSettings) {
        let requests = window.seen.requests as f64;
        let (spent, allowed) = match self.bound.statistic {
            Statistic::Mean => {
                let (spent, allowed) =
                    (window.extra_us * requests, self.allowed_us(window) * requests);
                self.spent_ever += spent;
                self.allowed_ever += allowed;
                (spent, allowed)
            }
            Statistic::Quantile(q) => {
                self.tail_us = window.tails.full_speed_us(q, settings.careful_deviations);
                let limit_us = self.bound.limit_us(self.tail_us);
                let Some((histogram, limit_us)) = window.seen.histogram.as_ref().zip(limit_us)
                else {
                    return;
                };
                self.slack_us = (limit_us - window.full_speed_us).max(0.0);
                // What is known of full speed now holds for all that was seen.
                let all = &window.tails.all;
                self.spent_ever = all.above(limit_us);
                self.allowed_ever = (1.0 - q) * all.requests();
                // The price has no part in what is late at full speed; it rose without end in bursts that
                // full speed was late in, and nothing was saved long after them.
                let above = histogram.requests_above(limit_us);
                (if window.at_full_speed { 0.0 } else { above }, (1.0 - q) * requests)
            }
        };
        let keep = (-window.span / settings.debt_windows).exp();
        self.spent = self.spent * keep + spent;
        self.allowed = self.allowed * keep + allowed;
        let before = self.unknown;
        // Quantiles are counted, and of a limit that is a time it does not matter what full speed is.
        if self.bound.statistic == Statistic::Mean && self.limit_of_run_us().is_none() {
            self.unknown = window.unknown;
        }
        // What is known by now of earlier windows makes up for what they were charged too much.
        let unknown = self.unknown.ever - before.ever;
        let weight = 1.0 - (-window.span / settings.usual_windows).exp();
        self.usual += weight * (allowed.abs() / window.span - self.usual);
        let share = self.spent_share();
        if let Some(ln_price) = &mut self.ln_price {
            let mut change = 0.0;
            if self.usual > 0.0 {
                let off = (spent + unknown - window.aim * allowed) / self.usual;
                change += (settings.price_gain * off).clamp(-0.3 * window.span, 0.7);
            }
            // Windows with few requests tell little of themselves, but all together they do.
            let off = (share - window.aim).clamp(-1.0, 1.0);
            change += settings.share_gain * off * window.span.min(4.0);
            if window.price_binds || change > 0.0 {
                *ln_price = (*ln_price + change).clamp(LN_PRICE_MIN, LN_PRICE_MAX);
            }
        }
    }

    /// Charges what was spent without being known, in request-microseconds; negative: what was
    /// charged and not spent.
    pub fn correct(&mut self, spent: f64) {
        if self.bound.statistic == Statistic::Mean {
            let most = 0.5 * self.allowed.max(0.0);
            let spent = spent.clamp(-most, most);
            let (lately, ever) = (self.spent, self.spent_ever);
            self.spent = (self.spent + spent).max(0.0);
            self.spent_ever = (self.spent_ever + spent).max(0.0);
            if self.limit_of_run_us().is_some() {
                // It was taken for full speed's, and what was measured is what it was.
                self.allowed += self.spent - lately;
                self.allowed_ever += self.spent_ever - ever;
            }
        }
    }

    /// The share of the promise that is spent: lately or since the start, whichever is more.
    pub fn spent_share(&self) -> f64 {
        let (lately, ever) =
            (self.spent + self.unknown.lately, self.spent_ever + self.unknown.ever);
        share(lately, self.allowed).max(share(ever, self.allowed_ever))
    }

    /// What of the promise is left for a burst, in request-microseconds. Of a quantile it is requests
    /// that may be over the limit; no more are than lose what the mean is below it (A. Markov).
    pub fn reserve_us(&self) -> f64 {
        let left = (self.allowed_ever - self.spent_ever - self.unknown.ever).max(0.0);
        match self.bound.statistic {
            Statistic::Mean => left,
            Statistic::Quantile(_) => left * self.slack_us,
        }
    }

    /// What a request of a burst may lose besides.
    pub fn own_us(&self, full_speed_us: f64) -> f64 {
        match self.bound.statistic {
            Statistic::Mean => self.allowance_us(full_speed_us),
            Statistic::Quantile(q) => (1.0 - q) * self.slack_us,
        }
    }

    /// What is lost to drives that wake up, in request-microseconds. A request that waits for one is
    /// over a quantile's limit, however long it waits.
    pub fn lost_us(&self, waking: &Waking) -> f64 {
        match self.bound.statistic {
            Statistic::Mean => waking.waited_s * 1e6,
            Statistic::Quantile(_) => waking.requests * self.slack_us,
        }
    }

    /// Whether the limit cannot be told, as full speed's quantile is not known.
    pub fn lacks_limit(&self) -> bool {
        matches!(self.bound.statistic, Statistic::Quantile(_))
            && self.bound.limit_us(self.tail_us).is_none()
    }

    /// Sets the first price.
    pub fn begin(&mut self, price_w: f64) {
        self.ln_price.get_or_insert(price_w.max(1e-9).ln());
    }

    /// Lowers the price.
    pub fn relax(&mut self, by: f64) {
        if let Some(ln_price) = &mut self.ln_price {
            *ln_price = (*ln_price + by).max(LN_PRICE_MIN);
        }
    }

    pub fn has_price(&self) -> bool {
        self.ln_price.is_some()
    }

    /// Watts that may be spent to have one request fewer under way.
    pub fn price_w(&self, settings: &ForesightSettings, aim: f64) -> f64 {
        let Some(ln_price) = self.ln_price else { return 0.0 };
        let debt = settings.debt_gain * (self.spent_share() - aim);
        let debt = if self.bound.scope == Scope::Run { debt.clamp(-2.5, 8.0) } else { 0.0 };
        (ln_price + debt).clamp(LN_PRICE_MIN, LN_PRICE_MAX).exp()
    }

    /// The greatest extra latency that any one window may be expected to have, over the allowance.
    pub fn window_share(&self, settings: &ForesightSettings, aim: f64) -> f64 {
        match self.bound.scope {
            Scope::Window => aim,
            Scope::Run => settings.window_share_max,
        }
    }
}

/// The share that is spent of what is allowed: none before there were requests, and more than all
/// where they left nothing to allow.
fn share(spent: f64, allowed: f64) -> f64 {
    if allowed > 0.0 {
        spent / allowed
    } else if spent > allowed {
        OVERSPENT
    } else {
        0.0
    }
}

/// The share that is spent where nothing is allowed.
const OVERSPENT: f64 = 2.0;
/// Prices beyond these are as good as none and as full speed.
const LN_PRICE_MIN: f64 = -10.0;
const LN_PRICE_MAX: f64 = 25.0;
/// What the mean may grow by where a quantile may grow by 1, at first.
const TAIL_TO_MEAN: f64 = 0.5;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its law has failed")]
mod tests {
    use super::*;
    use wattio_law::LatencyHistogram;

    /// Takes in a window of 1000 requests that lost so much each.
    fn spend(account: &mut Account, full_speed_us: f64, extra_us: f64, price_binds: bool) {
        let settings = ForesightSettings::usual();
        let seen = LatencyObservation {
            requests: 1000,
            latency_us_mean: Some(full_speed_us + extra_us),
            ..LatencyObservation::quiet(wattio_units::Seconds(0.0))
        };
        let tails = &Tails::default();
        let aim = settings.spend_share;
        let window = Spent {
            seen: &seen,
            extra_us,
            full_speed_us,
            tails,
            at_full_speed: false,
            aim,
            span: 1.0,
            unknown: Unknown::default(),
            price_binds,
        };
        account.spend(&window, &settings);
    }

    /// The price after so many windows that spend so much of what they may.
    fn price_w(windows: usize, spent_of_allowed: f64, price_binds: bool) -> f64 {
        let mut account = Account::new(Bound::mean_relative(0.2));
        account.begin(1.0);
        for _ in 0..windows {
            spend(&mut account, 100.0, 20.0 * spent_of_allowed, price_binds);
        }
        account.ln_price.unwrap().exp()
    }

    /// While the burst that may come kept the setting up, the price fell to nothing; once it did not,
    /// the promise was overspent before the price was back.
    #[test]
    fn a_price_that_is_not_what_holds_the_setting_does_not_come_down() {
        assert!(price_w(50, 0.1, true) < 0.1);
        assert!((price_w(50, 0.1, false) - 1.0).abs() < 1e-9);
        assert!(price_w(50, 1.5, false) > 10.0);
    }

    /// No drive slept where a bound on a quantile was set, whatever it left.
    #[test]
    fn requests_that_wait_for_drives_are_over_a_quantiles_limit() {
        let waking = Waking { requests: 30.0, waited_s: 0.2 };
        let account = |bound: &str| Account {
            slack_us: 100.0,
            allowed_ever: 50.0,
            ..Account::new(bound.parse().unwrap())
        };
        let (mean, tail) = (account("mean 20%"), account("p99 20%"));
        assert_eq!((mean.lost_us(&waking), tail.lost_us(&waking)), (200e3, 3000.0));
        assert!(tail.lost_us(&waking) < tail.reserve_us());
        let broken = Account { spent_ever: 30.0, ..tail };
        assert!(broken.lost_us(&waking) > broken.reserve_us());
    }

    /// In bursts that full speed itself was late in the price rose 4000-fold, and it took a minute to come
    /// down again.
    #[test]
    fn what_is_late_at_full_speed_does_not_drive_the_price_of_a_quantile_up() {
        let settings = ForesightSettings::usual();
        let price_w = |at_full_speed: bool| {
            let mut account = Account::new("p99 20%".parse().unwrap());
            account.begin(1.0);
            let mut tails = Tails::default();
            for late in [0, 0, 0, 0, 300, 300, 300] {
                let buckets = vec![(100.0, 1000 - late), (500.0, late)];
                let seen = LatencyObservation {
                    requests: 1000,
                    latency_us_mean: Some(100.0),
                    histogram: Some(LatencyHistogram { buckets }),
                    ..LatencyObservation::quiet(wattio_units::Seconds(0.0))
                };
                tails.learn(seen.histogram.as_ref().unwrap(), late == 0, 1.0, 1.0);
                let window = Spent {
                    seen: &seen,
                    extra_us: 0.0,
                    full_speed_us: 100.0,
                    tails: &tails,
                    at_full_speed: at_full_speed || late == 0,
                    aim: settings.spend_share,
                    span: 1.0,
                    unknown: Unknown::default(),
                    price_binds: true,
                };
                account.spend(&window, &settings);
            }
            account.ln_price.unwrap().exp()
        };
        assert!(price_w(false) > 2.0, "{}", price_w(false));
        assert!(price_w(true) < 1.0, "{}", price_w(true));
    }

    /// What full speed itself exceeds an absolute limit by was forgotten: of two phases with means of
    /// 440 and 160 us the account allowed 190 us where a mean of 350 us leaves 100 for both, and 366 us
    /// came of it.
    #[test]
    fn what_full_speed_is_over_the_limit_by_is_made_up_for() {
        let mut account = Account::new("mean 350 us run".parse().unwrap());
        assert_eq!(account.spent_share(), 0.0, "nobody has asked for anything yet");
        for pairs in 1..=50 {
            spend(&mut account, 440.0, 0.0, true);
            assert!(pairs > 1 || account.spent_share() > 1.0, "there is nothing to spend");
            account.correct(0.0);
            spend(&mut account, 160.0, 70.0, true);
            let (spent, allowed) = (account.spent_ever / 1e3, account.allowed_ever / 1e3);
            assert!((spent - 70.0 * f64::from(pairs)).abs() < 1e-6, "{spent} us");
            assert!((allowed - 100.0 * f64::from(pairs)).abs() < 1e-6, "{allowed} us");
        }
        assert_eq!((account.allowance_us(440.0), account.allowance_us(160.0)), (0.0, 190.0));
        // In a bound on each window nobody makes up for others.
        let mut strict = Account::new("mean 350 us window".parse().unwrap());
        spend(&mut strict, 440.0, 0.0, true);
        spend(&mut strict, 160.0, 70.0, true);
        assert!((strict.allowed_ever / 1e3 - 190.0).abs() < 1e-6);
    }
}
