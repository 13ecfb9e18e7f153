//! The prices of promises: the least energy that keeps all of them.
//!
//! A promise is a sum over slots, so it has one price for the whole run (a Lagrange multiplier),
//! which is found by bisection. See [`Program`] for the choice at given prices.

use super::choice::{Choice, Menu, Program, Targets};
use super::promises::{Excess, PROMISES_MAX};

/// Prices are told apart to so many decades, and a guess is off by so many.
const PRICE_PRECISION: f64 = 1e-4;
const GUESS_DECADES: f64 = 0.25;
/// What is owed at the end is right to this share of what becomes due, or tried so often again.
const OWED_SLACK: f64 = 2e-4;
const OWED_ROUNDS: u32 = 3;
/// The share of the levels that may be owed at the end.
const OWED_AT_END: f64 = 0.25;
/// Prices go from a millionth of the run's energy for breaking a promise wholly to a million times.
const PRICE_DECADES: f64 = 6.0;

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
    let mut asked = 1.0;
    for _ in 0..OWED_ROUNDS {
        // Levels are coarse: what is owed by them is not quite what is owed.
        let missing_core_s = needed_core_s - best.done_core_s;
        if (-OWED_SLACK..=0.0).contains(&(missing_core_s / due_core_s.max(f64::MIN_POSITIVE)))
            || due_core_s == 0.0
        {
            break;
        }
        allowed.owed_core_s -= missing_core_s + 0.5 * OWED_SLACK * due_core_s;
        // Where nothing may be owed already, more is asked for all along.
        asked += (-allowed.owed_core_s).max(0.0) / due_core_s;
        allowed.owed_core_s = allowed.owed_core_s.max(0.0);
        let more: Vec<f64> = menu.due_core_s.iter().map(|due| due * asked).collect();
        let asking = Menu { due_core_s: &more, ..*menu };
        let next = priced(&Program::new(&asking), &allowed, Some(&best.prices));
        let next = program.totals(next.picks, next.prices);
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
    use crate::oracle::choice::{PRICE_SPREAD, Rates};
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
