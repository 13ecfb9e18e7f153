//! Writes numbers into a block and reads them from it.

/// Writes numbers one after another; the block is known to be large enough.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }
}

/// Reads numbers one after another: `None` beyond the end.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// Puts magic and CRC-32C in front of a block whose contents begin at byte 8.
pub(super) fn seal(block: &mut [u8], magic: [u8; 4]) {
    let crc = crc32c::crc32c(&block[8..]);
    block[..4].copy_from_slice(&magic);
    block[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// The contents of a block that was sealed with `magic`, if it is whole.
pub(super) fn unseal(block: &[u8], magic: [u8; 4]) -> Option<Reader<'_>> {
    let mut reader = Reader::new(block);
    let same = reader.take()? == magic;
    let crc = reader.u32()?;
    (same && crc == crc32c::crc32c(reader.bytes)).then_some(reader)
}
