//! TLS: encrypts and decrypts the bytes of a connection.

pub use wattio_service::tls::{Files, Identity, TlsError};

use rustls::ServerConnection;
use std::io::{self, Read, Write};
use wattio_ring::Part;

/// Room for what is received.
const RECEIVED_BYTES: usize = 64 << 10;

/// TLS on one connection.
#[derive(Debug)]
pub struct Layer {
    tls: Box<ServerConnection>,
    /// What was received and not decrypted yet; empty while the kernel has the memory.
    received: Vec<u8>,
    from: usize,
    to: usize,
    /// What was to be sent before TLS began.
    plain: Vec<u8>,
}

impl Layer {
    /// Begins; `plain` is sent before anything else, and `received` has come already.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(identity: &Identity, plain: Vec<u8>, received: &[u8]) -> Result<Self, String> {
        let tls = ServerConnection::new(identity.config());
        let mut tls = tls.map_err(|error| error.to_string())?;
        // Replies are bounded by what a connection may have under way.
        tls.set_buffer_limit(None);
        let mut memory = vec![0; RECEIVED_BYTES.max(received.len())];
        memory[..received.len()].copy_from_slice(received);
        Ok(Self { tls: Box::new(tls), received: memory, from: 0, to: received.len(), plain })
    }

    /// Whether the handshake is over.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Memory to receive into: all that was received is decrypted.
    pub fn lend(&mut self) -> Vec<u8> {
        (self.from, self.to) = (0, 0);
        std::mem::take(&mut self.received)
    }

    /// The memory comes back with so many bytes.
    pub fn take_back(&mut self, received: Vec<u8>, count: usize) {
        self.received = received;
        self.to = count;
    }

    /// Decrypts into `room`, as much as it holds; 0 if more has to be received.
    ///
    /// # Errors
    /// The client does not follow the protocol, or is not who it should be.
    pub fn read(&mut self, room: &mut [u8]) -> Result<usize, String> {
        loop {
            match self.tls.reader().read(room) {
                Ok(count) if count > 0 || room.is_empty() => return Ok(count),
                // The client has ended TLS: the connection ends after that.
                Ok(_) => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
            if self.from == self.to {
                return Ok(0);
            }
            let mut rest = &self.received[self.from..self.to];
            let count = self.tls.read_tls(&mut rest).map_err(|error| error.to_string())?;
            self.from += count;
            self.tls.process_new_packets().map_err(|error| error.to_string())?;
            if count == 0 {
                return Ok(0);
            }
        }
    }

    /// Encrypts what is to be sent.
    ///
    /// # Errors
    /// None, as long as there is memory.
    pub fn write(&mut self, head: &[u8], parts: &[Part]) -> io::Result<()> {
        let mut writer = self.tls.writer();
        writer.write_all(head)?;
        parts.iter().try_for_each(|part| writer.write_all(part.as_bytes()))
    }

    /// Says that nothing follows.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
    }

    /// Whether there is something to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.plain.is_empty() || self.tls.wants_write()
    }

    /// What is to be sent as it is.
    pub fn output(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.clear();
        bytes.append(&mut self.plain);
        // Writing to a Vec cannot fail.
        while self.tls.wants_write() && self.tls.write_tls(&mut bytes).is_ok() {}
        bytes
    }
}
