//! The last 15 minutes, so that a page shows them as soon as it is opened.

use crate::status::Status;
use serde::Serialize;
use std::collections::VecDeque;

/// How far back it goes.
const SPAN_NS: u64 = 15 * 60 * 1_000_000_000;
/// The most moments; where windows are shorter than their share of the span, some are left out.
const MOMENTS_MAX: u64 = 3600;

/// What charts show of a status, under the names that it has there.
#[derive(Debug, PartialEq, Serialize)]
struct Moment {
    utc_ns: u64,
    latency: Latency,
    power: Power,
    groups: Vec<Group>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Latency {
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us_seen: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_us: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Power {
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_w: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_w: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_full_speed_w: Option<f64>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Group {
    cores_active: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_hz: Option<f64>,
}

impl Moment {
    fn of(status: &Status) -> Self {
        let (latency, power) = (&status.latency, &status.power);
        let group = |group: &crate::status::GroupStatus| Group {
            cores_active: group.cores_active,
            frequency_hz: group.frequency_hz,
        };
        Self {
            utc_ns: status.utc_ns,
            latency: Latency {
                latency_us_mean: latency.latency_us_mean,
                latency_us_seen: latency.latency_us_seen,
                baseline_us: latency.baseline_us,
                bound_us: latency.bound_us,
            },
            power: Power {
                measured_w: power.measured_w,
                estimated_w: power.estimated_w,
                estimated_full_speed_w: power.estimated_full_speed_w,
            },
            groups: status.groups.iter().map(group).collect(),
        }
    }
}

/// Moments of one mode and its groups, the oldest first.
#[derive(Debug, Default, Serialize)]
pub(super) struct History {
    #[serde(skip)]
    mode: String,
    moments: VecDeque<Moment>,
}

impl History {
    /// Adds a status. What is older than the span goes; all of it where the clock was set back, or
    /// mode or groups are others.
    pub fn add(&mut self, status: &Status) {
        let groups = self.moments.back().map_or(status.groups.len(), |last| last.groups.len());
        if self.mode != status.mode || groups != status.groups.len() {
            self.moments.clear();
            self.mode.clone_from(&status.mode);
        }
        if let Some(last) = self.moments.back() {
            if status.utc_ns < last.utc_ns {
                self.moments.clear();
            } else if status.utc_ns - last.utc_ns < SPAN_NS / MOMENTS_MAX {
                return;
            }
        }
        self.moments.push_back(Moment::of(status));
        let oldest = status.utc_ns.saturating_sub(SPAN_NS);
        while self.moments.front().is_some_and(|first| first.utc_ns < oldest) {
            self.moments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{GroupStatus, LatencyStatus};

    const SECOND: u64 = 1_000_000_000;

    fn at(utc_ns: u64, mode: &str, groups: usize) -> Status {
        let latency = LatencyStatus { bound_us: Some(240.0), ..LatencyStatus::default() };
        let groups = vec![GroupStatus { cores_active: 3, ..GroupStatus::default() }; groups];
        Status { utc_ns, mode: mode.to_owned(), latency, groups, ..Status::default() }
    }

    fn times(history: &History) -> Vec<u64> {
        history.moments.iter().map(|moment| moment.utc_ns / SECOND).collect()
    }

    #[test]
    fn it_goes_back_a_quarter_of_an_hour_and_no_further() {
        let mut history = History::default();
        for second in 1..=2000 {
            history.add(&at(second * SECOND, "run", 1));
        }
        let times = times(&history);
        assert_eq!((times[0], times.len(), times.last()), (1100, 901, Some(&2000)));
    }

    #[test]
    fn short_windows_do_not_fill_the_memory() {
        let mut history = History::default();
        for step in 0..200_000 {
            history.add(&at(step * SECOND / 100, "run", 1));
        }
        let count = history.moments.len() as u64;
        assert!(count <= MOMENTS_MAX + 1 && count > MOMENTS_MAX / 2, "{count}");
    }

    #[test]
    fn another_mode_other_groups_or_a_clock_set_back_begin_anew() {
        let mut history = History::default();
        for (second, mode, groups) in [(10, "run", 1), (11, "run", 1), (12, "observe", 1)] {
            history.add(&at(second * SECOND, mode, groups));
        }
        assert_eq!(times(&history), [12]);
        history.add(&at(13 * SECOND, "observe", 2));
        assert_eq!(times(&history), [13]);
        history.add(&at(5 * SECOND, "observe", 2));
        assert_eq!(times(&history), [5]);
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let mut history = History::default();
        history.add(&at(7 * SECOND, "run", 1));
        let text = serde_json::to_string(&history).unwrap();
        let expected = r#"{"moments":[{"utc_ns":7000000000,"latency":{"bound_us":240.0},"power":{},"groups":[{"cores_active":3}]}]}"#;
        assert_eq!(text, expected);
    }
}
