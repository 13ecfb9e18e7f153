//! The volumes of a reactor, and how they move to another one.
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
        self.0[number] = Some(Place { name, lane, leaving: None });
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

    /// Begins to move a volume, if it is here and does not move already; whether it is so. `others`
    /// is how many reactors have to hold what they ask.
    pub fn leave(&mut self, number: usize, to: usize, others: usize) -> bool {
        let Some(Some(place)) = self.0.get_mut(number) else { return false };
        if place.leaving.is_some() {
            return false;
        }
        place.leaving = Some(Leaving { to, asking: others });
        place.lane.pause(others == 0);
        true
    }

    /// Another reactor holds what it asks of a volume.
    pub fn held(&mut self, number: usize) {
        let Some(Some(place)) = self.0.get_mut(number) else { return };
        let Some(leaving) = &mut place.leaving else { return };
        leaving.asking = leaving.asking.saturating_sub(1);
        place.lane.pause(leaving.asking == 0);
    }

    /// A volume that can be handed over now, and to whom.
    pub fn depart(&mut self, ring: &mut Ring) -> Option<(usize, MovingVolume)> {
        let is_ready = |place: &Place| {
            let is_held = place.leaving.as_ref().is_some_and(|leaving| leaving.asking == 0);
            is_held && place.lane.is_still()
        };
        let number = self.0.iter().position(|place| place.as_ref().is_some_and(is_ready))?;
        let Place { name, lane, leaving } = self.0[number].take()?;
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
