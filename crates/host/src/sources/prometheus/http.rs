//! A minimal HTTP/1.1 client that reads one page repeatedly: one persistent connection, a deadline
//! for the whole exchange, and a size limit.
//!
//! A library would add ten crates, half a megabyte, and a thread and a name look-up for each
//! request. httparse does the parsing, and rustls what HTTPS takes.

mod line;

use super::access::Access;
use line::Line;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The most that is read of a page.
const BODY_BYTES_MAX: usize = 8 << 20;
/// The most that is read of the headers.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;
/// The least room for one read.
const PART_BYTES: usize = 16 << 10;

/// Reads one page.
#[derive(Debug)]
pub struct Client {
    /// Up to the token, which is read for each request.
    request: String,
    access: Access,
    timeout: Duration,
    kept: Option<Line>,
    /// What was read last.
    buffer: Buffer,
}

/// Bytes that came, at the beginning of memory that is kept and not cleared in between: at each reading
/// of a page that took as long as all else that is done with it.
#[derive(Debug, Default)]
struct Buffer {
    memory: Vec<u8>,
    filled: usize,
}

impl Buffer {
    fn bytes(&self) -> &[u8] {
        self.memory.get(..self.filled).unwrap_or_default()
    }

    /// Where the next part goes: as much as there is, so that a page as long as the one before comes
    /// in as few parts as the server sends.
    fn room(&mut self) -> &mut [u8] {
        let end = self.filled + PART_BYTES;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.memory.get_mut(self.filled..).unwrap_or_default()
    }
}

/// How the end of the page is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
    UntilClosed,
}

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    bytes: usize,
    length: Length,
    keep: bool,
}

impl Client {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(access: Access, timeout: Duration) -> Self {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: wattio\r\nAccept: text/plain\r\n\
             Accept-Encoding: identity\r\n",
            access.url.path, access.url.authority
        );
        Self { request, access, timeout, kept: None, buffer: Buffer::default() }
    }

    /// The page as it is now.
    ///
    /// # Errors
    /// Says what went wrong: no token, no connection, a certificate that is not trusted, no answer in
    /// time, another status than 200, a page that is too long or ends early.
    pub fn get(&mut self) -> Result<&[u8], String> {
        let deadline = Instant::now() + self.timeout;
        let request = format!("{}{}\r\n", self.request, self.access.authorization()?);
        let mut buffer = std::mem::take(&mut self.buffer);
        // A kept connection may have been closed meanwhile; then a new one is tried.
        if let Some(kept) = self.kept.take() {
            let mut answer = Answer::new(kept, deadline, self.timeout, buffer);
            match exchange(&request, &mut answer) {
                Err(_) if answer.bytes().is_empty() && !answer.timed_out => buffer = answer.buffer,
                done => return done.map(|page| self.finish(answer, page)),
            }
        }
        let line = Line::connect(&mut self.access, deadline)?;
        let mut answer = Answer::new(line, deadline, self.timeout, buffer);
        let page = exchange(&request, &mut answer)?;
        Ok(self.finish(answer, page))
    }

    fn finish(&mut self, answer: Answer, page: Page) -> &[u8] {
        self.kept = page.keep.then_some(answer.line);
        self.buffer = answer.buffer;
        self.buffer.bytes().get(page.from..page.to).unwrap_or_default()
    }
}

/// Asks, and waits for the page.
fn exchange(request: &str, answer: &mut Answer) -> Result<Page, String> {
    answer.send(request.as_bytes())?;
    let head = loop {
        if let Some(head) = parse_head(answer.bytes())? {
            break head;
        }
        if answer.bytes().len() > HEAD_BYTES_MAX {
            return Err(format!("its headers are longer than {HEAD_BYTES_MAX} bytes"));
        }
        if !answer.more()? {
            return Err("the connection was closed before an answer".to_owned());
        }
    };
    let from = head.bytes;
    match head.length {
        Length::Known(bytes) => {
            let to = from + bytes;
            while answer.bytes().len() < to {
                answer.more_body(from)?;
            }
            // Bytes after the page do not belong to an answer of ours.
            let exact = answer.bytes().len() == to;
            Ok(Page { from, to, keep: head.keep && exact })
        }
        Length::Chunked => {
            // Parsed only when it may be complete, or long pages would be parsed many times.
            let page = loop {
                let body = answer.bytes().get(from..).unwrap_or_default();
                let may_end = body.ends_with(b"\r\n\r\n");
                let page = if may_end { unchunk(body)? } else { None };
                match page {
                    Some(page) => break page,
                    None => answer.more_body(from)?,
                }
            };
            let to = page.len();
            answer.buffer = Buffer { memory: page, filled: to };
            Ok(Page { from: 0, to, keep: head.keep })
        }
        Length::UntilClosed => {
            while answer.more()? {}
            Ok(Page { from, to: answer.bytes().len(), keep: false })
        }
    }
}

/// Where the page stands among the bytes that came, and whether the connection can be kept.
struct Page {
    from: usize,
    to: usize,
    keep: bool,
}

/// What came so far.
struct Answer {
    line: Line,
    deadline: Instant,
    timeout: Duration,
    timed_out: bool,
    buffer: Buffer,
}

impl Answer {
    /// Nothing came yet; only the memory of the `buffer` is used again.
    fn new(line: Line, deadline: Instant, timeout: Duration, mut buffer: Buffer) -> Self {
        buffer.filled = 0;
        Self { line, deadline, timeout, timed_out: false, buffer }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    fn failed(&mut self, error: &std::io::Error) -> String {
        self.timed_out = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        if self.timed_out {
            format!("no complete answer within {:?}", self.timeout)
        } else {
            error.to_string()
        }
    }

    fn send(&mut self, request: &[u8]) -> Result<(), String> {
        let sent = self.line.send(request, self.deadline);
        sent.map_err(|error| self.failed(&error))
    }

    /// Reads on; false at the end of the connection.
    fn more(&mut self) -> Result<bool, String> {
        let received = self.line.receive(self.buffer.room(), self.deadline);
        let count = received.map_err(|error| self.failed(&error))?;
        self.buffer.filled += count;
        if self.bytes().len() > BODY_BYTES_MAX + HEAD_BYTES_MAX {
            return Err(format!("the page is longer than {} MiB", BODY_BYTES_MAX >> 20));
        }
        Ok(count > 0)
    }

    /// Reads on, in a page that begins at `from`.
    fn more_body(&mut self, from: usize) -> Result<(), String> {
        if self.more()? {
            return Ok(());
        }
        let came = self.bytes().len().saturating_sub(from);
        Err(format!("the page ends early, after {came} bytes"))
    }
}

/// The head of the response; `None` if it is not complete.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed =
        response.parse(bytes).map_err(|error| format!("it does not speak HTTP/1: {error}"))?;
    let httparse::Status::Complete(end) = parsed else { return Ok(None) };
    let code = response.code.unwrap_or_default();
    if code != 200 {
        let reason = response.reason.unwrap_or_default();
        let to =
            response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("location"));
        let to = to.map(|header| format!(" (see {:?})", String::from_utf8_lossy(header.value)));
        let to = to.unwrap_or_default();
        return Err(format!("answered {code} {reason}{to}, not 200 OK").replace(" ,", ","));
    }
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    let length = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), _) if coding == "chunked" => Length::Chunked,
        (Some(coding), _) => return Err(format!("transfer-encoding {coding:?} is not understood")),
        (None, Some(length)) => match length.parse() {
            Ok(bytes) if bytes <= BODY_BYTES_MAX => Length::Known(bytes),
            Ok(bytes) => {
                let most = BODY_BYTES_MAX >> 20;
                return Err(format!("the page has {bytes} bytes, more than {most} MiB"));
            }
            Err(_) => return Err(format!("content-length {length:?} is not a number")),
        },
        (None, None) => Length::UntilClosed,
    };
    let close = header("connection").is_some_and(|value| value.contains("close"));
    Ok(Some(Head { bytes: end, length, keep: !close && response.version == Some(1) }))
}

/// The page in chunks; `None` if it is not complete.
fn unchunk(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut page = Vec::with_capacity(bytes.len());
    loop {
        let wrong = "the page's chunks make no sense".to_owned();
        let Ok(size) = httparse::parse_chunk_size(bytes) else { return Err(wrong) };
        let httparse::Status::Complete((start, size)) = size else { return Ok(None) };
        let size =
            usize::try_from(size).ok().filter(|&size| size <= BODY_BYTES_MAX).ok_or(wrong)?;
        let rest = bytes.get(start..).unwrap_or_default();
        if size == 0 {
            // Trailers, if any, end with an empty line.
            let ended = rest.starts_with(b"\r\n") || rest.ends_with(b"\r\n\r\n");
            return Ok(ended.then_some(page));
        }
        let Some(chunk) = rest.get(..size) else { return Ok(None) };
        page.extend_from_slice(chunk);
        let Some(after) = rest.get(size + 2..) else { return Ok(None) };
        bytes = after;
    }
}

#[cfg(test)]
mod tests;
