//! What one step of law and bookkeeping costs, without any system call: PACER over 128 cores whose
//! places lie in memory. Prints nanoseconds for each step; `make bench` reads them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wattio_control::Settings;
use wattio_governor::{
    Actuator, Address, Assignment, CoreGroup, CpuSource, Cpus, Governor, GovernorSettings,
    GroupUse, Knob, LatencySample, LatencySource, Layer, Machine, MachineError, MachineView, Parts,
    Requester, RestorableWriter, Setting, Snapshot, SnapshotError, SnapshotStore, SourceError,
};
use wattio_law::{GroupLimits, Limits};
use wattio_units::{Hertz, Seconds};

const CORES: u32 = 128;
const STEPS: u32 = 20_000;

#[derive(Default)]
struct Memory(BTreeMap<Address, String>);

impl MachineView for Memory {
    fn read(&mut self, address: &Address) -> Result<String, MachineError> {
        Ok(self.0.get(address).cloned().unwrap_or_else(|| "3000000".to_owned()))
    }
    fn same(&self, _: &Address, one: &str, other: &str) -> bool {
        one == other
    }
    fn outlives_boot(&self, _: &Address) -> bool {
        false
    }
    fn restore_command(&self, _: &Address, _: &str) -> String {
        String::new()
    }
}

impl Machine for Memory {
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError> {
        self.0.insert(address.clone(), value.to_owned());
        Ok(())
    }
}

struct Nowhere;

impl SnapshotStore for Nowhere {
    fn load(&mut self) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(None)
    }
    fn save(&mut self, _: &Snapshot) -> Result<(), SnapshotError> {
        Ok(())
    }
    fn clear(&mut self) -> Result<(), SnapshotError> {
        Ok(())
    }
}

struct Frequencies(Vec<Address>);

impl Knob for Frequencies {
    fn name(&self) -> &str {
        "frequency"
    }
    fn layer(&self) -> Layer {
        Layer::Speed
    }
    fn assignments(
        &mut self,
        setting: &Setting,
        _: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        let khz = (setting.groups[0].frequency.0 / 1e3).round().to_string();
        Ok(self.0.iter().map(|address| Assignment::new(address.clone(), khz.clone())).collect())
    }
}

/// A steady load with a little noise, and a leap every 400 windows.
struct Load(u32);

impl LatencySource for Load {
    fn name(&self) -> &str {
        "load"
    }
    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        self.0 += 1;
        let noise = f64::from(self.0.wrapping_mul(2_654_435_761) >> 24) / 64.0;
        let leap = if self.0 % 400 < 8 { 300.0 } else { 0.0 };
        Ok(Some(LatencySample {
            at: now,
            requests: 1000,
            arrived: None,
            in_flight: None,
            latency_us_mean: Some(200.0 + noise + leap),
            bytes_mean: Some(8192.0),
            read_share: Some(0.7),
            histogram: None,
        }))
    }
}

struct Use;

impl CpuSource for Use {
    fn name(&self) -> &str {
        "use"
    }
    fn sample(&mut self, _: Seconds, _: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        Ok(vec![GroupUse {
            utilisation_clients: 0.2,
            utilisation_background: 0.0,
            queued: None,
            waited_for_drives: false,
        }])
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = GroupLimits {
        cores_min: 1,
        cores_max: CORES,
        frequency_min: Hertz(1e9),
        frequency_max: Hertz(3e9),
        frequency_steps: (5..=15).map(|step| Hertz(f64::from(step) * 2e8)).collect(),
        idle_cores_sleep: true,
        power: vec![],
        frequency_bound_share: None,
    };
    let law = wattio_control::build("pacer", &Settings::new(), &Limits::of(vec![limits.clone()]))?;
    let places = (0..CORES).map(|cpu| Address::new("frequency", &cpu.to_string())).collect();
    let (writer, _) =
        RestorableWriter::open(Box::new(Memory::default()), Box::new(Nowhere), "boot")?;
    let cores = (0..CORES).collect();
    let group = CoreGroup { name: "all".to_owned(), cores, limits, saving_max: None };
    let actuator = Actuator { knobs: vec![Box::new(Frequencies(places))], writer };
    let mut governor = Governor::new(
        Parts {
            law,
            bounds: vec![],
            groups: vec![group.clone()],
            latency: Box::new(Load(0)),
            cpu: Box::new(Use),
            background: None,
            power: None,
            power_is_shared: false,
            followers: Vec::new(),
            guards: Vec::new(),
            machine: Requester::alone(Some(actuator), std::slice::from_ref(&group)),
            shadow_model: None,
            settings: GovernorSettings::default(),
        },
        Duration::ZERO,
    );
    let began = Instant::now();
    for step in 1..=STEPS {
        governor.tick(Duration::from_millis(500) * step);
    }
    let spent = began.elapsed() / STEPS;
    let changes = governor.driver().account().knob_changes;
    println!("{{\"step_ns\": {}, \"steps\": {STEPS}, \"changes\": {changes}}}", spent.as_nanos());
    Ok(())
}
