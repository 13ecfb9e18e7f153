//! What a writer is told when it starts, and what it answers: lines of JSON over its standard input,
//! which is a socket.

use crate::config::Config;
use crate::connection;
use crate::error::{Error, Result, host};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Bytes of a line, at most: the ranks of a large job take some.
const LINE_MAX: u64 = 1 << 26;

/// What a writer has to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's name, which is in all its files.
    pub id: String,
    /// How steps reach their files.
    pub config: Config,
    /// The approach, as one writes it.
    pub approach: String,
    /// The number of this writer's files: its rank.
    pub process: usize,
    /// The ranks that it writes for.
    pub clients: Vec<usize>,
    /// Memory for each of them, in bytes.
    pub share: u64,
    /// All ranks that compute; for the writer that publishes dumps.
    pub computing: Vec<usize>,
    /// Who publishes dumps; `None` for the one that does.
    pub publisher: Option<String>,
    /// The number of writers of the job.
    pub writers: usize,
    /// What members of the job know: a writer lets in whoever says it.
    pub token: String,
    /// Whether writers are on several machines.
    pub spread: bool,
    /// The path at which clients connect; `None` for a name that the writer picks.
    pub address: Option<PathBuf>,
}

impl Job {
    /// What clients say to a writer: a part of the token.
    #[must_use]
    pub fn client_token(&self) -> u32 {
        client_token(&self.token)
    }
}

/// What clients say to a writer of a job with this token: a part of it.
#[must_use]
pub fn client_token(token: &str) -> u32 {
    u32::from_str_radix(token.get(..8).unwrap_or_default(), 16).unwrap_or_default()
}

/// Whether two tokens are the same; takes as long whatever differs first.
#[must_use]
pub fn is_same_token(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

/// What a writer answers first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is ready.
    Ready {
        /// Where its clients connect.
        address: String,
        /// Where other writers connect, if it publishes dumps.
        publisher: Option<String>,
    },
    /// It cannot do what it was told.
    Refused {
        /// Whether what it was told is wrong, rather than the machine.
        input: bool,
        /// Why.
        text: String,
    },
}

/// What a writer answers last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Dumps that it has written its part of.
    pub written: u64,
    /// Bytes of data in them.
    pub bytes: u64,
    /// Time within system calls that write, and within HDF5.
    pub write_s: f64,
    /// Processor time of the process.
    pub cpu_s: f64,
    /// Dumps that were given up.
    pub dropped: Vec<u64>,
    /// Dumps that failed, and why.
    pub failed: Vec<(u64, String)>,
    /// Ranks that have died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<usize>,
    /// What it has written of each dump. In a report, that of the rank's own writer alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<Written>,
}

/// What a writer has written of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// The dump's step.
    pub step: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Time within system calls that write, and within HDF5.
    pub write_s: f64,
}

/// Lines of JSON over a socket.
#[derive(Debug)]
pub struct Lines(BufReader<UnixStream>);

impl Lines {
    /// Over a connected socket.
    #[must_use]
    pub fn new(socket: UnixStream) -> Self {
        Self(BufReader::new(socket))
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        self.0.get_ref()
    }

    /// Say something.
    ///
    /// # Errors
    ///
    /// `Host` where nobody listens.
    pub fn say(&self, what: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(what).map_err(|error| Error::Host(error.to_string()))?;
        text.push(b'\n');
        connection::say(self.0.get_ref(), &text).map_err(host("the other process has gone"))
    }

    /// What is said next; asleep until then.
    ///
    /// # Errors
    ///
    /// `Host` where the other end is gone, or speaks otherwise.
    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut text = Vec::new();
        let mut limited = std::io::Read::take(&mut self.0, LINE_MAX);
        limited
            .read_until(b'\n', &mut text)
            .map_err(host("the other process cannot be read from"))?;
        if text.last() != Some(&b'\n') {
            return Err(Error::Host("the other process has gone".to_owned()));
        }
        serde_json::from_slice(&text)
            .map_err(|error| Error::Host(format!("the other process is not understood: {error}")))
    }
}

/// A token that nobody guesses, in hexadecimal digits.
///
/// # Errors
///
/// `Host` where the kernel gives no random bytes.
pub fn random_hex(bytes: usize) -> Result<String> {
    use std::io::Read;
    let mut found = vec![0; bytes];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut found))
        .map_err(host("/dev/urandom"))?;
    Ok(found.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_over_a_socket_and_its_end_is_told() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, mut other) = (Lines::new(one), Lines::new(other));
        let answer = Answer::Refused { input: true, text: "two\nlines".to_owned() };
        one.say(&answer).unwrap();
        assert_eq!(other.hear::<Answer>().unwrap(), answer);
        drop(one);
        assert!(other.hear::<Answer>().unwrap_err().to_string().contains("has gone"));
    }
}
