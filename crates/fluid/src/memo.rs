//! Equilibria that were worked out before, by what they were worked out for.

use crate::demand::Demand;
use crate::setting::Setting;
use crate::steady::{self, Steady};
use std::sync::Arc;
use wattio_plant::Server;

/// What an equilibrium is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Requests a second; infinite: as fast as the clients go.
    pub rate: f64,
    /// Index of the mix.
    pub demand: u32,
    /// The setting.
    pub setting: Setting,
}

/// A table of so many places, each of which keeps what was last worked out for it.
pub struct Memo {
    places: Vec<Option<(Key, Arc<Steady>)>>,
}

const PLACES: usize = 512;
/// Halvings of the interval in which the rate of clients who wait is looked for.
const HALVINGS: u32 = 40;

impl Memo {
    /// Nothing known.
    pub fn new() -> Self {
        Self { places: vec![None; PLACES] }
    }

    /// The equilibrium of a key; `clients` who wait for their answer, where a rate is unlimited.
    pub fn get(
        &mut self,
        key: &Key,
        server: &Server,
        demand: &Demand,
        clients: f64,
    ) -> Arc<Steady> {
        let at = key.place(server.groups.len());
        if let Some((known, steady)) = &self.places[at]
            && known == key
        {
            return steady.clone();
        }
        let steady = Arc::new(if key.rate.is_finite() {
            steady::of(server, demand, key.rate, &key.setting)
        } else {
            closed(server, demand, &key.setting, clients)
        });
        self.places[at] = Some((*key, steady.clone()));
        steady
    }
}

/// Clients who send their next request when they have their answer: the rate `X` at which there
/// are as many requests on their way as clients, `X L(X) = clients` (J. Little, 1961).
pub fn closed(server: &Server, demand: &Demand, setting: &Setting, clients: f64) -> Steady {
    let most = steady::of(server, demand, f64::INFINITY, setting);
    if most.served * most.latency_s <= clients {
        return most;
    }
    let (mut low, mut high) = (0.0, most.served);
    for _ in 0..HALVINGS {
        let rate = 0.5 * (low + high);
        let seen = steady::of(server, demand, rate, setting);
        if seen.served * seen.latency_s < clients {
            low = rate;
        } else {
            high = rate;
        }
    }
    steady::of(server, demand, low, setting)
}

impl Key {
    fn place(&self, groups: usize) -> usize {
        let mut hash = self.rate.to_bits() ^ u64::from(self.demand);
        let mut mix = |bits: u64| hash = (hash.rotate_left(5) ^ bits).wrapping_mul(MULTIPLIER);
        for at in 0..groups {
            mix(self.setting.cores[at].to_bits());
            mix(self.setting.stretch[at].to_bits());
            mix(self.setting.released[at].to_bits());
        }
        mix(self.setting.drives as u64);
        (hash >> 40) as usize % PLACES
    }
}

/// An odd number without pattern, from the digits of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
