//! What a governor can change: knobs, and the places on the machine that they write to.

use crate::cpus::Cpus;
use crate::snapshot::Saved;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;
use wattio_law::{BackgroundAction, DriveAction};
use wattio_units::Hertz;

/// The name of one place of the machine that holds a value: a scheme and the rest, such as
/// `file:/sys/devices/system/cpu/cpu1/online`. With a value it is all that is needed to put an old
/// value back, without the configuration that led to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// `scheme:rest`.
    #[must_use]
    pub fn new(scheme: &str, rest: &str) -> Self {
        Self(format!("{scheme}:{rest}"))
    }

    /// What is before the first colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// What is after the first colon.
    #[must_use]
    pub fn rest(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(_, rest)| rest)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a value could not be read or written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MachineError {
    /// The place no longer exists: a process that ended, a device that was pulled. Nothing is left
    /// to restore there.
    #[error("{address} is gone")]
    Gone {
        /// Which place.
        address: Address,
    },
    /// The machine refused.
    #[error("{address}: {message}")]
    Refused {
        /// Which place.
        address: Address,
        /// What it said, and how to fix it.
        message: String,
    },
}

/// Reads the places of a machine, and changes none.
pub trait MachineView: Send {
    /// The value at a place, without the line's end.
    ///
    /// # Errors
    /// [`MachineError`].
    fn read(&mut self, address: &Address) -> Result<String, MachineError>;

    /// Whether a place no longer exists. Override where there is a cheaper way to tell than
    /// [`MachineView::read`].
    fn is_gone(&mut self, address: &Address) -> bool {
        matches!(self.read(address), Err(MachineError::Gone { .. }))
    }

    /// Whether two values of a place mean the same: `0-1` and `0,1` of a list of processors.
    fn same(&self, address: &Address, one: &str, other: &str) -> bool;

    /// Whether `found` is what the machine makes of `value`: drivers round frequencies. Weaker than
    /// [`MachineView::same`], so it is never taken as proof that an old value is back.
    fn took(&self, address: &Address, value: &str, found: &str) -> bool {
        self.same(address, value, found)
    }

    /// Whether the machine keeps `value` and shows `found` in its place only for as long as something
    /// else limits it: a frequency by heat or by firmware.
    fn is_limited(&self, _address: &Address, _value: &str, _found: &str) -> bool {
        false
    }

    /// What a place that shows `found` may have been told at most: more than it shows while something
    /// limits it.
    fn unlimited(&self, _address: &Address, found: String) -> String {
        found
    }

    /// The marks by which a value is recognised at a place and which the `original` does not leave.
    /// They are saved before the value is first written, so that even after a crash somebody else's
    /// value can be told from ours. As each new one is another write to the disk, many values have to
    /// share few marks. Where the set is empty, whatever is found there after a crash counts as ours.
    fn marks(&self, _address: &Address, _original: &str, _value: &str) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Whether the machine may make another value of what is written to a place than
    /// [`MachineView::took`] knows, when it is written or later with a write that endangers the place. A
    /// new value there leaves no mark before it was read back.
    fn may_alter(&self, _address: &Address) -> bool {
        false
    }

    /// Whether the machine may have made `found` of `original` by itself, at any time since the write
    /// elsewhere that changes this place as a side effect. What it cannot have made is somebody else's
    /// and left to them.
    fn is_side_effect(&self, _address: &Address, _original: &str, _found: &str) -> bool {
        true
    }

    /// Whether a place consists of many that change one by one, such as the threads of a process:
    /// some may hold their old value and others not, and somebody else may have changed some.
    fn has_parts(&self, _address: &Address) -> bool {
        false
    }

    /// The value that restores what `marks` identify as ours in what was `found` at a place, and
    /// keeps what somebody else set; `found` itself if nothing is ours.
    fn put_back(
        &mut self,
        address: &Address,
        original: &str,
        marks: &BTreeSet<String>,
        found: &str,
    ) -> String {
        let ours = marks.is_empty() || marks.iter().any(|mark| self.took(address, mark, found));
        if ours { original.to_owned() } else { found.to_owned() }
    }

    /// The places that bear a mark of one of these because they were born to it, and are not among
    /// them, with what they would hold had nothing been written: a process inherits the processors
    /// of the one that it is born to.
    fn heirs(&mut self, _of: &[Saved]) -> Vec<Saved> {
        Vec::new()
    }

    /// Whether writing there may take many seconds, as for a drive that has to spin up. Such places are
    /// put back after all others, and nothing else waits for them.
    fn is_slow(&self, _address: &Address) -> bool {
        false
    }

    /// Whether what was written outlives a restart of the machine.
    fn outlives_boot(&self, address: &Address) -> bool;

    /// What has to change first where a value was refused, or did not come into force, if that can be
    /// told: a processor in it that is off.
    fn obstacle(&self, _address: &Address, _value: &str) -> Option<String> {
        None
    }

    /// The command by which a person can put a value back.
    fn restore_command(&self, address: &Address, value: &str) -> String;
}

/// Reads and writes the places of a machine. Only [`crate::RestorableWriter`] has one, as it saves
/// before it writes; everybody else gets a read-only view.
pub trait Machine: MachineView {
    /// Writes a value. It is in force at once, or after [`Machine::settle`].
    ///
    /// # Errors
    /// [`MachineError`].
    fn write(&mut self, address: &Address, value: &str) -> Result<(), MachineError>;

    /// Waits until a written value is in force, for machines that apply it later; bounded by a
    /// generous timeout, see [`Machine::share_time`].
    fn settle(&mut self, _address: &Address, _value: &str) {}

    /// With `true`, all reading, writing and settling from here on, until this is called again, may
    /// together wait no longer than the slowest single one. With `false`, each may take its own
    /// time. Values settle in parallel and always share their time.
    fn share_time(&mut self, _shared: bool) {}
}

/// The setting of one group of cores.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSetting {
    /// The cores that may work.
    pub active: Cpus,
    /// Their frequency.
    pub frequency: Hertz,
}

/// The setting of the machine: an action of the law, with core numbers instead of counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// One entry for each group.
    pub groups: Vec<GroupSetting>,
    /// What drives without a request do.
    pub drives: DriveAction,
    /// What each class of background work may do; a class without an entry runs as it becomes due.
    pub background: Vec<BackgroundAction>,
    /// How much background work may run in all, as a share of what becomes due: 1 leaves it alone, 0
    /// pauses it.
    pub background_share: f64,
    /// Whether everything, background work too, is at full speed: a knob then puts back everything that it slowed.
    pub full_speed: bool,
    /// The cores of applications that are at full speed while others are not: what cores share with
    /// these is not to be slowed down.
    pub at_full: Cpus,
    /// Knobs that only follow the law, by name, and that are as at full speed all the same.
    pub held_back: Vec<&'static str>,
}

/// What a place should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// This value.
    Set(String),
    /// What it held before the first write; nothing to do if nothing was written.
    Original,
}

/// One value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Where.
    pub address: Address,
    /// What.
    pub target: Target,
    /// Places that the kernel changes as a side effect of this write: saved before, and put back
    /// once an assignment to the same address brings the saved value back (taking a core off
    /// empties sets of processors, and bringing it on does not fill them again).
    pub endangers: Vec<Address>,
}

/// When a knob is applied, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// May wait for what it turns, drives that spin up or commands: first when slowing down, last when
    /// speeding up, so that nothing else waits for it.
    Slow,
    /// Moves work between cores: before all that slows them, after all that speeds them up.
    Placement,
    /// Changes how fast things are.
    Speed,
    /// Changes which speeds there are: while turbo is off, the kernel takes no limit above.
    Range,
    /// Takes cores offline: last when slowing down, first when speeding up.
    Presence,
}

/// A knob: turns a setting into values to write.
///
/// A knob writes nothing itself: it gets a read-only view of the machine. What it returns is saved,
/// written, read back and restored by [`crate::RestorableWriter`], so that no knob can forget to.
///
/// ```compile_fail,E0599
/// use wattio_governor::{Address, MachineView};
///
/// fn looks_only(machine: &mut dyn MachineView, address: &Address) {
///     let _ = machine.write(address, "0");
/// }
/// ```
pub trait Knob: Send {
    /// What it is, for messages and metrics: `cpu.frequency`.
    fn name(&self) -> &str;

    /// When it is applied.
    fn layer(&self) -> Layer;

    /// Whether its values change while the setting does not, because processes come and go or
    /// because others change what it goes by: it is asked again now and then.
    fn looks_again(&self) -> bool {
        false
    }

    /// The values that bring the setting about, in the order of writing. At full speed these are
    /// whatever lets everything run; the machine's old values are put back on release.
    ///
    /// # Errors
    /// [`MachineError`] when the machine cannot be read.
    fn assignments(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError>;

    /// The same when it looks again, of which nothing was refused before: a knob of many places may
    /// look at some of them each time.
    ///
    /// # Errors
    /// [`MachineError`] when the machine cannot be read.
    fn assignments_again(
        &mut self,
        setting: &Setting,
        machine: &mut dyn MachineView,
    ) -> Result<Vec<Assignment>, MachineError> {
        self.assignments(setting, machine)
    }
}

impl Assignment {
    /// A value without side effects.
    #[must_use]
    pub fn new(address: Address, value: impl Into<String>) -> Self {
        Self { address, target: Target::Set(value.into()), endangers: Vec::new() }
    }

    /// The old value again.
    #[must_use]
    pub fn original(address: Address) -> Self {
        Self { address, target: Target::Original, endangers: Vec::new() }
    }
}
