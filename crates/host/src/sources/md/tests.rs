use super::*;
use proptest::prelude::*;
use wattio_law::{GroupObservation, LatencyObservation, Observation};
use wattio_units::Hertz;

struct Host {
    folder: tempfile::TempDir,
    source: Md,
}

impl Host {
    /// Arrays at rest whose limit is 200000 KiB/s.
    fn new(devices: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for device in devices {
            std::fs::create_dir_all(folder.path().join(format!("sys/block/{device}/md"))).unwrap();
            for (name, text) in [
                ("sync_action", "idle\n"),
                ("sync_completed", "none\n"),
                ("sync_speed", "none\n"),
                ("sync_speed_max", "200000 (system)\n"),
            ] {
                std::fs::write(Self::path(&folder, device, name), text).unwrap();
            }
        }
        let source = open(&folder, devices).unwrap();
        Self { folder, source }
    }

    fn path(folder: &tempfile::TempDir, device: &str, name: &str) -> std::path::PathBuf {
        folder.path().join(file(device, name).trim_start_matches('/'))
    }

    fn write(&self, device: &str, name: &str, text: &str) {
        std::fs::write(Self::path(&self.folder, device, name), text).unwrap();
    }

    /// A pass of 8 GiB: sectors done, and KiB/s.
    fn pass(&self, device: &str, completed: u64, speed: u64) {
        self.write(device, "sync_action", "check\n");
        self.write(device, "sync_completed", &format!("{completed} / 16777216\n"));
        self.write(device, "sync_speed", &format!("{speed}\n"));
    }

    fn sample(&mut self, at: f64) -> Option<BackgroundObservation> {
        self.source.sample(Seconds(at)).unwrap().pop()
    }
}

fn open(folder: &tempfile::TempDir, devices: &[&str]) -> Result<Md, SourceError> {
    let devices = devices.iter().map(|&device| device.to_owned()).collect();
    Md::open(&Config { devices }, &Root::new(folder.path()))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

const GIB_PER_S: u64 = 1 << 20;

#[test]
fn nothing_is_told_of_an_array_at_rest_or_gone() {
    let mut host = Host::new(&["md0"]);
    assert_eq!(host.sample(0.0), None);
    host.pass("md0", 0, 1000);
    host.write("md0", "sync_completed", "delayed\n");
    assert_eq!(host.sample(1.0), None);
    std::fs::remove_dir_all(host.folder.path().join("sys/block/md0")).unwrap();
    assert_eq!(host.sample(2.0), None);
}

#[test]
fn at_full_speed_what_is_done_is_what_was_due() {
    let mut host = Host::new(&["md0"]);
    host.pass("md0", 0, GIB_PER_S / 2);
    assert_eq!(host.sample(0.0), None, "the first reading opens the first window");
    let seen = host.sample(2.0).unwrap();
    assert!(near(seen.done_core_s, 1.0) && near(seen.due_core_s, 1.0), "{seen:?}");
    // The kernel's own count caught up, and is further than its speed said.
    host.pass("md0", 4 * 2_097_152, GIB_PER_S / 2);
    assert!(near(host.sample(4.0).unwrap().done_core_s, 3.0));
}

#[test]
fn a_slowed_pass_is_due_at_the_speed_it_had_before() {
    let mut host = Host::new(&["md0"]);
    host.pass("md0", 0, GIB_PER_S / 4);
    host.sample(0.0);
    host.sample(1.0);
    host.write("md0", "sync_speed_max", "100000 (local)\n");
    host.pass("md0", 0, GIB_PER_S / 8);
    let seen = host.sample(2.0).unwrap();
    assert!(near(seen.done_core_s, 0.125) && near(seen.due_core_s, 0.25), "{seen:?}");
    // The mean of the last half minute is still that of the slowed pass.
    host.write("md0", "sync_speed_max", "200000 (system)\n");
    assert!(near(host.sample(3.0).unwrap().due_core_s, 0.25));
    assert!(near(host.sample(32.0).unwrap().due_core_s, 29.0 * 0.125));
}

#[test]
fn a_pass_never_seen_at_full_speed_is_due_at_what_its_limit_takes_away() {
    let mut host = Host::new(&["md0"]);
    host.write("md0", "sync_speed_max", "50000 (local)\n");
    host.pass("md0", 0, GIB_PER_S / 16);
    host.sample(0.0);
    let seen = host.sample(1.0).unwrap();
    assert!(near(seen.due_core_s, 4.0 * seen.done_core_s), "{seen:?}");
}

/// It was once given out as two days' worth, for a law that waited for more to become due.
#[test]
fn the_backlog_is_what_is_left_of_the_pass() {
    let mut host = Host::new(&["md0"]);
    host.pass("md0", 14_680_064, 0);
    host.sample(0.0);
    host.pass("md0", 14_680_064, 1000);
    let seen = host.sample(1.0).unwrap();
    // A GiB of 2,097,152 sectors is left, less a second at 1000 KiB/s.
    assert!((seen.backlog_core_s - 1.0).abs() < 0.002, "{seen:?}");
}

#[test]
fn a_count_that_goes_back_is_another_pass() {
    let mut host = Host::new(&["md0"]);
    host.pass("md0", 1_000_000, 1000);
    host.sample(0.0);
    host.pass("md0", 0, 1000);
    assert_eq!(host.sample(1.0), None);
    let seen = host.sample(2.0).unwrap();
    assert!(near(seen.done_core_s, 2000.0 / SECTORS_PER_CORE_S), "{seen:?}");
}

#[test]
fn while_one_array_recovers_nothing_is_told_of_the_others() {
    let mut host = Host::new(&["md0", "md1"]);
    host.pass("md0", 0, 1000);
    host.pass("md1", 0, 1000);
    host.sample(0.0);
    let both = host.sample(1.0).unwrap();
    assert!(near(both.done_core_s, 4000.0 / SECTORS_PER_CORE_S), "{both:?}");
    host.write("md1", "sync_action", "recover\n");
    assert_eq!(host.sample(2.0), None);
    host.write("md1", "sync_action", "idle\n");
    assert!(host.sample(3.0).is_some());
}

#[test]
fn what_makes_no_sense_is_said_with_its_file() {
    let mut host = Host::new(&["md0"]);
    host.pass("md0", 0, 1000);
    host.write("md0", "sync_completed", "much");
    let message = host.source.sample(Seconds(1.0)).unwrap_err().to_string();
    assert!(message.contains("/sys/block/md0/md/sync_completed: \"much\""), "{message}");
}

#[test]
fn arrays_that_are_not_there_are_refused_with_those_that_are() {
    let host = Host::new(&["md0"]);
    std::fs::create_dir_all(host.folder.path().join("sys/block/md7/md")).unwrap();
    for (devices, says) in [
        (&["md9"][..], "there are: md0"),
        (&["md7"], "there are: md0"),
        (&["../block/md0"], "not an array"),
        (&["md0", "md0"], "named twice"),
        (&[], "devices is empty"),
    ] {
        let message = open(&host.folder, devices).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }
}

/// A pass as the kernel shows it, slowed by the law, that takes `span` at full speed. Returns the
/// paces of all windows, and the share of the pass that was done.
fn paced_by_the_law(span: Seconds, windows: u32, requests: u64) -> (Vec<f64>, f64) {
    const WINDOW_S: f64 = 0.5;
    let all = 400_000.0 * span.0;
    let group = wattio_law::GroupLimits {
        cores_min: 2,
        cores_max: 2,
        frequency_min: Hertz(1e9),
        frequency_max: Hertz(1e9),
        frequency_steps: Vec::new(),
        idle_cores_sleep: true,
        power: Vec::new(),
        frequency_bound_share: None,
    };
    let limits = wattio_law::Limits::of(vec![group]);
    let mut law = wattio_control::build("pacer", &Default::default(), &limits).unwrap();
    let mut host = Host::new(&["md0"]);
    host.write("md0", "sync_action", "resync");
    let (mut paces, mut done, mut speeds) = (Vec::new(), 0.0, [200_000.0; 60]);
    for window in 0..windows {
        let limit = 200_000.0 * paces.last().copied().unwrap_or(1.0);
        speeds[window as usize % 60] = limit;
        done = (done + limit * 2.0 * WINDOW_S).min(all);
        // In steps of a sixteenth, and a mean over half a minute.
        let completed = (done / (all / 16.0)).floor() * (all / 16.0);
        host.write("md0", "sync_completed", &format!("{completed} / {all}"));
        host.write("md0", "sync_speed", &format!("{:.0}", speeds.iter().sum::<f64>() / 60.0));
        host.write("md0", "sync_speed_max", &format!("{limit:.0} (local)"));
        if done >= all {
            host.write("md0", "sync_action", "idle");
        }
        let seen = Observation {
            latency: Some(LatencyObservation {
                requests,
                latency_us_mean: (requests > 0).then_some(300.0),
                ..LatencyObservation::quiet(Seconds(0.0))
            }),
            groups: vec![GroupObservation {
                cores: 2,
                frequency: Hertz(1e9),
                utilisation_clients: 0.1,
                utilisation_background: 0.1,
                queued: None,
                waited_for_drives: false,
            }],
            background: host.sample(f64::from(window) * WINDOW_S).into_iter().collect(),
            power: None,
            alarm: false,
        };
        let due_rate = seen.background.first().map(|pass| pass.due_core_s / WINDOW_S);
        let budget = law.step(&seen, Seconds(WINDOW_S)).background_of(0).budget;
        paces.push(budget.share_of(due_rate));
    }
    (paces, done / all)
}

#[test]
fn the_law_keeps_the_floor_of_a_pass_while_clients_are_served() {
    let (paces, done) = paced_by_the_law(Seconds(1000.0), 2000, 50);
    assert!(paces.iter().all(|pace| *pace >= 0.5), "{paces:?}");
    assert!((0.98..=1.0).contains(&done), "{done}");
}

/// The law is idle after 30 s; what is left then is less than it would wake for.
#[test]
fn an_idle_server_finishes_a_pass() {
    let (paces, done) = paced_by_the_law(Seconds(34.0), 100, 0);
    assert!(paces.iter().all(|pace| *pace >= 0.5), "{paces:?}");
    assert_eq!(done, 1.0);
}

proptest! {
    #[test]
    fn whatever_is_read_the_law_can_reckon_with(
        readings in proptest::collection::vec((0u64..=16_777_216, 0u64..u64::MAX, 0u64..u64::MAX, -9.0..99.0f64), 1..20)
    ) {
        let mut host = Host::new(&["md0"]);
        let mut now = 0.0;
        for (completed, speed, limit, span) in readings {
            host.pass("md0", completed, speed);
            host.write("md0", "sync_speed_max", &limit.to_string());
            now += span;
            let Some(seen) = host.sample(now) else { continue };
            for core_s in [seen.done_core_s, seen.due_core_s, seen.backlog_core_s] {
                prop_assert!(core_s.is_finite() && core_s >= 0.0);
            }
            prop_assert!(seen.due_core_s > 0.0);
        }
    }
}
