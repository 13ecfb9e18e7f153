//! Background work of volumes under budgets.

use crate::{SIZE, Target, pattern, wait_until};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Seeded;
use wattio_target::status::VolumeStatus;

const HALF: usize = SIZE as usize / 2;

fn volume(target: &Target) -> VolumeStatus {
    target.server.as_ref().unwrap().status()[0].volumes[0].clone()
}

/// Writes in random order over half of the volume, until its segments have been used many times.
fn overwrite(target: &Target, seed: u64) -> Vec<u8> {
    let mut random = Seeded::seed_from_u64(seed);
    let mut client = target.client();
    let mut expected = pattern(seed, HALF);
    for (at, part) in (0_u64..).zip(expected.chunks(1 << 20)) {
        assert_eq!(client.write_at(at << 20, part, 0).unwrap(), 0);
    }
    for round in 0..1000 {
        let at = random.random_range(0..HALF / 4096 - 4) * 4096;
        let bytes = pattern(round, 4 * 4096);
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(client.write_at(at as u64, &bytes, 0).unwrap(), 0);
    }
    client.flush();
    expected
}

/// A scrub with a budget waited for ever behind collecting without one: what may be done now came
/// after what might be done later. Clients are served all the while, as what they wait for is done
/// whatever its budget, and the volume closes.
#[test]
fn a_class_without_a_budget_holds_up_neither_clients_nor_the_others() {
    let Some(mut target) = Target::start(1) else { return };
    let handle = target.server.as_ref().unwrap().handle();
    handle.set_budgets([Some(0.0), Some(0.0), Some(0.5), Some(0.0)]);
    let expected = overwrite(&target, 3);
    let collected = volume(&target).collected_segments;
    assert!(collected > 0, "{:?}", volume(&target));
    assert_eq!(handle.scrub(None), Some(vec!["disk".to_owned()]));
    wait_until("the scrub has been through", || volume(&target).scrub_tours == 1);
    assert!(target.client().read_at(0, HALF as u32) == expected);
    handle.set_budgets([Some(0.0); 4]);
    target.restart();
    assert!(target.client().read_at(0, HALF as u32) == expected);
}
