//! Block traces: readers that stream records with bounded memory, and operations on whole traces:
//! scale, describe, convert.
//!
//! This crate is separate from `sim` so that the simulator itself touches no files.
//!
//! ```
//! let text = "1,host,0,Read,4096,512,0\n11,host,0,Write,0,512,0\n";
//! let records: Result<Vec<_>, _> = wattio_trace::Reader::from_bytes(text)?.collect();
//! assert_eq!(records?[1].time_ns, 1_000);
//! # Ok::<(), wattio_trace::TraceError>(())
//! ```

mod columns;
mod convert;
mod error;
mod excerpt;
mod format;
mod format_choice;
mod formats;
mod info;
mod input;
mod order;
mod reader;
mod record;
mod scale;
mod segments;
mod sink;
mod sizes;
mod source;

pub use columns::Columns;
pub use convert::{convert, write};
pub use error::{Position, TraceError};
pub use excerpt::Excerpt;
pub use format::{Format, UnknownFormat};
pub use format_choice::Reading;
pub use info::{IdleGaps, Info, Rate, info, info_json};
pub(crate) use input::Input;
pub use reader::{Reader, open, open_as, open_once};
pub use record::{Kind, Record};
pub use scale::Scaled;
pub use segments::{Segment, segments, segments_json};
pub use sink::Skipped;
pub use sizes::{SizeCount, Sizes};
