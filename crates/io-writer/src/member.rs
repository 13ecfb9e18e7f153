//! A writer's line to the one that publishes dumps.

use crate::note::{Hello, Incoming, Note, Said, Settled};
use crate::publisher::REACH;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wattio_io::connection::Address;
use wattio_io::job::Job;

/// The line.
pub struct Member {
    socket: OwnedFd,
    incoming: Incoming,
}

impl Member {
    /// Reach the one that publishes, and say who this is.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn connect(address: &str, job: &Job) -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            format!("the writer that publishes dumps cannot be reached at {address}: {error}")
        };
        let socket: OwnedFd = if address.starts_with('@') {
            Address::from(address).connect().map_err(failed)?.into()
        } else {
            let stream = wattio_io::frame::reach(address, REACH).map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            stream.into()
        };
        let member = Self { socket, incoming: Incoming::default() };
        member.say(&Said::Hello(Hello {
            token: job.token.clone(),
            process: job.process,
            ranks: job.clients.clone(),
        }))?;
        Ok(member)
    }

    /// Say something.
    ///
    /// # Errors
    ///
    /// In words: nobody hears it.
    pub fn say(&self, said: &Said) -> Result<(), String> {
        let mut text = serde_json::to_vec(said).map_err(|error| error.to_string())?;
        text.push(b'\n');
        let mut left = &text[..];
        while !left.is_empty() {
            match rustix::net::send(&self.socket, left, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::INTR) => {}
                Err(_) => return Err(gone()),
            }
        }
        Ok(())
    }

    /// Tell what became of this writer's part of a dump.
    ///
    /// # Errors
    ///
    /// As `say`.
    pub fn note(&self, note: Note) -> Result<(), String> {
        self.say(&Said::Note(note))
    }

    /// What has been settled since the last time, without waiting.
    ///
    /// # Errors
    ///
    /// In words: the one that publishes has died.
    pub fn turn(&mut self) -> Result<Vec<Settled>, String> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(gone()),
                Ok((_, got)) => self.incoming.push(&buffer[..got]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(gone()),
            }
        }
        let lines = self.incoming.lines();
        lines
            .iter()
            .map(|line| serde_json::from_slice(line).map_err(|error| error.to_string()))
            .collect()
    }
}

impl AsFd for Member {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn gone() -> String {
    "the writer that publishes dumps has died".to_owned()
}
