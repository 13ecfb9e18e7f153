use crate::{EBADF, completion, completions, number, ring};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};
use wattio_ring::{Back, Completion, Part, Reach, Wait};

/// A file without a name, for direct I/O where the file system has it.
fn file() -> File {
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder of cargo's");
    let flags = fcntl_getfl(&file).expect("flags");
    if let Err(error) = fcntl_setfl(&file, flags | OFlags::DIRECT) {
        eprintln!("without direct I/O: {error}");
    }
    file
}

fn random(seed: u64, blocks: usize) -> Pages {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pages = Pages::zeroed(blocks);
    random.fill(pages.as_bytes_mut());
    pages
}

fn pages(completion: Completion) -> Pages {
    match completion.back {
        Back::Pages(pages) => pages,
        other => panic!("pages come back, not {other:?}"),
    }
}

#[test]
fn what_is_gathered_is_read_back() {
    let Some(mut ring) = ring(8) else { return };
    let file = ring.add(file()).unwrap();
    let (one, two) = (Arc::new(random(1, 5)), Arc::new(random(2, 3)));
    let parts = vec![Part::blocks(one.clone(), 1..4), Part::whole(two.clone())];
    let expected: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes().to_vec()).collect();
    ring.write(7, file, BLOCK as u64, parts, Reach::Medium);
    let written = completion(&mut ring);
    assert_eq!((written.token, written.what), (7, "write"));
    assert_eq!(written.result.unwrap(), 6 * BLOCK);
    let Back::Gathered { head, parts } = written.back else { panic!("{:?}", written.back) };
    assert!(head.is_empty());
    assert!(Arc::ptr_eq(&parts[0].clone().into_pages(), &one));
    ring.fdatasync(8, file);
    assert_eq!(completion(&mut ring).result.unwrap(), 0);
    ring.fsync(8, file);
    assert_eq!(completion(&mut ring).result.unwrap(), 0);
    ring.read(9, file, BLOCK as u64, random(3, 8), 1..7);
    let read = completion(&mut ring);
    assert_eq!(*read.result.as_ref().unwrap(), 6 * BLOCK);
    let read = pages(read);
    assert_eq!(&read.as_bytes()[BLOCK..7 * BLOCK], expected);
    assert_eq!((read.block(0), read.block(7)), (random(3, 8).block(0), random(3, 8).block(7)));
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_read_past_the_end_tells_what_there_is() {
    let Some(mut ring) = ring(8) else { return };
    let file = file();
    file.set_len(2 * BLOCK as u64 + 100).unwrap();
    let file = ring.add(file).unwrap();
    for (offset, count) in [(0, 2 * BLOCK + 100), (2 * BLOCK, 100), (3 * BLOCK, 0)] {
        ring.read(1, file, offset as u64, Pages::zeroed(4), 0..4);
        assert_eq!(completion(&mut ring).result.unwrap(), count, "at {offset}");
    }
}

#[test]
fn more_parts_than_one_call_takes_are_written_whole() {
    let Some(mut ring) = ring(4) else { return };
    let file = ring.add(file()).unwrap();
    let data = Arc::new(random(4, 1500));
    let parts = (0..1500).map(|block| Part::blocks(data.clone(), block..block + 1)).collect();
    ring.write(1, file, 0, parts, Reach::Device);
    assert_eq!(completion(&mut ring).result.unwrap(), 1500 * BLOCK);
    ring.read(2, file, 0, Pages::zeroed(1500), 0..1500);
    assert!(pages(completion(&mut ring)) == *data);
}

/// Two entries for submissions, eight for completions: what does not fit waits on this side or in
/// the kernel, and nothing is lost.
#[test]
fn more_is_under_way_than_the_ring_has_room_for() {
    let Some(mut ring) = ring(2) else { return };
    let file = ring.add(file()).unwrap();
    let data = Arc::new(random(5, 64));
    ring.write(0, file, 0, vec![Part::whole(data.clone())], Reach::Device);
    completion(&mut ring);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
    let blocks: Vec<usize> = (0..700).map(|_| random.random_range(0..64)).collect();
    for (token, &block) in blocks.iter().enumerate() {
        ring.read(token as u64, file, (block * BLOCK) as u64, Pages::zeroed(1), 0..1);
    }
    for _ in 0..50 {
        ring.enter(Wait::Poll).unwrap();
    }
    assert_eq!(ring.in_flight(), 700);
    let mut tokens = BTreeSet::new();
    for completion in completions(&mut ring, 700) {
        let token = completion.token;
        assert_eq!(*completion.result.as_ref().unwrap(), BLOCK);
        assert_eq!(pages(completion).block(0), data.block(blocks[token as usize]));
        assert!(tokens.insert(token), "{token} completed twice");
    }
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn what_cannot_begin_gives_its_memory_back() {
    let Some(mut ring) = ring(2) else { return };
    let closed = ring.add(file()).unwrap();
    ring.close(closed);
    ring.read(3, closed, 0, random(7, 1), 0..1);
    let refused = completion(&mut ring);
    assert_eq!((refused.token, number(&refused)), (3, Some(EBADF)));
    assert!(pages(refused) == random(7, 1));
    let open = ring.add(file()).unwrap();
    ring.read(4, open, 0, random(8, 1), 1..1);
    let empty = completion(&mut ring);
    assert_eq!(empty.result.unwrap(), 0);
}

#[test]
fn an_error_keeps_its_number_and_says_what_was_done() {
    let Some(mut ring) = ring(2) else { return };
    let read_only = ring.add(File::open("/dev/null").unwrap()).unwrap();
    let parts = vec![Part::whole(Arc::new(Pages::zeroed(1)))];
    ring.write(1, read_only, 0, parts, Reach::Device);
    let refused = completion(&mut ring);
    assert_eq!(number(&refused), Some(EBADF));
    let message = refused.explained().unwrap_err().to_string();
    assert!(message.starts_with("write: "), "{message}");
}
