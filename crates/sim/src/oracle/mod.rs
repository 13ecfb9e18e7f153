//! The oracle: how little power would do for a load that is known beforehand.
//!
//! The load is cut into segments. For each one the oracle looks for the constant setting (cores of
//! each group, one frequency) that draws the least power while the latency stays within the bound,
//! I/O and background work keep 98 % of native's, and switching costs nothing. Candidates are
//! shortlisted by the work that must fit on the cores and confirmed by simulation, so what is
//! found is the "best found" and not a proof. Settings for a slice of a trace are tried on its
//! busiest half minute. A policy that varies its setting within a segment,
//! as one does that lets an idle server sleep between batches of background work, can do better.

mod search;
mod segments;

pub use search::{Candidate, OracleBound, OracleSettings, Statistic};
pub use segments::{Segment, SegmentSource};

use crate::load::LoadError;
use search::Search;
use wattio_law::{Action, Schedule};
use wattio_plant::Server;
use wattio_units::Seconds;

/// What was found for one segment.
#[derive(Clone, Debug)]
pub struct SegmentPlan {
    /// Length in seconds.
    pub span_s: f64,
    /// The setting found.
    pub best: Candidate,
    /// Power of the native server, in watts.
    pub native_power_w: f64,
    /// How many settings were simulated.
    pub simulated: u32,
}

/// The plan for a whole load.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One entry for each segment.
    pub segments: Vec<SegmentPlan>,
}

impl Plan {
    /// Plans every segment of a load. `watch` gets the share done and says whether to go on.
    ///
    /// # Errors
    /// When the load cannot be used; `Ok(None)` when `watch` said to stop.
    pub fn find(
        server: &Server,
        source: &mut SegmentSource,
        settings: &OracleSettings,
        watch: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<Self>, LoadError> {
        let free = without_switching_costs(server);
        let mut search = Search::new(&free, settings);
        let mut plan = Self::default();
        while let Some(segment) = source.next_segment()? {
            plan.segments.push(search.segment(&segment)?);
            if !watch(source.share_done()) {
                return Ok(None);
            }
        }
        Ok(Some(plan))
    }

    /// The law that follows this plan, with the first setting held through a warm-up.
    #[must_use]
    pub fn law(&self, warmup_s: f64, full_speed: Action) -> Schedule {
        let mut until_s = warmup_s;
        let plan: Vec<_> = self
            .segments
            .iter()
            .map(|segment| {
                until_s += segment.span_s;
                (Seconds(until_s), segment.best.action.clone())
            })
            .collect();
        let last = plan.last().map_or(full_speed, |(_, action)| action.clone());
        Schedule { plan, last, period: Seconds(0.05), elapsed: Seconds(0.0) }
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
