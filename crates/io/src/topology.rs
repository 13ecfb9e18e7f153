//! Which ranks compute, which write, and who writes for whom: plain arithmetic on rank numbers, the
//! same on every rank.
//!
//! Dedicated cores are the last ranks of each node; dedicated nodes are the last nodes. So rank 0
//! always computes, and the ranks that compute keep their order.

use crate::config::{Approach, Config};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Roles of the ranks of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The node of each rank.
    pub nodes: Vec<usize>,
    /// Who writes for each rank that computes: in time partitioning, itself.
    pub writer_of: BTreeMap<usize, usize>,
}

impl Topology {
    /// Give each rank its role; `nodes` is the node of each rank. `dedicated` is the number of nodes that
    /// only write, in all, where a Damaris file says it: then it counts, and not the configuration's ratio.
    ///
    /// # Errors
    ///
    /// `Input` where no rank is left to compute, or to write, or a dedicated node would have nothing to
    /// write.
    pub fn plan(config: &Config, nodes: &[usize], dedicated: Option<usize>) -> Result<Self> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (rank, &node) in nodes.iter().enumerate() {
            members.entry(node).or_default().push(rank);
        }
        let writer_of = match config.approach {
            Approach::Tp => (0..nodes.len()).map(|rank| (rank, rank)).collect(),
            Approach::Dc => cores(config.writers, &members)?,
            Approach::Dn => match dedicated {
                Some(count) => counted_nodes(count, &members)?,
                None => nodes_by_ratio(config.ratio, &members)?,
            },
        };
        Ok(Self { nodes: nodes.to_vec(), writer_of })
    }

    /// How many nodes that compute share one that writes, at most; 0 without dedicated nodes.
    #[must_use]
    pub fn ratio(&self) -> usize {
        let all: BTreeSet<usize> = self.nodes.iter().copied().collect();
        let computing: BTreeSet<usize> =
            self.writer_of.keys().map(|&rank| self.nodes[rank]).collect();
        let dedicated = all.len() - computing.len();
        if dedicated == 0 { 0 } else { computing.len().div_ceil(dedicated) }
    }

    /// The ranks that compute, ascending.
    #[must_use]
    pub fn computing(&self) -> Vec<usize> {
        self.writer_of.keys().copied().collect()
    }

    /// Those who write for at least one rank, ascending.
    #[must_use]
    pub fn writing(&self) -> Vec<usize> {
        let mut found: Vec<usize> = self.writer_of.values().copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// For whom a rank writes, ascending.
    #[must_use]
    pub fn clients(&self, writer: usize) -> Vec<usize> {
        let theirs = self.writer_of.iter().filter(|&(_, &by)| by == writer);
        theirs.map(|(&rank, _)| rank).collect()
    }

    /// A rank's part of the memory of its writer's node, in bytes.
    #[must_use]
    pub fn share(&self, rank: usize, buffer_bytes: u64) -> u64 {
        let node = |writer: &usize| self.nodes[*writer];
        let Some(own) = self.writer_of.get(&rank).map(node) else { return 0 };
        let sharing = self.writer_of.values().filter(|&writer| node(writer) == own).count();
        buffer_bytes / sharing.max(1) as u64
    }
}

/// Nodes of so many ranks each, the last one with what is left.
#[must_use]
pub fn emulated(ranks: usize, ranks_per_node: usize) -> Vec<usize> {
    (0..ranks).map(|rank| rank / ranks_per_node).collect()
}

fn cores(writers: usize, members: &BTreeMap<usize, Vec<usize>>) -> Result<BTreeMap<usize, usize>> {
    let mut found = BTreeMap::new();
    for (node, ranks) in members {
        let count = ranks.len();
        if count <= writers {
            return Err(Error::Input(format!(
                "dc:{writers} takes {writers} of each node's ranks to write, and node {node} has \
                 {count}: no rank of it is left to compute; use fewer writers or other nodes"
            )));
        }
        found.extend(spread(&ranks[..count - writers], &ranks[count - writers..]));
    }
    Ok(found)
}

fn nodes_by_ratio(
    ratio: usize,
    members: &BTreeMap<usize, Vec<usize>>,
) -> Result<BTreeMap<usize, usize>> {
    if members.len() < 2 {
        return Err(Error::Input(format!(
            "dn:{ratio} needs two nodes or more, and there is one: use tp or dc, or emulate nodes \
             with ranks_per_node"
        )));
    }
    Ok(last_nodes_write(members.len().div_ceil(ratio + 1), members))
}

/// As many nodes as are asked for write, or none does: a node with nothing to write would be lost.
fn counted_nodes(
    dedicated: usize,
    members: &BTreeMap<usize, Vec<usize>>,
) -> Result<BTreeMap<usize, usize>> {
    let all = members.len();
    let plan = |count: usize| {
        if count >= all {
            return None;
        }
        let found = last_nodes_write(count, members);
        let writing: BTreeSet<usize> = found.values().copied().collect();
        let mut last = members.values().skip(all - count);
        let busy = last.all(|ranks| ranks.iter().any(|rank| writing.contains(rank)));
        busy.then_some(found)
    };
    plan(dedicated).ok_or_else(|| {
        let told = if dedicated >= all {
            "leave none to compute".to_owned()
        } else {
            let ranks: usize = members.values().take(all - dedicated).map(Vec::len).sum();
            format!("leave too few ranks to compute ({ranks}) for each to write for one")
        };
        let most = (1..dedicated.min(all)).rev().find(|&count| plan(count).is_some());
        Error::Input(format!(
            "<dedicated>: of {all} nodes, {dedicated} {told}; allowed: {} at most",
            most.unwrap_or_default()
        ))
    })
}

/// The last nodes write for the others, which their ranks share evenly.
fn last_nodes_write(
    dedicated: usize,
    members: &BTreeMap<usize, Vec<usize>>,
) -> BTreeMap<usize, usize> {
    let all: Vec<&Vec<usize>> = members.values().collect();
    let (computing, writing) = all.split_at(all.len() - dedicated);
    let flat = |nodes: &[&Vec<usize>]| {
        let mut ranks: Vec<usize> = nodes.iter().flat_map(|ranks| ranks.iter().copied()).collect();
        ranks.sort_unstable();
        ranks
    };
    spread(&flat(computing), &flat(writing))
}

/// Neighbours share a writer; writers differ by one client at most.
fn spread(clients: &[usize], writers: &[usize]) -> BTreeMap<usize, usize> {
    let writer = |at: usize| writers[at * writers.len() / clients.len()];
    clients.iter().enumerate().map(|(at, &rank)| (rank, writer(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(approach: Approach, number: usize) -> Config {
        Config { approach, writers: number, ratio: number, ..Config::default() }
    }

    #[test]
    fn the_last_ranks_of_each_node_write() {
        let plan = Topology::plan(&config(Approach::Dc, 1), &emulated(8, 4), None).unwrap();
        assert_eq!(plan.computing(), [0, 1, 2, 4, 5, 6]);
        assert_eq!((plan.writing(), plan.clients(7)), (vec![3, 7], vec![4, 5, 6]));
        assert_eq!(plan.share(0, 300), 100);
    }

    #[test]
    fn the_last_nodes_write() {
        let plan = Topology::plan(&config(Approach::Dn, 3), &emulated(8, 2), None).unwrap();
        assert_eq!((plan.computing(), plan.writing()), ((0..6).collect(), vec![6, 7]));
        assert_eq!(plan.clients(6), [0, 1, 2]);
    }

    #[test]
    fn a_job_without_room_for_writers_is_refused() {
        for (approach, words) in [(Approach::Dc, "fewer writers"), (Approach::Dn, "two nodes")] {
            let told = Topology::plan(&config(approach, 4), &emulated(4, 4), None).unwrap_err();
            assert!(told.to_string().contains(words), "{told}");
        }
    }

    /// How many ranks each node that writes has to write for: one after the other goes to the one that has
    /// least. `None` where one would have none.
    fn slow(nodes: usize, per_node: usize, dedicated: usize) -> Option<Vec<usize>> {
        let mut loads = vec![0; dedicated];
        for _ in 0..nodes.checked_sub(dedicated)? * per_node {
            *loads.iter_mut().min()? += 1;
        }
        loads.sort_unstable();
        (loads[0] > 0).then_some(loads)
    }

    /// With 9 nodes of which 4 were dedicated, 3 wrote.
    #[test]
    fn as_many_nodes_write_as_are_asked_for_each_for_as_many_ranks() {
        for (nodes, per_node, dedicated) in (1..=12)
            .flat_map(|nodes| (1..=4).map(move |per_node| (nodes, per_node)))
            .flat_map(|(nodes, per_node)| (1..=13).map(move |count| (nodes, per_node, count)))
        {
            let (dn, all) = (config(Approach::Dn, 1), emulated(nodes * per_node, per_node));
            let shown = format!("{dedicated} of {nodes} nodes of {per_node} ranks");
            let found = Topology::plan(&dn, &all, Some(dedicated));
            let Some(loads) = slow(nodes, per_node, dedicated) else {
                let most = (1..dedicated).rfind(|&count| slow(nodes, per_node, count).is_some());
                let told = found.unwrap_err().to_string();
                let start = format!("<dedicated>: of {nodes} nodes, {dedicated} leave ");
                let end = format!("; allowed: {} at most", most.unwrap_or_default());
                assert!(told.starts_with(&start) && told.ends_with(&end), "{shown}: {told}");
                continue;
            };
            let plan = found.unwrap();
            let mut counts = vec![0; nodes];
            plan.writer_of.values().for_each(|&writer| counts[all[writer]] += 1);
            let (computing, writing) = counts.split_at(nodes - dedicated);
            let mut writing = writing.to_vec();
            writing.sort_unstable();
            assert_eq!(writing, loads, "{shown}");
            assert!(computing.iter().all(|&count| count == 0), "{shown}");
            assert_eq!(plan.ratio(), (nodes - dedicated).div_ceil(dedicated), "{shown}");
        }
    }

    /// Of two nodes, one has ranks enough for both and the other one is left over.
    #[test]
    fn no_dedicated_node_is_left_without_a_rank() {
        let nodes = [0, 0, 1, 1, 1, 1, 1, 1, 1, 2];
        let told = Topology::plan(&config(Approach::Dn, 1), &nodes, Some(2)).unwrap_err();
        assert_eq!(
            told.to_string(),
            "<dedicated>: of 3 nodes, 2 leave too few ranks to compute (2) for each to write for one; \
             allowed: 1 at most"
        );
    }

    proptest! {
        #[test]
        fn every_rank_that_computes_has_a_writer_of_about_as_many_clients(
            number in 1usize..4, per_node in 2usize..9, nodes in 2usize..9, dedicated in any::<bool>()
        ) {
            let approach = if dedicated { Approach::Dn } else { Approach::Dc };
            let all = emulated(per_node * nodes, per_node);
            let Ok(plan) = Topology::plan(&config(approach, number), &all, None) else { return Ok(()) };
            let counts: Vec<usize> =
                plan.writing().iter().map(|&writer| plan.clients(writer).len()).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), plan.computing().len());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
            prop_assert!(plan.writing().iter().all(|rank| !plan.writer_of.contains_key(rank)));
        }
    }
}
