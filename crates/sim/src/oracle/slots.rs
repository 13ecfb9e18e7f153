//! A load cut into slots, and the load on which settings are tried.

use crate::load::{Load, Phase, Senders};
use crate::run::RunSettings;
use std::collections::BTreeMap;

/// Slots of a run, by class: slots that lie within phases of the same rate and pattern are alike,
/// every other one is a class of its own.
#[derive(Clone, Debug)]
pub struct Slots {
    /// The class of each slot.
    pub classes: Vec<usize>,
    /// How many classes there are.
    pub count: usize,
}

/// Where settings are tried.
pub enum Stage {
    /// On the load itself: the slots of a trial are the slots of the run.
    Whole,
    /// On an excerpt: each phase once.
    Excerpt {
        /// Who sends.
        senders: Senders,
        /// The phases, each of the length of a trial.
        phases: Vec<Phase>,
        /// How it is simulated.
        settings: RunSettings,
        /// The class that each of its windows teaches, if any.
        windows: Vec<Option<usize>>,
    },
}

/// At the beginning of a phase's excerpt so much is not counted, in seconds.
const SETTLING_S: f64 = 0.5;
/// An excerpt says too little of a load of which more slots than this lie in two phases.
const STRADDLING_MAX: f64 = 0.2;
/// Length of the windows of an excerpt in seconds.
const WINDOW_S: f64 = 0.25;

/// What makes two phases alike.
fn key(phase: &Phase) -> String {
    format!("{:?} {:?}", phase.iops, phase.pattern)
}

/// The phase at a time, and when it began and ends; the last one never does.
fn phase_at(phases: &[Phase], at_s: f64) -> (usize, f64, f64) {
    let mut begin_s = 0.0;
    for (at, phase) in phases.iter().enumerate() {
        let end_s = begin_s + phase.span_s;
        if at + 1 == phases.len() {
            return (at, begin_s, f64::INFINITY);
        }
        // A hair of tolerance, for sums of spans.
        if at_s < end_s - 1e-9 {
            return (at, begin_s, end_s);
        }
        begin_s = end_s;
    }
    (0, 0.0, f64::INFINITY)
}

impl Slots {
    /// Slots of these lengths; only those of phases can be alike.
    pub fn of(load: &Load, spans_s: &[f64]) -> Self {
        let Load::Phases { phases, .. } = load else {
            return Self { classes: (0..spans_s.len()).collect(), count: spans_s.len() };
        };
        let mut known = BTreeMap::new();
        let mut count = 0;
        let mut fresh = || {
            count += 1;
            count - 1
        };
        let mut start_s = 0.0;
        let class = |&span_s: &f64| {
            let (at, begin_s, end_s) = phase_at(phases, start_s);
            let within = start_s >= begin_s - 1e-9 && start_s + span_s <= end_s + 1e-9;
            start_s += span_s;
            if within { *known.entry(key(&phases[at])).or_insert_with(&mut fresh) } else { fresh() }
        };
        let classes = spans_s.iter().map(class).collect();
        Self { classes, count }
    }

    /// The slots by the phases that the most comes in, and the excerpt that tries each of those
    /// for `trial_s`; `None` where the load has no phases, where slots straddle them too often for
    /// an excerpt to tell of them, or where it would be no shorter.
    pub fn excerpt(load: &Load, spans_s: &[f64], trial_s: f64, seed: u64) -> Option<(Self, Stage)> {
        let Load::Phases { senders, phases } = load else { return None };
        let windows = ((trial_s / WINDOW_S).ceil() as usize).max(1);
        let settling = (SETTLING_S / WINDOW_S) as usize;
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut tried = Vec::new();
        let mut start_s = 0.0;
        let mut straddling = 0;
        let class = |&span_s: &f64| {
            let first = phase_at(phases, start_s).0;
            let last = phase_at(phases, start_s + span_s - 1e-9).0;
            start_s += span_s;
            straddling += usize::from(first != last);
            let rate = |phase: &Phase| phase.iops.unwrap_or(f64::INFINITY);
            let touched = &phases[first..=last.max(first)];
            let phase = touched.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
            Some(*known.entry(key(phase)).or_insert_with(|| {
                let span_s = (windows + settling) as f64 * WINDOW_S;
                tried.push(Phase { span_s, ..*phase });
                tried.len() - 1
            }))
        };
        let classes: Option<Vec<usize>> = spans_s.iter().map(class).collect();
        let classes = classes?;
        if straddling as f64 > STRADDLING_MAX * spans_s.len() as f64 {
            return None;
        }
        let count = tried.len();
        let excerpt_s: f64 = tried.iter().map(|phase| phase.span_s).sum();
        if excerpt_s > 0.5 * spans_s.iter().sum::<f64>() {
            return None;
        }
        let taught = (0..count).flat_map(|class| {
            std::iter::repeat_n(None, settling).chain(std::iter::repeat_n(Some(class), windows))
        });
        let stage = Stage::Excerpt {
            senders: *senders,
            phases: tried,
            settings: RunSettings { warmup_s: 0.0, duration_s: None, window_s: WINDOW_S, seed },
            windows: taught.collect(),
        };
        Some((Self { classes, count }, stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Pattern;

    fn phase(span_s: f64, iops: f64) -> Phase {
        let pattern = Pattern { read_fraction: 1.0, random_fraction: 1.0, io_bytes: 4096 };
        Phase { span_s, iops: Some(iops), pattern }
    }

    fn load(phases: &[Phase]) -> Load {
        Load::Phases { senders: Senders::Open, phases: phases.to_vec() }
    }

    #[test]
    fn slots_of_like_phases_are_alike_and_slots_between_phases_are_not() {
        let load = load(&[phase(1.0, 5.0), phase(0.75, 9.0), phase(1.25, 5.0)]);
        let slots = Slots::of(&load, &[0.5; 7]);
        assert_eq!(slots.classes, [0, 0, 1, 2, 0, 0, 0]);
        assert_eq!(slots.count, 3);
        assert!(Slots::excerpt(&load, &[0.5; 7], 1.0, 1).is_none(), "it would be longer");
    }

    /// Slots of phases shorter than they are were taken for the phase in their middle: what was
    /// chosen for its rate met one five times as high.
    #[test]
    fn an_excerpt_is_no_help_where_phases_are_shorter_than_slots() {
        let phases: Vec<Phase> =
            (0..1000).map(|at| phase(0.3, if at % 2 == 0 { 5.0 } else { 9.0 })).collect();
        assert!(Slots::excerpt(&load(&phases), &[0.5; 600], 1.0, 1).is_none());
    }

    #[test]
    fn an_excerpt_has_each_phase_once() {
        let load = load(&[phase(100.25, 5.0), phase(99.75, 9.0), phase(100.0, 5.0)]);
        let spans_s = vec![0.5; 600];
        let (slots, stage) = Slots::excerpt(&load, &spans_s, 1.0, 1).unwrap();
        assert_eq!(slots.count, 2);
        // Slot 200 lies in both; most comes in the second.
        assert_eq!((slots.classes[199], slots.classes[200], slots.classes[401]), (0, 1, 0));
        let Stage::Excerpt { phases, windows, .. } = stage else { panic!() };
        assert_eq!(phases, [phase(1.5, 5.0), phase(1.5, 9.0)]);
        assert_eq!(windows.len(), 12);
        assert_eq!(windows[..7], [None, None, Some(0), Some(0), Some(0), Some(0), None]);
    }
}
