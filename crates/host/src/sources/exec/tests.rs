//! Real commands: ones that print, end, hang and start others.

use super::*;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);
const AT_ONCE: BackOff =
    BackOff { first: Duration::from_millis(1), most: Duration::from_millis(1) };

struct Host {
    folder: tempfile::TempDir,
    root: Root,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir(root.path("/etc")).unwrap();
        let me = getuid().as_raw();
        std::fs::write(root.path("/etc/passwd"), format!("me:x:{me}:{me}::/:/bin/sh\n")).unwrap();
        Self { folder, root }
    }

    fn latency(&self, script: &str) -> ExecLatency {
        let stopwatch: Stopwatch = Arc::new(|| Seconds(0.0));
        ExecLatency::start(&shell(script), &self.root, stopwatch, AT_ONCE).unwrap()
    }
}

fn shell(script: &str) -> Config {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    Config { command, user: "me".to_owned() }
}

/// Asks until the answer is as wanted.
fn until<A: std::fmt::Debug>(mut ask: impl FnMut() -> A, wanted: impl Fn(&A) -> bool) -> A {
    let start = Instant::now();
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain; the last answer was {answer:?}");
        std::thread::yield_now();
    }
}

#[test]
fn lines_become_samples() {
    let host = Host::new();
    let line = r#"{"requests": 10, "latency_us_mean": 250}"#;
    let mut source = host.latency(&format!("echo '{line}'; echo '{line}'; exec sleep 1000"));
    let mut requests = 0;
    until(
        || {
            let sample = source.sample(Seconds(5.0)).unwrap();
            requests += sample.map_or(0, |sample| {
                assert_eq!((sample.at, sample.latency_us_mean), (Seconds(5.0), Some(250.0)));
                sample.requests
            });
            requests
        },
        |&requests| requests == 20,
    );
    assert_eq!(source.sample(Seconds(6.0)), Ok(None));
}

#[test]
fn a_line_that_makes_no_sense_is_an_error_until_one_that_does() {
    let host = Host::new();
    let gate = host.folder.path().join("gate");
    let script = format!(
        "echo watt; until [ -e {} ]; do sleep 0.01; done; echo '{{\"requests\": 0}}'; sleep 1000",
        gate.display()
    );
    let mut source = host.latency(&script);
    let answer = until(|| source.sample(Seconds(1.0)), Result::is_err);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("1 line made no sense") && error.contains("watt"), "{error}");
    std::fs::write(gate, "").unwrap();
    let answer = until(|| source.sample(Seconds(1.0)), Result::is_ok);
    assert_eq!(answer.unwrap().unwrap().requests, 0);
}

/// A reset of PostgreSQL's statistics "made no sense", and the message named the command twice.
#[test]
fn totals_that_are_reset_make_sense_and_are_told_plainly() {
    let host = Host::new();
    let line = |requests: u32| {
        format!("echo '{{\"requests_total\": {requests}, \"latency_us_total\": {requests}}}'")
    };
    let mut source = host.latency(&format!("{}; {}; exec sleep 1000", line(10), line(3)));
    let answer = until(|| source.sample(Seconds(1.0)), Result::is_err);
    let message = answer.unwrap_err().message;
    assert!(message.starts_with("counters went back: it was restarted, or they"), "{message}");
}

/// What was served while the command was down counted as that of one window.
#[test]
fn totals_of_a_command_that_was_started_again_open_a_window() {
    let host = Host::new();
    let first = host.folder.path().join("first");
    let line = |requests: u32| {
        let sum = requests * 10;
        format!("echo '{{\"requests_total\": {requests}, \"latency_us_total\": {sum}}}'")
    };
    let script = format!(
        "if mkdir {}; then {}; {}; exit 3; fi; {}; {}; exec sleep 1000",
        first.display(),
        line(10),
        line(12),
        line(9000),
        line(9004)
    );
    let mut source = host.latency(&script);
    let mut requests = 0;
    until(
        || {
            let sample = source.sample(Seconds(1.0)).unwrap_or_default();
            requests += sample.map_or(0, |sample| sample.requests);
            requests
        },
        |&requests| requests >= 6,
    );
    assert_eq!(requests, 6);
}

/// Why psql failed stood in the log, and not in what the status says.
#[test]
fn why_a_command_ends_is_told() {
    let host = Host::new();
    let script = "echo warning >&2; printf 'no \\033[31mroute\\n\\n' >&2; exit 3";
    let mut source = host.latency(script);
    let answer = until(|| source.sample(Seconds(1.0)), Result::is_err);
    let error = answer.unwrap_err().to_string();
    let says = r#"ended with exit status: 3 and said "no \u{1b}[31mroute"; it is started again"#;
    assert!(error.contains(says), "{error}");
    let mut source = host.latency("exec 2>&-; exit 3");
    let answer = until(|| source.sample(Seconds(1.0)), Result::is_err);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("ended with exit status: 3; it is started again"), "{error}");
}

/// What it complains of without end holds up neither its output nor the end of the daemon.
#[test]
fn a_command_that_never_stops_to_complain_is_heard_and_ended() {
    let host = Host::new();
    let line = r#"{"requests": 10, "latency_us_mean": 250}"#;
    // Without ends of lines, which would be passed on.
    let complaining = "while :; do printf x >&2; done";
    let mut source = host.latency(&format!("echo '{line}'; {complaining}"));
    until(|| source.sample(Seconds(5.0)).unwrap(), Option::is_some);
    drop(source);
}

#[test]
fn a_command_that_ends_is_started_again() {
    let host = Host::new();
    let runs = host.folder.path().join("runs");
    let mut source = host.latency(&format!("echo run >> {}; exit 3", runs.display()));
    until(|| std::fs::read_to_string(&runs).unwrap_or_default().lines().count(), |&n| n >= 3);
    let error = until(|| source.sample(Seconds(1.0)), Result::is_err).unwrap_err().to_string();
    assert!(error.contains("ended with exit status: 3; it is started again in 1ms"), "{error}");
}

#[test]
fn dropping_kills_the_command_and_what_it_started() {
    let host = Host::new();
    let file = host.folder.path().join("pid");
    // The background process inherits the output and would keep it open.
    let source = host.latency(&format!("sleep 1000 & echo $! > {}; wait", file.display()));
    let pid = until(|| std::fs::read_to_string(&file).unwrap_or_default(), |t| t.ends_with('\n'));
    drop(source);
    let stat = format!("/proc/{}/stat", pid.trim());
    // Killed at once; whoever adopted it may take a moment to notice.
    until(
        || std::fs::read_to_string(&stat).unwrap_or_default(),
        |stat| stat.is_empty() || stat.contains(") Z "),
    );
}

#[test]
fn utilisation_is_the_mean_of_the_lines_and_grows_old() {
    let mut told = UseSlot::default();
    let said = |clients: f64| {
        let group = GroupUse {
            utilisation_clients: clients,
            utilisation_background: 0.1,
            queued: None,
            waited_for_drives: false,
        };
        Ok((Seconds(1.0), vec![group]))
    };
    told.post(said(0.2));
    told.post(said(0.4));
    assert!((told.fetch()[0].utilisation_clients - 0.3).abs() < 1e-12);
    assert!((told.fetch()[0].utilisation_clients - 0.3).abs() < 1e-12);

    let host = Host::new();
    let time = Arc::new(Mutex::new(0.0));
    let ticks = Arc::clone(&time);
    let stopwatch: Stopwatch = Arc::new(move || Seconds(*ticks.lock().unwrap()));
    let config = shell("echo '{\"utilisation\": [0.4, 0.2]}'; sleep 1000");
    let mut source = ExecCpu::open(&config, &host.root, Seconds(0.5), stopwatch).unwrap();
    let groups = ["0".parse().unwrap(), "1".parse().unwrap()];
    let uses = until(|| source.sample(Seconds(0.0), &groups), Result::is_ok).unwrap();
    assert_eq!((uses[0].utilisation_clients, uses[1].utilisation_clients), (0.4, 0.2));
    let error = source.sample(Seconds(0.0), &groups[..1]).unwrap_err().to_string();
    assert!(error.contains("2 entries, and there are 1 groups"), "{error}");
    *time.lock().unwrap() = 2.5;
    let error = source.sample(Seconds(0.0), &groups).unwrap_err().to_string();
    assert!(error.contains("no line for 2.5 s"), "{error}");
}

#[test]
fn commands_are_whole_paths_and_users_are_there() {
    let host = Host::new();
    let error = |config: Config| config.build(&host.root).unwrap_err().to_string();
    let relative = Config { command: vec!["sh".to_owned()], ..shell("") };
    assert!(error(relative).contains("absolute path"));
    let stranger = Config { user: "you".to_owned(), ..shell("") };
    assert!(error(stranger).contains("\"you\" is not in /etc/passwd"));
    let absent = Config { command: vec!["/nowhere/at/all".to_owned()], ..shell("") };
    let stopwatch: Stopwatch = Arc::new(|| Seconds(0.0));
    let mut source = ExecLatency::start(&absent, &host.root, stopwatch, AT_ONCE).unwrap();
    let error = until(|| source.sample(Seconds(1.0)), Result::is_err).unwrap_err().to_string();
    assert!(error.contains("cannot be started"), "{error}");
}
