//! What was learned: the effect of each setting in each class of slots.

use super::choice::Rates;
use super::measure::Timeline;
use std::collections::BTreeMap;
use wattio_law::{Action, BackgroundPriority, Budget, DriveAction};

/// A setting in a class of slots, as measured.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Which one.
    pub setting: u32,
    /// How many slots it was measured in.
    times: u32,
    /// The mean over these.
    pub rates: Rates,
}

/// Every setting that was tried, and what it gave.
#[derive(Debug, Default)]
pub struct Table {
    settings: Vec<Action>,
    numbers: BTreeMap<Vec<u64>, u32>,
    offers: Vec<Vec<Offer>>,
}

/// A law that was handed in, and what it did in each slot.
pub struct RivalSlots {
    /// Its actions.
    pub timeline: Timeline,
    /// What it gave.
    pub rates: Vec<Rates>,
}

impl Table {
    /// Nothing learnt about so many classes.
    pub fn new(classes: usize) -> Self {
        Self { offers: vec![Vec::new(); classes], ..Self::default() }
    }

    /// The number of a setting.
    pub fn number(&mut self, action: &Action) -> u32 {
        let next = u32::try_from(self.settings.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(bits(action)).or_insert(next);
        if number == next {
            self.settings.push(action.clone());
        }
        number
    }

    /// The setting of a number.
    pub fn setting(&self, number: u32) -> &Action {
        &self.settings[number as usize]
    }

    /// What is known of a class.
    pub fn offers(&self, class: usize) -> &[Offer] {
        &self.offers[class]
    }

    /// Whether a setting was tried in a class.
    pub fn knows(&self, class: usize, setting: u32) -> bool {
        self.offers[class].iter().any(|offer| offer.setting == setting)
    }

    /// Takes in a slot in which a setting was in force.
    pub fn learn(&mut self, class: usize, setting: u32, rates: Rates) {
        let offers = &mut self.offers[class];
        let Some(known) = offers.iter_mut().find(|offer| offer.setting == setting) else {
            offers.push(Offer { setting, times: 1, rates });
            return;
        };
        known.times += 1;
        let share = 1.0 / known.times as f32;
        let blend = |mine: &mut f32, theirs: f32| *mine += (theirs - *mine) * share;
        blend(&mut known.rates.power_w, rates.power_w);
        blend(&mut known.rates.done_cores, rates.done_cores);
        for (mine, theirs) in known.rates.excess.iter_mut().zip(rates.excess) {
            blend(mine, theirs);
        }
    }
}

/// An action as numbers that are the same for the same action.
fn bits(action: &Action) -> Vec<u64> {
    let groups = action.groups.iter().flat_map(|g| [u64::from(g.cores), g.frequency.0.to_bits()]);
    let drives = match action.drives {
        DriveAction::Own => 0,
        DriveAction::Awake => 1,
        DriveAction::Asleep => 2,
    };
    let background = action.background.iter().flat_map(|class| {
        let budget = match class.budget {
            Budget::AsDue => u64::MAX,
            Budget::CoreSecondsPerSecond(rate) => rate.to_bits(),
        };
        [budget, u64::from(class.priority == BackgroundPriority::High)]
    });
    groups.chain([drives]).chain(background).collect()
}
