//! The cores of one group over time: who takes tasks, who draws power, who comes and goes.

use wattio_law::GroupAction;
use wattio_plant::Cores;
use wattio_units::Hertz;

/// A time that does not come.
pub const NEVER: u64 = u64::MAX;

/// One group of cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Cores that were asked for.
    pub target: u32,
    /// Cores that take tasks.
    pub usable: u32,
    /// Cores that draw power.
    pub powered: u32,
    /// When all that were asked for take tasks, in nanoseconds.
    pub on_at: u64,
    /// When those that left stop drawing power.
    pub off_at: u64,
    /// Their frequency.
    pub frequency: Hertz,
    /// Time of a task over its time at the highest frequency.
    pub stretch: f64,
    /// Power of a core without a task.
    pub idle_w: f64,
    /// Power of one with a task.
    pub running_w: f64,
}

impl Group {
    /// All cores at the highest frequency.
    #[must_use]
    pub fn full(count: u32, cores: &Cores) -> Self {
        let mut group = Self {
            target: count,
            usable: count,
            powered: count,
            on_at: NEVER,
            off_at: NEVER,
            frequency: Hertz(0.0),
            stretch: 1.0,
            idle_w: 0.0,
            running_w: 0.0,
        };
        group.run_at(cores.frequency_max, cores);
        group
    }

    fn run_at(&mut self, frequency: Hertz, cores: &Cores) {
        self.frequency = frequency;
        self.stretch = cores.stretch(frequency);
        self.idle_w = cores.power_idle(frequency).0;
        self.running_w = cores.power_running(frequency).0;
    }

    /// Puts a setting into force; answers whether anything changed.
    pub fn apply(&mut self, setting: GroupAction, cores: &Cores, now_ns: u64) -> bool {
        let mut changed = false;
        if setting.frequency != self.frequency {
            self.run_at(setting.frequency, cores);
            changed = true;
        }
        if setting.cores == self.target {
            return changed;
        }
        self.target = setting.cores;
        self.usable = self.usable.min(self.target);
        self.powered = self.powered.max(self.target);
        let after = |seconds: f64| now_ns + (seconds * 1e9) as u64;
        self.on_at = if self.usable < self.target { after(cores.gate_on.0) } else { NEVER };
        self.off_at = if self.powered > self.target { after(cores.gate_off.0) } else { NEVER };
        true
    }

    /// What was due until now has come; answers whether anything changed.
    pub fn settle(&mut self, now_ns: u64) -> bool {
        let (on, off) = (self.on_at <= now_ns, self.off_at <= now_ns);
        if on {
            (self.usable, self.on_at) = (self.target, NEVER);
        }
        if off {
            (self.powered, self.off_at) = (self.target, NEVER);
        }
        on || off
    }
}
