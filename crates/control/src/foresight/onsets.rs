//! How silences end: by how many requests, which is what wakes drives that slept through one.

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
pub struct Onset {
    pub usual: f64,
    pub most: f64,
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

    /// By what silences end, once there were enough of them to tell.
    pub fn onset(&self) -> Option<Onset> {
        (self.count >= TOLD).then_some(Onset { usual: self.mean, most: self.most })
    }
}

/// How long an end of a silence is counted, in seconds: longer than drives take that wake up at once.
pub const ONSET_S: f64 = 0.02;
/// A shorter time without requests is no silence, in seconds.
const SILENCE_S: f64 = 0.1;
/// Ends that the mean is of at most, and in which the greatest one is forgotten.
const MEMORY: f64 = 200.0;
/// Ends from which on they tell what the next one is like.
const TOLD: f64 = 20.0;

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
}
