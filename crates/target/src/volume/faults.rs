//! What goes wrong with a volume while it is in use, and clients may not notice: said once.

use super::VolumeLane;
use crate::log::{Priority, counted, log, of_export};

/// What was logged of a volume.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// That it cannot be written any more.
    failure: bool,
    /// That its devices are full.
    refusal: bool,
    /// What so many tours of the scrub have found.
    tours: u64,
    /// So many blocks that were repaired.
    repaired: u64,
}

impl VolumeLane {
    /// Logs that a volume cannot be written any more, that it is full, and, with each tour of the
    /// scrub, damage that was repaired since the last one and damage that it could not repair.
    pub fn log_faults(&mut self, export: &str) {
        if !self.logged.failure
            && let Some(why) = self.volume.failure()
        {
            self.logged.failure = true;
            let what = "nothing can be written any more";
            log(Priority::Error, &format!("{}: {what}: {why}", of_export(export)));
        }
        if !self.logged.refusal && self.volume.counters().refused_writes > 0 {
            self.logged.refusal = true;
            let full = "its devices are full, and a write was refused; trims make room";
            log(Priority::Warning, &format!("{}: {full}", of_export(export)));
        }
        let (tours, unrepaired) = self.volume.scrub_tours();
        // The count is of the last tour, and begins anew with the next one.
        if self.logged.tours != tours && self.volume.scrub_progress().is_none() {
            self.logged.tours = tours;
            let repaired = self.volume.counters().repaired_blocks;
            let since =
                repaired.saturating_sub(std::mem::replace(&mut self.logged.repaired, repaired));
            let found = [repaired_blocks(since), unrepaired_blocks(unrepaired)];
            for what in found.into_iter().flatten() {
                log(Priority::Warning, &format!("{}: {what}", of_export(export)));
            }
        }
    }
}

/// What is told of so many blocks that were repaired until a tour of the scrub ended.
fn repaired_blocks(count: u64) -> Option<String> {
    let (blocks, were) = (counted(count, "damaged block"), if count == 1 { "was" } else { "were" });
    (count > 0).then(|| format!("{blocks} {were} found and repaired"))
}

/// What a tour of the scrub that could not repair so many blocks has to tell.
fn unrepaired_blocks(count: u64) -> Option<String> {
    let blocks = counted(count, "damaged block");
    (count > 0).then(|| format!("the scrub has found {blocks} that no device has whole"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damage_is_told() {
        assert_eq!((unrepaired_blocks(0), repaired_blocks(0)), (None, None));
        assert!(repaired_blocks(1).unwrap().starts_with("1 damaged block was found"));
        assert!(repaired_blocks(124).unwrap().starts_with("124 damaged blocks were found"));
        for (count, says) in [(1, "found 1 damaged block that"), (2, "found 2 damaged blocks that")]
        {
            let told = unrepaired_blocks(count).unwrap();
            assert!(told.contains(says), "{told}");
        }
    }
}
