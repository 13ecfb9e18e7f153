//! The frequency of the cores that reactors run on: a law's request, carried out by the host's
//! knob. The governor's writer saves the old value before it writes, reads back, and restores.

use crate::plant::Layout;
use std::path::{Path, PathBuf};
use thiserror::Error;
use wattio_governor::{
    Actuator, Cpus, GovernorSettings, GroupSetting, Note, Restored, Setting, SnapshotError,
};
use wattio_host::groups::{Group, GroupConfig, GroupError, Speeds, resolve};
use wattio_host::knobs::{FrequencyConfig, KnobConfig, KnobOpenError};
use wattio_host::lock::LockError;
use wattio_host::machine::CommandError;
use wattio_host::takeover::{Locks, describe, take_over};
use wattio_host::topology::TopologyError;
use wattio_host::{LinuxMachine, Root, Topology};
use wattio_law::{Action, DriveAction};

/// Where the frequency is turned, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencySettings {
    /// The cores that reactors run on, one each.
    pub cores: Cpus,
    /// Where old values are kept, from the first write to the restore.
    pub state: PathBuf,
}

/// Why the frequency cannot be turned as it was asked for.
#[derive(Debug, Error)]
pub enum FrequencyError {
    /// Not one core for each reactor.
    #[error("frequency.cores: {cores} cores for {reactors} reactors; allowed is one for each")]
    Count {
        /// How many cores there are.
        cores: usize,
        /// How many reactors.
        reactors: usize,
    },
    /// The host does not say which processors there are.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// It has not all of these cores.
    #[error("frequency.cores: {0}")]
    Group(GroupError),
    /// The knob cannot be turned for these cores alone.
    #[error("frequency.cores: {0}")]
    Knob(KnobOpenError),
    /// Another program acts on the host, or old values cannot be kept.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What an earlier start left cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The machine cannot be written to.
    #[error(transparent)]
    Machine(#[from] CommandError),
    /// What an earlier start left cannot be restored.
    #[error("an earlier start left {0} values that cannot be restored; see above")]
    Left(usize),
}

// Not as their source: who prints a chain of errors would say them twice.
impl From<GroupError> for FrequencyError {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

impl From<KnobOpenError> for FrequencyError {
    fn from(error: KnobOpenError) -> Self {
        Self::Knob(error)
    }
}

impl FrequencyError {
    /// Whether it stays so, however often it is tried.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Count { .. } | Self::Group(_) | Self::Knob(_))
    }
}

/// Cores for reactors, and what can be done with them.
#[derive(Debug)]
pub struct ReactorCores {
    /// Of each reactor.
    pub cores: Vec<u32>,
    /// What turns their frequency.
    pub turned: Result<Frequency, String>,
    /// What was restored of an earlier start, for the log.
    pub restored: Vec<String>,
}

/// What turns the frequency of the groups' cores. Dropping it restores.
pub struct Frequency {
    actuator: Actuator,
    groups: Vec<Group>,
    /// What each group's cores can be set to.
    pub speeds: Vec<Speeds>,
    /// The last action that was brought about.
    asked: Option<Action>,
    /// What others changed, which has not been told.
    notes: Vec<String>,
    _locks: Locks,
}

impl std::fmt::Debug for Frequency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Frequency").field("speeds", &self.speeds).finish_non_exhaustive()
    }
}

impl ReactorCores {
    /// Gives each reactor of a layout a core, and takes over the knob of their frequency. What an
    /// earlier start left is restored first. A host that does not let the frequency be set is no error.
    ///
    /// # Errors
    /// [`FrequencyError`].
    pub fn open(
        settings: &FrequencySettings,
        layout: &Layout,
        root: &Root,
    ) -> Result<Self, FrequencyError> {
        let Found { topology, groups, speeds } = found(settings, layout, root)?;
        let cores = in_order(&groups);
        let Some(speeds) = speeds else {
            let knob = KnobConfig::Frequency(FrequencyConfig::default());
            let why = knob.open(root, &topology, &groups).err().map(|error| error.to_string());
            let why = why.unwrap_or_else(|| "not all cores have a frequency".to_owned());
            return Ok(Self { cores, turned: Err(why), restored: Vec::new() });
        };
        let (frequency, restored) = Frequency::take(groups, speeds, &settings.state, root)?;
        Ok(Self { cores, turned: Ok(frequency), restored: describe(&restored) })
    }

    /// The same for a target that changes nothing: a core for each reactor, and what each group's
    /// cores could be set to, if anything.
    ///
    /// # Errors
    /// [`FrequencyError`].
    pub fn look(
        settings: &FrequencySettings,
        layout: &Layout,
        root: &Root,
    ) -> Result<(Vec<u32>, Option<Vec<Speeds>>), FrequencyError> {
        let found = found(settings, layout, root)?;
        Ok((in_order(&found.groups), found.speeds))
    }
}

/// The groups of a layout on this host, and what their cores can be set to.
struct Found {
    topology: Topology,
    groups: Vec<Group>,
    speeds: Option<Vec<Speeds>>,
}

fn found(
    settings: &FrequencySettings,
    layout: &Layout,
    root: &Root,
) -> Result<Found, FrequencyError> {
    let reactors = layout.groups().iter().map(|group| group.reactors.len()).sum();
    if settings.cores.len() != reactors {
        return Err(FrequencyError::Count { cores: settings.cores.len(), reactors });
    }
    let topology = Topology::read(root)?;
    let groups = resolve(&configs(&settings.cores, layout), &topology)?;
    let speeds = groups.iter().map(|group| group.speeds(&topology)).collect();
    Ok(Found { topology, groups, speeds })
}

fn in_order(groups: &[Group]) -> Vec<u32> {
    groups.iter().flat_map(|group| group.order.iter().copied()).collect()
}

/// The groups of a layout on cores: the first ones to the first group.
fn configs(cores: &Cpus, layout: &Layout) -> Vec<GroupConfig> {
    let mut left = cores.iter();
    let group = |group: &crate::plant::Group| {
        let own: Cpus = left.by_ref().take(group.reactors.len()).collect();
        GroupConfig {
            name: group.name.to_owned(),
            cores: own.to_string(),
            kind: None,
            cores_min: group.reactors_min,
            cgroup: None,
            processes: None,
            queue: None,
        }
    };
    layout.groups().iter().map(group).collect()
}

impl Frequency {
    fn take(
        groups: Vec<Group>,
        speeds: Vec<Speeds>,
        state: &Path,
        root: &Root,
    ) -> Result<(Self, Restored), FrequencyError> {
        let locks = Locks::take(state, root)?;
        let machine = LinuxMachine::new(root.clone(), &[])?;
        let (writer, restored) = take_over(state, machine, root, &locks)?;
        if !restored.left.is_empty() {
            return Err(FrequencyError::Left(restored.left.len()));
        }
        // As the operator wants it: an earlier start's limits are not taken for those.
        let topology = Topology::read(root)?;
        let knob = KnobConfig::Frequency(FrequencyConfig::default());
        let knobs = vec![knob.open(root, &topology, &groups)?];
        let now = groups.iter().map(|group| group.speeds(&topology));
        let speeds = now.zip(speeds).map(|(now, before)| now.unwrap_or(before)).collect();
        let actuator = Actuator { knobs, writer };
        let (asked, notes) = (None, Vec::new());
        Ok((Self { actuator, groups, speeds, asked, notes, _locks: locks }, restored))
    }

    /// Brings an action about, unless it is in force; `is_full` says that it is full speed.
    ///
    /// # Errors
    /// What cannot be written, or was not read back: what is in force then is not known.
    pub fn turn(&mut self, action: &Action, is_full: bool) -> Result<(), String> {
        self.actuator.writer.share_time(true);
        let is_asked = self.asked.as_ref().is_some_and(|asked| asked.groups == action.groups);
        let mut failure = None;
        if !is_asked {
            let faster = self.asked.as_ref().is_none_or(|asked| is_faster(action, asked));
            let applied = self.actuator.turn(&self.setting(action, is_full), faster, false);
            failure = self.note(applied.notes);
            self.asked = failure.is_none().then(|| action.clone());
        }
        // Leaves alone what others changed.
        let notes = self.actuator.writer.inspect(GovernorSettings::default().inspected);
        let failure = failure.or(self.note(notes));
        failure.map_or(Ok(()), Err)
    }

    /// What others changed since the last call: it is theirs from then on.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn note(&mut self, notes: Vec<Note>) -> Option<String> {
        let mut failure = None;
        for note in notes {
            match note {
                Note::Failed { knob, message } => failure = Some(format!("{knob}: {message}")),
                Note::Foreign { knob, address, written, found } => self.notes.push(format!(
                    "{knob}: {address} was set to {written:?} and is now {found:?}: somebody else \
                     changed it, and it is left alone from now on"
                )),
            }
        }
        failure
    }

    fn setting(&self, action: &Action, is_full: bool) -> Setting {
        let group = |(group, asked): (&Group, &wattio_law::GroupAction)| GroupSetting {
            active: group.order.iter().copied().take(asked.cores as usize).collect(),
            frequency: asked.frequency,
        };
        Setting {
            groups: self.groups.iter().zip(&action.groups).map(group).collect(),
            drives: DriveAction::default(),
            background: Vec::new(),
            background_share: 1.0,
            full_speed: is_full,
            at_full: Cpus::default(),
            held_back: Vec::new(),
        }
    }
}

fn is_faster(action: &Action, before: &Action) -> bool {
    let mut pairs = action.groups.iter().zip(&before.groups);
    pairs.any(|(now, then)| now.cores > then.cores || now.frequency > then.frequency)
}

/// Puts the thread that calls on a core, and no other.
///
/// # Errors
/// If the core is not there, or not for this process.
pub fn stay_on(core: u32) -> std::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core as usize);
    rustix::thread::sched_setaffinity(None, &set)?;
    Ok(())
}
