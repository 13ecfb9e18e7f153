//! The plan that a search returns.

use super::known::{Known, Whole};
use super::lab::{Lab, RivalRun};
use super::measure::Timeline;
use super::state::State;
use super::{Answer, Plan, RivalReport, Segment};
use crate::load::LoadError;
use wattio_law::Action;

/// The best of everything that is known.
pub fn plan<E: From<LoadError>>(lab: &Lab<'_, E>, mut state: State, simulated: u32) -> Plan {
    let least_j = state.choose(&state.known.targets()).least_j;
    let known = &state.known;
    let names = |run: &RivalRun| lab.rivals[run.rival].name.clone();
    let reports = state.rivals.iter().map(|(run, whole)| RivalReport {
        name: names(run),
        is_free: run.is_free,
        fared: known.fared(&whole.total),
    });
    let rivals = reports.collect();
    // Full speed is an answer, too, where everything else turns out to be worse.
    let native_j = if known.is_kept(&known.total) { known.total.energy_j } else { f64::INFINITY };
    if native_j <= state.best_j() {
        state.best = None;
    }
    let mut winner = None;
    let mut winner_j = native_j.min(state.best_j());
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
    let full_speed = lab.limits.full_speed();
    let total = best.as_ref().map_or(&known.total, |best| &best.total);
    let tolerance = ((total.energy_j - least_j) / known.total.energy_j).max(0.0);
    Plan {
        slot_s: known.windows as f64 * lab.settings.run.window_s,
        best: known.fared(total),
        native,
        tolerance,
        winner: name,
        rivals,
        simulated,
        segments: segments(known, best.as_ref(), &lab.starts_ns(known), &full_speed),
        answer: best.map_or(Answer::Timeline(Timeline::new()), |best| best.answer),
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
