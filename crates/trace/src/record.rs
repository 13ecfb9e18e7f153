//! One request of a block trace, whatever file it came from.

/// Whether a request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Data goes to the client.
    Read,
    /// Data comes from the client.
    Write,
}

/// One block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Arrival in nanoseconds since the first request of the trace.
    pub time_ns: u64,
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Device or volume number, as the trace counts them.
    pub device: u32,
    /// Read or write.
    pub kind: Kind,
}
