//! The simulations of a search.

use super::choice::Rates;
use super::debts::Debts;
use super::known::{Known, Merged, Total, Whole};
use super::measure::{Slot, Timeline, Watched, play};
use super::promises::Promises;
use super::replay::Replay;
use super::slots::{Slots, Stage};
use super::table::Table;
use super::{Answer, OracleSettings, Rival, without_switching_costs};
use crate::load::{Load, LoadError};
use crate::plant::limits;
use crate::run::Run;
use std::sync::atomic::AtomicBool;
use wattio_law::{Action, Bound, Limits, Scope, Statistic};
use wattio_plant::Server;

/// Loads of more events than this are tried on an excerpt, where their phases allow it.
const WHOLE_EVENTS_MAX: u64 = 6_000_000;
/// A setting is hopeless that leaves more requests in the server than this ...
const REQUESTS_MAX: f64 = 500_000.0;
/// ... and than so many times what full speed does.
const REQUESTS_TIMES_MAX: f64 = 4.0;

/// A load of which every run is the same.
pub type Source<'a, E> = dyn Fn() -> Result<Load, E> + Sync + 'a;

/// Everything that a simulation needs.
pub struct Lab<'a, E> {
    pub server: &'a Server,
    /// The server with free switching.
    pub free: Server,
    pub limits: Limits,
    pub load: &'a Source<'a, E>,
    pub settings: &'a OracleSettings,
    pub rivals: &'a [Rival],
    /// Whether the caller gave up.
    pub stop: AtomicBool,
}

/// What one simulation taught: what each setting gave in each class.
pub type Lessons = Vec<(usize, u32, Rates)>;

/// A rival's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalRun {
    /// Its place in the list.
    pub rival: usize,
    /// Whether switching costs nothing.
    pub is_free: bool,
}

impl<'a, E: From<LoadError>> Lab<'a, E> {
    pub fn new(
        server: &'a Server,
        load: &'a Source<'a, E>,
        settings: &'a OracleSettings,
        rivals: &'a [Rival],
    ) -> Self {
        let free = without_switching_costs(server);
        let limits = limits(&free);
        Self { server, free, limits, load, settings, rivals, stop: AtomicBool::new(false) }
    }

    fn watched<'w>(&'w self, known: &Known, progress: &'w dyn Fn(f64)) -> Watched<'w> {
        let most = known.slots.iter().map(|slot| slot.left).fold(0.0, f64::max);
        Watched {
            windows: known.windows,
            with_buckets: known.promises.need_buckets(),
            stop: &self.stop,
            progress,
            requests_max: REQUESTS_MAX.max(REQUESTS_TIMES_MAX * most) as u64,
        }
    }

    /// Runs the load at full speed and learns what the promises mean; `None` when stopped.
    pub fn native(&self, progress: &dyn Fn(f64)) -> Result<Option<Known>, E> {
        let OracleSettings { bounds, floor, slot_s, trial_s, run, .. } = self.settings;
        // What holds in each slot is measured in each, and a limit that is a time may be one that full
        // speed does not keep.
        let by_slot = |bound: &Bound| {
            let of_slots = bound.scope == Scope::Window || bound.share().is_none();
            of_slots && bound.statistic != Statistic::Mean
        };
        let law = Box::new(Replay::new(Vec::new(), self.limits.full_speed()));
        let mut played = Run::new(&self.free, law, (self.load)()?, *run)?;
        let mut merged = Merged::new((slot_s / run.window_s).round().max(1.0) as usize, bounds);
        let watched = Watched {
            windows: 1,
            with_buckets: bounds.iter().any(by_slot),
            stop: &self.stop,
            progress,
            requests_max: u64::MAX,
        };
        let Some(summary) = play(&mut played, &watched, None, |slot| merged.push(slot))? else {
            return Ok(None);
        };
        let (slots, of_slots, windows) = merged.finish();
        let of_run = bounds.iter().map(|bound| match bound.statistic {
            _ if summary.ios == 0 => None,
            Statistic::Mean => summary.latency_us_mean.map(|us| us * 1e-6),
            Statistic::Quantile(q) => Some(played.histogram().value_at_quantile(q) as f64 * 1e-9),
        });
        let of_run: Vec<_> = of_run.collect();
        let promises = Promises::new(bounds, *floor, &slots, &of_slots, &of_run);
        let spans_s: Vec<f64> = slots.iter().map(|slot| slot.span_s).collect();
        let load = (self.load)()?;
        let classes = Slots::of(&load, &spans_s);
        let excerpt = (summary.events > WHOLE_EVENTS_MAX && !promises.are_by_slot())
            .then(|| Slots::excerpt(&load, &spans_s, *trial_s, run.seed))
            .flatten();
        let (classes, stage) = excerpt.unwrap_or((classes, Stage::Whole));
        let mut of_classes = vec![Slot::default(); classes.count];
        let mut total = Total::default();
        for (at, slot) in slots.iter().enumerate() {
            of_classes[classes.classes[at]].merge(slot);
            total.add(slot, &promises.excess_of_native(at, slot, &of_slots[at]));
        }
        total.background_delay_s_max = summary.background_delay_s_max.unwrap_or(0.0);
        let (events, floor) = (summary.events, *floor);
        let due: f64 = self.server.groups.iter().map(|group| group.background_cores).sum();
        let remembered_s = self.server.background.as_ref().map_or(0.0, |w| w.backlog_limit.0);
        let limit_s = self.settings.background_delay_s.unwrap_or(f64::INFINITY).min(remembered_s);
        let owed_max_core_s = due * limit_s;
        let half_a_slot_s = 0.5 * windows as f64 * run.window_s;
        let background_delay_s =
            self.settings.background_delay_s.map_or(f64::INFINITY, |delay_s| {
                (delay_s + half_a_slot_s).max(total.background_delay_s_max)
            });
        let debts = Debts::new(self.server, &slots);
        Ok(Some(Known {
            debts,
            slots,
            spans_s,
            windows,
            classes,
            of_classes,
            stage,
            promises,
            events,
            total,
            floor,
            may_skip: self.settings.background_delay_s.is_none(),
            owed_max_core_s,
            background_delay_s,
        }))
    }

    /// What full speed gave in the run that is known; for classes that nothing else is known of,
    /// for latencies one by one are not.
    pub fn native_lessons(&self, known: &Known) -> Vec<(usize, Rates)> {
        let mut debts = self.debts(known);
        let slots = known.classes.classes.iter().zip(&known.slots).enumerate();
        slots.map(|(at, (&class, slot))| (class, debts(at, slot))).collect()
    }

    /// Tries one setting in each class; `None` when that is hopeless.
    pub fn trial(
        &self,
        known: &Known,
        table: &Table,
        settings: &[u32],
        progress: &dyn Fn(f64),
    ) -> Option<Lessons> {
        match &known.stage {
            Stage::Whole => self.trial_whole(known, table, settings, progress),
            Stage::Excerpt { .. } => self.trial_excerpt(known, table, settings, progress),
        }
    }

    fn trial_whole(
        &self,
        known: &Known,
        table: &Table,
        settings: &[u32],
        progress: &dyn Fn(f64),
    ) -> Option<Lessons> {
        let picks = known.classes.classes.iter().map(|&class| table.setting(settings[class]));
        let timeline = self.timeline(known, picks);
        let law = Box::new(Replay::new(timeline, self.limits.full_speed()));
        let load = (self.load)().ok()?;
        let mut run = Run::new(&self.free, law, load, self.settings.run).ok()?;
        run.fill_backlog();
        let mut lessons = Lessons::new();
        let mut at = 0;
        let mut debts = self.debts(known);
        play(&mut run, &self.watched(known, progress), None, |slot| {
            let rates = debts(at, &slot);
            if let Some(&class) = known.classes.classes.get(at) {
                lessons.push((class, settings[class], rates));
            }
            at += 1;
        })
        .ok()??;
        Some(lessons)
    }

    fn trial_excerpt(
        &self,
        known: &Known,
        table: &Table,
        settings: &[u32],
        progress: &dyn Fn(f64),
    ) -> Option<Lessons> {
        let Stage::Excerpt { senders, phases, settings: run, windows } = &known.stage else {
            return None;
        };
        let mut start_s = 0.0;
        let timeline = phases.iter().zip(settings).map(|(phase, &setting)| {
            let start_ns = (start_s * 1e9_f64).round() as u64;
            start_s += phase.span_s;
            (start_ns, table.setting(setting).clone())
        });
        let law = Box::new(Replay::new(timeline.collect(), self.limits.full_speed()));
        let load = Load::Phases { senders: *senders, phases: phases.clone() };
        let mut run = Run::new(&self.free, law, load, *run).ok()?;
        run.fill_backlog();
        let mut lessons = Lessons::new();
        let mut at = 0;
        let watched = Watched { windows: 1, ..self.watched(known, progress) };
        play(&mut run, &watched, None, |slot| {
            if let Some(Some(class)) = windows.get(at) {
                let ios = known.ios_of(*class) * slot.span_s;
                let excess = known.promises.excess(0, &slot, Some(ios));
                lessons.push((*class, settings[*class], Rates::of(&slot, &excess)));
            }
            at += 1;
        })
        .ok()??;
        Some(lessons)
    }

    /// Plays a rival.
    pub fn rival(&self, known: &Known, of: RivalRun, progress: &dyn Fn(f64)) -> Option<Whole> {
        let law = (self.rivals[of.rival].make)();
        let server = if of.is_free { &self.free } else { self.server };
        let bounds = &self.settings.bounds;
        let load = (self.load)().ok()?;
        let run = Run::with_bounds(server, law, bounds, load, self.settings.run).ok()?;
        let answer = Answer::Rival { rival: of.rival, is_free: of.is_free };
        self.whole(known, run, answer, Some(Timeline::new()), progress)
    }

    /// Plays a timeline on the server that switches freely.
    pub fn confirm(
        &self,
        known: &Known,
        timeline: Timeline,
        progress: &dyn Fn(f64),
    ) -> Option<Whole> {
        let law = Box::new(Replay::new(timeline.clone(), self.limits.full_speed()));
        let load = (self.load)().ok()?;
        let bounds = &self.settings.bounds;
        let run = Run::with_bounds(&self.free, law, bounds, load, self.settings.run).ok()?;
        self.whole(known, run, Answer::Timeline(timeline), None, progress)
    }

    fn whole(
        &self,
        known: &Known,
        mut run: Run,
        answer: Answer,
        mut log: Option<Timeline>,
        progress: &dyn Fn(f64),
    ) -> Option<Whole> {
        let mut total = Total::default();
        let (mut rates, mut latency_s) = (Vec::new(), Vec::new());
        let mut debts = self.debts(known);
        let summary = play(&mut run, &self.watched(known, progress), log.as_mut(), |slot| {
            total.add(&slot, &known.promises.excess(rates.len(), &slot, None));
            rates.push(debts(rates.len(), &slot));
            latency_s.push((slot.latency_s / slot.ios.max(1.0)) as f32);
        })
        .ok()??;
        total.background_delay_s_max = summary.background_delay_s_max.unwrap_or(0.0);
        let timeline = match &answer {
            Answer::Timeline(timeline) => timeline.clone(),
            Answer::Rival { .. } => log.unwrap_or_default(),
        };
        Some(Whole { total, rates, latency_s, timeline, answer })
    }

    /// What each slot gave, with what it inflicted on others; wants every slot in its order.
    fn debts<'k>(&'k self, known: &'k Known) -> impl FnMut(usize, &Slot) -> Rates + 'k {
        let mut found_s = 0.0;
        move |at, slot| {
            let left_s = known.debts.cost_s(at + 1, slot.left);
            let network_s = self.server.network.0;
            let excess = known.promises.excess_with_debt(at, slot, left_s - found_s, network_s);
            found_s = left_s;
            Rates::of(slot, &excess)
        }
    }

    /// The timeline that puts one action after the other into force, slot by slot.
    pub fn timeline<'t>(
        &self,
        known: &Known,
        actions: impl Iterator<Item = &'t Action>,
    ) -> Timeline {
        let mut timeline = Timeline::new();
        for (&start_ns, action) in self.starts_ns(known).iter().zip(actions) {
            if timeline.last().is_none_or(|(_, before)| before != action) {
                timeline.push((start_ns, action.clone()));
            }
        }
        timeline
    }

    /// When each slot starts, in nanoseconds since the start of the run.
    pub fn starts_ns(&self, known: &Known) -> Vec<u64> {
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
        let warmup_ns = nanoseconds(self.settings.run.warmup_s);
        let slot_ns = nanoseconds(self.settings.run.window_s) * known.windows as u64;
        (0..known.spans_s.len() as u64).map(|at| warmup_ns + at * slot_ns).collect()
    }
}
