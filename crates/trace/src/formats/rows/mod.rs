//! Formats whose rows have the same columns throughout: one reader for all of them.
//!
//! A known format is an entry of [`KNOWN`], in the language that users describe their own files in
//! ([`Columns`]).

use super::codec::Decode;
use super::text::{
    Lines, ParseLine, decimal, device_of, first_line, length, offset, time_ns, whole, whole_32,
};
use crate::columns::{Clock, Meaning, Place, Unit, Words};
use crate::error::show;
use crate::input::Line;
use crate::sink::Sink;
use crate::{Columns, Format, Record};

mod cut;
mod known;

use cut::{Cut, Separator};
use known::{KNOWN, Known};

/// Which of the known formats the first line has the columns of.
pub(crate) fn recognise(head: &[u8]) -> Option<Format> {
    let text = first_line(head);
    let fits = |known: &&Known| {
        let Some(rows) = known.rows() else { return false };
        let mut cut = Cut::default();
        if rows.cut(text, &mut cut).is_err() {
            return false;
        }
        let number = |&at: &usize| whole(cut.field(text, at), "").is_ok();
        // Formats with fractions of a second have them in the first row of every file; without
        // them, the columns are too common to identify a format.
        let time = cut.field(text, rows.time.at);
        let timed = matches!(rows.clock, Clock::Whole(_))
            || time.contains(&b'.') && decimal(time, 9, "").is_ok();
        let data = timed
            && known.telling.iter().all(number)
            && rows.words.meaning(cut.field(text, rows.op.at)).is_ok();
        data || known.is_header(&rows, &cut, text)
    };
    KNOWN.iter().find(fits).map(|known| known.format)
}

/// The decoder of a format that is one of rows.
pub(super) fn decoder(format: Format) -> Option<Box<dyn Decode>> {
    let known = KNOWN.iter().find(|known| known.format == format)?;
    let source = Source::Known(known, known.rows()?);
    Some(Box::new(Lines::new(Parser { source, cut: Cut::default() })))
}

/// The decoder of a file that its user described.
pub(crate) fn described(columns: &Columns) -> Box<dyn Decode> {
    let source = Source::Described(columns.clone());
    Box::new(Lines::new(Parser { source, cut: Cut::default() }))
}

/// A column and what it is called in messages.
#[derive(Clone, Debug)]
struct Field {
    at: usize,
    name: String,
}

/// How rows become records.
struct Rows {
    separator: Separator,
    /// How many columns there are, and whether there may be more.
    width: (usize, bool),
    time: Field,
    clock: Clock,
    op: Field,
    words: Words,
    lba: Field,
    lba_unit: Unit,
    size: Field,
    size_unit: Unit,
    device: Vec<Field>,
    last: Option<Field>,
}

impl Rows {
    /// Find the columns among `names`, the header; `called` makes the name for messages of the name
    /// in the header.
    fn new(
        columns: &Columns,
        separator: Separator,
        names: &[&[u8]],
        called: impl Fn(&str) -> String,
    ) -> Result<Self, String> {
        let field = |key: &str, place: &Place| {
            Ok::<_, String>(match place {
                Place::At(at) => Field { at: *at, name: format!("column {at} ({key})") },
                Place::Named(name) => Field { at: position(names, name)?, name: called(name) },
            })
        };
        let (time, op) = (field("time", &columns.time.0)?, field("op", &columns.op.0)?);
        let (lba, size) = (field("lba", &columns.lba.0)?, field("size", &columns.size.0)?);
        let device: Vec<_> =
            columns.device.iter().map(|each| field("device", each)).collect::<Result<_, _>>()?;
        let all = [&time, &op, &lba, &size];
        let most = all.into_iter().chain(&device).map(|field| field.at).max().unwrap_or(0);
        Ok(Self {
            separator,
            width: (most + 1, true),
            time,
            clock: columns.time.1,
            op,
            words: columns.op.1.clone(),
            lba,
            lba_unit: columns.lba.1,
            size,
            size_unit: columns.size.1,
            device,
            last: None,
        })
    }

    /// Split a row; an error if it has too few columns.
    #[inline]
    fn cut(&self, text: &[u8], cut: &mut Cut) -> Result<(), String> {
        cut.line(text, self.separator);
        let (width, more) = self.width;
        let count = cut.count();
        if count == width || more && count > width {
            return Ok(());
        }
        let least = if more { " at least" } else { "" };
        Err(format!("{count} columns in {}; {width} are needed{least}", show(text)))
    }

    #[inline]
    fn take(&self, text: &[u8], cut: &Cut, sink: &mut Sink) -> Result<(), String> {
        let of = |field: &Field| cut.field(text, field.at);
        if let Some(last) = &self.last {
            whole(of(last), &last.name)?;
        }
        let kind = match self.words.meaning(of(&self.op)) {
            Ok(Meaning::Data(kind)) => kind,
            Ok(Meaning::LeftOut) => {
                sink.skip(|skipped| &mut skipped.others);
                return Ok(());
            }
            Err(allowed) => {
                return Err(format!("{} is {}; {allowed}", self.op.name, show(of(&self.op))));
            }
        };
        let name = &self.time.name;
        let time_ns = match self.clock {
            Clock::Whole(unit_ns) => time_ns(whole(of(&self.time), name)?, unit_ns)?,
            Clock::Decimal(digits) => decimal(of(&self.time), digits, name)?,
        };
        let device = match &self.device[..] {
            [] => 0,
            [device] => whole_32(of(device), &device.name)?,
            [major, minor, ..] => {
                device_of(whole(of(major), &major.name)?, whole(of(minor), &minor.name)?)?
            }
        };
        sink.push(Record {
            time_ns,
            offset_bytes: offset(whole(of(&self.lba), &self.lba.name)?, self.lba_unit)?,
            bytes: if self.size_unit.bytes == 1 {
                whole_32(of(&self.size), &self.size.name)?
            } else {
                length(whole(of(&self.size), &self.size.name)?, self.size_unit)?
            },
            device,
            kind,
        })
    }
}

/// The position of a name in a header; an exact match first, else ignoring case.
fn position(names: &[&[u8]], wanted: &str) -> Result<usize, String> {
    let found = |same: fn(&[u8], &[u8]) -> bool| {
        let mut all = (0..names.len()).filter(|&at| same(names[at], wanted.as_bytes()));
        (all.next(), all.next())
    };
    let header = || show(&names.join(&b", "[..]));
    match (found(|a, b| a == b), found(<[u8]>::eq_ignore_ascii_case)) {
        ((Some(at), None), _) | ((None, _), (Some(at), None)) => Ok(at),
        ((None, _), (None, _)) => {
            Err(format!("the first line names no column {wanted:?}; it names {}", header()))
        }
        _ => Err(format!("the first line names {wanted:?} twice: {}; give its number", header())),
    }
}

enum Source {
    Known(&'static Known, Rows),
    /// To be looked for in the first line.
    Described(Columns),
    Ready(Rows),
}

/// Reads rows.
struct Parser {
    source: Source,
    cut: Cut,
}

impl Parser {
    /// Prepare for a described file by its first line; whether that is a header.
    fn begin(&mut self, columns: &Columns, text: &[u8]) -> Result<bool, String> {
        let places = [&columns.time.0, &columns.op.0, &columns.lba.0, &columns.size.0];
        let places = places.into_iter().chain(&columns.device);
        let (mut named, mut needed) = (false, 1);
        for place in places {
            match place {
                Place::At(at) => needed = needed.max(at + 1),
                Place::Named(_) => named = true,
            }
        }
        let separator = Separator::find(text, needed);
        self.cut.line(text, separator);
        let names: Vec<_> = (0..self.cut.count()).map(|at| self.cut.field(text, at)).collect();
        let rows = Rows::new(columns, separator, &names, |name| format!("column {name}"))?;
        rows.cut(text, &mut self.cut)?;
        let number = |field: &Field| decimal(self.cut.field(text, field.at), 0, "").is_ok();
        let data = [&rows.time, &rows.lba, &rows.size].into_iter().any(number);
        self.source = Source::Ready(rows);
        Ok(named || !data)
    }
}

impl ParseLine for Parser {
    fn text<'a>(&self, line: &Line<'a>) -> &'a [u8] {
        match self.source {
            Source::Known(..) => line.text,
            // A tab at the end of a line separates it from a column without content.
            Source::Described(_) | Source::Ready(_) => line.raw,
        }
    }

    #[inline]
    fn line(&mut self, text: &[u8], first: bool, sink: &mut Sink) -> Result<(), String> {
        if first && let Source::Described(columns) = &self.source {
            let columns = columns.clone();
            if self.begin(&columns, text)? {
                return Ok(());
            }
        }
        let rows = match &self.source {
            Source::Known(_, rows) | Source::Ready(rows) => rows,
            Source::Described(_) => return Err("the columns are not known yet".to_owned()),
        };
        rows.cut(text, &mut self.cut)?;
        if first
            && let Source::Known(known, _) = &self.source
            && known.is_header(rows, &self.cut, text)
        {
            return Ok(());
        }
        rows.take(text, &self.cut, sink)
    }
}

#[cfg(test)]
mod tests;
