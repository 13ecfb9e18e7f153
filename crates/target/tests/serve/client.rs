//! An NBD client as small as it can be: one request after another, or several at once by hand.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wattio_nbd::Header;

/// Longer than any answer takes; a server that hangs fails a test instead of holding it.
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 1 << 1;
pub const DF: u16 = 1 << 2;
pub const FAST_ZERO: u16 = 1 << 4;

const IHAVEOPT: &[u8] = b"IHAVEOPT";

/// A chunk of a structured reply.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    pub kind: u16,
    pub is_last: bool,
    pub cookie: u64,
    pub payload: Vec<u8>,
}

pub struct Client {
    pub stream: UnixStream,
    pub size_bytes: u64,
    pub flags: u16,
    cookie: u64,
}

impl Client {
    /// Connects with simple replies.
    pub fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut client = Self::greet(socket)?;
        // EXPORT_NAME ends the negotiation.
        client.option(1, export.as_bytes())?;
        client.read_export()
    }

    /// Connects with structured replies and `base:allocation`.
    pub fn connect_structured(socket: &Path, export: &str) -> io::Result<Self> {
        let mut client = Self::greet(socket)?;
        client.option(8, &[])?;
        client.option_reply()?;
        let mut meta = Vec::new();
        meta.extend_from_slice(&(export.len() as u32).to_be_bytes());
        meta.extend_from_slice(export.as_bytes());
        meta.extend_from_slice(&1_u32.to_be_bytes());
        meta.extend_from_slice(&15_u32.to_be_bytes());
        meta.extend_from_slice(b"base:allocation");
        client.option(10, &meta)?;
        while client.option_reply()? != 1 {}
        client.option(1, export.as_bytes())?;
        client.read_export()
    }

    pub fn greet(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let mut client = Self { stream, size_bytes: 0, flags: 0, cookie: 0 };
        assert!(client.read(18)?.starts_with(b"NBDMAGIC"));
        client.stream.write_all(&3_u32.to_be_bytes())?;
        Ok(client)
    }

    fn read_export(mut self) -> io::Result<Self> {
        let told = self.read(10)?;
        self.size_bytes = u64::from_be_bytes(told[..8].try_into().unwrap());
        self.flags = u16::from_be_bytes(told[8..].try_into().unwrap());
        Ok(self)
    }

    pub fn option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let length = data.len() as u32;
        let message = [IHAVEOPT, &option.to_be_bytes(), &length.to_be_bytes(), data].concat();
        self.stream.write_all(&message)
    }

    fn option_reply(&mut self) -> io::Result<u32> {
        let head = self.read(20)?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        self.read(word(16) as usize)?;
        Ok(word(12))
    }

    pub fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a request; its cookie.
    pub fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset_bytes: u64,
        length_bytes: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        self.cookie += 1;
        let header = Header { flags, command, cookie: self.cookie, offset_bytes, length_bytes };
        self.stream.write_all(&[&header.encode()[..], payload].concat())?;
        Ok(self.cookie)
    }

    /// The head of a simple reply: its cookie, and its error, 0 if there is none.
    pub fn reply(&mut self) -> io::Result<(u64, u32)> {
        let head = self.read(16)?;
        assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes(), "a simple reply");
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(head[8..].try_into().unwrap()), error))
    }

    fn done(&mut self, cookie: u64) -> io::Result<u32> {
        let (told, error) = self.reply()?;
        assert_eq!(told, cookie);
        Ok(error)
    }

    pub fn write_at(&mut self, offset: u64, bytes: &[u8], flags: u16) -> io::Result<u32> {
        let cookie = self.send(WRITE, flags, offset, bytes.len() as u32, bytes)?;
        self.done(cookie)
    }

    /// A request without payload in either direction; its error.
    pub fn simple(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
    ) -> io::Result<u32> {
        let cookie = self.send(command, flags, offset, length, &[])?;
        self.done(cookie)
    }

    pub fn flush(&mut self) {
        assert_eq!(self.simple(FLUSH, 0, 0, 0).unwrap(), 0);
    }

    pub fn read_at(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let cookie = self.send(READ, 0, offset, length, &[]).unwrap();
        assert_eq!(self.done(cookie).unwrap(), 0);
        self.read(length as usize).unwrap()
    }

    pub fn chunk(&mut self) -> io::Result<Chunk> {
        let head = self.read(20)?;
        assert_eq!(head[..4], 0x668e_33ef_u32.to_be_bytes(), "a structured reply");
        let length = u32::from_be_bytes(head[16..].try_into().unwrap());
        Ok(Chunk {
            is_last: head[5] & 1 == 1,
            kind: u16::from_be_bytes(head[6..8].try_into().unwrap()),
            cookie: u64::from_be_bytes(head[8..16].try_into().unwrap()),
            payload: self.read(length as usize)?,
        })
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}
