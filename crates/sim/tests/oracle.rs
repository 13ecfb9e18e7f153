//! The oracle against exhaustive search, on a server small enough for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

use wattio_law::{Action, BackgroundAction, DriveAction, Fixed, GroupAction};
use wattio_plant::Server;
use wattio_sim::oracle::{
    OracleBound, OracleSettings, Plan, SegmentSource, Statistic, without_switching_costs,
};
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders, Summary, limits};
use wattio_units::{Hertz, Seconds};

/// Two groups of four cores, four frequencies; idle cores poll or sleep.
fn tiny(idle: &str) -> Server {
    let text = format!(
        r#"
        name = "tiny"
        title = "two groups of four cores"
        assumptions = []
        rest_power = "10 W"
        network = "10 us"
        clients = 64
        cache = {{ hit_random = 0.0, hit_sequential = 0.0 }}
        sizing = {{ reference = "8 KiB", core_share = 0.0 }}
        background = {{ slice = "200 us", backlog_limit = "10 s" }}
        group = [
          {{ name = "a", cores = 4, cores_min = 1, background_cores = 0.8 }},
          {{ name = "b", cores = 4, cores_min = 1 }},
        ]
        path = [
          {{ kind = "read", stages = [
            {{ on = {{ group = "a" }}, time = "60 us" }},
            {{ on = {{ group = "b" }}, time = "90 us" }},
          ] }},
          {{ kind = "write", stages = [{{ on = {{ group = "b" }}, time = "50 us" }}] }},
        ]
        [cores]
        frequency_min = "1 GHz"
        frequency_max = "2.5 GHz"
        frequency_steps = ["1 GHz", "1.5 GHz", "2 GHz", "2.5 GHz"]
        {idle}
        static_power = "1 W"
        dynamic_power = "3 W"
        frequency_bound_share = 0.5
        gate_off = "40 ms"
        gate_on = "20 ms"
        migrate = "0 s"
        frequency_change = "0 s"
        time_variation = 0.4
        "#
    );
    Server::from_toml(&text).unwrap()
}

const PHASE: Phase = Phase {
    span_s: 10.0,
    iops: Some(9000.0),
    pattern: Pattern { read_fraction: 0.7, random_fraction: 1.0, io_bytes: 8192 },
};
const SETTINGS: OracleSettings = OracleSettings {
    bound: OracleBound { plf: 0.3, statistic: Statistic::Mean },
    floor: 0.98,
    trial_s: 3.0,
    seed: 4,
};

fn load() -> Load {
    Load::Phases { senders: Senders::Clients(64), phases: vec![PHASE] }
}

/// What a setting gives, in the same trial that the oracle makes.
fn trial(server: &Server, action: Action) -> Summary {
    let settings =
        RunSettings { warmup_s: 0.2, duration_s: Some(3.0), window_s: 0.5, seed: SETTINGS.seed };
    let law = Box::new(Fixed { action, period: Seconds(0.001) });
    let mut run = Run::new(server, law, load(), settings).unwrap();
    run.finish().unwrap();
    run.summary()
}

/// The least power of all settings that keep the bound.
fn exhaustive(server: &Server) -> f64 {
    let native = trial(server, limits(server).full_speed());
    let mut least = native.power_w_mean;
    let due: f64 = server.groups.iter().map(|group| group.background_cores).sum();
    let background = vec![BackgroundAction::of(0.985 * due)];
    for a in 1..=4 {
        for b in 1..=4 {
            for ghz in [1.0, 1.5, 2.0, 2.5] {
                let group = |cores| GroupAction { cores, frequency: Hertz(ghz * 1e9) };
                let groups = vec![group(a), group(b)];
                let background = background.clone();
                let action = Action { groups, drives: DriveAction::Own, background };
                let seen = trial(server, action);
                let holds = seen.latency_us_mean.unwrap() <= 1.3 * native.latency_us_mean.unwrap()
                    && seen.ios as f64 >= 0.98 * native.ios as f64
                    && seen.background_rate_mean >= 0.98 * native.background_rate_mean;
                if holds {
                    least = least.min(seen.power_w_mean);
                }
            }
        }
    }
    least
}

#[test]
fn what_is_found_is_what_exhaustive_search_finds() {
    for idle in ["idle = \"polling\"", "idle = \"c-states\"\nidle_power = \"0.3 W\""] {
        let server = tiny(idle);
        let mut source = SegmentSource::new(load(), 10.0, None).unwrap();
        let plan = Plan::find(&server, &mut source, &SETTINGS, &mut |_| true).unwrap().unwrap();
        let found = plan.segments[0].best.power_w;
        let least = exhaustive(&without_switching_costs(&server));
        assert!((found / least - 1.0).abs() < 1e-9, "{idle}: found {found}, least {least}");
        assert!(found < plan.segments[0].native_power_w, "there is something to save");
    }
}

#[test]
fn a_tighter_bound_never_saves_more() {
    let server = tiny("idle = \"polling\"");
    let mut before = f64::INFINITY;
    for plf in [0.0, 0.1, 0.3, 1.0] {
        let bound = OracleBound { plf, statistic: Statistic::Mean };
        let settings = OracleSettings { bound, ..SETTINGS };
        let mut source = SegmentSource::new(load(), 10.0, None).unwrap();
        let plan = Plan::find(&server, &mut source, &settings, &mut |_| true).unwrap().unwrap();
        let power_w = plan.segments[0].best.power_w;
        assert!(power_w <= before, "plf {plf}: {power_w} W after {before} W");
        before = power_w;
    }
}
