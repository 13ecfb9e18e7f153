//! The search: what is tried, in which order, and when it ends.

use super::choice::{Choice, Menu, Rates, Targets, choose};
use super::known::{Known, Whole};
use super::lab::{Lab, RivalRun, Source};
use super::ladder::Ladder;
use super::measure::{Slot, Timeline, in_parallel};
use super::neighbours::Neighbours;
use super::promises::{Excess, PROMISES_MAX};
use super::table::{RivalSlots, Table};
use super::{Answer, OracleSettings, Plan, Rival, RivalReport, Segment};
use crate::load::LoadError;
use wattio_law::Action;
use wattio_plant::Server;

/// How hard a load is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Effort {
    /// Settings that are tried, of every class, at least and at most.
    trials: (u64, u64),
    /// Kinds of settings on the ladder, and prices for each of them, at least.
    kinds: usize,
    rungs_min: usize,
    /// Rounds of trials next to what was chosen.
    rounds: usize,
    /// Wholes that are simulated for each choice, with targets this far apart, as shares of what
    /// is allowed.
    corrections: &'static [f64],
    /// Each choice is corrected so often, with targets closer to each other each time.
    correction_rounds: usize,
    /// Whether rivals are played on a server that switches freely, too.
    free_rivals: bool,
}

/// For most loads.
const THOROUGH: Effort = Effort {
    trials: (18, 160),
    kinds: usize::MAX,
    rungs_min: 3,
    rounds: 3,
    corrections: &[-0.01, -0.002, 0.002, 0.01],
    correction_rounds: 2,
    free_rivals: true,
};
/// For loads of which one run takes minutes.
const LEAN: Effort = Effort {
    trials: (6, 160),
    kinds: 3,
    rungs_min: 2,
    rounds: 0,
    corrections: &[-0.02, -0.004],
    correction_rounds: 1,
    free_rivals: false,
};
/// Loads of more events than this are searched with the lean effort.
const THOROUGH_EVENTS_MAX: u64 = 1_000_000_000;
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
/// Where nothing kept its promises yet, targets are this much further apart instead.
const CORRECTION_WIDER: f64 = 5.0;
/// Background work that differs by this share from what was measured before has run out.
const RAN_OUT: f32 = 0.05;
/// No further round begins when so many times the events were simulated that the search may take.
const EFFORT_MAX: f64 = 2.0;
/// The share of the work that the run at full speed is taken for while nothing else is known.
const NATIVE_SHARE: f64 = 0.02;
/// A round that gained less than this share of native's energy ends the search when so many times
/// the events were simulated.
const LITTLE_MAX: f64 = 0.5;
const GAIN_MIN: f64 = 2e-4;

impl Effort {
    fn of(known: &Known) -> Self {
        let effort = if known.events > THOROUGH_EVENTS_MAX { LEAN } else { THOROUGH };
        // Free runs of rivals teach slots that are known one by one; and what an excerpt teaches
        // is cheap, however long the load.
        let by_excerpt = known.is_by_excerpt();
        Self {
            free_rivals: effort.free_rivals && !by_excerpt,
            kinds: if by_excerpt { THOROUGH.kinds } else { effort.kinds },
            rungs_min: if by_excerpt { THOROUGH.rungs_min } else { effort.rungs_min },
            rounds: if by_excerpt { THOROUGH.rounds } else { effort.rounds },
            ..effort
        }
    }

    /// The rivals' runs.
    fn rival_runs(&self, rivals: usize) -> Vec<RivalRun> {
        let both =
            (0..rivals).flat_map(|rival| [false, true].map(|is_free| RivalRun { rival, is_free }));
        both.filter(|run| self.free_rivals || !run.is_free).collect()
    }

    /// How often a choice is simulated whole.
    fn wholes(&self, by_excerpt: bool) -> usize {
        let choices = if by_excerpt { 1 } else { 1 + self.rounds };
        choices * self.correction_rounds * self.corrections.len()
    }
}

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

/// What the search knows.
struct State {
    known: Known,
    table: Table,
    /// The rivals' runs, and what they gave slot by slot.
    rivals: Vec<(RivalRun, Whole)>,
    rival_slots: Vec<RivalSlots>,
    targets: Targets,
    best: Option<Whole>,
    /// The prices of the last choice.
    prices: Option<Excess>,
    effort: Effort,
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
        };
        self.play_rivals(&mut state, &rivals)?;
        let rungs = (trials as f64 * LADDER_SHARE) as usize;
        let settings = self.ladder(&mut state, rungs);
        self.try_settings(&mut state, &settings, per_trial)?;
        let left = trials as f64 * (1.0 - LADDER_SHARE);
        let each = (left / effort.rounds.max(1) as f64) as usize;
        self.improve(&mut state, each, per_trial)?;
        (self.work.watch)(1.0);
        Ok(self.plan(state))
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
        for _ in 0..state.effort.correction_rounds {
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
        }
        Ok(last)
    }

    /// The best of everything that is known.
    fn plan(&self, mut state: State) -> Plan {
        let least_j = state.choose(&state.known.targets()).least_j;
        let known = &state.known;
        let names = |run: &RivalRun| self.lab.rivals[run.rival].name.clone();
        let reports = state.rivals.iter().map(|(run, whole)| RivalReport {
            name: names(run),
            is_free: run.is_free,
            fared: known.fared(&whole.total),
        });
        let rivals = reports.collect();
        // Full speed is an answer, too, where everything else turns out to be worse.
        if known.is_kept(&known.total) && known.total.energy_j <= state.best_j() {
            state.best = None;
        }
        let native_j = known.total.energy_j;
        let mut winner = None;
        let mut winner_j = state.best.as_ref().map_or(native_j, |best| best.total.energy_j);
        for (at, (_, whole)) in state.rivals.iter().enumerate() {
            if known.is_kept(&whole.total) && whole.total.energy_j < winner_j {
                winner_j = whole.total.energy_j;
                winner = Some(at);
            }
        }
        let name = winner.map(|at| names(&state.rivals[at].0));
        let best = match winner {
            Some(at) => Some(state.rivals.swap_remove(at).1),
            None => state.best.take(),
        };
        let known = &state.known;
        let native = known.fared(&known.total);
        let full_speed = self.lab.limits.full_speed();
        let total = best.as_ref().map_or(&known.total, |best| &best.total);
        let tolerance = ((total.energy_j - least_j) / known.total.energy_j).max(0.0);
        Plan {
            slot_s: known.windows as f64 * self.lab.settings.run.window_s,
            best: known.fared(total),
            native,
            tolerance,
            winner: name,
            rivals,
            simulated: self.simulated,
            segments: segments(known, best.as_ref(), &self.lab.starts_ns(known), &full_speed),
            answer: best.map_or(Answer::Timeline(Timeline::new()), |best| best.answer),
        }
    }
}

impl State {
    fn best_j(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.total.energy_j)
    }

    /// The targets, stricter (below 0) or more lenient by a share of what is allowed.
    fn shifted(&self, share: f64) -> Targets {
        let mut targets = self.targets;
        for (target, scale) in targets.excess.iter_mut().zip(&self.known.promises.scale) {
            *target += share * scale;
        }
        targets.excess[PROMISES_MAX - 1] -=
            0.9 * share * self.known.promises.scale[PROMISES_MAX - 1];
        targets.owed_core_s += 0.1 * share * self.known.total.done_core_s;
        targets
    }

    fn choose(&self, targets: &Targets) -> Choice {
        let known = &self.known;
        let offers = |at: usize, into: &mut Vec<Rates>| {
            let class = known.classes.classes[at];
            into.extend(self.table.offers(class).iter().map(|offer| offer.rates));
            into.extend(self.rival_slots.iter().filter_map(|rival| rival.rates.get(at)));
        };
        let due: Vec<f64> = known.slots.iter().map(|slot| slot.done_core_s).collect();
        let menu = Menu {
            spans_s: &known.spans_s,
            offers: &offers,
            due_core_s: &due,
            may_skip: known.may_skip,
            owed_max_core_s: known.owed_max_core_s,
            scale: known.promises.scale,
        };
        choose(&menu, targets, self.prices.as_ref())
    }

    /// What a choice puts into force.
    fn timeline<E: From<LoadError>>(&self, lab: &Lab<'_, E>, choice: &Choice) -> Timeline {
        let starts_ns = lab.starts_ns(&self.known);
        let mut timeline = Timeline::new();
        let mut push = |at_ns: u64, action: &Action| {
            if timeline.last().is_none_or(|(_, before): &(u64, Action)| before != action) {
                timeline.push((at_ns, action.clone()));
            }
        };
        for (at, &pick) in choice.picks.iter().enumerate() {
            let offers = self.table.offers(self.known.classes.classes[at]);
            let (start_ns, end_ns) =
                (starts_ns[at], starts_ns.get(at + 1).copied().unwrap_or(u64::MAX));
            match offers.get(usize::from(pick)) {
                Some(offer) => push(start_ns, self.table.setting(offer.setting)),
                None => {
                    let rival = &self.rival_slots[usize::from(pick) - offers.len()];
                    let full_speed = lab.limits.full_speed();
                    let first = rival.timeline.partition_point(|&(at_ns, _)| at_ns <= start_ns);
                    let in_force = first.checked_sub(1).map(|at| &rival.timeline[at].1);
                    push(start_ns, in_force.unwrap_or(&full_speed));
                    let inside = rival.timeline[first..].iter();
                    inside
                        .take_while(|&&(at_ns, _)| at_ns < end_ns)
                        .for_each(|(at, a)| push(*at, a));
                }
            }
        }
        timeline
    }

    /// Learns from runs of choices.
    fn take_in(&mut self, choices: &[Choice], wholes: Vec<Option<Whole>>) {
        let known = &self.known;
        let mut off = [0.0; PROMISES_MAX];
        let (mut owed_off, mut count) = (0.0, 0.0);
        for (choice, whole) in choices.iter().zip(wholes) {
            let Some(whole) = whole else { continue };
            if !known.is_by_excerpt() {
                relearn(known, &mut self.table, choice, &whole);
            }
            for ((off, ours), theirs) in off.iter_mut().zip(whole.total.excess).zip(choice.excess) {
                *off += ours - theirs;
            }
            owed_off += whole.total.done_core_s - choice.done_core_s;
            count += 1.0;
            if known.is_kept(&whole.total)
                && self.best.as_ref().is_none_or(|b| whole.total.energy_j < b.total.energy_j)
            {
                self.best = Some(whole);
            }
        }
        if count > 0.0 {
            self.targets.excess = off.map(|off| -off / count);
            self.targets.owed_core_s = known.owed_core_s() + (owed_off / count).min(0.0);
        }
    }
}

/// Learns what chosen settings gave among their neighbours.
fn relearn(known: &Known, table: &mut Table, choice: &Choice, whole: &Whole) {
    for (at, (&pick, &rates)) in choice.picks.iter().zip(&whole.rates).enumerate() {
        let class = known.classes.classes[at];
        let Some(&offer) = table.offers(class).get(usize::from(pick)) else { continue };
        // Where background work ran out, the slot says little of the setting.
        let is_whole = (rates.done_cores - offer.rates.done_cores).abs()
            <= RAN_OUT * offer.rates.done_cores.max(1e-3);
        if is_whole {
            table.learn(class, offer.setting, rates);
        }
    }
}

/// Slots in a row with one setting.
fn segments(
    known: &Known,
    best: Option<&Whole>,
    starts_ns: &[u64],
    full_speed: &Action,
) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut sums: Vec<[f64; 4]> = Vec::new();
    let mut start_s = 0.0;
    for (at, native) in known.slots.iter().enumerate() {
        let action = best.map_or(full_speed, |best| {
            let next = best.timeline.partition_point(|&(at_ns, _)| at_ns <= starts_ns[at]);
            next.checked_sub(1).map_or(full_speed, |at| &best.timeline[at].1)
        });
        if segments.last().is_none_or(|last| last.action != *action) {
            segments.push(Segment {
                start_s,
                span_s: 0.0,
                action: action.clone(),
                power_w: 0.0,
                native_power_w: 0.0,
                latency_ratio: None,
            });
            sums.push([0.0; 4]);
        }
        let slot = best.and_then(|best| best.rates.get(at).zip(best.latency_s.get(at)));
        let native_s = if native.ios > 0.0 { native.latency_s / native.ios } else { 0.0 };
        let (power_w, latency_s) = slot
            .map_or((native.energy_j / native.span_s, native_s), |(rates, &latency_s)| {
                (f64::from(rates.power_w), f64::from(latency_s))
            });
        if let (Some(segment), Some(sums)) = (segments.last_mut(), sums.last_mut()) {
            segment.span_s += native.span_s;
            let weight = if latency_s > 0.0 { native.ios } else { 0.0 };
            let terms =
                [power_w * native.span_s, native.energy_j, latency_s * weight, native_s * weight];
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            segment.power_w = sums[0] / segment.span_s;
            segment.native_power_w = sums[1] / segment.span_s;
            segment.latency_ratio = (sums[3] > 0.0).then(|| sums[2] / sums[3]);
        }
        start_s += native.span_s;
    }
    segments
}
