//! A drive of five power states behind a script that answers as nvme-cli 2.3 does.

use super::*;
use crate::LinuxMachine;
use crate::knobs::KnobConfig;
use crate::topology::Topology;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use wattio_governor::{Address, Cpus, FileStore, RestorableWriter, Setting};
use wattio_law::DriveAction;

/// Kept as a file: one that a test writes may still be open in another test's child, and does not
/// start then.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/machine/fake_nvme.sh");

struct Host {
    folder: tempfile::TempDir,
    root: Root,
}

/// States 0 to 4, of which 3 and 4 take no requests.
fn identity() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[263] = 4;
    for state in 0..5 {
        bytes[2048 + 32 * state + 3] = if state < 3 { 0 } else { 2 };
    }
    bytes
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir_all(root.path("/dev")).unwrap();
        std::fs::create_dir_all(root.path("/sys/class/nvme/nvme0/power")).unwrap();
        std::fs::write(root.path("/dev/nvme0"), identity()).unwrap();
        let host = Self { folder, root };
        host.set_state("0");
        host
    }

    fn set_state(&self, text: &str) {
        std::fs::write(self.root.path("/dev/nvme0.state"), text).unwrap();
    }

    fn state(&self) -> String {
        self.root.read("/dev/nvme0.state").unwrap()
    }

    fn calls(&self) -> usize {
        self.root.read("/dev/nvme0.calls").unwrap_or_default().lines().count()
    }

    fn config(&self, more: &str) -> KnobConfig {
        let named = more.contains("program");
        let program = if named { String::new() } else { format!("program = '{PROGRAM}'\n") };
        let text = format!("kind = 'nvme.power'\ndevices = ['nvme*']\n{program}{more}");
        toml::from_str(&text).unwrap()
    }

    fn open(&self, more: &str) -> Result<Box<dyn wattio_governor::Knob>, String> {
        let opened = self.config(more).open(&self.root, &Topology::default(), &[]);
        opened.map_err(|error| error.to_string())
    }

    fn writer(&self) -> RestorableWriter {
        let tools = self.config("power_state = 2").drives().into_iter().collect();
        let machine = LinuxMachine::new(self.root.clone(), &[]).unwrap().with_drives(tools);
        let store = FileStore::new(self.folder.path().join("snapshot.json"));
        RestorableWriter::open(Box::new(machine), Box::new(store), "boot").unwrap().0
    }
}

fn setting(drives: DriveAction) -> Setting {
    Setting {
        groups: Vec::new(),
        drives,
        background: Vec::new(),
        background_share: 1.0,
        full_speed: false,
        at_full: Cpus::default(),
        held_back: Vec::new(),
    }
}

#[test]
fn a_drive_rests_in_idle_and_is_put_back() {
    let host = Host::new();
    // A hint of the workload is part of the value, and comes back with it.
    host.set_state("32");
    let mut knob = host.open("power_state = 2").unwrap();
    let mut writer = host.writer();
    for (drives, there) in [
        (DriveAction::Own, "32"),
        (DriveAction::Asleep, "2"),
        (DriveAction::Awake, "32"),
        (DriveAction::Asleep, "2"),
    ] {
        let assignments = knob.assignments(&setting(drives), writer.look()).unwrap();
        assert_eq!(writer.apply("nvme.power", &assignments).notes, []);
        assert_eq!(host.state(), there, "{drives:?}");
    }
    assert_eq!(writer.restore().unwrap().left, []);
    assert_eq!(host.state(), "32");
}

#[test]
fn what_a_killed_daemon_left_is_put_back() {
    let host = Host::new();
    let mut knob = host.open("power_state = 3\naccept_non_operational = true").unwrap();
    let mut writer = host.writer();
    let rest = knob.assignments(&setting(DriveAction::Asleep), writer.look()).unwrap();
    writer.apply("nvme.power", &rest);
    assert_eq!(host.state(), "3");
    std::mem::forget(writer);
    drop(host.writer());
    assert_eq!(host.state(), "0");
}

#[test]
fn a_drive_that_does_not_answer_is_left_over_with_the_command_that_mends_it() {
    let host = Host::new();
    let mut knob = host.open("power_state = 2").unwrap();
    let mut writer = host.writer();
    let rest = knob.assignments(&setting(DriveAction::Asleep), writer.look()).unwrap();
    writer.apply("nvme.power", &rest);
    std::fs::write(host.root.path("/dev/nvme0.broken"), "").unwrap();
    let left = writer.restore().unwrap().left;
    let restore_command = &left.first().unwrap().restore_command;
    assert!(
        restore_command.ends_with("nvme.sh set-feature /dev/nvme0 --feature-id=2 --value=0"),
        "{restore_command}"
    );
    std::fs::remove_file(host.root.path("/dev/nvme0.broken")).unwrap();
    assert_eq!(writer.restore().unwrap().left, []);
    assert_eq!(host.state(), "0");
}

#[test]
fn a_resting_drive_is_asked_once_a_minute() {
    let host = Host::new();
    let now = Arc::new(Mutex::new(Seconds(0.0)));
    let mut drives = Drives::new(host.config("power_state = 2").drives().into_iter().collect());
    let theirs = Arc::clone(&now);
    drives.clock = Arc::new(move || *theirs.lock().unwrap());
    drives.write(&host.root, "nvme0", "2", &Budget::default()).unwrap();
    for _ in 0..100 {
        assert_eq!(drives.read(&host.root, "nvme0", &Budget::default()).unwrap(), "2");
    }
    assert_eq!(host.calls(), 2);
    host.set_state("1");
    *now.lock().unwrap() = Seconds(61.0);
    assert_eq!(drives.read(&host.root, "nvme0", &Budget::default()).unwrap(), "1");
}

#[test]
fn a_state_that_may_harm_is_refused_at_the_start() {
    let host = Host::new();
    for (more, says) in [
        ("power_state = 5", "power_state = 5: nvme0 has 0 to 4"),
        ("power_state = 3", "set accept_non_operational = true"),
        ("power_state = 2\nlatency = '1 ms'", "give one of them"),
    ] {
        let message = host.open(more).err().unwrap();
        assert!(message.contains(says), "{message}");
    }
    let tolerance = "/sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us";
    std::fs::write(host.root.path(tolerance), "100000\n").unwrap();
    let message = host.open("power_state = 2").err().unwrap();
    assert!(message.contains("by itself (APST)") && message.contains(tolerance), "{message}");
    std::fs::write(host.root.path(tolerance), "0\n").unwrap();
    assert!(host.open("power_state = 2").is_ok());
    let message = host.open("power_state = 2\nprogram = '/none/nvme'").err().unwrap();
    assert!(message.contains("/none/nvme: No such file"), "{message}");
    let message = host.open("power_state = 2\nprogram = 'nvme'").err().unwrap();
    assert!(message.contains("must be an absolute path"), "{message}");
}

#[test]
fn only_configured_drives_are_talked_to() {
    let host = Host::new();
    let tool = NvmeTool { devices: vec!["nvme0".to_owned()], ..tool(&host) };
    let mut drives = Drives::new(vec![tool]);
    for device in ["nvme1", "../nvme0", "nvme0/../sda", "nvme", "sda", "", "nvme0n1"] {
        let refused = drives.write(&host.root, device, "0", &Budget::default());
        assert!(matches!(refused, Err(AccessError::Refused(_))), "{device}");
    }
    for value in ["256", "-1", "", "2; reboot"] {
        let refused = drives.write(&host.root, "nvme0", value, &Budget::default());
        assert!(matches!(refused, Err(AccessError::Refused(_))), "{value}");
    }
    assert_eq!(host.calls(), 0);
    std::fs::remove_file(host.root.path("/dev/nvme0")).unwrap();
    assert_eq!(drives.read(&host.root, "nvme0", &Budget::default()), Err(AccessError::Gone));
    let machine = LinuxMachine::new(host.root.clone(), &[]).unwrap();
    let refused = machine.with_drives(Vec::new());
    let mut refused: Box<dyn wattio_governor::Machine> = Box::new(refused);
    let message = refused.read(&Address::new("nvme", "nvme0")).unwrap_err().to_string();
    assert!(message.contains("no nvme.power with a power_state for nvme0"), "{message}");
}

fn tool(host: &Host) -> NvmeTool {
    host.config("power_state = 2").drives().unwrap()
}

#[test]
fn what_versions_of_nvme_cli_print_is_read() {
    for (text, value) in [
        ("get-feature:0x2 (Power Management), Current value:00000000\n", 0),
        ("get-feature:0x2 (Power Management), Current value:0x000004\n", 4),
        ("get-feature:0x02 (Power Management), Current value:0x00000003\n", 3),
        (
            "get-feature:0x02 (Power Management), Current value:0x00000023\n\tWorkload Hint (WH): 1\n",
            35,
        ),
        ("warning: something\nget-feature:0x02 (Power Management), Current Value: 0x1f\n", 31),
    ] {
        assert_eq!(power_management(text), Ok(value), "{text}");
    }
    for text in ["", "value:", "Current value:0x", "NVMe status: Invalid Field", "value:ffffffff1"]
    {
        assert!(power_management(text).unwrap_err().contains("shows no value"), "{text}");
    }
}

#[test]
fn what_is_too_short_tells_no_states() {
    assert_eq!(operational(&identity()), Ok(vec![true, true, true, false, false]));
    assert!(operational(&identity()[..2100]).unwrap_err().contains("4096 are needed"));
    assert!(operational(&[]).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text: String, near in "(.*)?[vV]alue: ?(0x)?[0-9a-fé]{0,20}.*", bytes: Vec<u8>) {
        for text in [text, near] {
            prop_assert!(power_management(&text).is_ok_and(|value| value <= 255) || power_management(&text).is_err());
        }
        let _ = operational(&bytes);
    }
}
