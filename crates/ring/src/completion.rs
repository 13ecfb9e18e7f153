//! What callers give to a ring and get back from it.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use wattio_pages::{BLOCK, Pages};

/// Bytes of shared pages: a piece of what one write or send gathers.
#[derive(Clone, Debug)]
pub struct Part {
    pages: Arc<Pages>,
    bytes: Range<usize>,
}

impl Part {
    /// All bytes of `pages`.
    #[must_use]
    pub fn whole(pages: Arc<Pages>) -> Self {
        let bytes = 0..pages.len_bytes();
        Self { pages, bytes }
    }

    /// The blocks `blocks` of `pages`.
    ///
    /// # Panics
    ///
    /// If there are no such blocks.
    #[must_use]
    pub fn blocks(pages: Arc<Pages>, blocks: Range<usize>) -> Self {
        assert!(blocks.end <= pages.len_blocks(), "{blocks:?} of {pages:?}");
        Self::bytes(pages, blocks.start * BLOCK..blocks.end * BLOCK)
    }

    /// The bytes `bytes` of `pages`.
    ///
    /// # Panics
    ///
    /// If there are no such bytes.
    #[must_use]
    pub fn bytes(pages: Arc<Pages>, bytes: Range<usize>) -> Self {
        assert!(
            bytes.start <= bytes.end && bytes.end <= pages.len_bytes(),
            "bytes {bytes:?} of {pages:?}"
        );
        Self { pages, bytes }
    }

    /// The pages that the bytes are in.
    #[must_use]
    pub fn into_pages(self) -> Arc<Pages> {
        self.pages
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.pages.as_bytes()[self.bytes.clone()]
    }
}

/// What an operation was given, or made.
#[derive(Debug)]
pub enum Back {
    /// Of operations without memory.
    Nothing,
    /// Of a read, or a receive into pages.
    Pages(Pages),
    /// Of a receive into bytes.
    Bytes(Vec<u8>),
    /// Of a write (whose head is empty) or a send: what was gathered.
    Gathered {
        /// What was sent before the parts.
        head: Vec<u8>,
        /// The parts.
        parts: Vec<Part>,
    },
    /// Of an accept: the new connection.
    Socket(OwnedFd),
}

/// The end of an operation, or one connection that an accept took.
#[derive(Debug)]
pub struct Completion {
    /// What the caller named the operation.
    pub token: u64,
    /// What was being done, for messages: `"read"`.
    pub what: &'static str,
    /// Bytes moved; the ready events of a poll; else 0. An error is the operating system's, with its
    /// number: `ECANCELED` after a cancel, `EBADF` for a handle that was closed.
    pub result: io::Result<usize>,
    /// The memory that the operation was given.
    pub back: Back,
    /// Whether the operation goes on, and more completions of it follow: only of an accept.
    pub more: bool,
}

impl Completion {
    /// The result, with an error that says what was being done (and keeps its kind, not its number).
    ///
    /// # Errors
    ///
    /// The operation's.
    pub fn explained(self) -> io::Result<(usize, Back)> {
        match self.result {
            Ok(count) => Ok((count, self.back)),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", self.what))),
        }
    }
}
