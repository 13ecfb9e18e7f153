//! The volumes of a reactor, and how they move to another one.
//!
//! A flush may take long, and everything that is asked meanwhile would wait for it: a volume whose
//! devices are at one leaves when that has ended, and begins no other before it has moved.
//!
//! The reactor that a volume leaves asks all others to hold their requests to it. It waits for
//! their confirmations, after which no request can be in transit any more, and for the devices to
//! finish their operations. Then it hands the volume over as it is, with its unanswered requests.
//! The new reactor announces to all others that it has the volume, and they send it the requests
//! that they held.

use crate::volume::VolumeLane;
use std::os::fd::OwnedFd;
use wattio_ring::Ring;

/// A volume with its name, on its way from one reactor to another.
pub struct MovingVolume {
    /// The number of its export.
    pub number: usize,
    name: String,
    lane: VolumeLane,
    devices: Vec<Option<OwnedFd>>,
}

impl std::fmt::Debug for MovingVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MovingVolume").field("name", &self.name).finish_non_exhaustive()
    }
}

struct Place {
    name: String,
    lane: VolumeLane,
    leaving: Option<Leaving>,
    /// Where it is to go when the devices have ended their flush.
    wanted_at: Option<usize>,
}

struct Leaving {
    to: usize,
    /// Other reactors that do not hold yet what they ask.
    asking: usize,
}

/// The volumes of one reactor, by the numbers of their exports.
#[derive(Default)]
pub struct Volumes(Vec<Option<Place>>);

impl Volumes {
    /// Adds a volume.
    pub fn add(&mut self, number: usize, name: String, lane: VolumeLane) {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number] = Some(Place { name, lane, leaving: None, wanted_at: None });
    }

    /// The lane of a volume; `None`: it is not here.
    pub fn get(&mut self, number: usize) -> Option<&mut VolumeLane> {
        self.0.get_mut(number)?.as_mut().map(|place| &mut place.lane)
    }

    /// All that are here, with their numbers.
    pub fn lanes(&mut self) -> impl Iterator<Item = (usize, &mut VolumeLane)> {
        let places = self.0.iter_mut().enumerate();
        places.filter_map(|(number, place)| Some((number, &mut place.as_mut()?.lane)))
    }

    /// All that are here, with their names.
    pub fn named_lanes(&mut self) -> impl Iterator<Item = (&str, &mut VolumeLane)> {
        self.0.iter_mut().flatten().map(|place| (place.name.as_str(), &mut place.lane))
    }

    /// All that are here, with their numbers and names.
    pub fn named(&self) -> impl Iterator<Item = (usize, &str, &VolumeLane)> {
        let places = self.0.iter().enumerate();
        places.filter_map(|(number, place)| {
            let place = place.as_ref()?;
            Some((number, place.name.as_str(), &place.lane))
        })
    }

    /// Whether one is about to leave.
    #[must_use]
    pub fn is_any_leaving(&self) -> bool {
        self.0.iter().flatten().any(|place| place.leaving.is_some())
    }

    /// Forgets which volumes are to leave and have not begun to.
    pub fn stay(&mut self) {
        self.0.iter_mut().flatten().for_each(|place| place.wanted_at = None);
    }

    /// Those that were to leave and could not, and can now; where they are to go.
    pub fn leavers(&mut self) -> Vec<(usize, usize)> {
        let places = self.0.iter_mut().enumerate();
        let ready = places.filter_map(|(number, place)| {
            let place = place.as_mut().filter(|place| !place.lane.is_flushing())?;
            Some((number, place.wanted_at.take()?))
        });
        ready.collect()
    }

    /// Begins to move a volume, if it is here and does not move already; whether it is so. One whose
    /// devices are at a flush begins later. `others` is how many reactors have to hold what they ask.
    pub fn leave(&mut self, number: usize, to: usize, others: usize) -> bool {
        let Some(Some(place)) = self.0.get_mut(number) else { return false };
        if place.leaving.is_some() {
            return false;
        }
        if place.lane.is_flushing() {
            place.wanted_at = Some(to);
            return false;
        }
        place.leaving = Some(Leaving { to, asking: others });
        place.lane.leave(others == 0);
        true
    }

    /// Another reactor holds what it asks of a volume.
    pub fn held(&mut self, number: usize) {
        let Some(Some(place)) = self.0.get_mut(number) else { return };
        let Some(leaving) = &mut place.leaving else { return };
        leaving.asking = leaving.asking.saturating_sub(1);
        place.lane.leave(leaving.asking == 0);
    }

    /// A volume that can be handed over now, and to whom.
    pub fn depart(&mut self, ring: &mut Ring) -> Option<(usize, MovingVolume)> {
        let is_ready = |place: &Place| {
            let is_held = place.leaving.as_ref().is_some_and(|leaving| leaving.asking == 0);
            is_held && place.lane.is_still()
        };
        let number = self.0.iter().position(|place| place.as_ref().is_some_and(is_ready))?;
        let Place { name, lane, leaving, .. } = self.0[number].take()?;
        let devices = lane.devices().iter();
        // Nothing is under way on them: the ring gives them back.
        let devices = devices.map(|device| device.and_then(|device| ring.remove(device)));
        let devices = devices.collect();
        Some((leaving?.to, MovingVolume { number, name, lane, devices }))
    }

    /// Takes a volume; its number. A device whose descriptor cannot be used is gone.
    pub fn arrive(&mut self, ring: &mut Ring, moving: MovingVolume) -> usize {
        let MovingVolume { number, name, mut lane, devices } = moving;
        let add = |device: Option<OwnedFd>| device.and_then(|device| ring.add(device).ok());
        lane.moved(devices.into_iter().map(add).collect());
        self.add(number, name, lane);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{Plan, make};
    use crate::messages::{Ask, Tag};
    use crate::open::open_volume;
    use crate::server::Volume;
    use crate::token::Token;
    use crate::volume::{Pace, VolumeMemory};
    use std::time::Duration;
    use wattio_pages::Recycler;
    use wattio_ring::Wait;
    use wattio_target_config::DEVICE_DEPTH;
    use wattio_volume::{Compression, OpenOptions};

    /// Takes what the devices have done until the flush has ended; nothing else is begun.
    fn end_flush(volumes: &mut Volumes, ring: &mut Ring) {
        let mut memory = Recycler::new(0);
        for _ in 0..10_000 {
            let lane = volumes.get(0).unwrap();
            if !lane.is_flushing() {
                return;
            }
            ring.enter(Wait::Until(Duration::from_millis(10))).unwrap();
            while let Some(completion) = ring.next_completion() {
                if let Some(Token::Device { io, .. }) = Token::unpack(completion.token) {
                    lane.completed(io, completion, &mut memory);
                }
            }
        }
        panic!("it never ends");
    }

    /// Everything that was asked of a volume, what was in its memory too, waited for the slowest flush
    /// of its devices whenever the law moved it.
    #[test]
    fn a_volume_leaves_between_two_flushes() {
        let Ok(mut ring) = Ring::new(64) else { return };
        let folder = tempfile::tempdir().unwrap();
        let devices = vec![folder.path().join("disk")];
        let plan = Plan {
            devices: devices.clone(),
            size_bytes: Some(1 << 20),
            segment_bytes: 64 << 10,
            spare_share: None,
            compression: Compression::None,
            is_forced: false,
        };
        make(&plan).unwrap();
        let open =
            OpenOptions { map_bytes_max: 1 << 20, accept_missing: false, accept_loss: false };
        let wanted = Volume { export: "disk".to_owned(), devices, is_read_only: false, open };
        let opened = open_volume(&wanted).unwrap();
        let device = opened.devices.into_iter().flatten().next().unwrap();
        let handles = vec![ring.add(device.descriptor().unwrap()).ok()];
        let pace = Pace { scrub_period: None, device_depth: DEVICE_DEPTH };
        let memory = VolumeMemory { cache_bytes: 0, write_buffer_bytes: 0 };
        let lane = VolumeLane::new(0, (opened.volume, opened.opening), handles, pace, memory);
        let mut volumes = Volumes::default();
        volumes.add(0, "disk".to_owned(), lane);

        let flush = |volumes: &mut Volumes, ring: &mut Ring, number| {
            let lane = volumes.get(0).unwrap();
            lane.ask(Tag::new(0, number), Ask::Flush);
            lane.turn(ring, &mut Vec::new());
            lane.is_flushing()
        };
        assert!(flush(&mut volumes, &mut ring, 1));
        assert!(!volumes.leave(0, 1, 1) && !volumes.is_any_leaving(), "not while it flushes");
        assert_eq!(volumes.leavers(), []);
        // Who plans anew may want it to stay, or elsewhere.
        volumes.stay();
        assert!(!volumes.leave(0, 2, 1));
        end_flush(&mut volumes, &mut ring);
        assert_eq!(volumes.leavers(), [(0, 2)]);
        assert!(volumes.leave(0, 2, 1));
        // What others ask of it is not held yet, but would make it wait.
        assert!(!flush(&mut volumes, &mut ring, 2));
        volumes.held(0);
        let (to, moving) = volumes.depart(&mut ring).unwrap();
        assert_eq!((to, volumes.arrive(&mut ring, moving)), (2, 0));
        let mut answers = Vec::new();
        volumes.get(0).unwrap().turn(&mut ring, &mut answers);
        assert!(volumes.get(0).unwrap().is_flushing());
        end_flush(&mut volumes, &mut ring);
        volumes.get(0).unwrap().turn(&mut ring, &mut answers);
        let answered: Vec<u64> = answers.iter().map(|answer| answer.tag.number() as u64).collect();
        assert_eq!(answered.last(), Some(&2));
    }
}
