//! The choice of one offer for each slot at given prices.
//!
//! Background work that is postponed is owed. It is never done before it is due, and may be owed
//! for a limited time only. So the best path through the slots is found by a dynamic program over
//! the work owed.

use super::promises::{Excess, PROMISES_MAX};

/// What a setting gives for each second of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Power in watts.
    pub power_w: f32,
    /// Background work done, in cores.
    pub done_cores: f32,
    /// Excess over each promise, a second.
    pub excess: [f32; PROMISES_MAX],
}

/// What may be chosen from.
pub struct Menu<'a> {
    /// Each slot's length in seconds.
    pub spans_s: &'a [f64],
    /// What may be done in a slot; the place in the list is what is chosen.
    pub offers: &'a dyn Fn(usize, &mut Vec<Rates>),
    /// Background work that native did in each slot, core-seconds.
    pub due_core_s: &'a [f64],
    /// Whether work may be left out for good, and not only at the end of the run.
    pub may_skip: bool,
    /// The most background work that may be owed, core-seconds.
    pub owed_max_core_s: f64,
    /// The size of each promise's sum; 0 where there is none.
    pub scale: Excess,
}

/// What sums may be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Targets {
    /// The excess of each promise, over the run.
    pub excess: Excess,
    /// Background work that may be owed at the end, core-seconds.
    pub owed_core_s: f64,
}

/// A choice, and what it promises to give.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The offer chosen for each slot.
    pub picks: Vec<u16>,
    /// Energy of the run.
    pub energy_j: f64,
    /// Excess of each promise.
    pub excess: Excess,
    /// Background work done.
    pub done_core_s: f64,
    /// The prices at which it is best, but for what was filled up.
    pub prices: Excess,
    /// No choice within the promises has less energy than this, but for what rounding does to
    /// background work (the value of the Lagrangian at these prices).
    pub least_j: f64,
}

/// Levels of owed work, at most.
const LEVELS_MAX: usize = 481;
/// Table entries, at most: longer loads get fewer levels.
const ENTRIES_MAX: usize = 2_000_000;
/// A slot's due work is so many levels, where there is room.
const LEVELS_PER_SLOT: f64 = 8.0;
/// Slots that are alike are given prices that differ by this much, so that a mix of settings can
/// be found where one is too slow and the next too fast.
pub const PRICE_SPREAD: f64 = 0.04;
/// So many offers are changed to use promises up; where there are more slots, one matters less.
const FILLS_MAX: u32 = 12;
/// A cost that no setting has.
const FORBIDDEN_J: f64 = 1e12;

/// A choice at given prices.
pub struct Program<'a> {
    pub menu: &'a Menu<'a>,
    /// Core-seconds a level.
    pub quantum: f64,
    /// How many levels of owed work are told apart.
    pub levels: usize,
    /// Due work of each slot in levels, with what rounding leaves carried over.
    due: Vec<usize>,
}

/// The cheapest offer of all that do the same background work.
#[derive(Clone, Copy)]
struct Entry {
    done: usize,
    cost_j: f64,
    offer: u16,
}

impl<'a> Program<'a> {
    /// What may be chosen from this menu.
    pub fn new(menu: &'a Menu<'a>) -> Self {
        let slots = menu.spans_s.len().max(1);
        let total: f64 = menu.due_core_s.iter().sum();
        let mean = total / slots as f64;
        let room = (ENTRIES_MAX / slots).clamp(16, LEVELS_MAX);
        let wanted = (menu.owed_max_core_s / (mean / LEVELS_PER_SLOT)).ceil();
        let levels = if mean > 0.0 { (wanted as usize).clamp(1, room) } else { 1 };
        let quantum = if mean > 0.0 { mean / LEVELS_PER_SLOT } else { 1.0 };
        let (mut sum, mut given) = (0.0, 0);
        let due = menu.due_core_s.iter().map(|core_s| {
            sum += core_s / quantum;
            let due = (sum.round() as usize).saturating_sub(given);
            given += due;
            due
        });
        Self { quantum, levels, due: due.collect(), menu }
    }

    fn entries(&self, at: usize, prices: &Excess, offers: &mut Vec<Rates>) -> Vec<Entry> {
        offers.clear();
        (self.menu.offers)(at, offers);
        let span_s = self.menu.spans_s[at];
        // The golden ratio spreads the slots' prices evenly over any stretch of the run.
        let spread = 1.0 + PRICE_SPREAD * ((at as f64 * 0.618_033_988_749_895).fract() - 0.5);
        let mut entries: Vec<Entry> = Vec::with_capacity(8);
        for (offer, rates) in offers.iter().enumerate() {
            let priced = |(price, excess): (&f64, &f32)| price * f64::from(*excess);
            let excess: f64 = prices.iter().zip(&rates.excess).map(priced).sum();
            let cost_j = (f64::from(rates.power_w) + spread * excess) * span_s;
            let done = (f64::from(rates.done_cores) * span_s / self.quantum).round() as usize;
            let done = if self.levels > 1 { done } else { 0 };
            let offer = u16::try_from(offer).unwrap_or(u16::MAX);
            let entry = Entry { done, cost_j, offer };
            match entries.iter_mut().find(|known| known.done == done) {
                Some(known) if known.cost_j <= cost_j => {}
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        entries
    }

    /// The best choice at these prices that owes at most so much at the end.
    pub fn best(&self, prices: &Excess, owed_core_s: f64) -> Choice {
        let slots = self.menu.spans_s.len();
        let mut offers = Vec::new();
        let mut table: Vec<u8> = vec![0; slots * self.levels];
        let mut entries_of = Vec::with_capacity(slots);
        let allowed = (owed_core_s / self.quantum).max(0.0);
        let beyond = |owed: usize| (owed as f64 - allowed).max(0.0) * FORBIDDEN_J;
        let mut ahead: Vec<f64> =
            (0..self.levels).map(|owed| if self.levels > 1 { beyond(owed) } else { 0.0 }).collect();
        let mut here = ahead.clone();
        for at in (0..slots).rev() {
            let entries = self.entries(at, prices, &mut offers);
            for owed in 0..self.levels {
                let mut best = (f64::INFINITY, 0);
                for (index, entry) in entries.iter().enumerate() {
                    let after = (owed + self.due[at]).saturating_sub(entry.done);
                    // What cannot be owed is given up for good.
                    let lost = after.saturating_sub(self.levels - 1);
                    let lost_j = if self.levels > 1 { lost as f64 * FORBIDDEN_J } else { 0.0 };
                    let cost_j = entry.cost_j + ahead[after.min(self.levels - 1)] + lost_j;
                    if cost_j < best.0 {
                        best = (cost_j, index);
                    }
                }
                here[owed] = best.0;
                table[at * self.levels + owed] = best.1 as u8;
            }
            std::mem::swap(&mut ahead, &mut here);
            entries_of.push(entries);
        }
        entries_of.reverse();
        let mut owed = 0;
        let picks = entries_of.iter().enumerate().map(|(at, entries)| {
            let entry = entries[usize::from(table[at * self.levels + owed])];
            owed = (owed + self.due[at]).saturating_sub(entry.done).min(self.levels - 1);
            entry.offer
        });
        let picks: Vec<u16> = picks.collect();
        self.totals(picks, *prices)
    }

    /// What picks promise to give.
    pub fn totals(&self, picks: Vec<u16>, prices: Excess) -> Choice {
        let mut choice = Choice { prices, ..Choice::default() };
        let mut offers = Vec::new();
        let mut owed = 0.0;
        for (at, &pick) in picks.iter().enumerate() {
            offers.clear();
            (self.menu.offers)(at, &mut offers);
            let (rates, span_s) = (offers[usize::from(pick)], self.menu.spans_s[at]);
            choice.energy_j += f64::from(rates.power_w) * span_s;
            for (sum, excess) in choice.excess.iter_mut().zip(&rates.excess) {
                *sum += f64::from(*excess) * span_s;
            }
            let due = self.menu.due_core_s[at];
            let done = (f64::from(rates.done_cores) * span_s).min(owed + due);
            owed += due - done;
            choice.done_core_s += done;
        }
        let priced = prices.iter().zip(choice.excess).map(|(price, excess)| price * excess);
        choice.least_j = choice.energy_j + priced.sum::<f64>();
        choice.picks = picks;
        choice
    }

    /// Uses up what a choice leaves of its promises, which one price for all slots cannot do to
    /// the last bit: takes cheaper offers that fit, the greatest gain first.
    pub fn fill(&self, choice: &mut Choice, targets: &Targets) {
        let mut offers = Vec::new();
        for _ in 0..FILLS_MAX {
            let mut best: Option<(f64, usize, u16)> = None;
            for (at, &pick) in choice.picks.iter().enumerate() {
                offers.clear();
                (self.menu.offers)(at, &mut offers);
                let (held, span_s) = (offers[usize::from(pick)], self.menu.spans_s[at]);
                for (index, offer) in offers.iter().enumerate() {
                    let gain_j = f64::from(held.power_w - offer.power_w) * span_s;
                    let fits = |(at, target): (usize, &f64)| {
                        let more = f64::from(offer.excess[at] - held.excess[at]) * span_s;
                        more <= 0.0 || choice.excess[at] + more <= *target
                    };
                    if gain_j > best.map_or(0.0, |best| best.0)
                        && offer.done_cores >= held.done_cores
                        && targets.excess.iter().enumerate().all(fits)
                    {
                        best = Some((gain_j, at, u16::try_from(index).unwrap_or(u16::MAX)));
                    }
                }
            }
            let Some((_, at, pick)) = best else { break };
            let mut picks = std::mem::take(&mut choice.picks);
            picks[at] = pick;
            let least_j = choice.least_j;
            *choice = Choice { least_j, ..self.totals(picks, choice.prices) };
        }
    }
}
