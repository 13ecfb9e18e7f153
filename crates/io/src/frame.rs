//! Messages between a rank and the one on another node that relays its blocks to a writer: small ones
//! over TCP, whose receiver waits asleep. The blocks themselves go by the ranks' own communication.

use crate::error::{Error, Result, host};
use crate::slot::Fate;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Bytes of a message, at most.
const FRAME_MAX: usize = 1 << 26;
/// Bytes of a list of blocks that goes in one message, where it has several: in a message each of them
/// takes up to four.
pub const LIST_MAX: u64 = 1 << 20;

/// What a rank says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum FromRank {
    /// Who it is.
    Hello {
        /// The rank.
        rank: usize,
        /// What members of the job know.
        token: String,
    },
    /// Blocks that it would hand over: a part of a dump, or its end.
    Post {
        /// The step.
        step: u64,
        /// Whether nothing of it follows.
        end: bool,
        /// The variables, as lists of blocks have them.
        blocks: Vec<Vec<u8>>,
        /// Attributes of the step, in the same form.
        attributes: Vec<u8>,
    },
    /// It hands nothing over any more.
    Close,
}

/// What is said to a rank.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ToRank {
    /// It is let in.
    Welcome {
        /// Bytes of its share of the buffer.
        share: u64,
        /// Bytes that the attributes of a variable may take, and those of a step.
        attributes_max: u64,
    },
    /// There is room for so many more blocks: send them.
    Send(u32),
    /// What it would hand over cannot be.
    Refused(String),
    /// The next dump has this fate; where it failed, its step and why.
    Settled(bool, Option<(u64, String)>),
    /// The writer takes no more.
    Ending,
    /// All is written.
    Ended,
}

/// The fate that a message tells of.
#[must_use]
pub fn fate(dropped: bool, failed: Option<&(u64, String)>) -> Fate {
    match (dropped, failed) {
        (_, Some(_)) => Fate::Failed,
        (true, None) => Fate::Dropped,
        (false, None) => Fate::Whole,
    }
}

/// A connection over which messages go.
#[derive(Debug)]
pub struct Frames {
    stream: TcpStream,
    incoming: Vec<u8>,
}

impl Frames {
    /// Over a connected stream.
    ///
    /// # Errors
    ///
    /// `Host`.
    pub fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true).map_err(host("a connection between nodes"))?;
        Ok(Self { stream, incoming: Vec::new() })
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Say something.
    ///
    /// # Errors
    ///
    /// `Host` where the other end is gone.
    pub fn say(&self, what: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(what).map_err(|error| Error::Host(error.to_string()))?;
        let mut whole = (text.len() as u32).to_le_bytes().to_vec();
        whole.extend(text);
        let mut left = &whole[..];
        while !left.is_empty() {
            match rustix::net::send(&self.stream, left, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(gone()),
            }
        }
        Ok(())
    }

    /// The next message, if one has come; never waits.
    ///
    /// # Errors
    ///
    /// `Host` where the other end is gone, or speaks otherwise.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(found) = self.cut()? {
                return Ok(Some(found));
            }
            let mut buffer = vec![0; 1 << 16];
            let flags = rustix::net::RecvFlags::DONTWAIT;
            match rustix::net::recv(&self.stream, &mut buffer[..], flags) {
                Ok((_, 0)) => return Err(gone()),
                Ok((_, got)) => self.incoming.extend_from_slice(&buffer[..got]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(_) => return Err(gone()),
            }
        }
    }

    fn cut<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some((length, rest)) = self.incoming.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_MAX {
            return Err(Error::Host("a message between nodes is too long".to_owned()));
        }
        let Some(text) = rest.get(..length) else { return Ok(None) };
        let found = serde_json::from_slice(text)
            .map_err(|error| Error::Host(format!("a message between nodes: {error}")))?;
        self.incoming.drain(..4 + length);
        Ok(Some(found))
    }
}

/// Connect to the first of the addresses of a place that answers: a machine's name may have one of IPv6,
/// where nobody listens. Each has an even part of the time that is left.
///
/// # Errors
///
/// That of the last one.
pub fn reach(place: impl ToSocketAddrs, within: Duration) -> std::io::Result<TcpStream> {
    let until = Instant::now() + within;
    let mut found = place.to_socket_addrs()?;
    let mut last: std::io::Error = std::io::ErrorKind::NotFound.into();
    while let Some(address) = found.next() {
        let others = u32::try_from(found.size_hint().0).unwrap_or_default();
        let left = until.saturating_duration_since(Instant::now()) / (others + 1);
        // No time at all is refused as an argument.
        match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn gone() -> Error {
    Error::Host("the writer, or the rank that relays to it, has died".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};

    #[test]
    fn a_place_is_reached_by_any_of_its_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let other = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, own.port()));
        let within = Duration::from_secs(20);
        let stream = reach(&[other, own][..], within).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), own);
        assert!(reach(&[other][..], within).is_err());
        assert!(reach(&Vec::<SocketAddr>::new()[..], within).is_err());
    }

    #[test]
    fn messages_come_whole_and_an_end_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (one, mut other) =
            (Frames::new(one).unwrap(), Frames::new(listener.accept().unwrap().0).unwrap());
        assert_eq!(other.hear::<FromRank>().unwrap(), None);
        let post =
            FromRank::Post { step: 3, end: true, blocks: vec![vec![1, 2]], attributes: vec![0] };
        one.say(&post).unwrap();
        one.say(&FromRank::Close).unwrap();
        let mut heard = Vec::new();
        while heard.len() < 2 {
            heard.extend(other.hear::<FromRank>().unwrap());
        }
        assert_eq!(heard, [post, FromRank::Close]);
        drop(one);
        let end = std::iter::repeat_with(|| other.hear::<FromRank>()).find(Result::is_err);
        assert!(end.unwrap().unwrap_err().to_string().contains("has died"));
    }
}
