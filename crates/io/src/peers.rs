//! What the library needs of the ranks' own communication: MPI's, by a shim that is compiled with the
//! user's compiler, or threads in tests.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One rank among those of a job. All calls but `send`, `receive` and `abort` are collective.
pub trait Peers: Send + Sync {
    /// This rank.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The machine that this rank is on: the same number for all ranks there.
    fn machine(&self) -> usize;

    /// The root's bytes, on all ranks; all give as many.
    ///
    /// # Errors
    ///
    /// `Host`.
    fn broadcast(&self, data: &mut [u8], root: usize) -> Result<()>;

    /// The bytes of all ranks, one after the other; all give as many.
    ///
    /// # Errors
    ///
    /// `Host`.
    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<()>;

    /// Wait for all, asleep for as long as that takes.
    ///
    /// # Errors
    ///
    /// `Host`.
    fn meet(&self) -> Result<()>;

    /// Send bytes to a rank that receives as many.
    ///
    /// # Errors
    ///
    /// `Host`.
    fn send(&self, data: &[u8], to: usize) -> Result<()>;

    /// Receive bytes from a rank that sends as many.
    ///
    /// # Errors
    ///
    /// `Host`.
    fn receive(&self, data: &mut [u8], from: usize) -> Result<()>;

    /// What ends all ranks; to be called from any thread.
    fn abort(&self) -> Box<dyn Fn() + Send>;
}

/// The root's value, on all ranks. Collective.
///
/// # Errors
///
/// `Host`.
pub fn broadcast<T: Serialize + DeserializeOwned>(
    peers: &dyn Peers,
    value: Option<&T>,
    root: usize,
) -> Result<T> {
    let text = value.map(encode).transpose()?.unwrap_or_default();
    let mut length = (text.len() as u64).to_le_bytes();
    peers.broadcast(&mut length, root)?;
    let mut data = text;
    data.resize(size(length)?, 0);
    peers.broadcast(&mut data, root)?;
    decode(&data)
}

/// The values of all ranks, by rank. Collective.
///
/// # Errors
///
/// `Host`.
pub fn gather<T: Serialize + DeserializeOwned>(peers: &dyn Peers, own: &T) -> Result<Vec<T>> {
    let mut text = encode(own)?;
    let count = peers.size();
    let mut lengths = vec![0; 8 * count];
    peers.gather(&(text.len() as u64).to_le_bytes(), &mut lengths)?;
    let lengths = lengths
        .chunks_exact(8)
        .map(|bytes| size(bytes.try_into().unwrap_or_default()))
        .collect::<Result<Vec<usize>>>()?;
    let longest = lengths.iter().copied().max().unwrap_or_default();
    text.resize(longest, 0);
    let mut all = vec![0; longest * count];
    peers.gather(&text, &mut all)?;
    lengths
        .iter()
        .enumerate()
        .map(|(rank, &length)| decode(&all[rank * longest..rank * longest + length]))
        .collect()
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::Host(error.to_string()))
}

fn decode<T: DeserializeOwned>(data: &[u8]) -> Result<T> {
    serde_json::from_slice(data)
        .map_err(|error| Error::Host(format!("ranks do not understand each other: {error}")))
}

/// A length that another rank has told; what is beyond all sense is refused.
fn size(bytes: [u8; 8]) -> Result<usize> {
    match usize::try_from(u64::from_le_bytes(bytes)) {
        Ok(length) if length <= 1 << 30 => Ok(length),
        _ => Err(Error::Host("ranks do not understand each other: a length is wrong".to_owned())),
    }
}

/// A job of one rank; what it sends goes nowhere.
#[cfg(test)]
pub(crate) struct Alone;

#[cfg(test)]
impl Peers for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn machine(&self) -> usize {
        0
    }

    fn broadcast(&self, _: &mut [u8], _: usize) -> Result<()> {
        Ok(())
    }

    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        all.copy_from_slice(own);
        Ok(())
    }

    fn meet(&self) -> Result<()> {
        Ok(())
    }

    fn send(&self, _: &[u8], _: usize) -> Result<()> {
        Ok(())
    }

    fn receive(&self, _: &mut [u8], _: usize) -> Result<()> {
        unreachable!("there is nobody else")
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        Box::new(|| {})
    }
}
