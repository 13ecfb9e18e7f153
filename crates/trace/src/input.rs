//! A buffered view of the uncompressed bytes that knows its position.

use std::io::{self, Read};

use crate::error::Fault;

/// Bytes looked at to find the format; the formats show within their first lines.
pub(crate) const SNIFF_BYTES: usize = 64 * 1024;
/// Longest line of text that is still taken for a record.
const LINE_BYTES_MAX: usize = 4096;
const CHUNK_BYTES: usize = 256 * 1024;
/// What some programs put at the head of a text in UTF-8.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text without the mark at its head.
pub(crate) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(UTF8_MARK).unwrap_or(text)
}

/// The content of a trace, a chunk at a time: memory stays within one buffer.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The part of `buffer` that is filled and not yet consumed.
    start: usize,
    end: usize,
    /// Offset in the content of `buffer[start]`.
    offset: u64,
    /// Lines consumed so far.
    lines: u64,
    at_end: bool,
}

impl Input {
    pub fn new(source: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; CHUNK_BYTES];
        Self { source, buffer, start: 0, end: 0, offset: 0, lines: 0, at_end: false }
    }

    /// Offset of the next byte in the content.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Everything buffered, at least `need` bytes of it unless the content ends before.
    pub fn fill(&mut self, need: usize) -> io::Result<&[u8]> {
        if self.end - self.start < need && !self.at_end {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < need {
                self.buffer.resize(need, 0);
            }
            while self.end < need {
                match self.source.read(&mut self.buffer[self.end..]) {
                    Ok(0) => {
                        self.at_end = true;
                        break;
                    }
                    Ok(count) => self.end += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Take `count` bytes away; they must have been seen through `fill`.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start, "consumed more than was filled");
        self.start += count;
        self.offset += count as u64;
    }

    /// `fill`, with a failing source reported as a fault at this position.
    pub fn fill_or_fault(&mut self, need: usize) -> Result<&[u8], Fault> {
        let (byte, line) = (self.offset, self.lines);
        match self.fill(need) {
            // The error path must not keep the borrow, hence the second call, which is free.
            Ok(_) => Ok(&self.buffer[self.start..self.end]),
            Err(error) => Err(Fault {
                byte,
                line: (line > 0).then_some(line + 1),
                problem: error.to_string(),
            }),
        }
    }

    /// The next line without its end, or `None` at the end of the content. The mark at the head of a
    /// text is no part of its first line.
    ///
    /// The last line may lack its newline.
    pub fn line(&mut self) -> Result<Option<Line<'_>>, Fault> {
        let byte = self.offset;
        let number = self.lines + 1;
        let fault = |problem: String| Fault { byte, line: Some(number), problem };
        let seen = self.fill_or_fault(1)?;
        if seen.is_empty() {
            return Ok(None);
        }
        let length = match newline(seen) {
            Some(length) => Some(length),
            None => newline(self.fill(LINE_BYTES_MAX + 1).map_err(|e| fault(e.to_string()))?),
        };
        let available = self.end - self.start;
        let (length, taken) = match length {
            Some(length) => (length, length + 1),
            None => (available, available),
        };
        if length > LINE_BYTES_MAX {
            return Err(fault(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        let from = self.start;
        self.consume(taken);
        self.lines = number;
        let raw = &self.buffer[from..from + length];
        let raw = if byte == 0 { unmarked(raw) } else { raw };
        Ok(Some(Line { text: raw.trim_ascii(), raw, byte, number }))
    }
}

/// One line of text and where it stands.
pub(crate) struct Line<'a> {
    /// Without blanks at either end.
    pub text: &'a [u8],
    /// With them, and with a carriage return before the line's end.
    pub raw: &'a [u8],
    /// Offset of its first byte.
    pub byte: u64,
    /// Its number from 1.
    pub number: u64,
}

impl Line<'_> {
    /// A fault in this line.
    pub fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault { byte: self.byte, line: Some(self.number), problem: problem.into() }
    }
}

fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\n')
}
