//! How the bounds on latency are kept, for status, page and metrics.

use serde::{Deserialize, Serialize};
use wattio_law::{BoundAccount, Driver, Law, Statistic};

/// A bound on latency, and how well it was kept over the windows in which it was in force, with
/// requests and a known limit. In shadow mode all of it is what would be: an estimate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoundStatus {
    /// As in a configuration: `p99 2 ms run`.
    pub bound: String,
    /// Of what latency: `mean`, `p99`.
    pub statistic: String,
    /// What the statistic may come to now; absent where it is not known yet what full speed has.
    pub limit_us: Option<f64>,
    /// Windows that were judged.
    pub windows: u64,
    /// Of these, windows above the limit.
    pub windows_over: u64,
    /// The share of their requests that took longer than the limit, if the source tells how latencies
    /// spread.
    pub requests_over_share: Option<f64>,
    /// Growth of the statistic over full speed, over all these windows.
    pub loss: Option<f64>,
    /// Whether it is kept so far, over its scope; absent before a window was judged.
    pub kept: Option<bool>,
}

impl BoundStatus {
    /// By its account, and by what its statistic would be at full speed now.
    fn of(account: &BoundAccount, full_speed_us: Option<f64>) -> Self {
        Self {
            bound: account.bound.to_string(),
            statistic: account.bound.statistic.to_string(),
            limit_us: account.bound.limit_us(full_speed_us),
            windows: account.windows,
            windows_over: account.windows_over,
            requests_over_share: account.requests_over_share(),
            loss: account.loss(),
            kept: account.is_kept(),
        }
    }

    /// In how many windows it was broken, what all of them come to, and whether that keeps it.
    #[must_use]
    pub fn broken(&self, is_estimate: bool) -> String {
        let plural = if self.windows == 1 { "" } else { "s" };
        let mut text = format!("{} of {} window{plural}", self.windows_over, self.windows);
        let statistic = if self.is_mean() { String::new() } else { format!("{} ", self.statistic) };
        let estimate = if is_estimate { " (estimate)" } else { "" };
        let loss = self.loss.map(|loss| {
            format!("over all of them {statistic}{:+.1} % against full speed", loss * 100.0)
        });
        let all = [self.requests_over(), loss].into_iter().flatten().collect::<Vec<_>>();
        if !all.is_empty() {
            text += &format!("; {}{estimate}", all.join(", "));
        }
        text + self.not_kept()
    }

    /// Whether it is on the mean.
    #[must_use]
    pub fn is_mean(&self) -> bool {
        self.statistic == "mean"
    }

    /// How many requests took longer than a bound on a percentile, which is what it is judged by.
    #[must_use]
    pub fn requests_over(&self) -> Option<String> {
        let share = self.requests_over_share.filter(|_| !self.is_mean())?;
        Some(format!("{:.2} % of their requests above it", share * 100.0))
    }

    /// Single windows may be above a bound over the run; what they all come to may not.
    #[must_use]
    pub fn not_kept(&self) -> &'static str {
        let of_run = self.bound.ends_with(" run");
        if of_run && self.kept == Some(false) { "; not kept over the run" } else { "" }
    }

    /// Those of a driver, in the order of its configuration.
    #[must_use]
    pub fn all_of<L: Law>(driver: &Driver<L>) -> Vec<Self> {
        let status = |account: &BoundAccount| {
            Self::of(account, driver.law().full_speed_us(account.bound.statistic))
        };
        driver.account().bounds.iter().map(status).collect()
    }
}

/// What the mean latency may come to, by the bounds on it; `None` where there are none, or it is not
/// known yet what full speed has. A law may derive a limit on the mean from bounds on percentiles; here
/// it is what was promised.
#[must_use]
pub fn mean_limit_us<L: Law>(driver: &Driver<L>) -> Option<f64> {
    let full_speed_us = driver.law().full_speed_us(Statistic::Mean);
    let bounds = driver.account().bounds.iter().map(|account| account.bound);
    let of_mean = bounds.filter(|bound| bound.statistic == Statistic::Mean);
    of_mean.filter_map(|bound| bound.limit_us(full_speed_us)).reduce(f64::min)
}
