//! The published formats of rows.

use super::cut::{Cut, Separator};
use super::{Field, Rows};
use crate::columns::Clock;
use crate::{Columns, Format};

/// What is known of a published format.
pub(super) struct Known {
    pub(super) format: Format,
    pub(super) separator: Separator,
    /// The columns, as the header line names them where there is one.
    pub(super) names: &'static [&'static str],
    /// Whether further columns may follow.
    pub(super) more: bool,
    pub(super) columns: &'static str,
    /// If times are whole numbers only: the unit in nanoseconds. A truncated time is then an error.
    pub(super) whole_ns: Option<u64>,
    /// Columns that are whole numbers in every row; together with the word for the kind they
    /// identify the format.
    pub(super) telling: &'static [usize],
    /// Not used, but reveals a file that is cut within its last line.
    pub(super) last: Option<usize>,
}

/// - MSR Cambridge (SNIA IOTTA 388): Windows file time; the files hold one host each.
/// - Alibaba (github.com/alibaba/block-traces): no header line in the published files.
/// - Tencent (SNIA IOTTA, "Tencent Block Storage"): whole seconds, so that requests of one second
///   share one time, as the trace has it.
/// - SYSTOR '17 (SNIA IOTTA 4928, README): Unix time; a blank `IOType` had no answer and is left
///   out.
/// - SPC ("SPC Trace File Format Specification" 1.0.1; the UMass traces): further fields are
///   optional. The specification leaves the size of a block to the trace's own description; 512
///   bytes are taken.
/// - FIU (SNIA IOTTA 411, README): the digests of the data are not used.
pub(super) const KNOWN: [Known; 6] = [
    Known {
        format: Format::Msr,
        separator: Separator::Byte(b','),
        names: &["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"],
        more: false,
        columns: "time=Timestamp:filetime,op=Type:Read/Write,lba=Offset:bytes,size=Size:bytes,\
                  device=DiskNumber",
        whole_ns: None,
        telling: &[0],
        last: Some(6),
    },
    Known {
        format: Format::Alibaba,
        separator: Separator::Byte(b','),
        names: &["device_id", "opcode", "offset", "length", "timestamp"],
        more: false,
        columns: "time=timestamp:us,op=opcode:R/W,lba=offset:bytes,size=length:bytes,\
                  device=device_id",
        whole_ns: Some(1_000),
        telling: &[0],
        last: None,
    },
    Known {
        format: Format::Tencent,
        separator: Separator::Byte(b','),
        names: &["Timestamp", "Offset", "Size", "IOType", "VolumeID"],
        more: false,
        columns: "time=Timestamp:s,op=IOType:0/1,lba=Offset:sectors,size=Size:sectors,\
                  device=VolumeID",
        whole_ns: Some(1_000_000_000),
        telling: &[0, 1, 2, 4],
        last: None,
    },
    Known {
        format: Format::Systor17,
        separator: Separator::Byte(b','),
        names: &["Timestamp", "Response", "IOType", "LUN", "Offset", "Size"],
        more: false,
        columns: "time=Timestamp:s,op=IOType:R/W/,lba=Offset:bytes,size=Size:bytes,device=LUN",
        whole_ns: None,
        telling: &[3, 4, 5],
        last: None,
    },
    Known {
        format: Format::Spc,
        separator: Separator::Byte(b','),
        names: &["ASU", "LBA", "Size", "Opcode", "Timestamp"],
        more: true,
        columns: "time=Timestamp:s,op=Opcode:R/W,lba=LBA:sectors,size=Size:bytes,device=ASU",
        whole_ns: None,
        telling: &[0, 1, 2],
        last: None,
    },
    Known {
        format: Format::Fiu,
        separator: Separator::Blanks,
        names: &["timestamp", "pid", "process", "lba", "sectors", "op", "major", "minor", "md5"],
        more: true,
        columns: "time=timestamp:ns,op=op:R/W,lba=lba:sectors,size=sectors:sectors,\
                  device=major+minor",
        whole_ns: Some(1),
        telling: &[0, 1, 3, 4, 6, 7],
        last: None,
    },
];

impl Known {
    /// The reader of its rows. `None` for an invalid description; a test checks them all.
    pub(super) fn rows(&self) -> Option<Rows> {
        let columns: Columns = self.columns.parse().ok()?;
        let names: Vec<_> = self.names.iter().map(|name| name.as_bytes()).collect();
        let mut rows = Rows::new(&columns, self.separator, &names, str::to_owned).ok()?;
        rows.width = (self.names.len(), self.more);
        rows.last = self.last.map(|at| Field { at, name: self.names[at].to_owned() });
        if let Some(unit_ns) = self.whole_ns {
            rows.clock = Clock::Whole(unit_ns);
        }
        Some(rows)
    }

    pub(super) fn is_header(&self, rows: &Rows, cut: &Cut, text: &[u8]) -> bool {
        [0, rows.op.at].iter().all(|&at| {
            at < cut.count() && cut.field(text, at).eq_ignore_ascii_case(self.names[at].as_bytes())
        })
    }
}
