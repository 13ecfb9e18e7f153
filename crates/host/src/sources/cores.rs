//! Computes the use of groups from the ticks of cores.

use wattio_governor::{Cpus, GroupUse};

/// Ticks of one core since it was first brought on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In client tasks and in the kernel for them.
    pub clients: u64,
    /// In reniced tasks.
    pub background: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while waiting for a drive.
    pub waiting: u64,
}

impl Ticks {
    fn all(self) -> u64 {
        [self.clients, self.background, self.idle, self.waiting]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// The kernel's idle time may go back a little; such a difference is none.
    fn since(self, last: Self) -> Self {
        Self {
            clients: self.clients.saturating_sub(last.clients),
            background: self.background.saturating_sub(last.background),
            idle: self.idle.saturating_sub(last.idle),
            waiting: self.waiting.saturating_sub(last.waiting),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            clients: self.clients.saturating_add(other.clients),
            background: self.background.saturating_add(other.background),
            idle: self.idle.saturating_add(other.idle),
            waiting: self.waiting.saturating_add(other.waiting),
        }
    }
}

/// The ticks of cores in one reading: ascending by core, each core once. In one piece, as all of it
/// is gone through in every window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading(Vec<(u32, Ticks)>);

impl Reading {
    /// Whether there is no core.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ticks of a core.
    #[must_use]
    pub fn of(&self, core: u32) -> Option<Ticks> {
        self.place(core).ok().and_then(|at| self.0.get(at)).map(|(_, ticks)| *ticks)
    }

    /// As a rule all cores are on, and each stands at its number.
    fn place(&self, core: u32) -> Result<usize, usize> {
        let at = core as usize;
        match self.0.get(at) {
            Some((found, _)) if *found == core => Ok(at),
            _ => self.0.binary_search_by_key(&core, |(core, _)| *core),
        }
    }
}

impl FromIterator<(u32, Ticks)> for Reading {
    /// Of a core that is listed twice the last is taken.
    fn from_iter<I: IntoIterator<Item = (u32, Ticks)>>(ticks: I) -> Self {
        let mut ticks: Vec<_> = ticks.into_iter().collect();
        ticks.sort_by_key(|(core, _)| *core);
        ticks.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                *kept = *next;
            }
            same
        });
        Self(ticks)
    }
}

/// What the cores did between two readings of their ticks.
#[derive(Debug, Default)]
pub(super) struct Cores {
    last: Reading,
    told: Vec<GroupUse>,
}

impl Cores {
    /// The use of each group's active cores since the reading before. Cores that are not listed in
    /// both readings are left out; a group without a tick in between repeats its last value.
    ///
    /// # Errors
    /// Names the cores of a group without any value so far.
    pub fn uses(&mut self, new: Reading, active: &[Cpus]) -> Result<Vec<GroupUse>, String> {
        let use_of = |(at, active): (usize, &Cpus)| {
            let used = self.used(&new, active).or_else(|| self.told.get(at).copied());
            used.ok_or_else(|| {
                format!("no tick passed on cores {active}: too early to tell, or they are off")
            })
        };
        let uses: Result<Vec<GroupUse>, String> = active.iter().enumerate().map(use_of).collect();
        self.keep(new);
        let uses = uses?;
        self.told.clone_from(&uses);
        Ok(uses)
    }

    /// How many of each group's cores were busy since the reading before; 0 if no tick passed on them.
    pub fn busy(&mut self, new: Reading, groups: &[Cpus]) -> Vec<f64> {
        let busy = |group: &Cpus| {
            let one = |core| {
                let ticks = new.of(core)?.since(self.last.of(core)?);
                let busy = ticks.clients.saturating_add(ticks.background);
                (ticks.all() > 0).then(|| busy as f64 / ticks.all() as f64)
            };
            group.iter().filter_map(one).sum()
        };
        let busy = groups.iter().map(busy).collect();
        self.keep(new);
        busy
    }

    /// Makes a reading the base of the next window.
    fn keep(&mut self, mut new: Reading) {
        for (core, ticks) in &mut new.0 {
            let Some(last) = self.last.of(*core) else { continue };
            // Without a tick the base stays, so that none is missed.
            if ticks.since(last).all() == 0 && ticks.all() >= last.all() {
                *ticks = last;
            }
        }
        // Cores that went off count on from where they were.
        let off = self.last.0.iter().filter(|(core, _)| new.of(*core).is_none());
        let off: Vec<_> = off.copied().collect();
        self.last = if off.is_empty() { new } else { new.0.into_iter().chain(off).collect() };
    }

    /// The use of one group; `None` if no tick passed on its cores.
    fn used(&self, new: &Reading, active: &Cpus) -> Option<GroupUse> {
        let on = active.iter().filter_map(|core| Some(new.of(core)?.since(self.last.of(core)?)));
        let ticks = on.fold(Ticks::default(), Ticks::plus);
        let share = |part: u64| part as f64 / ticks.all() as f64;
        (ticks.all() > 0).then(|| GroupUse {
            utilisation_clients: share(ticks.clients),
            utilisation_background: share(ticks.background),
            queued: None,
            waited_for_drives: ticks.waiting > 0,
        })
    }
}
