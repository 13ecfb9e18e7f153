//! The search: what it tries, in which order, and when it ends.

use super::choice::Choice;
use super::effort::{Effort, LEAN};
use super::final_plan::plan;
use super::lab::{Lab, RivalRun, Source};
use super::ladder::Ladder;
use super::measure::{Slot, Timeline, in_parallel};
use super::neighbours::Neighbours;
use super::state::State;
use super::table::{RivalSlots, Table};
use super::{OracleSettings, Plan, Rival};
use crate::load::LoadError;
use wattio_law::Action;
use wattio_plant::Server;

/// The share of the trials that the ladder gets.
const LADDER_SHARE: f64 = 0.5;
/// The ladder's prices: so many times native's energy for its latency, from and to.
const LADDER_PRICES: (f64, f64) = (0.02, 20.0);
/// The same where there are few rungs.
const LADDER_PRICES_LEAN: (f64, f64) = (0.1, 2.0);
/// The most prices for each kind of setting.
const LADDER_RUNGS: usize = 10;
/// Targets get this much closer to each other in each round of corrections.
const CORRECTION_NARROWER: f64 = 0.25;
/// Where nothing kept its promises yet, there are so many rounds more.
const CORRECTIONS_MORE: usize = 4;
/// Where nothing kept its promises yet, targets are this much further apart instead.
const CORRECTION_WIDER: f64 = 2.5;
/// No further round begins when so many times the events were simulated that the search may take.
const EFFORT_MAX: f64 = 2.0;
/// The share of the work that the run at full speed is taken for while nothing else is known.
const NATIVE_SHARE: f64 = 0.02;
/// A round that gained less than this share of native's energy ends the search when so many times
/// the events were simulated.
const LITTLE_MAX: f64 = 0.5;
const GAIN_MIN: f64 = 2e-4;

/// A search in progress.
pub struct Search<'a, E> {
    lab: Lab<'a, E>,
    work: Work<'a>,
    simulated: u32,
}

/// How much is done, in events.
struct Work<'a> {
    watch: &'a mut dyn FnMut(f64) -> bool,
    done: f64,
    planned: f64,
    /// The share that was told last; rounding must not make it fall.
    told: f64,
}

/// What stops a search: an error, or the watcher.
enum Stopped<E> {
    Watcher,
    Error(E),
}

impl Work<'_> {
    /// Works on jobs that take so many events each.
    fn on<E, J: Sync, R: Send>(
        &mut self,
        lab: &Lab<'_, E>,
        jobs: &[J],
        events: u64,
        work: impl Fn(&J, &dyn Fn(f64)) -> R + Sync,
    ) -> Result<Vec<R>, Stopped<E>> {
        let all = events as f64 * jobs.len() as f64;
        let (done, planned) = (self.done, self.planned);
        let (watch, told) = (&mut self.watch, &mut self.told);
        let mut watch = |share: f64| {
            *told = told.max((done + all * share) / planned).min(1.0);
            watch(*told)
        };
        let answers = in_parallel(jobs, &lab.stop, &mut watch, work);
        self.done += all;
        answers.ok_or(Stopped::Watcher)
    }
}

impl<'a, E: From<LoadError> + Send + Sync> Search<'a, E> {
    pub fn new(
        server: &'a Server,
        load: &'a Source<'a, E>,
        settings: &'a OracleSettings,
        rivals: &'a [Rival],
        watch: &'a mut dyn FnMut(f64) -> bool,
    ) -> Self {
        let work = Work { watch, done: 0.0, planned: NATIVE_SHARE.recip(), told: 0.0 };
        Self { lab: Lab::new(server, load, settings, rivals), work, simulated: 0 }
    }

    /// The best plan; `Ok(None)` when the watcher stopped it.
    pub fn find(mut self) -> Result<Option<Plan>, E> {
        match self.search() {
            Ok(plan) => Ok(Some(plan)),
            Err(Stopped::Watcher) => Ok(None),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    fn search(&mut self) -> Result<Plan, Stopped<E>> {
        let lab = &self.lab;
        let natives = self.work.on(lab, &[()], 1, |(), progress| lab.native(progress))?;
        let native = natives.into_iter().next().and_then(Result::transpose);
        let known = native.ok_or(Stopped::Watcher)?.map_err(Stopped::Error)?;
        let per_trial = known.events_of_trial();
        let effort = Effort::of(&known);
        let trials = (lab.settings.events / per_trial).clamp(effort.trials.0, effort.trials.1);
        let rivals = effort.rival_runs(lab.rivals.len());
        let wholes = 1 + rivals.len() + effort.wholes(known.is_by_excerpt());
        self.work.planned = (trials * per_trial) as f64 + wholes as f64 * known.events as f64;
        self.work.done = known.events as f64;
        self.simulated = 1;

        let mut state = State {
            table: Table::new(known.classes.count),
            targets: known.targets(),
            known,
            rivals: Vec::new(),
            rival_slots: Vec::new(),
            best: None,
            prices: None,
            effort,
            is_calm: false,
        };
        self.play_rivals(&mut state, &rivals)?;
        let rungs = (trials as f64 * LADDER_SHARE) as usize;
        let settings = self.ladder(&mut state, rungs);
        self.try_settings(&mut state, &settings, per_trial)?;
        let full = state.table.number(&self.lab.limits.full_speed());
        let unknown: Vec<bool> = (0..state.known.classes.count)
            .map(|class| state.table.offers(class).is_empty())
            .collect();
        for (class, rates) in self.lab.native_lessons(&state.known) {
            if unknown[class] {
                state.table.learn(class, full, rates);
            }
        }
        let left = trials as f64 * (1.0 - LADDER_SHARE);
        let each = (left / effort.rounds.max(1) as f64) as usize;
        self.improve(&mut state, each, per_trial)?;
        (self.work.watch)(1.0);
        Ok(plan(&self.lab, state, self.simulated))
    }

    /// Chooses, and tries so many settings next to what was chosen, a few times.
    fn improve(
        &mut self,
        state: &mut State,
        trials: usize,
        per_trial: u64,
    ) -> Result<(), Stopped<E>> {
        let settings = self.lab.settings;
        let mut neighbours = Neighbours::new(self.lab.limits.clone(), settings.run.seed);
        if state.known.is_by_excerpt() {
            // What an excerpt teaches is cheap, and a whole is not: that comes last.
            for _ in 0..state.effort.rounds {
                let choice = state.choose(&state.targets);
                let next = neighbours.propose(&state.known, &mut state.table, &choice, trials);
                self.try_settings(state, &next, per_trial)?;
            }
            self.correct(state)?;
            return Ok(());
        }
        let mut choice = self.correct(state)?;
        if !state.beats_rivals() {
            // Requests of few slots may wait for drives that fell asleep in the slots before, which
            // no choice by slots sees: what leaves nothing to the next slot is tried, too.
            state.is_calm = true;
            state.targets = state.known.targets();
            choice = self.correct(state)?;
            state.is_calm = false;
        }
        for _ in 0..state.effort.rounds {
            if self.work.done > EFFORT_MAX * settings.events as f64 {
                break;
            }
            let before_j = state.best_j();
            let next = neighbours.propose(&state.known, &mut state.table, &choice, trials);
            self.try_settings(state, &next, per_trial)?;
            choice = self.correct(state)?;
            let gain_j = before_j - state.best_j();
            let is_little = gain_j < GAIN_MIN * state.known.total.energy_j;
            if is_little && self.work.done > LITTLE_MAX * settings.events as f64 {
                break;
            }
        }
        Ok(())
    }

    /// Plays every rival as it is, and where that is cheap on a server that switches freely too.
    fn play_rivals(&mut self, state: &mut State, runs: &[RivalRun]) -> Result<(), Stopped<E>> {
        let (lab, known) = (&self.lab, &state.known);
        let played = self
            .work
            .on(lab, runs, known.events, |&run, progress| lab.rival(known, run, progress))?;
        self.simulated += runs.len() as u32;
        let played = runs.iter().zip(played);
        state.rivals = played.filter_map(|(&run, whole)| Some((run, whole?))).collect();
        let free = state.rivals.iter().filter(|(run, _)| run.is_free);
        state.rival_slots = free
            .map(|(_, whole)| RivalSlots {
                timeline: whole.timeline.clone(),
                rates: whole.rates.clone(),
            })
            .collect();
        Ok(())
    }

    /// A setting for each class, for each trial: all kinds of settings at ever lower prices.
    fn ladder(&self, state: &mut State, trials: usize) -> Vec<Vec<u32>> {
        let known = &state.known;
        let mut ladder = Ladder::new(&self.lab.free, &self.lab.limits);
        let kinds = ladder.kinds();
        let kinds = &kinds[..kinds.len().min(state.effort.kinds)];
        let rungs = (trials / kinds.len()).clamp(state.effort.rungs_min, LADDER_RUNGS);
        let unit_w = known.total.energy_j / known.total.latency_s.max(f64::MIN_POSITIVE);
        let (low, high) = if rungs > LEAN.rungs_min { LADDER_PRICES } else { LADDER_PRICES_LEAN };
        let price_w = |rung: usize| {
            unit_w * high * (low / high).powf(rung as f64 / (rungs - 1).max(1) as f64)
        };
        let full: Vec<u32> =
            vec![state.table.number(&self.lab.limits.full_speed()); known.classes.count];
        let mut settings = vec![full];
        for &kind in kinds {
            for rung in 0..rungs {
                let of_class = |all: &Slot| ladder.rung(&all.clients, kind, price_w(rung));
                let actions: Vec<Action> = known.of_classes.iter().map(of_class).collect();
                settings.push(actions.iter().map(|action| state.table.number(action)).collect());
            }
        }
        settings
    }

    fn try_settings(
        &mut self,
        state: &mut State,
        settings: &[Vec<u32>],
        events: u64,
    ) -> Result<(), Stopped<E>> {
        let (lab, known, table) = (&self.lab, &state.known, &state.table);
        let trial = |settings: &Vec<u32>, progress: &dyn Fn(f64)| {
            lab.trial(known, table, settings, progress)
        };
        let lessons = self.work.on(lab, settings, events, trial)?;
        self.simulated += settings.len() as u32;
        for (class, setting, rates) in lessons.into_iter().flatten().flatten() {
            state.table.learn(class, setting, rates);
        }
        Ok(())
    }

    /// Chooses, simulates what was chosen, and corrects the targets by how that differs from the
    /// sum of its slots; the best run that keeps everything is kept. Answers the last choice.
    fn correct(&mut self, state: &mut State) -> Result<Choice, Stopped<E>> {
        let mut width = 1.0;
        let mut last = Choice::default();
        let shifts = state.effort.corrections;
        for round in 0..state.effort.correction_rounds + CORRECTIONS_MORE {
            // What breaks its promises is no answer: it is corrected until one keeps them.
            if round >= state.effort.correction_rounds && state.best_j().is_finite() {
                break;
            }
            let (lab, known) = (&self.lab, &state.known);
            let choices = self
                .work
                .on(lab, shifts, 0, |shift, _| state.choose(&state.shifted(shift * width)))?;
            let timelines: Vec<Timeline> =
                choices.iter().map(|choice| state.timeline(lab, choice)).collect();
            let wholes = self.work.on(lab, &timelines, known.events, |timeline, progress| {
                lab.confirm(known, timeline.clone(), progress)
            })?;
            self.simulated += timelines.len() as u32;
            let before = state.best_j();
            state.take_in(&choices, wholes);
            state.prices = choices.get(shifts.len() / 2).map(|choice| choice.prices);
            width *= if state.best_j().is_finite() || before.is_finite() {
                CORRECTION_NARROWER
            } else {
                CORRECTION_WIDER
            };
            last = choices.into_iter().nth(shifts.len() / 2).unwrap_or_default();
            if state.known.is_by_excerpt() && state.is_used_up() {
                break;
            }
        }
        Ok(last)
    }
}
