//! The long form of `simulation.rs`: some 890,000 requests, 8,300 crashes. With
//! `WATTIO_SEED`, the first seed, it is four times as long; a failure names the seed to replay.

mod world;

use std::ops::Range;
use world::stories;

/// So many seeds where a first one is asked for, else a quarter: a minute and a half of a core.
fn seeds(count: u64) -> Range<u64> {
    let asked = std::env::var("WATTIO_SEED").ok().and_then(|seed| seed.parse().ok());
    asked.map_or(1_000_000..1_000_000 + count / 4, |first: u64| first..first + count)
}

#[test]
#[ignore = "runs for minutes"]
fn nothing_durable_is_lost_when_the_power_fails() {
    stories::power_fails(seeds(500));
}

#[test]
#[ignore = "runs for minutes"]
fn nothing_durable_is_lost_when_the_power_fails_often() {
    stories::power_fails_often(seeds(200));
}

#[test]
#[ignore = "runs for minutes"]
fn a_full_volume_says_so_and_never_wedges() {
    stories::full(seeds(250));
}

#[test]
#[ignore = "runs for minutes"]
fn a_mirror_survives_the_loss_of_either_device() {
    stories::mirror(seeds(200));
}

#[test]
#[ignore = "runs for minutes"]
fn damage_is_repaired_from_the_mirror() {
    stories::damaged_mirror(seeds(100));
}

#[test]
#[ignore = "runs for minutes"]
fn damage_without_a_mirror_costs_the_blocks_it_hit_and_no_others() {
    stories::damaged(seeds(100));
}

#[test]
#[ignore = "runs for minutes"]
fn a_superblock_that_is_lost_costs_nothing() {
    stories::superblocks_rot(seeds(300));
}

#[test]
#[ignore = "runs for minutes"]
fn what_is_lost_with_the_first_copies_of_superblocks_is_told() {
    stories::first_copies_rot(seeds(100));
}

#[test]
#[ignore = "runs for minutes"]
fn a_disk_that_fails_ends_writes_and_loses_nothing_durable() {
    stories::dying_disk(seeds(200));
}

#[test]
#[ignore = "runs for minutes"]
fn a_device_that_is_replaced_is_filled_and_then_counts() {
    stories::rebuild(seeds(150));
}

#[test]
#[ignore = "runs for minutes"]
fn a_device_counts_once_a_crash_cannot_change_that() {
    stories::rebuild_ends_as_the_other_device_fails(seeds(150));
}

#[test]
#[ignore = "runs for minutes"]
fn a_device_that_is_filled_from_a_failing_one_has_all_of_it_before_it_counts_alone() {
    stories::rebuild_from_a_failing_device(seeds(150));
}
