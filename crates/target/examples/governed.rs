//! Page, metrics, control socket and journal of a target whose reactors are made up, to look at and to
//! test with.
//!
//! `cargo run -p wattio-target --example governed -- [listen=ADDRESS] [socket=PATH] [policy=pacer]
//! [mode=run] [step_ms=500] [out=FOLDER] [windows=N]`
//!
//! Each step stands for half a second, however long it takes. Ends when its standard input does, or
//! after so many windows.

#[path = "../src/plant/script.rs"]
mod script;

use script::{REACTORS, SATURATION, Script, layout};
use std::cell::Cell;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use wattio_control::Settings;
use wattio_governor::Clock;
use wattio_governor::journal::Journal;
use wattio_host::Root;
use wattio_host::facts::{RunFacts, stamp};
use wattio_host::ledger::Ledger;
use wattio_host::shadow::{Mode, SharedFitter};
use wattio_law::DriverSettings;
use wattio_plant::{ASSUMED_POWER_MODEL, PowerModel};
use wattio_service::{Page, Program, Service, ServiceRequest, ServiceSettings};
use wattio_target::control_loop::{Books, Governing, Named};
use wattio_target::plant::{
    CLASSES, Governed, Layout, ReactorCounters, Reactors, Setting, TargetPlant,
};
use wattio_target::shown::WattioTarget;
use wattio_target::status::{ReactorStatus, VolumeStatus};
use wattio_units::Hertz;

const START_NS: u64 = 1_770_000_000_000_000_000;

/// Time as the example plays it.
struct Played(Cell<Duration>);

impl Clock for Played {
    fn now(&self) -> Duration {
        self.0.get()
    }

    fn utc_ns(&self) -> u64 {
        START_NS + self.0.get().as_nanos() as u64
    }
}

fn journal(results: &Path, policy: &str, mode: Mode, clock: &Played) -> std::io::Result<Journal> {
    let group = |name| (name, format!("0-{}", REACTORS - 1), 1);
    let facts = RunFacts {
        program: (WattioTarget::NAME, env!("CARGO_PKG_VERSION")),
        mode: mode.name(),
        name: "made up",
        policy,
        groups: vec![group("reactors")],
        config_file: Path::new("made-up.toml"),
        options: Vec::new(),
    };
    let facts = facts.describe(&Root::new("/"), clock);
    Journal::create(results, "made up", &stamp(clock.utc_ns(), policy), "", &facts)
}

/// Clients of this volume wait for a checkpoint, which waits for a flush.
fn volume() -> VolumeStatus {
    VolumeStatus {
        export: "disk".to_owned(),
        size_bytes: 1 << 30,
        live_bytes: 1 << 29,
        compression: "none".to_owned(),
        free_segments: 3,
        empty_segments: 2,
        segments: 40,
        devices: vec!["in sync".to_owned()],
        starved_s: Some(4.0),
        device_oldest: Some("flush".to_owned()),
        device_oldest_s: Some(5.0),
        checkpoint_stage: Some("flushing the map".to_owned()),
        replay_bytes: 3 << 20,
        checkpoint_s: Some(0.02),
        opened_s: 0.5,
        recovered_bytes: Some(1 << 20),
        ..VolumeStatus::default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let step_time = Duration::from_millis(value("step_ms").unwrap_or("500").parse()?);
    let windows: u64 = value("windows").unwrap_or("18446744073709551615").parse()?;
    let policy = value("policy").unwrap_or("pacer");
    let clock = Played(Cell::new(Duration::ZERO));
    let mode = match value("mode") {
        Some("observe") => Mode::Observe,
        _ => Mode::Run,
    };
    let journal = value("out").map(|out| journal(Path::new(out), policy, mode, &clock));
    let journal = journal.transpose()?;

    let plant = TargetPlant::new(layout(), Script::new(0.0), clock.now());
    let (settings, driver) = (Settings::new(), DriverSettings::default());
    let governed = Governed::new((policy, &settings), &[], driver, plant, clock.now())?;
    let named = Named { name: "made up".to_owned(), policy: policy.to_owned() };
    let model = PowerModel::from_toml(ASSUMED_POWER_MODEL)?;
    let fitter = SharedFitter::new(0.15, Some(&model), vec![Hertz(1e9)]);
    let ledger = Ledger::new(Some(model), None, vec![Hertz(1e9)]);
    let books = Books { mode, fitter, compared: None, ledger, journal };
    let mut governing = Governing::new(governed, named, books, &clock);

    let (number, volumes) = (0, vec![volume()]);
    governing.learn(vec![ReactorStatus { number, volumes, ..ReactorStatus::default() }]);

    let (publish, shown) = wattio_service::shown(governing.shown(&clock));
    let (requests, asked) = mpsc::channel::<ServiceRequest<WattioTarget>>();
    let settings = ServiceSettings {
        listen: Some(value("listen").unwrap_or("127.0.0.1:0").parse()?),
        socket: value("socket").map(Into::into),
        ..ServiceSettings::default()
    };
    let service = Service::start(settings, shown, requests)?;
    if let Some(Page { address, .. }) = service.page() {
        println!("http://{address}/");
    }
    let (end, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(end);
    });
    let mut stepped = 0;
    while stepped < windows && ended.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
        // A day of load in some minutes.
        let day = (clock.now().as_secs_f64() / 140.0).sin();
        governing.reactors().rate = SATURATION * (0.2 + 0.18 * day);
        let next = governing.tick(&clock);
        clock.0.set(next.at);
        if !next.stepped {
            continue;
        }
        stepped += 1;
        publish.send(governing.shown(&clock));
        if let Ok(asked) = asked.recv_timeout(step_time) {
            let exports = |_: Option<&str>| Some(vec!["made up".to_owned()]);
            let answer = governing.answer(&asked.request, exports, &clock);
            let _ = asked.reply.send(answer);
        }
    }
    governing.end(&clock);
    Ok(())
}
