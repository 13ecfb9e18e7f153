//! scratch
use std::time::Instant;
use wattio_control::{Settings, Value};
use wattio_plant::{BUILT_IN, Server};
use wattio_sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let text = BUILT_IN.iter().find(|(n, _)| *n == a[1]).unwrap().1;
    let server = Server::from_toml(text).unwrap();
    let iops: f64 = a[3].parse().unwrap();
    let span: f64 = a[4].parse().unwrap();
    let mut settings = Settings::new();
    for s in &a[5..] {
        let (k, v) = s.split_once('=').unwrap();
        settings.insert(
            k.into(),
            if v == "false" {
                Value::Flag(false)
            } else if v == "true" {
                Value::Flag(true)
            } else {
                Value::Number(v.parse().unwrap())
            },
        );
    }
    let mk = |p: &str, s: &Settings| {
        let pattern = Pattern { read_fraction: 0.7, random_fraction: 1.0, io_bytes: 8192 };
        let load = Load::Phases {
            senders: Senders::Clients(server.clients),
            phases: vec![Phase { span_s: span, iops: (iops >= 0.0).then_some(iops), pattern }],
        };
        let law = wattio_control::build(p, s, &limits(&server)).unwrap();
        let mut run = Run::new(
            &server,
            law,
            load,
            RunSettings { warmup_s: 10.0, duration_s: None, window_s: 0.5, seed: 1 },
        )
        .unwrap();
        let t = Instant::now();
        run.finish().unwrap();
        (run, t.elapsed().as_secs_f64())
    };
    let (n, _) = mk("native", &Settings::new());
    let (r, w) = mk(&a[2], &settings);
    let (n, s) = (n.summary(), r.summary());
    println!(
        "{:.1} M ev/s P {:.1} vs {:.1}  gain {:.3} lat {:.3} p99 {:.3} bg {:.3} cores {:.1} f {:.3} u {:.2} state {:?} changes {} {}",
        s.events as f64 / w / 1e6,
        s.power_w_mean,
        n.power_w_mean,
        s.iops_per_watt / n.iops_per_watt,
        s.latency_us_mean.unwrap() / n.latency_us_mean.unwrap(),
        s.latency_us_p99.unwrap() / n.latency_us_p99.unwrap(),
        s.background_rate_mean / n.background_rate_mean,
        s.cores_active_mean,
        s.frequency_hz_mean.unwrap() / 1e9,
        s.utilisation_mean,
        s.state_share,
        s.state_changes,
        s.knob_changes
    );
    if std::env::var("ROWS").is_ok() {
        for r in r.rows() {
            println!(
                "{:6.1} lat {:7.1} cores {:?} f {:.2} u {:.2} bg {:.1} {:?} {:.0}W",
                r.start_s,
                r.latency_us_mean.unwrap_or(0.),
                r.cores_by_group,
                r.frequency_hz_mean.unwrap() / 1e9,
                r.utilisation.unwrap(),
                r.background_rate,
                r.state,
                r.energy_j() / r.span_s
            );
        }
    }
}
