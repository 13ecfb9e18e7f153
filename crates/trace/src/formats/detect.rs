//! Detection of the format from the content.

use crate::error::show;
use crate::{Format, TraceError};

/// Whether a beginning looks like a format, and which version of it.
type Recognise = fn(&[u8]) -> Option<Format>;

/// Find the format by the beginning of the content.
pub(crate) fn detect(head: &[u8]) -> Result<Format, TraceError> {
    // Order matters: a magic word is certain, a shape of columns is the last resort.
    let tests: [Recognise; 7] = [
        super::wtrace::recognise,
        super::srt::recognise,
        super::fio::recognise,
        super::vscsi::recognise,
        super::blkparse::recognise,
        super::rows::recognise,
        super::disksim::recognise,
    ];
    tests.iter().find_map(|test| test(head)).ok_or_else(|| {
        let shown = head.len().min(40);
        let mut problem = format!("it begins with {}", show(&head[..shown]));
        if head.get(TAR_MAGIC_AT..).is_some_and(|rest| rest.starts_with(TAR_MAGIC)) {
            problem += ", a tar archive, which must be unpacked first";
        }
        TraceError::UnrecognisedFormat { problem }
    })
}

/// Tencent's traces come as tar archives; the magic word follows the first file's name.
const TAR_MAGIC: &[u8] = b"ustar";
const TAR_MAGIC_AT: usize = 257;
