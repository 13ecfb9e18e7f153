//! The formats by name.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// CloudPhysics vscsi, version 1: 32-byte records.
    Vscsi,
    /// CloudPhysics vscsi, version 2: 40-byte records with the response time.
    Vscsi2,
    /// MSR Cambridge CSV.
    Msr,
    /// DiskSim ASCII, in milliseconds or (as MQSim reads it) in nanoseconds.
    DiskSim,
    /// HP SRT 1.3.
    Srt,
    /// Alibaba block traces, CSV.
    Alibaba,
    /// Tencent block traces, CSV.
    Tencent,
    /// SYSTOR '17 block traces, CSV.
    Systor17,
    /// SPC (Storage Performance Council), CSV.
    Spc,
    /// FIU block traces, text.
    Fiu,
    /// fio iolog, version 2.
    Fio2,
    /// fio iolog, version 3.
    Fio3,
    /// Text of `blkparse`.
    Blkparse,
    /// The project's own compact columns.
    Wtrace,
    /// Rows whose columns the user described.
    Columns,
}

impl Format {
    /// All formats that can be asked for by name.
    pub const ALL: [Self; 14] = [
        Self::Vscsi,
        Self::Vscsi2,
        Self::Msr,
        Self::DiskSim,
        Self::Srt,
        Self::Alibaba,
        Self::Tencent,
        Self::Systor17,
        Self::Spc,
        Self::Fiu,
        Self::Fio2,
        Self::Fio3,
        Self::Blkparse,
        Self::Wtrace,
    ];

    /// The formats `convert` can write.
    pub const WRITABLE: [Self; 5] = [Self::Wtrace, Self::Msr, Self::Vscsi, Self::Fio2, Self::Fio3];

    /// The names of all formats, for messages.
    pub(crate) const LIST: &str = "vscsi, vscsi2, msr, disksim, srt, alibaba, tencent, systor17, \
                                   spc, fiu, fio2, fio3, blkparse and wtrace (plain, gz, xz or zst)";

    /// Whether each line can be read by itself, without a header.
    pub(crate) fn is_lines(self) -> bool {
        match self {
            Self::Msr
            | Self::DiskSim
            | Self::Alibaba
            | Self::Tencent
            | Self::Systor17
            | Self::Spc
            | Self::Fiu
            | Self::Blkparse
            | Self::Columns => true,
            Self::Vscsi | Self::Vscsi2 | Self::Srt | Self::Fio2 | Self::Fio3 | Self::Wtrace => {
                false
            }
        }
    }

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vscsi => "vscsi",
            Self::Vscsi2 => "vscsi2",
            Self::Msr => "msr",
            Self::DiskSim => "disksim",
            Self::Srt => "srt",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Systor17 => "systor17",
            Self::Spc => "spc",
            Self::Fiu => "fiu",
            Self::Fio2 => "fio2",
            Self::Fio3 => "fio3",
            Self::Blkparse => "blkparse",
            Self::Wtrace => "wtrace",
            Self::Columns => "columns",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no format of this name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a trace format; known are {known}", known = Format::LIST)]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let named = Self::ALL.into_iter().find(|format| format.name() == text);
        named.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
