//! What clients may see: the plain truth that the volume is held against.

use wattio_pages::BLOCK;

/// A write of a block; 0 is what it was at first: zeros.
pub type Version = u32;

/// What each block of the volume may hold.
#[derive(Debug)]
pub struct Model {
    blocks: Vec<History>,
    /// Writes that were answered: block and version, in the order of the answers.
    answered: Vec<(u64, Version)>,
    next: Version,
}

#[derive(Debug, Default)]
struct History {
    /// Every version since the volume was opened, and whether it is zeros.
    versions: Vec<(Version, bool)>,
    /// The last one that was answered.
    answered: Version,
    /// The last one that is durable.
    durable: Version,
}

impl Model {
    pub fn new(blocks: u64) -> Self {
        let history = || History { versions: vec![(0, true)], answered: 0, durable: 0 };
        Self {
            blocks: std::iter::repeat_with(history).take(blocks as usize).collect(),
            answered: Vec::new(),
            next: 1,
        }
    }

    /// There are more blocks, of zeros.
    pub fn grow(&mut self, blocks: u64) {
        self.blocks.extend(Self::new(blocks).blocks.drain(self.blocks.len()..));
    }

    /// A client begins to write a block; `zeros`: it will read as zeros.
    pub fn begin_write(&mut self, lba: u64, zeros: bool) -> Version {
        let version = self.next;
        self.next += 1;
        self.blocks[lba as usize].versions.push((version, zeros));
        version
    }

    /// A write was answered.
    pub fn answer(&mut self, lba: u64, version: Version) {
        let block = &mut self.blocks[lba as usize];
        block.answered = block.answered.max(version);
        self.answered.push((lba, version));
    }

    /// How many writes were answered so far: what a flush that begins now covers.
    pub fn answered(&self) -> usize {
        self.answered.len()
    }

    /// What was answered, up to `count`, is durable.
    pub fn durable(&mut self, count: usize) {
        for at in 0..count {
            let (lba, version) = self.answered[at];
            self.durable_write(lba, version);
        }
    }

    /// A write that was answered as durable by itself.
    pub fn durable_write(&mut self, lba: u64, version: Version) {
        let block = &mut self.blocks[lba as usize];
        block.durable = block.durable.max(version);
    }

    /// The version that a read which begins now must see, or a later one.
    pub fn oldest_for_read(&self, lba: u64) -> Version {
        self.blocks[lba as usize].answered
    }

    /// The version that a block must hold after a loss of power, or a later one.
    pub fn oldest_after_crash(&self, lba: u64) -> Version {
        self.blocks[lba as usize].durable
    }

    /// The version that the contents of a block are.
    ///
    /// # Panics
    /// If they are none that the block may hold: none from `oldest` on.
    pub fn check(&self, lba: u64, contents: &[u8; BLOCK], oldest: Version, seed: u64) -> Version {
        let found = read_version(contents);
        let may_be = |&&(version, zeros): &&(Version, bool)| {
            version >= oldest && if zeros { found.is_none() } else { found == Some((lba, version)) }
        };
        let versions = &self.blocks[lba as usize].versions;
        let Some(&(version, _)) = versions.iter().rev().find(may_be) else {
            panic!(
                "seed {seed}: block {lba} holds {found:?}, and may hold {versions:?} from {oldest}"
            );
        };
        version
    }

    /// After a loss of power, a block was found to hold a version: it is what it holds now.
    pub fn settle(&mut self, lba: u64, version: Version) {
        let block = &mut self.blocks[lba as usize];
        block.versions.retain(|&(kept, _)| kept == version);
        (block.answered, block.durable) = (version, version);
    }

    /// Nothing is answered any more that was not: the volume was opened anew.
    pub fn forget_answers(&mut self) {
        self.answered.clear();
    }
}

/// What a block holds when a version of it is written: something that repeats, from a place on that
/// the version has, and noise before it, so that blocks can be compressed to any size or not at all.
pub fn fill(contents: &mut [u8; BLOCK], lba: u64, version: Version) {
    let name = lba << 32 | u64::from(version);
    let mut word = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let noise = (word >> 60) as usize * (BLOCK / 14);
    for (at, chunk) in contents.chunks_exact_mut(16).enumerate() {
        chunk[..8].copy_from_slice(&name.to_le_bytes());
        if at * 16 < noise {
            word = word.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
            chunk[..8].copy_from_slice(&(name ^ if at == 0 { 0 } else { word >> 3 }).to_le_bytes());
        }
        chunk[8..].copy_from_slice(&word.to_le_bytes());
    }
}

/// Whose block and which version this is; `None`: zeros.
///
/// # Panics
/// If it is neither zeros nor any version of any block: torn.
fn read_version(contents: &[u8; BLOCK]) -> Option<(u64, Version)> {
    if contents.iter().all(|&byte| byte == 0) {
        return None;
    }
    let (first, _) = contents.split_first_chunk().expect("a block is longer than a number");
    let word = u64::from_le_bytes(*first);
    let (lba, version) = (word >> 32, word as u32);
    let mut whole = [0; BLOCK];
    fill(&mut whole, lba, version);
    assert!(&whole == contents, "a torn block was served: it began as version {version} of {lba}");
    Some((lba, version))
}
