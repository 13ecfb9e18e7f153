//! A device while the volume is being made or opened, with nothing else going on.

use std::io;
use wattio_pages::{BLOCK, Pages};

/// A device that is read and written in whole blocks, one thing at a time.
pub trait Disk {
    /// Its size.
    fn bytes(&self) -> u64;

    /// What messages call it; `None`: it has a number and no name.
    fn name(&self) -> Option<String> {
        None
    }

    /// Fills `pages` from `offset`, in bytes.
    ///
    /// # Errors
    /// When not all of it could be read.
    fn read_at(&mut self, offset: u64, pages: &mut Pages) -> io::Result<()>;

    /// Writes `pages` to `offset`, in bytes.
    ///
    /// # Errors
    /// When not all of it could be written.
    fn write_at(&mut self, offset: u64, pages: &Pages) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// When that is not certain.
    fn flush(&mut self) -> io::Result<()>;
}

/// Blocks as a device has them.
pub(crate) struct Copy {
    /// What they hold, zeros for those that cannot be read.
    pub(crate) pages: Pages,
    /// Those that cannot be read, by their place in `pages`.
    pub(crate) unreadable: Vec<usize>,
}

impl Copy {
    /// So many of the blocks, from block `from` on.
    pub(crate) fn part(&self, from: usize, blocks: usize) -> Self {
        let bytes = from * BLOCK..(from + blocks) * BLOCK;
        let unreadable = self.unreadable.iter().filter(|&&at| (from..from + blocks).contains(&at));
        Self {
            pages: Pages::from_slice(&self.pages.as_bytes()[bytes]),
            unreadable: unreadable.map(|at| at - from).collect(),
        }
    }
}

/// Reads blocks, each by itself where they cannot be read at once: what a device cannot read while it
/// reads others is damaged.
///
/// # Errors
/// When none can be read, for that says nothing of what they hold.
pub(crate) fn read_blocks(disk: &mut dyn Disk, offset: u64, blocks: usize) -> io::Result<Copy> {
    let mut pages = Pages::zeroed(blocks);
    let Err(error) = disk.read_at(offset, &mut pages) else {
        return Ok(Copy { pages, unreadable: Vec::new() });
    };
    let mut fails = |&at: &usize| {
        let mut page = Pages::zeroed(1);
        let result = disk.read_at(offset + (at * BLOCK) as u64, &mut page);
        if result.is_err() {
            page.as_bytes_mut().fill(0);
        }
        pages.block_mut(at).copy_from_slice(page.block(0));
        result.is_err()
    };
    let mut unreadable: Vec<usize> = (0..blocks).filter(&mut fails).collect();
    if unreadable.len() == blocks {
        return Err(error);
    }
    // A device that fails for a moment has damaged nothing.
    unreadable.retain(&mut fails);
    Ok(Copy { pages, unreadable })
}
