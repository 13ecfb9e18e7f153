//! Which disks hold a volume, and what its newest superblock says of them.

use crate::create::write_superblock_where;
use crate::disk::{Disk, read_blocks};
use crate::error::{DeviceName, OpenError};
use crate::format::{DeviceRole, FORMAT_MAX, Flaw, Superblock};
use crate::geometry::Geometry;
use crate::open::{Disks, InSync, OpenOptions, Places};

/// What the places for a superblock on a device hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// By slot and copy; `None`: nothing that can be used.
    copies: [[Option<Superblock>; 2]; 2],
    /// Slots of which both copies are zeros.
    blank: [bool; 2],
}

impl Slots {
    /// Reads all of them; there is at least one that can be used.
    fn read(disk: &mut dyn Disk, device: usize) -> Result<Self, OpenError> {
        let mut slots = Self { blank: [true; 2], ..Self::default() };
        let mut version = None;
        let mut failure = None;
        for (slot, copies) in slots.copies.iter_mut().enumerate() {
            for (copy, offset) in copies.iter_mut().zip(Geometry::superblock_offsets(slot)) {
                let page = match read_blocks(disk, offset, 1) {
                    Ok(found) => found.pages,
                    Err(error) => {
                        failure = Some(error);
                        slots.blank[slot] = false;
                        continue;
                    }
                };
                slots.blank[slot] &= page.as_bytes().iter().all(|&byte| byte == 0);
                match Superblock::decode(page.block(0)) {
                    Ok(found) => *copy = Some(found),
                    Err(Flaw::Version(found)) => version = Some(found),
                    Err(Flaw::NotOne) => {}
                }
            }
        }
        let device = || DeviceName::of(device, disk);
        let has_lost = slots.has_lost();
        match (slots.newest().is_some(), version, failure) {
            (_, Some(found), _) if has_lost => {
                Err(OpenError::Version { device: device(), found, known: FORMAT_MAX })
            }
            (true, ..) => Ok(slots),
            (_, _, Some(error)) => Err(OpenError::Device { device: device(), what: "read", error }),
            _ => Err(OpenError::NoVolume(device())),
        }
    }

    /// The newest of them. Of two that say the same, one that was written to both slots.
    fn newest(&self) -> Option<&Superblock> {
        self.copies.iter().flatten().flatten().max_by_key(|one| age(one))
    }

    /// Whether neither copy of a slot can be used.
    fn is_lost(&self, slot: usize) -> bool {
        self.copies[slot].iter().all(Option::is_none)
    }

    /// Whether a first copy holds this superblock.
    fn is_in_first_copy(&self, number: u64) -> bool {
        self.copies.iter().any(|[first, _]| first.as_ref().is_some_and(|one| one.number == number))
    }

    fn has_lost(&self) -> bool {
        self.is_lost(0) || self.is_lost(1)
    }

    /// Whether the second slot was never written: an earlier version made the volume, and left it blank
    /// until the first opening. If there was one nevertheless, the log goes on, and all of it is there:
    /// the next superblock would be in the first slot.
    fn is_new(&self) -> bool {
        let is_first = |newest: &Superblock| newest.number == 0 && !newest.is_in_both_slots;
        self.blank[1] && self.newest().is_some_and(is_first)
    }
}

const fn age(superblock: &Superblock) -> (u64, bool) {
    (superblock.number, superblock.is_in_both_slots)
}

/// Reads the newest superblock of a device; what it holds, nothing is changed.
///
/// # Errors
/// When there is none, it is of another version, or the device cannot be read.
pub fn read_superblock(disk: &mut dyn Disk, device: usize) -> Result<Superblock, OpenError> {
    let slots = Slots::read(disk, device)?;
    slots.newest().cloned().ok_or_else(|| OpenError::NoVolume(DeviceName::of(device, disk)))
}

/// A disk that holds a volume: its place among those given, and what it says.
struct Found {
    place: usize,
    superblock: Superblock,
    slots: Slots,
    disk: Box<dyn Disk>,
}

impl Found {
    fn name(&self) -> DeviceName {
        DeviceName::of(self.place, &*self.disk)
    }

    /// Whether it is smaller than what it says that it holds.
    fn is_cut_short(&self) -> bool {
        self.disk.bytes() < self.superblock.geometry.device_bytes()
    }

    /// The same as an error, of a volume of so many devices.
    fn cut_short(&self, devices: usize) -> OpenError {
        let (bytes, needed) = (self.disk.bytes(), self.superblock.geometry.device_bytes());
        OpenError::CutShort { device: self.name(), bytes, needed, devices }
    }

    /// Whether it may have been there when the newest superblock was written. A crash keeps a device from
    /// one superblock at most, for the next one is not begun before all devices have it; of an earlier
    /// version, a slot that is lost since may have held one more. What lacks more than that is a
    /// copy from an earlier time, or was replaced meanwhile: its map and its data are old. Of what lacks
    /// one, the map says it.
    fn keeps_up_with(&self, newest: &Superblock) -> bool {
        let may_have_had_one = !self.superblock.is_in_both_slots && self.slots.has_lost();
        newest.number - self.superblock.number <= 1 + u64::from(may_have_had_one)
    }
}

/// Which disks hold a volume, and what they say of it.
pub(crate) struct Identified {
    /// The superblock that counts, with the roles that the devices have without those that are not
    /// there.
    pub(crate) superblock: Superblock,
    /// The disks that hold what it says.
    pub(crate) disks: Disks,
    /// The places of all that are of the volume.
    pub(crate) places: Places,
    pub(crate) condition: Condition,
}

/// The superblocks of a volume as they were found.
pub(crate) struct Condition {
    /// The one that counts, as it was written.
    newest: Superblock,
    /// What each device holds.
    slots: Vec<Slots>,
    /// Whether there was none after it: not where a slot is lost, for it may have held one. Nothing
    /// that this one relies on is gone then, or the loss was accepted; but the log may go on.
    pub(crate) is_last: bool,
    /// Whether a slot is lost on a device that counts.
    pub(crate) has_lost: bool,
    /// Devices that count, and do not have it: a crash kept it from them, or they are older copies.
    pub(crate) without_newest: Vec<u8>,
    /// Whether only second copies hold the one that counts. The power failed while the first ones of the
    /// next one were written, and all is there; or the first ones were damaged, and what this one
    /// relies on may have been used for something else.
    pub(crate) first_copies_lost: bool,
}

impl Condition {
    /// Writes the superblock that counts to where it should be and is not. Nothing that one before it
    /// relies on may be overwritten earlier, and not before it is durable itself. A slot that may have
    /// held a later one stays as it is, and says so, until there is a later one.
    pub(crate) fn mend(&self, disks: &mut InSync<'_>) -> Result<(), OpenError> {
        let is_in_both_slots = self.newest.is_in_both_slots || self.is_last;
        let superblock = Superblock { is_in_both_slots, ..self.newest.clone() };
        let is_wanted = |device: u8, slot: usize, copy: usize| {
            let slots = &self.slots[usize::from(device)];
            let is_there = slots.copies[slot][copy]
                .as_ref()
                .is_some_and(|found| *found == Superblock { device, ..superblock.clone() });
            !is_there && (self.is_last || !slots.is_lost(slot))
        };
        write_superblock_where(disks, &superblock, is_wanted)
    }
}

/// Finds the disks that hold a volume.
pub(crate) fn identify(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
) -> Result<Identified, OpenError> {
    let found = read_superblocks(given, options)?;
    let mut best = newest(&found)?;
    let devices = best.roles.len();
    let places = places(&found, devices)?;
    let is_in_sync = |superblock: &Superblock| {
        best.roles.get(usize::from(superblock.device)) == Some(&DeviceRole::InSync)
    };
    let counts = |one: &Found| {
        is_in_sync(&one.superblock) && one.keeps_up_with(&best) && !one.is_cut_short()
    };
    if found.iter().any(|one| one.superblock.has_gone_its_own_way(&best)) {
        return Err(OpenError::SplitBrain);
    }
    // What its superblock says counts all the same: that the other device was left out, for one.
    let is_cut = |one: &&Found| is_in_sync(&one.superblock) && one.is_cut_short();
    if let Some(cut) = found.iter().find(is_cut)
        && (!options.accept_missing || !found.iter().any(counts))
    {
        return Err(cut.cut_short(devices));
    }
    let is_old = |one: &&Found| is_in_sync(&one.superblock) && !one.keeps_up_with(&best);
    if let Some(old) = found.iter().find(is_old)
        && !options.accept_missing
    {
        return Err(OpenError::Old(old.name()));
    }
    let mut condition = Condition {
        newest: best.clone(),
        slots: vec![Slots::default(); devices],
        is_last: true,
        has_lost: false,
        without_newest: Vec::new(),
        first_copies_lost: true,
    };
    let mut disks: Disks = std::iter::repeat_with(|| None).take(devices).collect();
    let in_sync = best.roles.iter().filter(|&&role| role == DeviceRole::InSync).count();
    for one in found.into_iter().filter(counts) {
        let is_known = best.is_in_both_slots || one.slots.is_new();
        // Of one with an older superblock the lost slot held no more than the one that counts.
        if one.slots.has_lost() && one.superblock.number == best.number {
            if !is_known && !options.accept_loss {
                return Err(OpenError::LostSuperblock(one.name()));
            }
            condition.is_last = false;
        }
        if one.superblock.number < best.number {
            condition.without_newest.push(one.superblock.device);
        }
        condition.first_copies_lost &= !one.slots.is_in_first_copy(best.number);
        condition.has_lost |= one.slots.has_lost() && !one.slots.is_new();
        let device = usize::from(one.superblock.device);
        condition.slots[device] = one.slots;
        disks[device] = Some(one.disk);
    }
    let given = disks.iter().flatten().count();
    if given == 0 || (given < in_sync && !options.accept_missing) {
        return Err(OpenError::Missing { devices, given });
    }
    for (role, disk) in best.roles.iter_mut().zip(&disks) {
        *role = if disk.is_some() { DeviceRole::InSync } else { DeviceRole::Out };
    }
    Ok(Identified { superblock: best, disks, places, condition })
}

/// The disks that hold a volume, at least one.
fn read_superblocks(
    given: Vec<Box<dyn Disk>>,
    options: &OpenOptions,
) -> Result<Vec<Found>, OpenError> {
    let (mut found, mut blank, mut failure) = (Vec::new(), None, None);
    for (place, mut disk) in given.into_iter().enumerate() {
        let slots = match Slots::read(&mut *disk, place) {
            Ok(slots) => slots,
            // A new device beside one that holds the volume: it is to be filled.
            Err(OpenError::NoVolume(device)) => {
                blank = blank.or(Some(device));
                continue;
            }
            // As good as missing.
            Err(error @ OpenError::Device { .. }) if options.accept_missing => {
                failure = failure.or(Some(error));
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(superblock) = slots.newest().cloned() else { continue };
        found.push(Found { place, superblock, slots, disk });
    }
    if found.is_empty() {
        return Err(failure.unwrap_or(OpenError::NoVolume(blank.unwrap_or_default())));
    }
    Ok(found)
}

/// The newest superblock; all have to be of one volume.
fn newest(found: &[Found]) -> Result<Superblock, OpenError> {
    let newest = found.iter().max_by_key(|one| age(&one.superblock));
    let (Some(first), Some(newest)) = (found.first(), newest) else {
        return Err(OpenError::NoVolume(DeviceName::default()));
    };
    let whose = |one: &Found| one.superblock.volume;
    if let Some(other) = found.iter().find(|other| whose(other) != whose(first)) {
        let (device, other, found) = (other.name(), first.name(), whose(other));
        return Err(OpenError::Mixed { device, found, other, first: whose(first) });
    }
    Ok(newest.superblock.clone())
}

/// Where each device of the volume is. Of two that are the same one, one is a copy that was made
/// some time ago: nobody can say which of them clients mean.
fn places(found: &[Found], devices: usize) -> Result<Places, OpenError> {
    let mut known: Vec<Option<&Found>> = vec![None; devices];
    for one in found {
        let number = one.superblock.device;
        let Some(known) = known.get_mut(usize::from(number)) else { continue };
        if let Some(first) = known.replace(one) {
            let (first, second) = (first.name(), one.name());
            return Err(OpenError::Twice { first, second, number });
        }
    }
    Ok(known.into_iter().map(|one| one.map(|one| one.place)).collect())
}
