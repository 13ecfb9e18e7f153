//! The last minutes, as kept for the page.

use crate::status::{GroupStatus, Status};
use serde::Serialize;

/// What charts show of a status, under the names that it has there.
#[derive(Debug, PartialEq, Serialize)]
pub struct Moment {
    utc_ns: u64,
    latency: Latency,
    power: Power,
    groups: Vec<Group>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<Moment>,
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
    /// What charts show of this status.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        let (latency, power) = (&status.latency, &status.power);
        let group = |group: &GroupStatus| Group {
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
            others: status.others.iter().map(Self::of).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::LatencyStatus;

    #[test]
    fn what_is_not_known_is_absent() {
        let latency = LatencyStatus { bound_us: Some(240.0), ..LatencyStatus::default() };
        let groups = vec![GroupStatus { cores_active: 3, ..GroupStatus::default() }];
        let status = Status { utc_ns: 7_000_000_000, latency, groups, ..Status::default() };
        let text = serde_json::to_string(&Moment::of(&status)).unwrap();
        let expected = r#"{"utc_ns":7000000000,"latency":{"bound_us":240.0},"power":{},"groups":[{"cores_active":3}]}"#;
        assert_eq!(text, expected);
    }
}
