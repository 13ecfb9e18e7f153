//! Serves page, metrics and control socket from a made-up status, to look at and to test with.
//!
//! `cargo run -p wattiod --example page -- [listen=ADDRESS] [socket=PATH] [step_ms=500]
//! [shadow] [no-estimate] [meter] [forced] [paused] [over] [broken] [tail] [bare] [by-turns]
//! [several]`
//!
//! Each step stands for half a second of the made-up server, however long it takes. Ends when its
//! standard input does.

use std::io::Read;
use std::sync::mpsc;
use std::time::Duration;
use wattio_governor::{Basis, Interval, Severity};
use wattio_host::price::Price;
use wattio_service::{Page, Service, ServiceRequest, ServiceSettings};
use wattio_units::Watts;
use wattiod::alternation::{AT_FULL_SPEED, AlternationStatus, Condition};
use wattiod::control::{Answer, Request, Wattiod};
use wattiod::status::{
    BoundStatus, Counts, EventStatus, FollowerStatus, GroupStatus, LatencyStatus, OverheadStatus,
    PowerStatus, ShadowStatus, Status,
};

const STEP_S: f64 = 0.5;
const START_NS: u64 = 1_770_000_000_000_000_000;

/// What the command line asks for.
struct Scene {
    words: Vec<String>,
    tolerance: f64,
    paused: bool,
}

impl Scene {
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|given| given == word)
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The made-up host after so many steps: a day of load in 15 minutes.
    fn status(&self, step: u64) -> Status {
        let one = self.application(step);
        if !self.has("several") {
            return one;
        }
        // The other is as the first one was some time ago.
        let mut other = self.application(step + 300);
        other.application = Some("redis".to_owned());
        other.latency.source = "redis 127.0.0.1:6379".to_owned();
        other.groups.truncate(1);
        other.groups[0].name = "commands".to_owned();
        other.power.meter = None;
        other.power.measured_w = None;
        Status { application: Some("etcd".to_owned()), others: vec![other], ..one }
    }

    /// One application of it.
    fn application(&self, step: u64) -> Status {
        let seconds = step as f64 * STEP_S;
        if self.has("bare") {
            return Status { mode: "observe".to_owned(), utc_ns: ns(seconds), ..Status::default() };
        }
        let load = 0.55 + 0.35 * (seconds / 140.0).sin() + 0.05 * (seconds * 1.3).sin();
        let held = self.paused || self.has("forced");
        let share = if held { 1.0 } else { (load + 0.15).clamp(0.3, 1.0) };
        let baseline_us = 240.0 + 60.0 * load;
        let over = if self.has("over") { 1.3 } else { 1.0 };
        let loss = if self.has("shadow") { 0.01 } else { (1.0 - share) * 0.25 };
        let measured_us = baseline_us * (1.0 + loss + 0.03 * (seconds * 2.1).sin());
        // In shadow mode it is not the measured latency that would be above the bound.
        let mean_us = if self.has("shadow") { measured_us } else { measured_us * over };
        let would_us = (1.0 + (1.0 - share) * 0.22) * measured_us * over;
        let shadow = self.has("shadow").then(|| self.shadow(step));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: if shadow.is_some() { "observe" } else { "run" }.to_owned(),
            name: "etcd on storage7".to_owned(),
            application: None,
            others: Vec::new(),
            policy: "pacer".to_owned(),
            state: Some(if held { "unstable" } else { "stable" }.to_owned()),
            reason: if held { "full speed" } else { "there is room: fewer cores" }.to_owned(),
            forced: self
                .has("forced")
                .then_some(
                    "the newest sample of prometheus http://127.0.0.1:2379/metrics is 3.2 s old",
                )
                .or(self.has("by-turns").then_some(AT_FULL_SPEED))
                .map(str::to_owned),
            paused: self.paused,
            utc_ns: ns(seconds),
            uptime_s: 86_400.0 + seconds,
            bounds: self.bounds(baseline_us),
            latency: LatencyStatus {
                latency_us_resolution: None,
                source: "prometheus etcd_disk_wal_fsync_duration_seconds".to_owned(),
                requests_per_s: Some(8000.0 * load),
                latency_us_mean: Some(mean_us),
                latency_us_seen: match &shadow {
                    Some(shadow) => shadow.fitted.then_some(would_us),
                    None => Some(mean_us),
                },
                latency_us_p99: Some(mean_us * 4.0),
                sample_age_s: 0.31,
                baseline_us: Some(baseline_us),
                bound_us: Some(baseline_us * (1.0 + self.tolerance)),
                tolerance: Some(self.tolerance),
                bound: Some(format!("mean {}% run", 100.0 * self.tolerance)),
                loss_measured: Some(mean_us / baseline_us - 1.0),
                loss_predicted: Some((1.0 - share) * 0.22),
            },
            groups: groups(share, load),
            background_pace: 0.5,
            power: self.power(step, share, load),
            shadow,
            compared: None,
            alternation: self.has("by-turns").then(by_turns),
            followers: if self.has("by-turns") { followers() } else { Vec::new() },
            counts: Counts {
                violations: if self.has("broken") { 68_600 } else { 84 },
                ..counts(step, self.has("shadow"))
            },
            own: OverheadStatus {
                cpu_s: 21.4,
                resident_bytes: 7_400_000,
                step_us_mean: Some(31.0),
            },
            events: events(seconds),
        }
    }

    /// The one on the mean, and with `tail` another on the 99th percentile.
    fn bounds(&self, baseline_us: f64) -> Vec<BoundStatus> {
        let mean = BoundStatus {
            bound: format!("mean {}% run", 100.0 * self.tolerance),
            statistic: "mean".to_owned(),
            limit_us: Some(baseline_us * (1.0 + self.tolerance)),
            windows: 120_345,
            windows_over: if self.has("broken") { 68_600 } else { 84 },
            requests_over_share: Some(0.11),
            loss: Some(0.062),
            kept: Some(true),
        };
        let tail = BoundStatus {
            bound: "p99 2 ms run".to_owned(),
            statistic: "p99".to_owned(),
            limit_us: Some(2000.0),
            windows_over: 2407,
            requests_over_share: Some(0.0134),
            loss: Some(0.31),
            kept: Some(false),
            ..mean.clone()
        };
        if self.has("tail") { vec![mean, tail] } else { vec![mean] }
    }

    fn power(&self, step: u64, share: f64, load: f64) -> PowerStatus {
        let full_w = 210.0 + 60.0 * load;
        let saving_w = full_w - 70.0 * (1.0 - share);
        let metered = self.has("meter").then_some(());
        let estimate = (!self.has("no-estimate")).then_some(());
        let span_s = 7200.0 + step as f64 * STEP_S;
        PowerStatus {
            meter: metered.map(|()| "rapl package-0, package-1".to_owned()),
            meter_trouble: None,
            measured_w: metered.map(|()| if self.has("shadow") { full_w } else { saving_w } + 3.0),
            measured_j: metered.map(|()| 205.0 * span_s),
            model: estimate.map(|()| "power-model.toml (SPECpower of a like server)".to_owned()),
            estimated_w: estimate.map(|()| saving_w),
            estimated_full_speed_w: estimate.map(|()| full_w),
            estimated_span_s: estimate.map(|()| span_s),
            estimated_j: estimate.map(|()| 200.0 * span_s),
            estimated_full_speed_j: estimate.map(|()| 236.0 * span_s),
            estimated_saved_year: estimate.map(|()| Price::default().year(Watts(36.0))),
            no_estimate: self.has("no-estimate").then(|| {
                "no power model is given; see `power.model` in the configuration".to_owned()
            }),
        }
    }

    fn shadow(&self, step: u64) -> ShadowStatus {
        let fitted = !self.has("no-estimate");
        ShadowStatus {
            fitted,
            why: (!fitted).then(|| "only 12 of 120 windows at full speed so far".to_owned()),
            error_median: fitted.then_some(0.043),
            error_p90: fitted.then_some(0.118),
            windows_fitted: 1200 + step,
            windows_kept_out: 300 + step / 4,
        }
    }

    /// What the loop of a daemon would answer.
    fn answer(&mut self, request: &Request) -> Answer {
        let message = match *request {
            Request::Status {} => "status".to_owned(),
            Request::SetTolerance { tolerance, .. } => {
                self.tolerance = tolerance;
                format!("tolerance {tolerance}")
            }
            Request::Pause {} => {
                self.paused = true;
                "paused".to_owned()
            }
            Request::Resume {} => {
                self.paused = false;
                "resumed".to_owned()
            }
        };
        Answer::Done { message }
    }
}

/// What governing by turns with full speed has shown.
fn by_turns() -> AlternationStatus {
    AlternationStatus {
        condition: Condition::FullSpeed,
        stretch_s_governed: 600.0,
        stretch_s_full_speed: 600.0,
        seed: 1,
        pairs: 36,
        pairs_left_out: 1,
        power_w_full_speed: Some(243.0),
        power_w_saved: Some(Interval { mean: 29.1, half_width: 1.8 }),
        power_is_estimate: false,
        latency_change: Some(Interval { mean: 0.06, half_width: 0.02 }),
        requests_per_s_change: Some(Interval { mean: -0.001, half_width: 0.004 }),
    }
}

fn followers() -> Vec<FollowerStatus> {
    let interval = |mean, half_width| Some(Interval { mean, half_width });
    let uncore = FollowerStatus {
        name: "uncore.frequency".to_owned(),
        basis: Basis::Measured,
        pairs: 32,
        power_w_saved: interval(8.0, 0.5),
        latency_us_added: interval(20.0, 4.0),
        left_out: None,
    };
    let epp = FollowerStatus { name: "cpu.epp".to_owned(), pairs: 3, ..FollowerStatus::default() };
    vec![uncore, epp]
}

fn ns(seconds: f64) -> u64 {
    START_NS + (seconds * 1e9) as u64
}

fn groups(share: f64, load: f64) -> Vec<GroupStatus> {
    [("protocol", 16, 2), ("background", 8, 1), ("storage <i>", 40, 4)]
        .map(|(name, total, min)| GroupStatus {
            name: name.to_owned(),
            cores_active: ((f64::from(total) * share).ceil() as u32).clamp(min, total),
            cores_total: total,
            cores_min: min,
            frequency_hz: Some((1.2 + 2.2 * share * (1.0 - 0.02 * f64::from(min))).min(3.4) * 1e9),
            frequency_max_hz: Some(3.4e9),
            utilisation_clients: load * 0.7 / share,
            utilisation_background: 0.08,
        })
        .to_vec()
}

fn counts(step: u64, shadow: bool) -> Counts {
    Counts {
        windows: 172_800 + step,
        windows_missing: 12,
        windows_unmeasured: 0,
        windows_forced: 31,
        windows_bounded: 120_345 + step,
        violations: 84,
        loss_mean: Some(0.062),
        requests: 412_345_678 + 2000 * step,
        knob_writes: if shadow { 0 } else { 1294 },
        knob_failures: u64::from(!shadow),
        setting_changes: 431,
        foreign_changes: if shadow { 0 } else { 2 },
        source_errors: 12,
        flaps: 9,
        breaker_trips: 0,
        state_span_s: [("unstable", 5220.0), ("stable", 79_000.0), ("idle", 2180.0)]
            .map(|(state, span_s)| (state.to_owned(), span_s))
            .into(),
    }
}

fn events(seconds: f64) -> Vec<EventStatus> {
    let event = |ago_s: f64, severity, message: &str| EventStatus {
        utc_ns: ns(seconds.max(ago_s) - ago_s),
        severity,
        message: message.to_owned(),
    };
    vec![
        event(600.0, Severity::Info, "started; 14 places saved in /var/lib/wattiod/snapshot.json"),
        event(
            540.0,
            Severity::Error,
            "cpu.frequency: cannot write 2400000 to \
             /sys/devices/system/cpu/cpufreq/policy3/scaling_max_freq: device or resource busy (EBUSY)",
        ),
        event(
            320.0,
            Severity::Warning,
            "cpu.cpuset: somebody changed /sys/fs/cgroup/etcd.slice/cpuset.cpus from 0-11 to 0-15; left to them",
        ),
        event(
            90.0,
            Severity::Warning,
            "<script>document.title = 'broken'</script> is a name, not a script",
        ),
        event(60.0, Severity::Warning, "one sample could not be had: timed out"),
        event(40.0, Severity::Warning, "one sample could not be had: timed out"),
        event(20.0, Severity::Info, "stable: saving within the bound"),
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let paused = words.iter().any(|word| word == "paused");
    let mut scene = Scene { words, tolerance: 0.2, paused };
    let step_time = Duration::from_millis(scene.value("step_ms").unwrap_or("500").parse()?);
    let settings = ServiceSettings {
        listen: Some(scene.value("listen").unwrap_or("127.0.0.1:0").parse()?),
        socket: scene.value("socket").map(Into::into),
        ..ServiceSettings::default()
    };
    let (publish, status) = wattio_service::shown(scene.status(0));
    let (requests, asked) = mpsc::channel::<ServiceRequest<Wattiod>>();
    let service = Service::start(settings, status, requests)?;
    if let Some(Page { address, .. }) = service.page() {
        println!("http://{address}/");
    }
    let (end, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(end);
    });
    for step in 1.. {
        match asked.recv_timeout(step_time) {
            Ok(asked) => {
                let answer = scene.answer(&asked.request);
                let _ = asked.reply.send(answer);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if ended.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
            break;
        }
        publish.send(scene.status(step));
    }
    Ok(())
}
