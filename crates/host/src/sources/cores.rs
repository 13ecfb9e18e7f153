//! From ticks of cores to the use of groups.

use std::collections::BTreeMap;
use wattio_governor::{Cpus, GroupUse};

/// Ticks of one core since it was first brought on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In tasks of clients and in the kernel for them.
    pub clients: u64,
    /// In reniced tasks.
    pub background: u64,
    /// Without work.
    pub idle: u64,
    /// Without work while a drive was.
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

/// What the cores did between two readings of their ticks.
#[derive(Debug, Default)]
pub(super) struct Cores {
    last: BTreeMap<u32, Ticks>,
    told: Vec<GroupUse>,
}

impl Cores {
    /// The use of each group's active cores since the reading before. Cores that are not listed in
    /// both readings are left out; a group without a tick in between is told what it was last time.
    ///
    /// # Errors
    /// Names the cores of a group that nothing was ever told of.
    pub fn uses(
        &mut self,
        new: BTreeMap<u32, Ticks>,
        active: &[Cpus],
    ) -> Result<Vec<GroupUse>, String> {
        let use_of = |(at, active): (usize, &Cpus)| {
            let used = self.used(&new, active).or_else(|| self.told.get(at).copied());
            used.ok_or_else(|| {
                format!("no tick passed on cores {active}: too early to tell, or they are off")
            })
        };
        let uses: Result<Vec<GroupUse>, String> = active.iter().enumerate().map(use_of).collect();
        for (core, ticks) in new {
            let last = self.last.entry(core).or_insert(ticks);
            // Without a tick the base stays, so that none is missed.
            if ticks.since(*last).all() > 0 || ticks.all() < last.all() {
                *last = ticks;
            }
        }
        let uses = uses?;
        self.told.clone_from(&uses);
        Ok(uses)
    }

    /// The use of one group; `None` where no tick passed on its cores.
    fn used(&self, new: &BTreeMap<u32, Ticks>, active: &Cpus) -> Option<GroupUse> {
        let on =
            active.iter().filter_map(|core| Some(new.get(&core)?.since(*self.last.get(&core)?)));
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
