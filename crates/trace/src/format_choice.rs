//! How a file is to be read: as what it looks like, or as its user says.

use crate::error::show;
use crate::formats::detect::detect;
use crate::formats::{self, Decode, rows};
use crate::input::{Input, SNIFF_BYTES};
use crate::{Columns, Format, TraceError};

/// How a file is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As the format that its beginning looks like.
    #[default]
    Detected,
    /// As this format.
    As(Format),
    /// As rows of these columns.
    Columns(Box<Columns>),
}

impl Reading {
    /// What a user asked for by the name of a format or a description of columns.
    ///
    /// # Errors
    /// Both are given, or one of them is not known.
    pub fn new(format: Option<&str>, columns: Option<&str>) -> Result<Self, TraceError> {
        match (format, columns) {
            (None, None) => Ok(Self::Detected),
            (Some(format), None) => Ok(Self::As(format.parse()?)),
            (None, Some(columns)) => Ok(Self::Columns(Box::new(columns.parse()?))),
            (Some(_), Some(_)) => Err(TraceError::Setting(
                "format and columns exclude each other: columns describe a file of no known format"
                    .to_owned(),
            )),
        }
    }

    /// The format of a content and its decoder.
    pub(crate) fn of(&self, input: &mut Input) -> Result<(Format, Box<dyn Decode>), TraceError> {
        let head = input.fill(SNIFF_BYTES).map_err(TraceError::Source)?;
        if head.is_empty() {
            return Err(TraceError::Empty);
        }
        let format = match self {
            Self::Columns(columns) => {
                return Ok((Format::Columns, rows::described(columns)));
            }
            Self::As(format) => *format,
            Self::Detected => detect(head)?,
        };
        let begins = show(&head[..head.len().min(40)]);
        // What has a magic word or a header at its beginning is nothing without it.
        let has_beginning = !format.is_lines() && *self != Self::Detected;
        if has_beginning && detect(head).ok() != Some(format) {
            let problem =
                format!("the trace is not of the format {format}: it begins with {begins}");
            return Err(TraceError::Setting(problem));
        }
        let decoder = formats::decoder(format)
            .ok_or_else(|| TraceError::Setting(format!("{format} is not a format of its own")))?;
        Ok((format, decoder))
    }
}
