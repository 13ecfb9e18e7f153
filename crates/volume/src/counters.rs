//! What a volume counts.

/// Counts since the volume was opened, in blocks of 4096 bytes where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks that clients wrote.
    pub client_blocks: u64,
    /// Writes of clients that were refused because the devices are full.
    pub refused_writes: u64,
    /// Bytes that were stored of what clients wrote: fewer where the volume is compressed.
    pub stored_bytes: u64,
    /// Blocks of devices that this data took, besides headers.
    pub client_data_blocks: u64,
    /// Blocks that garbage collection moved.
    pub moved_blocks: u64,
    /// Headers of records.
    pub header_blocks: u64,
    /// Blocks of checkpoints.
    pub checkpoint_blocks: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
    /// Segments that garbage collection emptied.
    pub collected_segments: u64,
    /// Blocks that the scrub has read.
    pub scrubbed_blocks: u64,
    /// Blocks that were read from memory.
    pub cache_hit_blocks: u64,
    /// Blocks that were not.
    pub cache_miss_blocks: u64,
    /// Blocks that were found damaged.
    pub damaged_blocks: u64,
    /// Blocks that were copied to a device that is being filled.
    pub rebuilt_blocks: u64,
    /// Blocks that were repaired from the other device, or from memory: pages of the map.
    pub repaired_blocks: u64,
}

impl Counters {
    /// Blocks written to each device for each block that clients wrote; `None` if they wrote none.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.client_data_blocks
            + self.moved_blocks
            + self.header_blocks
            + self.checkpoint_blocks;
        (self.client_blocks > 0).then(|| written as f64 / self.client_blocks as f64)
    }
}
