//! The oracle: the least energy found for a load that is known beforehand.
//!
//! The run is cut into slots of half a second. For each slot the oracle chooses one setting (cores
//! and frequency of each group, the amount of background work, what idle drives do), so that the
//! whole run uses the least energy and keeps every bound, 98 % of native's I/O and 98 % of its
//! background work. Switching costs nothing.
//!
//! How it searches: analysis proposes settings (`ladder`), simulation measures them in every slot
//! (`measure`), and the choice uses one price for the latency of the whole run and a dynamic
//! program over the postponed background work (`prices`, `choice`). The chosen settings are
//! simulated together, because a slot inherits what the previous one left undone, and the choice is
//! corrected until the simulated run keeps what it must. Then settings next to the chosen ones are
//! tried.
//!
//! Laws that the caller passes in (rivals) are played too. Their setting in a slot may be chosen
//! for it. If one of them keeps every promise with less energy than anything else, as it is or on a
//! server that switches for free, its run is the answer. So no rival that keeps the promises saves
//! more than the oracle. Even so, the result is the best that was found, not a proven optimum:
//! [`Plan::tolerance`] says how far it stays behind what its slots would give if none of them
//! depended on the one before.

mod choice;
mod debts;
mod effort;
mod final_plan;
mod known;
mod lab;
mod ladder;
mod measure;
mod neighbours;
mod prices;
mod promises;
mod replay;
mod search;
mod slots;
mod state;
mod table;

use crate::load::{Load, LoadError};
use crate::run::{Run, RunSettings};
use measure::Timeline;
use replay::Replay;
use wattio_law::{Action, Bound, Law};
use wattio_plant::Server;
use wattio_units::Seconds;

/// The most bounds that an oracle keeps at once.
pub const BOUNDS_MAX: usize = promises::PROMISES_MAX - 1;

/// What the oracle must keep and how hard it searches.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleSettings {
    /// The bounds on latency, at most [`BOUNDS_MAX`].
    pub bounds: Vec<Bound>,
    /// Least background work and I/O, as a share of native's.
    pub floor: f64,
    /// The longest that background work may wait, in seconds, give or take half a slot; where full
    /// speed keeps it waiting for longer, so long. `None`: as long as the server remembers it.
    pub background_delay_s: Option<f64>,
    /// Length of a slot in seconds, rounded to windows of the run; longer for very long loads.
    pub slot_s: f64,
    /// How long a setting is tried in each steady phase of a load that is too large to be
    /// simulated whole for each one, in seconds.
    pub trial_s: f64,
    /// Events that the simulations of the search may take altogether, about. Loads that take more
    /// are simulated a few times all the same.
    pub events: u64,
    /// The run that is planned.
    pub run: RunSettings,
}

impl OracleSettings {
    /// The defaults: slots of half a second, trials of two, half a minute of one core.
    #[must_use]
    pub fn new(bounds: Vec<Bound>, run: RunSettings) -> Self {
        Self {
            bounds,
            floor: 0.98,
            background_delay_s: None,
            slot_s: 0.5,
            trial_s: 2.0,
            events: 600_000_000,
            run,
        }
    }
}

/// Makes a law.
pub type MakeLaw = Box<dyn Fn() -> Box<dyn Law> + Send + Sync>;

/// A law to beat.
pub struct Rival {
    /// What it is called.
    pub name: String,
    /// Makes it anew.
    pub make: MakeLaw,
}

/// How a rival fared.
#[derive(Clone, Debug, PartialEq)]
pub struct RivalReport {
    /// What it is called.
    pub name: String,
    /// Whether switching cost nothing.
    pub is_free: bool,
    /// How it fared.
    pub fared: Fared,
}

/// How a run fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Fared {
    /// Mean power in watts.
    pub power_w: f64,
    /// Mean latency; `None` without requests.
    pub latency_us_mean: Option<f64>,
    /// The same over native's.
    pub latency_ratio: Option<f64>,
    /// Background work over native's; `None` where there is none.
    pub background_ratio: Option<f64>,
    /// Whether every promise was kept.
    pub is_kept: bool,
}

/// Slots in a row with one setting.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Start in seconds since the end of the warm-up.
    pub start_s: f64,
    /// Length in seconds.
    pub span_s: f64,
    /// What is in force when it begins; within a slot that a rival won it may change.
    pub action: Action,
    /// Mean power in watts.
    pub power_w: f64,
    /// Mean power of the native server, in watts.
    pub native_power_w: f64,
    /// Latency over native's; `None` where either has no requests.
    pub latency_ratio: Option<f64>,
}

/// Whose run the answer is.
#[derive(Clone, Debug)]
enum Answer {
    /// A timeline on a server that switches freely.
    Timeline(Timeline),
    /// A rival's own run.
    Rival { rival: usize, is_free: bool },
}

/// The best that was found.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its settings.
    pub segments: Vec<Segment>,
    /// Length of a slot in seconds.
    pub slot_s: f64,
    /// How the native server fares.
    pub native: Fared,
    /// How the plan fares.
    pub best: Fared,
    /// How far the best found stays behind what its slots would give if none of them cared for
    /// the one before, as a share of native's energy: more is hardly there, of the settings that
    /// were tried.
    pub tolerance: f64,
    /// The rival whose run it is, where one was not beaten.
    pub winner: Option<String>,
    /// How the rivals fared.
    pub rivals: Vec<RivalReport>,
    /// Settings tried, and whole runs simulated.
    pub simulated: u32,
    answer: Answer,
}

impl Plan {
    /// Plans a run of the load that `load` makes, the same each time. `watch` gets the share done
    /// and says whether to go on.
    ///
    /// # Errors
    /// When the load or the settings cannot be used; `Ok(None)` when `watch` said to stop.
    pub fn find<E: From<LoadError> + Send + Sync>(
        server: &Server,
        load: &(dyn Fn() -> Result<Load, E> + Sync),
        settings: &OracleSettings,
        rivals: &[Rival],
        watch: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<Self>, E> {
        if settings.bounds.len() > BOUNDS_MAX {
            let message = format!("are {}; allowed are {BOUNDS_MAX}", settings.bounds.len());
            return Err(LoadError::Value { key: "bounds".to_owned(), message }.into());
        }
        search::Search::new(server, load, settings, rivals, watch).find()
    }

    /// The run that follows the plan, under the load that was planned for.
    ///
    /// # Errors
    /// When the load cannot be used.
    pub fn run(
        &self,
        server: &Server,
        load: Load,
        settings: &OracleSettings,
        rivals: &[Rival],
    ) -> Result<Run, LoadError> {
        let free = without_switching_costs(server);
        let bounds = &settings.bounds;
        match &self.answer {
            Answer::Timeline(timeline) => {
                let full_speed = crate::plant::limits(&free).full_speed();
                let law = Box::new(Replay::new(timeline.clone(), full_speed));
                Run::with_bounds(&free, law, bounds, load, settings.run)
            }
            Answer::Rival { rival, is_free } => {
                let law = (rivals[*rival].make)();
                let server = if *is_free { &free } else { server };
                Run::with_bounds(server, law, bounds, load, settings.run)
            }
        }
    }
}

/// A server that switches at no cost.
#[must_use]
pub fn without_switching_costs(server: &Server) -> Server {
    let mut free = server.clone();
    free.cores.gate_on = Seconds(0.0);
    free.cores.gate_off = Seconds(0.0);
    free.cores.migrate = Seconds(0.0);
    free.cores.frequency_change = Seconds(0.0);
    free
}
