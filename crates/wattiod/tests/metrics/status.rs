//! A status in which everything is known.

use wattio_governor::{Basis, Interval, Severity};
use wattio_host::price::Price;
use wattio_units::Watts;
use wattiod::alternation::Condition;
use wattiod::status::{
    AlternationStatus, BoundStatus, Counts, EventStatus, FollowerStatus, GroupStatus,
    LatencyStatus, OverheadStatus, PowerStatus, ShadowStatus, Status,
};

/// A status in which everything is known.
pub fn full_status() -> Status {
    Status {
        version: "1.2.3".to_owned(),
        mode: "observe".to_owned(),
        name: "etcd \"seven\"".to_owned(),
        application: None,
        others: Vec::new(),
        policy: "pacer".to_owned(),
        state: Some("stable".to_owned()),
        reason: "there is room: fewer cores".to_owned(),
        forced: Some("paused".to_owned()),
        paused: true,
        utc_ns: 1_770_000_000_000_000_000,
        uptime_s: 3600.5,
        latency: latency(),
        bounds: bounds(),
        groups: vec![group("protocol", 3), group("storage", 12)],
        background_pace: 0.5,
        power: power(),
        shadow: Some(ShadowStatus {
            fitted: true,
            why: None,
            error_median: Some(0.0625),
            error_p90: Some(0.125),
            windows_fitted: 700,
            windows_kept_out: 175,
        }),
        compared: None,
        alternation: Some(AlternationStatus {
            condition: Condition::Governed,
            stretch_s_governed: 600.0,
            stretch_s_full_speed: 600.0,
            seed: 1,
            pairs: 12,
            pairs_left_out: 1,
            power_w_full_speed: Some(65.0),
            power_w_saved: Some(Interval { mean: 9.125, half_width: 0.75 }),
            power_is_estimate: false,
            latency_change: Some(Interval { mean: 0.0625, half_width: 0.015625 }),
            requests_per_s_change: Some(Interval { mean: -0.001, half_width: 0.002 }),
        }),
        followers: vec![FollowerStatus {
            name: "cpu.turbo".to_owned(),
            basis: Basis::Measured,
            pairs: 32,
            power_w_saved: Some(Interval { mean: 5.0, half_width: 0.5 }),
            latency_us_added: Some(Interval { mean: 20.0, half_width: 4.0 }),
            left_out: None,
        }],
        counts: counts(),
        own: OverheadStatus { cpu_s: 1.25, resident_bytes: 8_000_000, step_us_mean: Some(32.0) },
        events: vec![EventStatus {
            utc_ns: 1_769_999_990_000_000_000,
            severity: Severity::Warning,
            message: "<script>alert(1)</script>\nnext line".to_owned(),
        }],
    }
}

fn latency() -> LatencyStatus {
    LatencyStatus {
        latency_us_resolution: Some(125.0),
        source: "prometheus".to_owned(),
        requests_per_s: Some(4000.0),
        latency_us_mean: Some(312.5),
        latency_us_seen: Some(312.5),
        latency_us_p99: Some(2000.0),
        sample_age_s: 0.25,
        baseline_us: Some(250.0),
        bound_us: Some(300.0),
        tolerance: Some(0.2),
        bound: Some("mean 20% run".to_owned()),
        loss_measured: Some(0.25),
        loss_predicted: Some(0.125),
    }
}

fn bounds() -> Vec<BoundStatus> {
    let mean = BoundStatus {
        bound: "mean 20% run".to_owned(),
        statistic: "mean".to_owned(),
        limit_us: Some(300.0),
        windows: 5000,
        windows_over: 84,
        requests_over_share: Some(0.125),
        loss: Some(0.0625),
        kept: Some(true),
    };
    let tail = BoundStatus {
        bound: "p99 2 ms run".to_owned(),
        statistic: "p99".to_owned(),
        limit_us: Some(2000.0),
        windows: 4900,
        windows_over: 700,
        requests_over_share: Some(0.015625),
        loss: Some(0.5),
        kept: Some(false),
    };
    vec![mean, tail]
}

fn group(name: &str, cores_active: u32) -> GroupStatus {
    GroupStatus {
        name: name.to_owned(),
        cores_active,
        cores_total: 16,
        cores_min: 2,
        frequency_hz: Some(1.5e9),
        frequency_max_hz: Some(3e9),
        utilisation_clients: 0.5,
        utilisation_background: 0.125,
    }
}

fn power() -> PowerStatus {
    PowerStatus {
        meter: Some("rapl".to_owned()),
        meter_trouble: None,
        measured_w: Some(212.5),
        measured_j: Some(765_000.0),
        model: Some("power-model.toml".to_owned()),
        estimated_w: Some(200.0),
        estimated_full_speed_w: Some(250.0),
        estimated_span_s: Some(1800.0),
        estimated_j: Some(720_000.0),
        estimated_full_speed_j: Some(900_000.0),
        estimated_saved_year: Some(Price::default().year(Watts(50.0))),
        no_estimate: None,
    }
}

fn counts() -> Counts {
    Counts {
        windows: 7200,
        windows_missing: 12,
        windows_forced: 31,
        windows_bounded: 5000,
        violations: 84,
        loss_mean: Some(0.0625),
        requests: 14_400_000,
        knob_writes: 120,
        knob_failures: 1,
        setting_changes: 60,
        foreign_changes: 2,
        source_errors: 3,
        windows_unmeasured: 5,
        flaps: 9,
        breaker_trips: 4,
        state_span_s: [("unstable", 600.0), ("stable", 2880.0), ("idle", 120.5)]
            .map(|(state, span_s)| (state.to_owned(), span_s))
            .into(),
    }
}
