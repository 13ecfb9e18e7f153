//! A connection to a page, with TLS or without, whose every step has the same deadline.

use super::super::access::Access;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection, and the timeouts that it was given last.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    reading: Duration,
    writing: Duration,
    tls: Option<Box<ClientConnection>>,
}

/// Smaller differences of timeouts do not matter: the system rounds to some milliseconds anyway.
const TIMEOUT_SLACK: Duration = Duration::from_millis(1);

impl Line {
    /// Connects to the server of a page; with TLS, its certificate is checked with the first bytes.
    pub fn connect(access: &mut Access, deadline: Instant) -> Result<Self, String> {
        let tls = access.trust.as_mut().map(super::super::access::Trust::config).transpose()?;
        let url = &access.url;
        let tls = tls.map(|config| session(&url.host, config)).transpose()?;
        let place = (url.host.as_str(), url.port);
        let addresses = place.to_socket_addrs().map_err(|error| error.to_string())?;
        let mut last = format!("{} has no address", url.host);
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| error.to_string())?;
                    let (reading, writing) = (Duration::MAX, Duration::MAX);
                    return Ok(Self { stream, reading, writing, tls });
                }
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(last)
    }

    /// Sends a request.
    pub fn send(&mut self, request: &[u8], deadline: Instant) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            self.writes_until(deadline)?;
            return self.stream.write_all(request);
        };
        tls.writer().write_all(request)?;
        self.flush(deadline)
    }

    /// Reads what comes next; 0 at the end of the connection.
    pub fn receive(&mut self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            self.flush(deadline)?;
            match &mut self.tls {
                Some(tls) => match tls.reader().read(into) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                },
                None => {
                    self.reads_until(deadline)?;
                    match self.stream.read(into) {
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        read => return read,
                    }
                }
            }
            self.reads_until(deadline)?;
            let Some(tls) = &mut self.tls else { continue };
            match tls.read_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // At the end the reader says whether the server meant it.
                read => drop(read?),
            }
            if let Err(error) = tls.process_new_packets() {
                // The server is told why, if it listens.
                let _ = tls.write_tls(&mut self.stream);
                return Err(io::Error::new(ErrorKind::InvalidData, explained(&error)));
            }
        }
    }

    /// Sends what TLS has to say.
    fn flush(&mut self, deadline: Instant) -> io::Result<()> {
        while self.tls.as_ref().is_some_and(|tls| tls.wants_write()) {
            self.writes_until(deadline)?;
            let Some(tls) = &mut self.tls else { break };
            match tls.write_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => drop(written?),
            }
        }
        Ok(())
    }

    fn reads_until(&mut self, deadline: Instant) -> io::Result<()> {
        let Self { stream, reading, .. } = self;
        set_timeout(reading, deadline, |left| stream.set_read_timeout(Some(left)))
    }

    fn writes_until(&mut self, deadline: Instant) -> io::Result<()> {
        let Self { stream, writing, .. } = self;
        set_timeout(writing, deadline, |left| stream.set_write_timeout(Some(left)))
    }
}

fn session(host: &str, config: Arc<ClientConfig>) -> Result<Box<ClientConnection>, String> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| format!("{host:?} is no name that a certificate can have"))?;
    let session = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    Ok(Box::new(session))
}

fn explained(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => format!(
            "its certificate is refused: {why}; ca_file names the authority that signed it, and the \
             address must be one that the certificate names"
        ),
        rustls::Error::InvalidMessage(_) => format!("it does not speak TLS: {error}"),
        error => error.to_string(),
    }
}

/// Gives a connection a timeout, unless it `has` that already.
fn set_timeout(
    has: &mut Duration,
    deadline: Instant,
    set: impl FnOnce(Duration) -> io::Result<()>,
) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    if has.abs_diff(left) > TIMEOUT_SLACK {
        set(left)?;
        *has = left;
    }
    Ok(())
}
