use super::*;
use crate::plant::script::{REACTORS, SATURATION, Script, layout};
use crate::plant::{Layout, TargetPlant};
use crate::shown::WattioTarget;
use crate::status::{ReactorStatus, VolumeStatus};
use serde_json::Value;
use std::cell::Cell;
use std::path::Path;
use wattio_control::Settings;
use wattio_law::{Bound, DriverSettings};
use wattio_plant::{ASSUMED_POWER_MODEL, PowerModel};
use wattio_service::Program;
use wattio_service::metrics::Format;
use wattio_units::Hertz;

/// A clock that tests set.
#[derive(Default)]
struct At(Cell<Duration>);

impl Clock for At {
    fn now(&self) -> Duration {
        self.0.get()
    }

    fn utc_ns(&self) -> u64 {
        1_770_000_000_000_000_000 + self.0.get().as_nanos() as u64
    }
}

fn governing(policy: &str, journal: Option<Journal>, clock: &At) -> Governing<Script> {
    bounded(policy, &[], journal, clock)
}

fn bounded(
    policy: &str,
    bounds: &[Bound],
    journal: Option<Journal>,
    clock: &At,
) -> Governing<Script> {
    on(layout(), policy, bounds, journal, clock)
}

fn on(
    layout: Layout,
    policy: &str,
    bounds: &[Bound],
    journal: Option<Journal>,
    clock: &At,
) -> Governing<Script> {
    in_mode(Mode::Run, layout, policy, bounds, journal, clock)
}

fn in_mode(
    mode: Mode,
    layout: Layout,
    policy: &str,
    bounds: &[Bound],
    journal: Option<Journal>,
    clock: &At,
) -> Governing<Script> {
    let limits = layout.limits();
    let script = Script::new(0.05 * SATURATION);
    let plant = TargetPlant::new(layout, script, clock.now());
    let settings = (Settings::new(), DriverSettings::default());
    let governed = Governed::new((policy, &settings.0), bounds, settings.1, plant, clock.now());
    let named = Named { name: "disk \"one\"".to_owned(), policy: policy.to_owned() };
    let model = PowerModel::from_toml(ASSUMED_POWER_MODEL).unwrap();
    let fitter = SharedFitter::new(0.15, Some(&model), vec![Hertz(1e9)]);
    let other = Compared::new("native", limits, bounds, settings.1, fitter.clone(), clock.now());
    let compared = (mode == Mode::Observe).then(|| other.unwrap());
    let ledger = Ledger::new(Some(model), None, vec![Hertz(1e9)]);
    Governing::new(
        governed.unwrap(),
        named,
        Books { mode, fitter, compared, ledger, journal },
        clock,
    )
}

fn go_on(governing: &mut Governing<Script>, clock: &At, span_s: f64) {
    let until = clock.now() + Duration::from_secs_f64(span_s);
    while clock.now() < until {
        let next = governing.tick(clock);
        clock.0.set(next.at);
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_leaves_the_journal_that_reports_are_made_of() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), At::default());
    let facts = serde_json::json!({"kind": "governor"});
    let journal = Journal::create(folder.path(), "disk", "now", "", &facts).unwrap();
    let mut governing = governing("pacer", Some(journal), &clock);
    go_on(&mut governing, &clock, 120.0);
    let answered = governing.reactors().counters.requests.completed;
    let shown = governing.end(&clock);
    let raw = folder.path().join("disk/now/raw");
    let windows = lines(&raw.join("windows.jsonl"));
    assert_eq!(windows.len() as u64, shown.counts.windows);
    let requests: u64 = windows.iter().filter_map(|window| window["requests"].as_u64()).sum();
    assert_eq!(requests, shown.counts.requests);
    // Some came after the last window.
    assert!(answered >= requests && answered - requests <= (0.05 * SATURATION) as u64);
    let last = windows.last().unwrap();
    assert_eq!(last["state"].as_str(), shown.state.as_deref());
    assert_eq!(last["cores"][0], shown.groups[0].cores_active);
    let events = lines(&raw.join("events.jsonl"));
    assert!(events.iter().any(|event| event["message"].as_str().unwrap().contains("-> stable")));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(raw.join("summary.json")).unwrap()).unwrap();
    for (key, counted) in
        [("windows_bounded", shown.counts.windows_bounded), ("violations", shown.counts.violations)]
    {
        assert_eq!(summary["counts"][key], counted);
    }
    assert_eq!(summary["latency"]["tolerance"].as_f64(), shown.latency.tolerance);
}

/// One reactor is what a server has by default, and a law that was asked for saved nothing, silently.
#[test]
fn a_law_without_a_choice_is_told_of() {
    let clock = At::default();
    let said = |layout: Layout, policy: &str| {
        let governing = on(layout, policy, &[], None, &clock);
        let events = governing.shown(&clock).events;
        events.iter().any(|event| event.message.contains("only paces background work"))
    };
    let alone = || Layout::new(1, 0, 1).unwrap();
    assert!(said(alone(), "foresight"));
    assert!(!said(alone(), "native"));
    assert!(!said(Layout::new(2, 0, 1).unwrap(), "foresight"));
    assert!(said(Layout::new(2, 0, 2).unwrap(), "pacer"));
}

#[test]
fn operators_are_answered() {
    let clock = At::default();
    let mut governing = governing("pacer", None, &clock);
    go_on(&mut governing, &clock, 60.0);
    let exports = |asked: Option<&str>| match asked {
        Some("none") => None,
        Some("busy") => Some(Vec::new()),
        _ => Some(vec!["disk".to_owned()]),
    };
    let ask = |governing: &mut Governing<Script>, request| match governing
        .answer(&request, exports, &clock)
    {
        Answer::Done { message } | Answer::Refused { message } | Answer::Unable { message } => {
            message
        }
        Answer::Status { status } => status.reason,
    };
    let tolerance = |tolerance| Request::SetTolerance { tolerance };
    assert!(ask(&mut governing, tolerance(0.3)).contains("is now 0.3, it was"));
    assert_eq!(governing.shown(&clock).latency.tolerance, Some(0.3));
    assert!(ask(&mut governing, tolerance(-1.0)).contains("allowed is"));
    ask(&mut governing, Request::Pause {});
    let scrub = |export: Option<&str>| Request::Scrub { export: export.map(str::to_owned) };
    assert!(ask(&mut governing, scrub(None)).contains("disk"));
    assert!(ask(&mut governing, scrub(Some("none"))).contains("no export is named"));
    assert!(ask(&mut governing, scrub(Some("busy"))).contains("does not answer"));
    // Nothing is wrong with what was asked.
    let busy = governing.answer(&scrub(Some("busy")), exports, &clock);
    assert!(matches!(busy, Answer::Unable { .. }), "{busy:?}");
    go_on(&mut governing, &clock, 1.0);
    let shown = governing.shown(&clock);
    assert!(shown.paused && shown.reactors_active == REACTORS);
    assert_eq!(shown.forced.as_deref(), Some("paused"));
    let told: Vec<_> = shown.events.iter().map(|event| event.message.as_str()).collect();
    assert!(told.iter().any(|message| message.starts_with("paused")), "{told:?}");

    let mut native = self::governing("native", None, &clock);
    let request = tolerance(0.3);
    let refused = native.answer(&request, exports, &clock);
    let message = "policy native has no latency bound".to_owned();
    assert_eq!(refused, Answer::Refused { message });
    // A time is a bound, too, which it was said not to be.
    let mut timed = bounded("pacer", &["mean 2 ms run".parse().unwrap()], None, &clock);
    let refused = timed.answer(&tolerance(0.3), exports, &clock);
    let message =
        "the bound is \"mean 2 ms run\", a time: a tolerance is of bounds above full speed";
    assert_eq!(refused, Answer::Refused { message: message.to_owned() });
}

/// Of two bounds only the first was told, and of percentiles what the law makes of them for the mean.
#[test]
fn each_bound_is_told() {
    let clock = At::default();
    let bounds = ["p99 50% run", "mean 20% run"];
    let parsed = bounds.map(|bound| bound.parse().unwrap());
    let mut both = bounded("foresight", &parsed, None, &clock);
    go_on(&mut both, &clock, 120.0);
    let shown = both.shown(&clock);
    assert_eq!(shown.bounds.iter().map(|one| one.bound.as_str()).collect::<Vec<_>>(), bounds);
    let [tail, mean] = &shown.bounds[..] else { panic!("{:?}", shown.bounds) };
    assert!(tail.windows > 0 && mean.windows > 0, "{:?}", shown.bounds);
    assert_eq!(shown.latency.bound_us, mean.limit_us);
    let text: Vec<_> = WattioTarget::metrics(&shown)
        .into_iter()
        .filter(|family| family.name == "wattio_bound_windows")
        .flat_map(|family| family.series)
        .map(|(labels, _)| labels)
        .collect();
    assert_eq!(text, bounds.map(|bound| vec![("bound", bound.into())]));

    let alone = bounded("foresight", &parsed[..1], None, &clock);
    assert_eq!(alone.shown(&clock).latency.bound_us, None);
}

/// A law could only be tried by letting it act. What it would do is told, and nothing is done.
#[test]
fn shadow_mode_tells_what_the_law_would_do_and_does_nothing() {
    for idle_cores_sleep in [true, false] {
        let (folder, clock) = (tempfile::tempdir().unwrap(), At::default());
        let facts = serde_json::json!({"kind": "governor", "mode": "observe"});
        let journal = Journal::create(folder.path(), "disk", "now", "", &facts).unwrap();
        let mut layout = layout();
        layout.idle_cores_sleep = idle_cores_sleep;
        let mut observing = in_mode(Mode::Observe, layout, "pacer", &[], Some(journal), &clock);
        let full = observing.reactors().setting.clone();
        go_on(&mut observing, &clock, 5.0);
        let first = observing.shown(&clock);
        assert_eq!((&*first.mode, &*first.reason), ("observe", "no model of this host yet"));
        assert_eq!((first.forced, first.counts.windows_forced), (None, 0));
        assert_eq!(first.counts.windows_missing, 0);
        assert!(first.power.no_estimate.unwrap().contains("windows with requests so far"));
        assert!(first.counts.requests > 0, "what the law is not shown counts too");
        for step in 0..400 {
            observing.reactors().rate = SATURATION * (0.04 + 0.02 * f64::from(step % 7) / 6.0);
            go_on(&mut observing, &clock, 0.5);
            assert_eq!(observing.reactors().setting, full, "step {step}");
        }
        let shown = observing.shown(&clock);
        let model = shown.shadow.clone().unwrap();
        assert!(model.fitted && model.error_median.unwrap() < 0.15, "{model:?}");
        assert!(shown.reactors_active < REACTORS && shown.counts.setting_changes > 0);
        assert_eq!(shown.groups[0].cores_active as usize, shown.reactors_active);
        // Measured at full speed, seen as it would be.
        let latency = &shown.latency;
        assert!(latency.latency_us_seen > latency.latency_us_mean, "{latency:?}");
        assert!(latency.loss_predicted.unwrap() > 0.0 && latency.loss_measured.is_none());
        assert!(shown.bounds[0].windows > 0, "{:?}", shown.bounds);
        assert!(shown.power.estimated_j < shown.power.estimated_full_speed_j, "{:?}", shown.power);
        assert_eq!(shown.compared.as_ref().unwrap().estimated_saving_share, Some(0.0));
        let all_on_s = shown.uptime_s * REACTORS as f64;
        assert!((shown.counts.reactors_on_s / all_on_s - 1.0).abs() < 0.01, "all were on");
        let paused = observing.answer(&Request::Pause {}, |_| None, &clock);
        assert!(matches!(paused, Answer::Done { .. }), "{paused:?}");
        go_on(&mut observing, &clock, 2.0);
        let paused = observing.shown(&clock);
        assert_eq!((paused.forced.as_deref(), paused.reactors_active), (Some("paused"), REACTORS));
        observing.end(&clock);
        let raw = folder.path().join("disk/now/raw");
        let windows = lines(&raw.join("windows.jsonl"));
        assert!(windows.iter().any(|window| window["cores"][0].as_u64() < Some(REACTORS as u64)));
        let summary = std::fs::read_to_string(raw.join("summary.json")).unwrap();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["mode"], "observe");
        assert_eq!(summary["shadow"]["fitted"], true);
    }
}

/// Windows of which the model must learn nothing, and which it must not be blamed for.
#[test]
fn a_pause_in_shadow_mode_teaches_nothing() {
    let clock = At::default();
    let mut observing = in_mode(Mode::Observe, layout(), "pacer", &[], None, &clock);
    observing.answer(&Request::Pause {}, |_| None, &clock);
    go_on(&mut observing, &clock, 60.0);
    let shown = observing.shown(&clock);
    assert_eq!(shown.reason, "full speed is forced");
    let why = shown.shadow.unwrap().why.unwrap();
    assert!(why.starts_with("0 windows with requests so far"), "{why}");
}

#[test]
fn a_failure_is_told_once_until_it_changes() {
    let clock = At::default();
    let mut governing = governing("foresight", None, &clock);
    governing.reactors().refuses = true;
    go_on(&mut governing, &clock, 30.0);
    let failures = governing.events.iter().filter(|event| event.severity == Severity::Error);
    let told: Vec<_> = failures.map(|event| event.message.as_str()).collect();
    assert_eq!(told, ["reactor 7 does not answer: full speed"]);
}

#[test]
fn metrics_are_whole_in_both_formats() {
    let clock = At::default();
    let mut governing = governing("pacer", None, &clock);
    go_on(&mut governing, &clock, 20.0);
    let shown = governing.shown(&clock);
    let families = WattioTarget::metrics(&shown);
    let (text, open) = (Format::Text.write(&families), Format::OpenMetrics.write(&families));
    let series = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(series(&text), series(&open));
    let answered = governing.reactors().counters.requests.completed;
    let count = format!("wattio_latency_seconds_count {answered}");
    assert!(text.contains(&count), "{count} in {text}");
    assert!(text.contains(r#"wattio_cores_active{group="reactors"} "#));
    assert!(text.contains(r#"name="disk \"one\"""#));
    let names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "no name twice");
}

/// Charts take both from the same names.
#[test]
fn what_is_kept_for_charts_is_a_part_of_the_status() {
    let clock = At::default();
    let mut governing = governing("pacer", None, &clock);
    go_on(&mut governing, &clock, 20.0);
    let shown = governing.shown(&clock);
    let status = serde_json::to_value(&shown).unwrap();
    let (utc_ns, _, moment) = WattioTarget::moment(&shown);
    assert_eq!(utc_ns, shown.utc_ns);
    is_part(&serde_json::to_value(moment).unwrap(), &status);
}

fn is_part(part: &Value, whole: &Value) {
    match (part, whole) {
        (Value::Object(part), whole) => {
            part.iter().for_each(|(key, part)| is_part(part, &whole[key]))
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len());
            part.iter().zip(whole).for_each(|(part, whole)| is_part(part, whole));
        }
        _ => assert_eq!(part, whole),
    }
}

/// An idle target was looked at twice a second, for nothing.
#[test]
fn a_target_without_work_at_full_speed_is_quiet() {
    let clock = At::default();
    let mut governing = governing("native", None, &clock);
    go_on(&mut governing, &clock, 5.0);
    assert!(!governing.is_quiet());
    governing.reactors().rate = 0.0;
    governing.reactors().due_per_s = [0.0; 4];
    go_on(&mut governing, &clock, 600.0);
    assert!(governing.is_quiet());
}

/// The rest of a quiet target passed for a jump of time: full speed was forced in each window, and
/// reactors that poll went on polling for as long as nobody came.
#[test]
fn a_rest_is_no_jump_of_time_and_reactors_that_poll_get_none() {
    for (policy, sleeps, traffic_s) in [
        ("native", true, 0.0),
        ("native", false, 3.0),
        ("pacer", true, 3.0),
        ("pacer", false, 0.0),
        ("pacer", false, 3.0),
        ("foresight", true, 3.0),
        ("foresight", false, 0.0),
        ("foresight", false, 3.0),
    ] {
        let clock = At::default();
        let mut layout = layout();
        layout.idle_cores_sleep = sleeps;
        let mut governing = on(layout, policy, &[], None, &clock);
        governing.reactors().due_per_s = [0.0; 4];
        // So little that pacer affords to meet it with one reactor when it comes back.
        governing.reactors().rate = 0.01 * SATURATION;
        go_on(&mut governing, &clock, traffic_s);
        governing.reactors().rate = 0.0;
        go_on(&mut governing, &clock, 600.0);
        let shown = governing.shown(&clock);
        let case = format!("{policy}, sleeps {sleeps}, {traffic_s} s: {}", shown.reason);
        assert_eq!(shown.counts.windows_forced, 0, "{case}");
        if policy != "native" && !sleeps {
            assert!(shown.reactors_active < REACTORS, "{case}");
        }
    }
}

#[test]
fn time_that_is_lost_on_top_of_a_rest_is_a_jump() {
    let clock = At::default();
    let mut governing = governing("native", None, &clock);
    governing.reactors().due_per_s = [0.0; 4];
    governing.reactors().rate = 0.0;
    go_on(&mut governing, &clock, 60.0);
    assert_eq!(governing.shown(&clock).forced, None);
    clock.0.set(clock.now() + Duration::from_secs(60));
    governing.tick(&clock);
    let forced = governing.shown(&clock).forced;
    assert_eq!(forced.as_deref(), Some("time jumped ahead by 60.0 s"));
    go_on(&mut governing, &clock, 10.0);
    assert_eq!(governing.shown(&clock).forced, None);
}

/// A reactor that did not answer in time was missing from page and metrics, with its volumes.
#[test]
fn what_a_reactor_said_stands_until_it_says_something_else() {
    let mut governing = governing("native", None, &At::default());
    let volume = || VolumeStatus { export: "disk".to_owned(), ..VolumeStatus::default() };
    let reactor = |number, turns, volumes: usize| ReactorStatus {
        number,
        turns,
        volumes: (0..volumes).map(|_| volume()).collect(),
        ..ReactorStatus::default()
    };
    governing.learn(vec![reactor(0, 1, 1), reactor(1, 1, 0)]);
    governing.learn(vec![reactor(1, 2, 0)]);
    assert_eq!(governing.learned, [reactor(0, 1, 1), reactor(1, 2, 0)]);
    // The volume has moved since.
    governing.learn(vec![reactor(1, 3, 1)]);
    assert_eq!(governing.learned, [reactor(0, 1, 0), reactor(1, 3, 1)]);
}
