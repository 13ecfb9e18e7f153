//! The choice of one offer for each slot: least energy within every promise.
//!
//! Promises sum over slots, so each has one price for the whole run (a Lagrange multiplier), found
//! by bisection. Background work that is put off is owed, is never done before it is due, and may
//! be owed only so long: with the prices fixed, the best way through the slots is a dynamic
//! program over the work owed.

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
const PRICE_SPREAD: f64 = 0.04;
/// Prices are told apart to so many decades, and a guess is off by so many.
const PRICE_PRECISION: f64 = 1e-4;
const GUESS_DECADES: f64 = 0.25;
/// What is owed at the end is right to this share of what becomes due, or tried so often again.
const OWED_SLACK: f64 = 2e-4;
const OWED_ROUNDS: u32 = 3;
/// The share of the levels that may be owed at the end.
const OWED_AT_END: f64 = 0.25;
/// So many offers are changed to use promises up; where there are more slots, one matters less.
const FILLS_MAX: u32 = 12;
/// Prices go from a millionth of the run's energy for breaking a promise wholly to a million times.
const PRICE_DECADES: f64 = 6.0;
/// A cost that no setting has.
const FORBIDDEN_J: f64 = 1e12;

/// A choice at given prices.
struct Program<'a> {
    menu: &'a Menu<'a>,
    /// Core-seconds a level.
    quantum: f64,
    levels: usize,
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
    fn new(menu: &'a Menu<'a>) -> Self {
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
    fn best(&self, prices: &Excess, owed_core_s: f64) -> Choice {
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

    fn totals(&self, picks: Vec<u16>, prices: Excess) -> Choice {
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
    fn fill(&self, choice: &mut Choice, targets: &Targets) {
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

/// The least energy within the targets, or what comes nearest to them. `guess` are prices to begin
/// with, where there are any.
pub fn choose(menu: &Menu<'_>, targets: &Targets, guess: Option<&Excess>) -> Choice {
    let (due_core_s, owed_core_s) = spread_skipping(menu, targets.owed_core_s);
    let menu = &Menu { due_core_s: &due_core_s, ..*menu };
    let targets = &Targets { owed_core_s, ..*targets };
    let program = Program::new(menu);
    let due_core_s: f64 = menu.due_core_s.iter().sum();
    let needed_core_s = due_core_s - targets.owed_core_s;
    let mut best = priced(&program, targets, guess);
    let mut allowed = *targets;
    for _ in 0..OWED_ROUNDS {
        // Levels are coarse: what is owed by them is not quite what is owed.
        let missing_core_s = needed_core_s - best.done_core_s;
        if (-OWED_SLACK..=0.0).contains(&(missing_core_s / due_core_s.max(f64::MIN_POSITIVE)))
            || due_core_s == 0.0
        {
            break;
        }
        allowed.owed_core_s -= missing_core_s + 0.5 * OWED_SLACK * due_core_s;
        let next = priced(&program, &allowed, Some(&best.prices));
        let is_worse = next.done_core_s < needed_core_s && next.done_core_s < best.done_core_s;
        if !is_worse {
            best = next;
        }
    }
    program.fill(&mut best, targets);
    best
}

/// What may be left undone at the end of a long run is more than can be owed at once: the rest of
/// it is left out all along. Answers what is to be done in each slot, and what may be owed.
fn spread_skipping(menu: &Menu<'_>, owed_core_s: f64) -> (Vec<f64>, f64) {
    let due_core_s: f64 = menu.due_core_s.iter().sum();
    let program = Program::new(menu);
    let room_core_s = OWED_AT_END * program.levels as f64 * program.quantum;
    let owed_at_end = if menu.may_skip { owed_core_s.min(room_core_s) } else { owed_core_s };
    let skipped = if due_core_s > 0.0 { (owed_core_s - owed_at_end) / due_core_s } else { 0.0 };
    (menu.due_core_s.iter().map(|due| due * (1.0 - skipped)).collect(), owed_at_end)
}

/// The best at the prices that meet the targets.
fn priced(program: &Program<'_>, targets: &Targets, guess: Option<&Excess>) -> Choice {
    let menu = program.menu;
    let mut prices = guess.copied().unwrap_or_default();
    let mut best = program.best(&prices, targets.owed_core_s);
    let scale_j = best.energy_j.max(f64::MIN_POSITIVE);
    let is_kept = |choice: &Choice, at: usize| {
        menu.scale[at] <= 0.0 || choice.excess[at] <= targets.excess[at]
    };
    // Each promise's price for itself, and once more where another one's has changed meanwhile.
    for round in 0..2 {
        let before = prices;
        for at in 0..PROMISES_MAX {
            if prices[at] == 0.0 && is_kept(&best, at) {
                continue;
            }
            let unit = scale_j / menu.scale[at];
            let decades = |price: f64| (price / unit).log10();
            let (mut low, mut high) = (-PRICE_DECADES, PRICE_DECADES);
            // A guess is most often near.
            if prices[at] > 0.0 {
                let guess = decades(prices[at]);
                for side in [-GUESS_DECADES, GUESS_DECADES] {
                    prices[at] = unit * 10f64.powf(guess + side);
                    let tried = program.best(&prices, targets.owed_core_s);
                    if is_kept(&tried, at) {
                        high = guess + side
                    } else {
                        low = guess + side
                    }
                    if is_kept(&tried, at) && side < 0.0 {
                        break;
                    }
                }
            }
            prices[at] = 0.0;
            if low == -PRICE_DECADES {
                best = program.best(&prices, targets.owed_core_s);
                if is_kept(&best, at) {
                    continue;
                }
            }
            while high - low > PRICE_PRECISION {
                let middle = f64::midpoint(low, high);
                prices[at] = unit * 10f64.powf(middle);
                let tried = program.best(&prices, targets.owed_core_s);
                if is_kept(&tried, at) { high = middle } else { low = middle }
            }
            prices[at] = unit * 10f64.powf(high);
            best = program.best(&prices, targets.owed_core_s);
        }
        let priced = prices.iter().filter(|&&price| price > 0.0).count();
        if priced < 2 || (round == 0 && prices == before) {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(power_w: f32, done_cores: f32, excess: f32) -> Rates {
        Rates { power_w, done_cores, excess: [excess, 0.0, 0.0, 0.0] }
    }

    /// Every choice there is.
    fn exhaustive(slots: usize, offers: &[Vec<Rates>], due: f64, owed_max: f64) -> Option<f64> {
        let mut least: Option<f64> = None;
        let count = offers[0].len();
        for mut code in 0..count.pow(slots as u32) {
            let (mut energy_j, mut excess, mut owed, mut possible) = (0.0, 0.0, 0.0_f64, true);
            for slot in offers {
                let rates = slot[code % count];
                code /= count;
                energy_j += f64::from(rates.power_w);
                excess += f64::from(rates.excess[0]);
                owed = (owed + due - f64::from(rates.done_cores)).max(0.0);
                possible &= owed <= owed_max + 1e-9;
            }
            if possible && excess <= 1e-9 && owed <= 1e-9 {
                least = Some(least.map_or(energy_j, |least| least.min(energy_j)));
            }
        }
        least
    }

    proptest! {
        /// A Lagrange multiplier finds the best of all choices but for the gap of one slot: it can
        /// not mix, for instance, three slots of two kinds at a price at which all are equal.
        #[test]
        fn a_choice_is_within_one_slot_of_the_best_of_all(
            numbers in proptest::collection::vec((1.0f32..9.0, 0u8..3, -2.0f32..2.0), 15),
        ) {
            let offers: Vec<Vec<Rates>> = numbers
                .chunks(3)
                .map(|slot| {
                    let mut slot: Vec<Rates> =
                        slot.iter().map(|&(w, done, e)| rates(w, f32::from(done), e)).collect();
                    slot.push(rates(10.0, 1.0, -2.0));
                    slot
                })
                .collect();
            let menu = Menu {
                spans_s: &[1.0; 5],
                offers: &|at, into| into.extend_from_slice(&offers[at]),
                due_core_s: &[1.0; 5],
                may_skip: true,
                owed_max_core_s: 60.0,
                scale: [10.0; PROMISES_MAX],
            };
            let found = choose(&menu, &Targets::default(), None);
            let least = exhaustive(5, &offers, 1.0, 60.0).unwrap();
            prop_assert!(found.excess[0] <= 1e-6, "{found:?}");
            prop_assert!((found.done_core_s - 5.0).abs() < 1e-6, "{found:?}");
            prop_assert!(found.energy_j <= least + 9.0, "{} {least}", found.energy_j);
            prop_assert!(found.least_j <= least * (1.0 + PRICE_SPREAD) + 1e-3, "{found:?} {least}");
            prop_assert!(found.energy_j >= least - 1e-6, "{} {least}", found.energy_j);
        }
    }

    #[test]
    fn work_is_put_off_done_in_batches_and_never_before_it_is_due() {
        // Pausing is cheap, and three slots' work at once is cheaper than one slot's three times.
        let offers = [rates(1.0, 0.0, 0.0), rates(4.0, 1.0, 0.0), rates(7.0, 3.0, 0.0)];
        let menu = Menu {
            spans_s: &[1.0; 9],
            offers: &|_, into| into.extend_from_slice(&offers),
            due_core_s: &[1.0; 9],
            may_skip: true,
            owed_max_core_s: 60.0,
            scale: [1.0; PROMISES_MAX],
        };
        let found = choose(&menu, &Targets::default(), None);
        assert_eq!(found.energy_j, 3.0 * (7.0 + 2.0));
        assert_eq!(found.picks.iter().filter(|&&pick| pick == 2).count(), 3);
        assert!((found.done_core_s - 9.0).abs() < 1e-9);
        let strict = Menu { owed_max_core_s: 0.5, ..menu };
        let found = choose(&strict, &Targets::default(), None);
        assert_eq!(found.picks, [1; 9]);
    }

    /// On a run of hours 2 % of the work is more than a minute's backlog: hardly any of it was left
    /// out.
    #[test]
    fn what_may_be_left_undone_of_a_long_run_is_left_out_all_along() {
        let offers = [rates(1.0, 0.0, 0.0), rates(7.0, 3.0, 0.0)];
        let slots = 10_000;
        let menu = Menu {
            spans_s: &vec![1.0; slots],
            offers: &|_, into| into.extend_from_slice(&offers),
            due_core_s: &vec![1.0; slots],
            may_skip: true,
            owed_max_core_s: 60.0,
            scale: [1.0; PROMISES_MAX],
        };
        let targets = Targets { owed_core_s: 200.0, ..Targets::default() };
        let found = choose(&menu, &targets, None);
        assert!((9800.0..9810.0).contains(&found.done_core_s), "{}", found.done_core_s);
        let strict = choose(&Menu { may_skip: false, ..menu }, &targets, None);
        assert!(strict.done_core_s > 9900.0, "{}", strict.done_core_s);
    }

    #[test]
    fn slots_that_are_alike_are_mixed_to_use_the_promise_up() {
        let offers = [rates(10.0, 0.0, -1.0), rates(5.0, 0.0, 1.0)];
        let menu = Menu {
            spans_s: &[1.0; 100],
            offers: &|_, into| into.extend_from_slice(&offers),
            due_core_s: &[0.0; 100],
            may_skip: true,
            owed_max_core_s: 0.0,
            scale: [100.0; PROMISES_MAX],
        };
        let found = choose(&menu, &Targets::default(), None);
        assert_eq!(found.excess[0], 0.0);
        assert_eq!(found.energy_j, 750.0);
    }
}
