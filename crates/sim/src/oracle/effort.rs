//! How much effort a search spends on a load.

use super::known::Known;
use super::lab::RivalRun;

/// How hard a load is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Settings that are tried, of every class, at least and at most.
    pub trials: (u64, u64),
    /// Kinds of settings on the ladder, and prices for each of them, at least.
    pub kinds: usize,
    pub rungs_min: usize,
    /// Rounds of trials next to what was chosen.
    pub rounds: usize,
    /// Wholes that are simulated for each choice, with targets this far apart, as shares of what
    /// is allowed.
    pub corrections: &'static [f64],
    /// Each choice is corrected so often, with targets closer to each other each time.
    pub correction_rounds: usize,
    /// Whether rivals are played on a server that switches freely, too.
    pub free_rivals: bool,
}

/// For most loads.
const THOROUGH: Effort = Effort {
    trials: (18, 160),
    kinds: usize::MAX,
    rungs_min: 3,
    rounds: 3,
    corrections: &[-0.01, -0.002, 0.002, 0.01],
    correction_rounds: 2,
    free_rivals: true,
};
/// For loads of which one run takes minutes.
pub const LEAN: Effort = Effort {
    trials: (6, 160),
    kinds: 3,
    rungs_min: 2,
    rounds: 0,
    corrections: &[-0.02, -0.004],
    correction_rounds: 1,
    free_rivals: false,
};
/// Loads of more events than this are searched with the lean effort.
const THOROUGH_EVENTS_MAX: u64 = 1_000_000_000;
impl Effort {
    /// The effort for a load.
    pub fn of(known: &Known) -> Self {
        let effort = if known.events > THOROUGH_EVENTS_MAX { LEAN } else { THOROUGH };
        // Free runs of rivals teach slots that are known one by one; and what an excerpt teaches
        // is cheap, however long the load.
        let by_excerpt = known.is_by_excerpt();
        Self {
            free_rivals: effort.free_rivals && !by_excerpt,
            kinds: if by_excerpt { THOROUGH.kinds } else { effort.kinds },
            rungs_min: if by_excerpt { THOROUGH.rungs_min } else { effort.rungs_min },
            rounds: if by_excerpt { THOROUGH.rounds } else { effort.rounds },
            ..effort
        }
    }

    /// The rivals' runs.
    pub fn rival_runs(&self, rivals: usize) -> Vec<RivalRun> {
        let both =
            (0..rivals).flat_map(|rival| [false, true].map(|is_free| RivalRun { rival, is_free }));
        both.filter(|run| self.free_rivals || !run.is_free).collect()
    }

    /// How often a choice is simulated whole.
    pub fn wholes(&self, by_excerpt: bool) -> usize {
        let choices = if by_excerpt { 1 } else { 1 + self.rounds };
        choices * self.correction_rounds * self.corrections.len()
    }
}
