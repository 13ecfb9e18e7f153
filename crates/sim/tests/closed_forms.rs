//! The engine against results that are known on paper, and against its own balances.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]
use wattio_law::{BackgroundAction, Fixed, Law};
use wattio_plant::{Background, DORADO6000, Server, Wake};
use wattio_sim::{Load, Pattern, Phase, Run, RunSettings, Senders, Summary, limits};
use wattio_units::Seconds;

/// A server of one group of `cores` cores with tasks of 1 ms and nothing else.
fn queue(cores: u32, variation: f64) -> Server {
    let text = format!(
        r#"
        name = "queue"
        title = "one station"
        assumptions = []
        rest_power = "0 W"
        network = "0 s"
        clients = 100
        cache = {{ hit_random = 0.0, hit_sequential = 0.0 }}
        sizing = {{ reference = "8 KiB", core_share = 0.0 }}
        group = [{{ name = "only", cores = {cores}, cores_min = 1 }}]
        path = [
          {{ kind = "read", stages = [{{ on = {{ group = "only" }}, time = "1 ms" }}] }},
          {{ kind = "write", stages = [{{ on = {{ group = "only" }}, time = "1 ms" }}] }},
        ]
        [cores]
        frequency_min = "1 GHz"
        frequency_max = "1 GHz"
        idle = "c-states"
        idle_power = "1 W"
        static_power = "3 W"
        dynamic_power = "0 W"
        frequency_bound_share = 1.0
        gate_off = "0 s"
        gate_on = "0 s"
        migrate = "0 s"
        frequency_change = "0 s"
        time_variation = {variation}
        "#
    );
    Server::from_toml(&text).unwrap()
}

const PATTERN: Pattern = Pattern { read_fraction: 0.5, random_fraction: 1.0, io_bytes: 8192 };

fn full_speed(server: &Server) -> Box<dyn Law> {
    Box::new(Fixed { action: limits(server).full_speed(), period: Seconds(0.5) })
}

fn simulate(server: &Server, iops: Option<f64>, senders: Senders, span_s: f64, seed: u64) -> Run {
    let phases = vec![Phase { span_s, iops, pattern: PATTERN }];
    let settings = RunSettings { warmup_s: 2.0, duration_s: None, window_s: 0.5, seed };
    let load = Load::Phases { senders, phases };
    let mut run = Run::new(server, full_speed(server), load, settings).unwrap();
    run.finish().unwrap();
    run
}

fn open(server: &Server, iops: f64, span_s: f64) -> Summary {
    simulate(server, Some(iops), Senders::Open, span_s, 7).summary()
}

/// Probability that an arrival waits in M/M/c (Erlang C), by the defining sums.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..servers {
        sum += term;
        term *= offered / f64::from(k + 1);
    }
    let last = term / (1.0 - offered / f64::from(servers));
    last / (sum + last)
}

fn assert_near(ours: f64, theirs: f64, tolerance: f64, what: &str) {
    let deviation = (ours / theirs - 1.0).abs();
    assert!(deviation < tolerance, "{what}: {ours} against {theirs}, off by {deviation:.4}");
}

#[test]
fn one_exponential_server_waits_as_m_m_1_does() {
    let summary = open(&queue(1, 1.0), 700.0, 2000.0);
    assert_near(summary.latency_us_mean.unwrap(), 1e3 / (1.0 - 0.7), 0.02, "mean");
    // The time in an M/M/1 system is exponential: p99 = mean ln 100.
    assert_near(summary.latency_us_p99.unwrap(), 1e3 / 0.3 * 100f64.ln(), 0.03, "p99");
}

/// M/G/1 whose server sets up for a constant `D` after being idle: `E[T] = E[S] + l E[S^2] / (2 (1 -
/// rho)) + (2 D + l D^2) / (2 (1 + l D))` (Welch, Operations Research 12, 1964), and of the requests
/// `(1 - rho) / (1 + l D)` find it idle.
#[test]
fn a_core_that_has_to_wake_up_waits_as_m_g_1_with_setup_does() {
    let (wait, work, service) = (0.4e-3, 1.1e-3, 1e-3);
    for iops in [50.0, 300.0, 800.0] {
        let mut server = queue(1, 1.0);
        server.cores.wake =
            Some(Wake { wait: Seconds(wait), work: Seconds(work), ..Wake::default() });
        let summary = open(&server, iops, 4000.0);
        let (setup, rho) = (wait + work, iops * service);
        let queued = iops * 2.0 * service * service / (2.0 * (1.0 - rho));
        let waking = (2.0 * setup + iops * setup * setup) / (2.0 * (1.0 + iops * setup));
        let latency_us = (service + queued + waking) * 1e6;
        assert_near(summary.latency_us_mean.unwrap(), latency_us, 0.02, "mean");
        let woken = (1.0 - rho) / (1.0 + iops * setup);
        let busy = rho + iops * woken * work;
        assert_near(summary.cores_busy_clients[0], busy, 0.02, "busy");
    }
}

/// A core that was idle sleeps for an exponential time, of mean `1 / l` where arrivals are rare: of
/// `cold` the share `1 / (1 + l cooling)` is due.
#[test]
fn a_core_that_slept_for_long_works_more() {
    let (cold, cooling, service) = (2e-3, 40e-3, 1e-3);
    let mut server = queue(1, 0.0);
    let wake = Wake { cold: Seconds(cold), cooling: Seconds(cooling), ..Wake::default() };
    server.cores.wake = Some(wake);
    for iops in [1.0, 25.0] {
        let summary = open(&server, iops, 20_000.0);
        let setup = cold / (1.0 + iops * cooling);
        let woken = (1.0 - iops * service) / (1.0 + iops * setup);
        let busy = iops * (service + woken * setup);
        assert_near(summary.cores_busy_clients[0], busy, 0.02, "busy");
    }
}

#[test]
fn a_second_stage_on_the_same_core_does_not_wake_it_again() {
    let mut server = queue(1, 0.0);
    server.cores.wake = Some(Wake { wait: Seconds(2e-3), work: Seconds(3e-3), ..Wake::default() });
    for path in &mut server.paths {
        let stage = path.stages[0].clone();
        path.stages.push(stage);
    }
    let summary = open(&server, 0.5, 2000.0);
    assert_near(summary.latency_us_p50.unwrap(), 7e3, 0.01, "median");
}

#[test]
fn many_exponential_servers_wait_as_erlang_c_says() {
    for (servers, load) in [(2, 0.8), (16, 0.9), (96, 0.95)] {
        let offered = f64::from(servers) * load;
        let summary = open(&queue(servers, 1.0), offered * 1e3, 10_000.0 / offered);
        let wait_ms = erlang_c(servers, offered) / (f64::from(servers) - offered);
        assert_near(summary.latency_us_mean.unwrap(), 1e3 * (1.0 + wait_ms), 0.005, "mean");
    }
}

#[test]
fn one_server_of_any_variation_waits_as_pollaczek_and_khinchine_say() {
    for variation in [0.0, 0.3, 0.7, 1.0] {
        let load: f64 = 0.8;
        let summary = open(&queue(1, variation), load * 1e3, 2000.0);
        let wait_ms = load * (1.0 + variation * variation) / (2.0 * (1.0 - load));
        assert_near(summary.latency_us_mean.unwrap(), 1e3 * (1.0 + wait_ms), 0.02, "mean");
    }
}

#[test]
fn requests_in_the_system_are_rate_times_latency() {
    let server = Server::from_toml(DORADO6000).unwrap();
    for (iops, senders) in [
        (Some(20_000.0), Senders::Open),
        (Some(200_000.0), Senders::Clients(900)),
        (None, Senders::Clients(900)),
    ] {
        let summary = simulate(&server, iops, senders, 3.0, 3).summary();
        let in_server_s = (summary.latency_us_mean.unwrap() - server.network.0 * 1e6) * 1e-6;
        assert_near(summary.requests_in_system_mean, summary.iops_mean * in_server_s, 2e-3, "L");
    }
}

#[test]
fn a_closed_loop_keeps_each_client_at_one_request() {
    let server = Server::from_toml(DORADO6000).unwrap();
    let summary = simulate(&server, None, Senders::Clients(900), 3.0, 3).summary();
    assert_near(summary.iops_mean * summary.latency_us_mean.unwrap() * 1e-6, 900.0, 2e-3, "N");
}

#[test]
fn energy_is_the_sum_of_its_parts_and_of_its_windows() {
    let server = Server::from_toml(DORADO6000).unwrap();
    let run = simulate(&server, Some(60_000.0), Senders::Clients(900), 3.3, 5);
    let summary = run.summary();
    let parts = summary.energy_by_component_j;
    assert_near(parts.cores + parts.drives + parts.rest, summary.energy_j, 1e-12, "components");
    let windows: f64 = run.rows().iter().map(|row| row.energy_j()).sum();
    assert_near(windows, summary.energy_j, 1e-9, "windows");
    let ios: u64 = run.rows().iter().map(|row| row.ios).sum();
    assert_eq!(ios, summary.ios);
    assert_eq!(run.rows().len(), 7, "3.3 s are six windows and a rest");
}

#[test]
fn sleeping_cores_draw_by_the_exact_time_they_work() {
    let server = queue(4, 0.0);
    let summary = open(&server, 2000.0, 100.0);
    // Four cores at 1 W; a task of 1 ms adds 2 W for its time.
    let expected = 4.0 + 2.0 * summary.iops_mean * 1e-3;
    assert_near(summary.power_w_mean, expected, 1e-3, "power");
}

#[test]
fn one_seed_is_one_result() {
    let server = Server::from_toml(DORADO6000).unwrap();
    let once = simulate(&server, Some(60_000.0), Senders::Clients(900), 1.0, 11);
    let again = simulate(&server, Some(60_000.0), Senders::Clients(900), 1.0, 11);
    let other = simulate(&server, Some(60_000.0), Senders::Clients(900), 1.0, 12);
    assert_eq!(once.summary(), again.summary());
    assert_eq!(once.rows(), again.rows());
    assert_ne!(once.summary().latency_us_mean, other.summary().latency_us_mean);
}

#[test]
fn paused_background_work_is_remembered_and_worked_off() {
    let server = Server::from_toml(DORADO6000).unwrap();
    let due: f64 = server.groups.iter().map(|group| group.background_cores).sum();
    let rate = |budget: BackgroundAction| {
        let mut action = limits(&server).full_speed();
        action.background = vec![budget];
        let law = Box::new(Fixed { action, period: Seconds(0.5) });
        let phases = vec![Phase { span_s: 4.0, iops: Some(0.0), pattern: PATTERN }];
        let load = Load::Phases { senders: Senders::Open, phases };
        let settings = RunSettings { warmup_s: 0.0, duration_s: None, window_s: 0.5, seed: 1 };
        let mut run = Run::new(&server, law, load, settings).unwrap();
        run.finish().unwrap();
        // The first window passes before the law first speaks.
        run.rows().last().unwrap().background_rate
    };
    assert_near(rate(BackgroundAction::AS_DUE), due, 0.01, "as due");
    assert_near(rate(BackgroundAction::of(0.5 * due)), 0.5 * due, 0.01, "half");
    assert_near(rate(BackgroundAction::of(2.0 * due)), due, 0.01, "no more than becomes due");
    assert_eq!(rate(BackgroundAction::PAUSED), 0.0);
}

/// Four cores that have nothing to do but background work.
fn background_alone(cores: f64, slice_s: f64, limit_s: f64) -> Summary {
    let mut server = queue(4, 0.0);
    server.background =
        Some(Background { slice: Seconds(slice_s), backlog_limit: Seconds(limit_s) });
    server.groups[0].background_cores = cores;
    open(&server, 0.0, 1000.0)
}

/// Idle cores look for work once in the length of a task; what came since was cut to one task.
#[test]
fn idle_cores_do_all_background_work_that_becomes_due() {
    for (cores, slice_s) in [(0.8, 1e-3), (0.8, 0.1), (2.7, 0.03), (0.07, 1e-4)] {
        let summary = background_alone(cores, slice_s, 60.0);
        assert_near(summary.background_rate_due, cores, 1e-6, "due");
        assert_near(summary.background_rate_mean, cores, 0.01, "done");
        assert!(summary.background_backlog_core_s_end <= (1.0 + cores) * slice_s, "{summary:?}");
    }
}

/// What becomes due was forgotten before it made a task.
#[test]
fn background_work_is_done_where_none_is_remembered() {
    for (slice_s, limit_s) in [(1e-3, 0.0), (1e-3, 1e-4), (0.1, 0.0)] {
        let summary = background_alone(0.8, slice_s, limit_s);
        assert_near(summary.background_rate_mean, 0.8, 0.01, "done");
    }
}
