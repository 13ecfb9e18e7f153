//! The volume under clients and disks that do what they like, from seeds. A failure names its
//! seed; the long form of these tests is in `conformance_simulation.rs`.

mod world;

use world::stories;

#[test]
fn nothing_durable_is_lost_when_the_power_fails() {
    stories::power_fails(0..12);
}

#[test]
fn nothing_durable_is_lost_when_the_power_fails_often() {
    stories::power_fails_often(0..12);
}

#[test]
fn a_full_volume_says_so_and_never_wedges() {
    stories::full(0..6);
}

#[test]
fn a_mirror_survives_the_loss_of_either_device() {
    stories::mirror(0..12);
}

#[test]
fn damage_is_repaired_from_the_mirror() {
    stories::damaged_mirror(0..6);
}

#[test]
fn damage_without_a_mirror_costs_the_blocks_it_hit_and_no_others() {
    stories::damaged(0..6);
}

#[test]
fn a_superblock_that_is_lost_costs_nothing() {
    stories::superblocks_rot(0..24);
}

#[test]
fn what_is_lost_with_the_first_copies_of_superblocks_is_told() {
    stories::first_copies_rot(0..16);
}

#[test]
fn a_disk_that_fails_ends_writes_and_loses_nothing_durable() {
    stories::dying_disk(0..12);
}

#[test]
fn a_device_that_is_replaced_is_filled_and_then_counts() {
    stories::rebuild(0..12);
}

#[test]
fn a_device_counts_once_a_crash_cannot_change_that() {
    stories::rebuild_ends_as_the_other_device_fails(0..12);
}

#[test]
fn a_device_that_is_filled_from_a_failing_one_has_all_of_it_before_it_counts_alone() {
    stories::rebuild_from_a_failing_device(0..12);
}
