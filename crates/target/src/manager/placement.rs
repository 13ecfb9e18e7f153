//! Where connections and volumes run: on as few reactors as suffice, on the same reactor if
//! possible, and spread evenly if one reactor is not enough.
//!
//! A hand-over between two reactors costs more processor time than most requests, so a connection
//! is best on the reactor of its volume. Once a reactor has more than half a core of work, whatever
//! need not be there is spread (the CPU resource manager of PACER, section IV-E, moves cores
//! between groups for the same reason).

use crate::normal::ConnectionLoad;
use std::collections::{BTreeMap, BTreeSet};

/// Share of a core that a reactor may have to do before anything is spread.
const ENOUGH: f64 = 0.5;
/// No reactor gets more than its part of the whole times this, if that can be.
const EVEN: f64 = 1.1;
/// A connection is not moved to its volume for less than this share of a core.
const WORTH: f64 = 0.005;

/// A volume, what it takes, and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedVolume {
    /// The number of its export.
    pub number: usize,
    /// Its reactor.
    pub at: usize,
    /// The share of a core that it takes.
    pub share: f64,
}

/// A connection, what it takes, and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedConnection {
    /// The connection.
    pub load: ConnectionLoad,
    /// Its reactor.
    pub at: usize,
    /// The share of a core that it takes.
    pub share: f64,
}

/// Where what is to move goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Volumes, and their new reactors.
    pub volumes: Vec<(PlacedVolume, usize)>,
    /// Connections, and their new reactors.
    pub connections: Vec<(PlacedConnection, usize)>,
}

/// What each reactor has to do, while it is being planned.
struct Loads {
    share: BTreeMap<usize, f64>,
    most: f64,
}

impl Loads {
    fn fits(&self, at: usize, share: f64, allowed: &BTreeSet<usize>) -> bool {
        let has = self.share.get(&at).copied().unwrap_or(0.0);
        allowed.contains(&at) && has + share <= self.most
    }

    /// The one of these with the least to do, the first of several.
    fn least(&self, allowed: &BTreeSet<usize>) -> Option<usize> {
        let share = |at: &usize| self.share.get(at).copied().unwrap_or(0.0);
        allowed.iter().copied().min_by(|a, b| share(a).total_cmp(&share(b)))
    }

    fn put(&mut self, at: usize, share: f64) {
        *self.share.entry(at).or_default() += share;
    }
}

/// Plans where volumes and connections go that may run on these reactors; neither set is empty.
#[must_use]
pub fn plan(
    (for_connections, for_volumes): (&BTreeSet<usize>, &BTreeSet<usize>),
    volumes: &[PlacedVolume],
    connections: &[PlacedConnection],
) -> Plan {
    let total: f64 = volumes.iter().map(|volume| volume.share).sum::<f64>()
        + connections.iter().map(|connection| connection.share).sum::<f64>();
    let active = for_connections.union(for_volumes).count().max(1);
    let most = (EVEN * total / active as f64).max(ENOUGH);
    let mut loads = Loads { share: BTreeMap::new(), most };
    let mut plan = Plan::default();

    let mut places = BTreeMap::new();
    let mut volumes = volumes.to_vec();
    volumes.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.number.cmp(&b.number)));
    // Where one reactor is enough for all, the first has all.
    let is_little = total <= ENOUGH / 2.0;
    for volume in volumes {
        let stays = !is_little && loads.fits(volume.at, volume.share, for_volumes);
        let to = if stays { Some(volume.at) } else { loads.least(for_volumes) };
        let first = for_volumes.first().copied().filter(|_| is_little);
        let to = first.or(to).unwrap_or(volume.at);
        loads.put(to, volume.share);
        places.insert(volume.number, to);
        if to != volume.at {
            plan.volumes.push((volume, to));
        }
    }
    let mut connections = connections.to_vec();
    connections.sort_by(|a, b| b.share.total_cmp(&a.share));
    for connection in connections {
        let PlacedConnection { load, at, share } = connection;
        let fits = |at: &usize| loads.fits(*at, share, for_connections);
        let is_worth = share >= WORTH || !for_connections.contains(&at);
        let near = load.export.and_then(|export| places.get(&export).copied());
        let near = near.filter(|_| is_worth).filter(fits);
        let to = near.or(Some(at).filter(fits)).or_else(|| loads.least(for_connections));
        let to = to.unwrap_or(at);
        loads.put(to, share);
        if to != at {
            plan.connections.push((connection, to));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(reactors: &[usize]) -> BTreeSet<usize> {
        reactors.iter().copied().collect()
    }

    fn volume(number: usize, at: usize, share: f64) -> PlacedVolume {
        PlacedVolume { number, at, share }
    }

    fn connection(id: u64, export: usize, at: usize, share: f64) -> PlacedConnection {
        PlacedConnection { load: ConnectionLoad::of_test(id, export), at, share }
    }

    /// Where each connection is afterwards.
    fn after(plan: &Plan, connections: &[PlacedConnection]) -> Vec<usize> {
        let moved = |one: &PlacedConnection| {
            plan.connections.iter().find(|(moved, _)| moved.load.id == one.load.id)
        };
        connections.iter().map(|one| moved(one).map_or(one.at, |&(_, to)| to)).collect()
    }

    #[test]
    fn little_work_is_done_by_the_first_reactor_next_to_its_volume() {
        let all = set(&[0, 1, 2, 3]);
        let volumes = [volume(0, 2, 0.05), volume(1, 3, 0.05)];
        let connections = [connection(0, 0, 1, 0.02), connection(1, 1, 3, 0.02)];
        let plan = plan((&all, &all), &volumes, &connections);
        assert_eq!(plan.volumes, [(volumes[0], 0), (volumes[1], 0)]);
        assert_eq!(after(&plan, &connections), [0, 0]);
    }

    #[test]
    fn a_connection_follows_its_volume_until_that_has_enough_to_do() {
        let all = set(&[0, 1, 2, 3]);
        let volumes = [volume(0, 0, 0.4)];
        let connections: Vec<_> = (0..6).map(|id| connection(id, 0, 0, 0.2)).collect();
        let spread = after(&plan((&all, &all), &volumes, &connections), &connections);
        let on = |reactor| spread.iter().filter(|&&at| at == reactor).count();
        // 1.6 cores by 4 is less than half a core each.
        assert_eq!((on(0), on(1), on(2), on(3)), (0, 2, 2, 2), "{spread:?}");
        let few = set(&[0, 1]);
        let spread = after(&plan((&few, &few), &volumes, &connections), &connections);
        assert!(spread.contains(&0) && spread.contains(&1), "{spread:?}");
    }

    #[test]
    fn lanes_that_are_apart_stay_apart() {
        let (normal, kept) = (set(&[0, 1]), set(&[2]));
        let volumes = [volume(0, 0, 0.1)];
        let connections = [connection(0, 0, 2, 0.1), connection(1, 0, 0, 0.1)];
        let plan = plan((&normal, &kept), &volumes, &connections);
        assert_eq!(plan.volumes, [(volumes[0], 2)]);
        assert!(after(&plan, &connections).iter().all(|at| normal.contains(at)));
    }

    proptest! {
        /// Everything ends on a reactor that may have it; no reactor has much more than its part
        /// but for one thing that is larger; and a plan that was carried out has nothing to add.
        #[test]
        fn plans_are_allowed_even_and_final(
            volumes in prop::collection::vec((0..4_usize, 0.0..0.6_f64), 1..5),
            connections in prop::collection::vec((0..5_usize, 0..4_usize, 0.0..0.5_f64), 0..12),
            active in prop::collection::btree_set(0..4_usize, 1..4),
        ) {
            let mut volumes: Vec<_> = volumes
                .iter()
                .enumerate()
                .map(|(number, &(at, share))| volume(number, at, share))
                .collect();
            let mut connections: Vec<_> = connections
                .iter()
                .enumerate()
                .map(|(id, &(export, at, share))| connection(id as u64, export, at, share))
                .collect();
            let first = plan((&active, &active), &volumes, &connections);
            for (moved, to) in &first.volumes {
                volumes[moved.number].at = *to;
            }
            for (moved, to) in &first.connections {
                connections[moved.load.id as usize].at = *to;
            }
            let shares = volumes.iter().map(|one| (one.at, one.share));
            let shares: Vec<_> =
                shares.chain(connections.iter().map(|one| (one.at, one.share))).collect();
            prop_assert!(shares.iter().all(|(at, _)| active.contains(at)));
            let total: f64 = shares.iter().map(|(_, share)| share).sum();
            let largest = shares.iter().map(|&(_, share)| share).fold(0.0, f64::max);
            for &reactor in &active {
                let own: f64 =
                    shares.iter().filter(|&&(at, _)| at == reactor).map(|&(_, share)| share).sum();
                let most = (EVEN * total / active.len() as f64).max(ENOUGH);
                prop_assert!(own <= most + largest, "{own} of {most}");
            }
        }
    }
}
