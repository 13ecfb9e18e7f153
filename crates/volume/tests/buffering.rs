//! Writes that are answered before the log has them.

mod memory;

use memory::{complete, new_volume};
use wattio_pages::Pages;
use wattio_volume::{Geometry, Part, Request, Volume};

const WRITES: u64 = 10_000;
const BUFFERED: u64 = 50;

/// The answers that have come.
fn answers(volume: &mut Volume) -> u64 {
    let replies = std::iter::from_fn(|| volume.next_reply());
    replies.inspect(|reply| assert!(reply.result.is_ok(), "{reply:?}")).count() as u64
}

/// A client that overwrote a few blocks faster than the device wrote was answered at once for ever:
/// only the blocks were counted, and every write of them was kept.
#[test]
fn what_is_written_again_and_again_takes_no_more_memory_than_there_is() {
    let (mut volume, mut disk) = new_volume(Geometry::for_blocks(1000, 64));
    volume.set_memory(0, BUFFERED << 12);
    for tag in 0..WRITES {
        let data = Part::whole(Pages::zeroed(1));
        volume.submit(tag, Request::Write { lba: 0, data, fua: false });
        volume.commit();
    }
    let at_once = answers(&mut volume);
    assert!((1..=BUFFERED).contains(&at_once), "{at_once}");
    assert_eq!(volume.buffered_blocks(), WRITES);
    let mut later = 0;
    while volume.buffered_blocks() > 0 {
        while let Some(io) = volume.next_io() {
            complete(&mut volume, &mut disk, io);
        }
        volume.hurry();
        for class in wattio_volume::Class::ALL {
            volume.background(class);
        }
        volume.commit();
        later += answers(&mut volume);
    }
    assert_eq!(at_once + later, WRITES);
}
