//! Places that change as a side effect of writes elsewhere. They are restored once the cause is
//! gone, and then no longer held: whoever changes them later does so on purpose.

use super::{Held, RestorableWriter, Written};
use crate::knob::Address;
use std::collections::BTreeSet;

impl RestorableWriter {
    /// Lets go of those of these places that somebody else changed since the last write that endangers
    /// them.
    pub(super) fn leave_side_effects_to_others<'a>(
        &mut self,
        places: impl Iterator<Item = &'a Address>,
    ) {
        for place in places {
            let Some(Held {
                written: Written::Nothing, effect: Written::Read(seen), original, ..
            }) = self.held.get(place)
            else {
                continue;
            };
            let Ok(found) = self.machine.read(place) else { continue };
            if !self.is_side_effect(place, original, seen, &found) {
                self.forget(place);
                self.outdated = true;
            }
        }
    }

    /// Whether what was found at a place is its old value, or comes of our writes elsewhere.
    pub(super) fn is_side_effect(
        &self,
        place: &Address,
        original: &str,
        seen: &str,
        found: &str,
    ) -> bool {
        let same = |value| self.machine.same(place, value, found);
        same(original) || same(seen) || self.machine.is_side_effect(place, original, found)
    }

    /// Takes note of what a write changed at the places that it endangers, and puts those back once
    /// the old value stands at the `cause` again: what was saved last first, as at a restore.
    pub(super) fn note_side_effects(&mut self, cause: &Address, back: bool) {
        let endangered = self.held.get(cause).map(|held| held.endangers.clone());
        let endangered = endangered.into_iter().flatten();
        let ranked = endangered.filter_map(|place| Some((self.held.get(&place)?.rank, place)));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by(|a, b| b.cmp(a));
        ranked.into_iter().for_each(|(_, place)| self.note_side_effect(&place, back));
    }

    fn note_side_effect(&mut self, place: &Address, back: bool) {
        let mut found = self.machine.read(place);
        let written = self.held.get(place).map(|held| held.written.clone());
        if let Some(Written::Read(written)) = written {
            found = found.map(|found| self.behind_limit(place, &written, found));
        }
        let Some(held) = self.held.get_mut(place) else { return };
        if held.written != Written::Nothing {
            // Another knob of ours writes there too and takes care of it.
            held.written = found.map_or(Written::Unread, Written::Read);
            return;
        }
        if let Ok(now) = &found
            && back
            && !self.machine.same(place, now, &held.original)
        {
            // Refused as long as another core is off; tried again when that one returns, and at the
            // restore, where a failure is told.
            let _ = self.machine.write(place, &held.original);
            found = self.machine.read(place);
        }
        held.effect = found.map_or(Written::Unread, Written::Read);
    }

    /// Forgets the places that hold their old value again and that nothing endangers any more: the next
    /// write that does saves what it finds. Only between two calls, as a core may leave after another
    /// one returned.
    pub(super) fn forget_restored(&mut self) {
        let away = self.held.iter().filter(|(cause, held)| self.is_away(cause, held));
        let endangered: BTreeSet<_> = away.flat_map(|(_, held)| &held.endangers).collect();
        let restored = self.held.iter().filter(|(place, held)| self.is_restored(place, held));
        let restored: BTreeSet<_> =
            restored.map(|(place, _)| place).filter(|place| !endangered.contains(place)).collect();
        if restored.is_empty() {
            return;
        }
        let restored: BTreeSet<_> = restored.into_iter().cloned().collect();
        restored.iter().for_each(|place| self.forget(place));
        for held in self.held.values_mut() {
            held.endangers.retain(|place| !restored.contains(place));
        }
        self.outdated = true;
    }

    /// Whether a place that endangers others holds what a write of ours left there.
    fn is_away(&self, place: &Address, held: &Held) -> bool {
        match &held.written {
            _ if held.endangers.is_empty() => false,
            Written::Nothing => false,
            Written::Unread => true,
            Written::Read(value) => !self.machine.same(place, value, &held.original),
        }
    }

    /// Whether a place that was only changed as a side effect holds its old value again.
    fn is_restored(&self, place: &Address, held: &Held) -> bool {
        let back = |now| self.machine.same(place, now, &held.original);
        held.written == Written::Nothing && matches!(&held.effect, Written::Read(now) if back(now))
    }
}
