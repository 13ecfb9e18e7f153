//! What a search knows.

use super::choice::{Choice, Menu, Rates, Targets};
use super::effort::Effort;
use super::known::{Known, Whole};
use super::lab::{Lab, RivalRun};
use super::measure::Timeline;
use super::prices::choose;
use super::promises::{Excess, PROMISES_MAX};
use super::table::{Offer, RivalSlots, Table};
use crate::load::LoadError;
use wattio_law::{Action, Budget, DriveAction};

/// Background work that differs by this share from what was measured before has run out.
const RAN_OUT: f32 = 0.05;
/// Power of what shall not be chosen, in watts.
const NEVER_W: f32 = 1e7;
/// A promise of which no more than this share is left is used up.
const USED_UP: f64 = 0.004;

/// What the search knows.
pub struct State {
    pub known: Known,
    pub table: Table,
    /// The rivals' runs, and what they gave slot by slot.
    pub rivals: Vec<(RivalRun, Whole)>,
    pub rival_slots: Vec<RivalSlots>,
    pub targets: Targets,
    pub best: Option<Whole>,
    /// The prices of the last choice.
    pub prices: Option<Excess>,
    pub effort: Effort,
    /// Whether only settings are chosen that leave nothing to the slot after.
    pub is_calm: bool,
}

impl State {
    pub fn best_j(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.total.energy_j)
    }

    /// Whether the best run takes less than every rival that keeps everything.
    pub fn beats_rivals(&self) -> bool {
        let kept = self.rivals.iter().filter(|(_, whole)| self.known.is_kept(&whole.total));
        kept.map(|(_, whole)| whole.total.energy_j).all(|energy_j| self.best_j() < energy_j)
            && self.best.is_some()
    }

    /// Whether the best run leaves hardly anything of the promises that have a price.
    pub fn is_used_up(&self) -> bool {
        let (Some(best), Some(prices)) = (&self.best, &self.prices) else { return false };
        let mut of = prices.iter().zip(&best.total.excess).zip(&self.known.promises.scale);
        of.all(|((&price, excess), scale)| price == 0.0 || -excess <= USED_UP * scale)
    }

    /// The targets, stricter (below 0) or more lenient by a share of what is allowed.
    pub fn shifted(&self, share: f64) -> Targets {
        let mut targets = self.targets;
        for (target, scale) in targets.excess.iter_mut().zip(&self.known.promises.scale) {
            *target += share * scale;
        }
        targets.excess[PROMISES_MAX - 1] -=
            0.9 * share * self.known.promises.scale[PROMISES_MAX - 1];
        targets.owed_core_s += 0.1 * share * self.known.total.done_core_s;
        targets
    }

    pub fn choose(&self, targets: &Targets) -> Choice {
        let known = &self.known;
        let offers = |at: usize, into: &mut Vec<Rates>| {
            let class = known.classes.classes[at];
            let rates = |offer: &Offer| {
                let is_barred = self.is_calm && !is_steady(self.table.setting(offer.setting));
                let power_w = if is_barred { NEVER_W } else { offer.rates.power_w };
                Rates { power_w, ..offer.rates }
            };
            into.extend(self.table.offers(class).iter().map(rates));
            let rivals = self.rival_slots.iter().filter_map(|rival| rival.rates.get(at));
            into.extend(rivals.map(|&rates| {
                if self.is_calm { Rates { power_w: NEVER_W, ..rates } } else { rates }
            }));
        };
        let due: Vec<f64> = known.slots.iter().map(|slot| slot.done_core_s).collect();
        let menu = Menu {
            spans_s: &known.spans_s,
            offers: &offers,
            due_core_s: &due,
            may_skip: known.may_skip,
            owed_max_core_s: known.owed_max_core_s,
            scale: known.promises.scale,
        };
        choose(&menu, targets, self.prices.as_ref())
    }

    /// What a choice puts into force.
    pub fn timeline<E: From<LoadError>>(&self, lab: &Lab<'_, E>, choice: &Choice) -> Timeline {
        let starts_ns = lab.starts_ns(&self.known);
        let mut timeline = Timeline::new();
        let mut push = |at_ns: u64, action: &Action| {
            if timeline.last().is_none_or(|(_, before): &(u64, Action)| before != action) {
                timeline.push((at_ns, action.clone()));
            }
        };
        for (at, &pick) in choice.picks.iter().enumerate() {
            let offers = self.table.offers(self.known.classes.classes[at]);
            let (start_ns, end_ns) =
                (starts_ns[at], starts_ns.get(at + 1).copied().unwrap_or(u64::MAX));
            match offers.get(usize::from(pick)) {
                Some(offer) => push(start_ns, self.table.setting(offer.setting)),
                None => {
                    let rival = &self.rival_slots[usize::from(pick) - offers.len()];
                    let full_speed = lab.limits.full_speed();
                    let first = rival.timeline.partition_point(|&(at_ns, _)| at_ns <= start_ns);
                    let in_force = first.checked_sub(1).map(|at| &rival.timeline[at].1);
                    push(start_ns, in_force.unwrap_or(&full_speed));
                    let inside = rival.timeline[first..].iter();
                    inside
                        .take_while(|&&(at_ns, _)| at_ns < end_ns)
                        .for_each(|(at, a)| push(*at, a));
                }
            }
        }
        timeline
    }

    /// Learns from runs of choices.
    pub fn take_in(&mut self, choices: &[Choice], wholes: Vec<Option<Whole>>) {
        let known = &self.known;
        let mut off = [0.0; PROMISES_MAX];
        let (mut owed_off, mut count) = (0.0, 0.0);
        for (choice, whole) in choices.iter().zip(wholes) {
            let Some(whole) = whole else { continue };
            if !known.is_by_excerpt() {
                relearn(known, &mut self.table, choice, &whole);
            }
            for ((off, ours), theirs) in off.iter_mut().zip(whole.total.excess).zip(choice.excess) {
                *off += ours - theirs;
            }
            owed_off += whole.total.done_core_s - choice.done_core_s;
            count += 1.0;
            if known.is_kept(&whole.total)
                && self.best.as_ref().is_none_or(|b| whole.total.energy_j < b.total.energy_j)
            {
                self.best = Some(whole);
            }
        }
        if count > 0.0 {
            self.targets.excess = off.map(|off| -off / count);
            self.targets.owed_core_s = known.owed_core_s() + (owed_off / count).min(0.0);
        }
    }
}

/// Whether a setting leaves the slot after it what full speed would: drives that are awake, and no
/// backlog.
fn is_steady(action: &Action) -> bool {
    action.drives != DriveAction::Asleep && action.background_of(0).budget == Budget::AsDue
}

/// Learns what chosen settings gave among their neighbours.
fn relearn(known: &Known, table: &mut Table, choice: &Choice, whole: &Whole) {
    for (at, (&pick, &rates)) in choice.picks.iter().zip(&whole.rates).enumerate() {
        let class = known.classes.classes[at];
        let Some(&offer) = table.offers(class).get(usize::from(pick)) else { continue };
        // Where background work ran out, the slot says little of the setting.
        let is_whole = (rates.done_cores - offer.rates.done_cores).abs()
            <= RAN_OUT * offer.rates.done_cores.max(1e-3);
        if is_whole {
            table.learn(class, offer.setting, rates);
        }
    }
}
