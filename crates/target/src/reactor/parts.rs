//! The parts of a reactor.

use crate::normal::Offer;
use crate::status::Opening;
use crate::volume::{Pace, VolumeMemory};
use std::os::fd::OwnedFd;
use wattio_target_config::Idle;
use wattio_volume::Volume;

/// A volume that a reactor gets.
#[derive(Debug)]
pub struct Owned {
    /// The number of its export.
    pub number: usize,
    /// Under which name it is exported.
    pub export: String,
    /// The volume.
    pub volume: Volume,
    /// Its devices, in its order.
    pub devices: Vec<Option<OwnedFd>>,
    /// How it was opened.
    pub opening: Opening,
    /// How often it is scrubbed.
    pub pace: Pace,
    /// Memory for its blocks.
    pub memory: VolumeMemory,
}

/// A socket that accepts connections.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    /// Whether it is of TCP.
    pub is_tcp: bool,
}

/// What a reactor is made of.
#[derive(Debug)]
pub struct Parts {
    /// Its number.
    pub number: usize,
    /// What is exported.
    pub offer: Offer,
    /// Its volumes.
    pub volumes: Vec<Owned>,
    /// Sockets whose connections it accepts, for all.
    pub listeners: Vec<Listener>,
    /// What it does when nothing is to be done.
    pub idle: Idle,
}
