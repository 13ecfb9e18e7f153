//! The formats, and how one is told from another by its content.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::formats;
use crate::{Input, TraceError};

/// Format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
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
    /// fio iolog, version 2.
    Fio2,
    /// fio iolog, version 3.
    Fio3,
    /// Text of `blkparse`.
    Blkparse,
    /// The project's own compact columns.
    Wtrace,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 11] = [
        Self::Vscsi,
        Self::Vscsi2,
        Self::Msr,
        Self::DiskSim,
        Self::Srt,
        Self::Alibaba,
        Self::Tencent,
        Self::Fio2,
        Self::Fio3,
        Self::Blkparse,
        Self::Wtrace,
    ];

    /// The forms `convert` can write.
    pub const WRITABLE: [Self; 5] = [Self::Wtrace, Self::Msr, Self::Vscsi, Self::Fio2, Self::Fio3];

    /// The names of all forms, for messages.
    pub(crate) const LIST: &str = "vscsi, vscsi2, msr, disksim, srt, alibaba, tencent, fio2, fio3, \
                                   blkparse and wtrace (plain, gz, xz or zst)";

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
            Self::Fio2 => "fio2",
            Self::Fio3 => "fio3",
            Self::Blkparse => "blkparse",
            Self::Wtrace => "wtrace",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Form {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        Self::ALL.into_iter().find(|form| form.name() == text).ok_or_else(|| {
            TraceError::Setting(format!(
                "{text:?} is not a form of trace; known are {}",
                Self::LIST
            ))
        })
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Bytes looked at to find the format; the formats are plain within their first lines.
pub(crate) const SNIFF_BYTES: usize = 64 * 1024;

/// Whether a beginning looks like a format, and which version of it.
type Recognise = fn(&[u8]) -> Option<Form>;

/// Find the format by the beginning of the content.
pub(crate) fn detect(input: &mut Input) -> Result<Form, TraceError> {
    let head = input.fill(SNIFF_BYTES).map_err(TraceError::Source)?;
    if head.is_empty() {
        return Err(TraceError::Empty);
    }
    // Order matters: a magic word is certain, a shape of columns is the last resort.
    let tests: [Recognise; 9] = [
        formats::wtrace::recognise,
        formats::srt::recognise,
        formats::fio::recognise,
        formats::vscsi::recognise,
        formats::blkparse::recognise,
        formats::msr::recognise,
        formats::alibaba::recognise,
        formats::tencent::recognise,
        formats::disksim::recognise,
    ];
    tests.iter().find_map(|test| test(head)).ok_or_else(|| {
        let shown = head.len().min(40);
        let mut problem = format!("it begins with {}", show(&head[..shown]));
        if head.get(TAR_MAGIC_AT..).is_some_and(|rest| rest.starts_with(TAR_MAGIC)) {
            problem += ", a tar archive, which must be unpacked first";
        }
        TraceError::UnknownForm { problem }
    })
}

/// Tencent's traces come as tar archives; the magic word stands after the first file's name.
const TAR_MAGIC: &[u8] = b"ustar";
const TAR_MAGIC_AT: usize = 257;

/// Bytes of a trace in a message: printable, cut, quoted.
pub(crate) fn show(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    let cut = bytes.len() > SHOWN_BYTES;
    let text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    format!("\"{text}{}\"", if cut { "..." } else { "" })
}
