//! Settings next to those that were chosen.

use super::choice::Choice;
use super::known::Known;
use super::table::Table;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use wattio_law::{Action, Budget, GroupLimits, Limits};
use wattio_units::Hertz;

/// Proposes settings at random around good ones.
pub struct Neighbours {
    limits: Limits,
    rng: Xoshiro256PlusPlus,
    round: u32,
}

/// So many paces of background work are followed up.
const PACES: usize = 3;
/// A proposal is drawn so often until it is one that was not tried.
const DRAWS: u32 = 8;
/// Steps of frequency where any is possible.
const FREQUENCY_STEP: f64 = 1.0 / 16.0;
/// Steps of the pace of background work.
const PACE_FACTORS: [f64; 4] = [0.75, 0.875, 1.125, 1.5];

impl Neighbours {
    pub fn new(limits: Limits, seed: u64) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x006e_6561_7262_7921);
        Self { limits, rng, round: 0 }
    }

    /// A setting for each class, for so many trials: each is one step from the cheapest setting of
    /// its pace at the prices of the choice.
    pub fn propose(
        &mut self,
        known: &Known,
        table: &mut Table,
        choice: &Choice,
        trials: usize,
    ) -> Vec<Vec<u32>> {
        let paces = paces(known, table, choice);
        let classes = known.classes.count;
        let bases: Vec<Vec<u32>> = (0..classes)
            .map(|class| paces.iter().map(|&pace| base(table, class, pace, choice)).collect())
            .collect();
        let mut proposals = Vec::with_capacity(trials);
        for trial in 0..trials {
            let settings = (0..classes).map(|class| {
                let base = bases[class][trial % bases[class].len()];
                let mut number = base;
                for _ in 0..DRAWS {
                    let action = self.step_from(table.setting(base).clone());
                    number = table.number(&action);
                    if !table.knows(class, number) {
                        break;
                    }
                }
                number
            });
            proposals.push(settings.collect());
        }
        self.round += 1;
        proposals
    }

    /// An action one random step away.
    fn step_from(&mut self, mut action: Action) -> Action {
        let groups = action.groups.len();
        let kinds = 2 * groups + 1 + action.background.len();
        let up = self.rng.random::<bool>();
        let kind = self.rng.random_range(0..kinds);
        if kind < groups {
            let group = &mut action.groups[kind];
            let step = (group.cores >> (2 + self.round)).max(1);
            let step = self.rng.random_range(1..=step);
            group.cores = if up { group.cores + step } else { group.cores.saturating_sub(step) };
        } else if kind < 2 * groups {
            let at = kind - groups;
            action.groups[at].frequency =
                next_frequency(&self.limits.groups[at], action.groups[at].frequency, up);
        } else if kind == 2 * groups {
            for (group, limits) in action.groups.iter_mut().zip(&self.limits.groups) {
                group.frequency = next_frequency(limits, group.frequency, up);
            }
        } else {
            let factor = PACE_FACTORS[self.rng.random_range(0..PACE_FACTORS.len())];
            for class in &mut action.background {
                if let Budget::CoreSecondsPerSecond(rate) = &mut class.budget {
                    *rate *= factor;
                }
            }
        }
        self.limits.clamp(&action)
    }
}

fn next_frequency(limits: &GroupLimits, from: Hertz, up: bool) -> Hertz {
    let steps = &limits.frequency_steps;
    if steps.is_empty() {
        let step = (limits.frequency_max - limits.frequency_min) * FREQUENCY_STEP;
        return if up { from + step } else { from - step };
    }
    let at = steps.partition_point(|&step| step < from);
    let at = if up { at + 1 } else { at.saturating_sub(1) };
    steps[at.min(steps.len() - 1)]
}

/// The budget of an action: what makes paces the same.
fn pace_of(action: &Action) -> u64 {
    match action.background_of(0).budget {
        Budget::AsDue => u64::MAX,
        Budget::CoreSecondsPerSecond(rate) => rate.to_bits(),
    }
}

/// The paces that were chosen most.
fn paces(known: &Known, table: &Table, choice: &Choice) -> Vec<u64> {
    let mut used: BTreeMap<u64, f64> = BTreeMap::new();
    for (at, &pick) in choice.picks.iter().enumerate() {
        let offers = table.offers(known.classes.classes[at]);
        if let Some(offer) = offers.get(usize::from(pick)) {
            *used.entry(pace_of(table.setting(offer.setting))).or_default() += known.spans_s[at];
        }
    }
    let mut paces: Vec<(u64, f64)> = used.into_iter().collect();
    paces.sort_by(|a, b| b.1.total_cmp(&a.1));
    paces.truncate(PACES);
    let paces: Vec<u64> = paces.into_iter().map(|(pace, _)| pace).collect();
    if paces.is_empty() { vec![u64::MAX] } else { paces }
}

/// The cheapest setting of a pace in a class, or of any where it has none.
fn base(table: &Table, class: usize, pace: u64, choice: &Choice) -> u32 {
    let cost = |offer: &super::table::Offer| {
        let excess = choice.prices.iter().zip(offer.rates.excess);
        let priced: f64 = excess.map(|(price, excess)| price * f64::from(excess)).sum();
        f64::from(offer.rates.power_w) + priced
    };
    let offers = table.offers(class);
    let of_pace = offers.iter().filter(|offer| pace_of(table.setting(offer.setting)) == pace);
    let cheapest = of_pace.min_by(|a, b| cost(a).total_cmp(&cost(b)));
    let any = || offers.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
    cheapest.or_else(any).map_or(0, |offer| offer.setting)
}
