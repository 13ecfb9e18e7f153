//! How silences end: by how many requests, which is what wakes drives that slept through one.

use super::peaks::Peaks;
use wattio_units::Seconds;

/// The ends of silences so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Onsets {
    /// Time without a request until now, in seconds.
    silent_s: f64,
    /// Requests of an end that is being counted, and for how long it still is, in seconds.
    running: Option<(f64, f64)>,
    /// Ends that the mean is of, that mean, and the most requests.
    count: f64,
    mean: f64,
    most: f64,
}

/// What is known of the ends of silences: requests within [`ONSET_S`] of the first one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Onset {
    usual: f64,
    most: f64,
}

/// What drives cost that have slept and wake up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waking {
    /// Requests that wait for one.
    pub requests: f64,
    /// How long they do, together, in seconds.
    pub waited_s: f64,
}

/// What waking drives up may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// As a rule.
    pub usual: Waking,
    /// If silence ends as badly as ever before.
    pub worst: Waking,
    /// If it ends worse than ever before: [`WORSE`] times as badly, and less in proportion after a silence
    /// longer than [`SHORT_S`]. Sleeps of a second are risked over and over for little, one of a
    /// minute is risked once, for much.
    pub at_risk: Waking,
}

impl Waking {
    /// Each of the drives that the `first` requests come to is woken, and those that come while it wakes
    /// up, at `rate` a second, wait for half of that.
    fn of(first: f64, rate: f64, drives: u32, wake: Seconds) -> Self {
        let woken = first.clamp(1.0, f64::from(drives.max(1)));
        let (meanwhile, wake_s) = (rate * wake.0, wake.0);
        Self { requests: woken + meanwhile, waited_s: wake_s * (woken + 0.5 * meanwhile) }
    }

    fn or_less(self, other: Self) -> Self {
        if self.waited_s <= other.waited_s { self } else { other }
    }
}

impl Onsets {
    /// Takes in a look: the requests that arrived in it, and how long it was.
    pub fn glance(&mut self, arrived: f64, span_s: f64) {
        if let Some((requests, left_s)) = &mut self.running {
            *requests += arrived;
            *left_s -= span_s;
            // The sum of looks is never quite what it should be.
            if *left_s <= 1e-3 * ONSET_S {
                let requests = *requests;
                self.running = None;
                self.learn(requests);
            }
        } else if arrived > 0.0 && self.silent_s >= SILENCE_S {
            // Where in this look the first one came is not known: all of it counts, and what follows.
            self.running = Some((arrived, ONSET_S));
        }
        self.silent_s = if arrived > 0.0 { 0.0 } else { self.silent_s + span_s };
    }

    fn learn(&mut self, requests: f64) {
        self.count = (self.count + 1.0).min(MEMORY);
        self.mean += (requests - self.mean) / self.count;
        self.most = (self.most * (1.0 - 1.0 / MEMORY)).max(requests);
    }

    /// What a sleep of the drives costs that ends with the next requests, after a silence of `quiet_s`
    /// seconds until now. How many come is told by the ends of earlier silences, or by the busiest
    /// moments so far, whichever are fewer: a silence may end in a moment as busy as any, but where many
    /// have ended they tell better.
    pub fn waking(&self, peaks: &Peaks, drives: u32, wake: Seconds, quiet_s: f64) -> Costs {
        let by_rate = |rate| Waking::of(rate * ONSET_S, rate, drives, wake);
        let (usual, worst) = (by_rate(peaks.usual()), by_rate(peaks.at_risk(0.0).unwrap_or(0.0)));
        let Some(onset) = self.onset().filter(|_| wake.0 <= ONSET_S) else {
            return Costs { usual, worst, at_risk: worst };
        };
        let of = |requests: f64| Waking::of(requests, requests / ONSET_S, drives, wake);
        let times = 1.0 + (WORSE - 1.0) * SHORT_S / quiet_s.max(SHORT_S);
        Costs {
            usual: of(onset.usual).or_less(usual),
            worst: of(onset.most).or_less(worst),
            at_risk: of(onset.most * times).or_less(worst),
        }
    }

    /// By what silences end, once there were enough of them to tell.
    fn onset(&self) -> Option<Onset> {
        (self.count >= TOLD).then_some(Onset { usual: self.mean, most: self.most })
    }
}

/// How long an end of a silence is counted, in seconds: longer than drives take that wake up at once.
const ONSET_S: f64 = 0.02;
/// A shorter time without requests is no silence, in seconds.
const SILENCE_S: f64 = 0.1;
/// Ends that the mean is of at most, and in which the greatest one is forgotten.
const MEMORY: f64 = 200.0;
/// Ends from which on they tell what the next one is like.
const TOLD: f64 = 20.0;
/// How many times the requests of the worst end the next one may have: a recorded database had 3.7 times as
/// many in one, four seconds before the end of its trace.
const WORSE: f64 = 4.0;
/// Silences up to this are short, in seconds.
const SHORT_S: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// So many ends of silences with the requests of these looks of 10 ms each, and a busy second after.
    fn after(ends: usize, looks: &[f64]) -> Onsets {
        let mut onsets = Onsets::default();
        for _ in 0..ends {
            (0..20).for_each(|_| onsets.glance(0.0, 0.01));
            looks.iter().for_each(|&arrived| onsets.glance(arrived, 0.01));
            (0..100).for_each(|_| onsets.glance(40.0, 0.01));
        }
        onsets
    }

    #[test]
    fn the_requests_of_the_first_moment_after_a_silence_count_and_no_others() {
        assert_eq!(after(19, &[1.0]).onset(), None, "too few to tell");
        let told = after(20, &[3.0, 0.0, 5.0, 90.0]).onset();
        assert_eq!(told, Some(Onset { usual: 8.0, most: 8.0 }));
    }

    #[test]
    fn a_short_pause_is_no_silence() {
        let mut onsets = Onsets::default();
        for at in 0..1000 {
            onsets.glance(if at % 9 == 0 { 1.0 } else { 0.0 }, 0.01);
        }
        assert_eq!(onsets.onset(), None);
    }

    /// One great end is not forgotten before many others were smaller.
    #[test]
    fn the_greatest_end_is_remembered_and_forgotten_in_time() {
        let mut onsets = after(20, &[1.0, 1.0, 1.0]);
        onsets.learn(1000.0);
        let at = |onsets: &Onsets| onsets.onset().map_or(0.0, |onset| onset.most);
        (0..20).for_each(|_| onsets.learn(3.0));
        assert!(at(&onsets) > 900.0);
        (0..2000).for_each(|_| onsets.learn(3.0));
        assert_eq!(at(&onsets), 3.0);
    }

    /// A host that is looked at twice a second tells more of an end than there was, never less.
    #[test]
    fn long_looks_count_whole() {
        let mut onsets = Onsets::default();
        for _ in 0..20 {
            onsets.glance(0.0, 0.25);
            onsets.glance(100.0, 0.25);
            onsets.glance(7.0, 0.25);
        }
        assert_eq!(onsets.onset(), Some(Onset { usual: 107.0, most: 107.0 }));
    }

    /// Drives stayed awake through a minute without requests, as it might have ended in the busiest
    /// moment so far; a server whose silences end in few requests knows better.
    #[test]
    fn the_ends_of_silences_tell_what_waking_costs_once_there_are_some() {
        let mut peaks = Peaks::default();
        peaks.learn(50e3, 1.0, 2000.0);
        let waking =
            |ends, wake_s| after(ends, &[4.0, 0.0, 0.0]).waking(&peaks, 8, Seconds(wake_s), 60.0);
        let is_near = |seen: Waking, requests: f64, waited_s: f64| {
            (seen.requests - requests).abs() < 1e-6 && (seen.waited_s - waited_s).abs() < 1e-9
        };
        let at_first = waking(19, 0.01).at_risk;
        assert!(is_near(at_first, 508.0, 0.01 * (8.0 + 250.0)), "{at_first:?}");
        let told = waking(20, 0.01);
        for told in [told.usual, told.worst] {
            assert!(is_near(told, 6.0, 0.01 * (4.0 + 1.0)), "{told:?}");
        }
        // Of drives that take longer than an end is counted for they tell nothing.
        assert!(waking(20, 1.0).worst.requests > 50e3);
    }

    /// What came was 3.7 times the worst so far, and more than all of the promise that was left.
    #[test]
    fn the_next_end_may_be_worse_than_any_before_it_after_a_short_silence_above_all() {
        let mut peaks = Peaks::default();
        peaks.learn(50e3, 1.0, 2000.0);
        let onsets = after(20, &[4.0, 0.0, 0.0]);
        let at_risk = |quiet_s| onsets.waking(&peaks, 32, Seconds(0.01), quiet_s).at_risk;
        for (quiet_s, requests) in [(0.5, 16.0), (3.0, 16.0), (6.0, 10.0), (60.0, 4.6)] {
            let meanwhile = requests / ONSET_S * 0.01;
            let told = at_risk(quiet_s).requests;
            assert!((told - (requests + meanwhile)).abs() < 1e-9, "{quiet_s} s: {told}");
        }
        // Never more than in the busiest moment so far.
        let busy = after(20, &[900.0, 0.0]).waking(&peaks, 32, Seconds(0.01), 0.5);
        assert_eq!(busy.at_risk, Waking::of(1000.0, 50e3, 32, Seconds(0.01)));
    }
}
