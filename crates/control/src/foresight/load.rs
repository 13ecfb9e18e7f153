//! The load that clients and the server itself put on the cores: learned from each window, at any
//! setting.

use super::choice::Scene;
use super::onsets::{Costs, Onsets};
use super::peaks::Peaks;
use super::settings::ForesightSettings;
use wattio_law::{Glimpse, LatencyObservation, Observation};
use wattio_units::Seconds;

/// No window has more requests; a count that says so is not believed beyond this.
pub(super) const REQUESTS_MAX: f64 = 1e9;
/// Weight of the past that is kept with each window's work.
const WORK_MEMORY: f64 = 0.8;
/// Weight of the past of work that no request explains, in windows with requests, which cannot tell
/// it from theirs.
const OTHERS_MEMORY: f64 = 0.98;
/// Looks that are kept of one window.
const LOOKS_MAX: usize = 400;
/// Upper edges of the kinds of moments: rate over the window's mean.
const EDGES: [f64; 3] = [1.6, 4.0, 12.0];
/// How long moments busier than the window last, in seconds, as far as queues are concerned.
const MOMENT_S: f64 = 0.02;

/// Requests by the kind of moment in which they came, and the sum of their moments' rates over the
/// window's.
type Moments = [(f64, f64); EDGES.len() + 1];

/// Time from the first request of a burst to full speed: where cores have to wake, and where all are
/// awake.
#[derive(Clone, Copy, Debug)]
pub struct Reaction {
    pub waking: Seconds,
    pub awake: Seconds,
}

/// What is known of the load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Clients' core-seconds at the highest frequency by group, and the requests they were for.
    work: Vec<f64>,
    requests: f64,
    /// Cores' worth of clients' work at the highest frequency, by group, that no request explains.
    others: Vec<f64>,
    /// Background core-seconds at the highest frequency by group.
    background: Vec<f64>,
    background_s: f64,
    /// Requests that came in each look of the running window, with the look's span.
    looks: Vec<(f64, f64)>,
    /// Requests by the kind of moment in which they came, and the sum of their moments' rates over
    /// the mean rate.
    moments: Moments,
    /// The same of the last window alone, where it was looked at.
    last_moments: Option<Moments>,
    /// Requests that came within the same look as a request, beyond those that do by chance: lately,
    /// and in the last window.
    crowd: f64,
    last_crowd: f64,
    crowd_requests: f64,
    /// The busiest moment of the last window, in requests a second.
    busiest: f64,
    /// Requests a second: of the last window, and lately.
    rate: f64,
    rate_slow: f64,
    /// Share of the windows in which the rate leapt, and the rate that it leapt to.
    leaps: f64,
    leap_rate: f64,
    /// The busiest moments of windows: mean of their logarithm, how far it goes above that, and the
    /// greatest so far; over how many windows.
    peaks: Peaks,
    /// By how many requests silences end.
    onsets: Onsets,
    /// The part of the requests of the busiest moments that come together: all, before it is known.
    peak_crowd: f64,
    /// Time since the last request.
    quiet_s: f64,
    /// Requests in flight at the ends of the last windows.
    in_flight: Vec<f64>,
    /// How many they are on average, if these are clients that wait for their answers.
    clients: Option<f64>,
}

impl Load {
    pub fn new(groups: usize) -> Self {
        Self {
            work: vec![0.0; groups],
            requests: 0.0,
            others: vec![0.0; groups],
            background: vec![0.0; groups],
            background_s: 0.0,
            looks: Vec::with_capacity(LOOKS_MAX),
            moments: Moments::default(),
            last_moments: None,
            crowd: 0.0,
            last_crowd: 0.0,
            crowd_requests: 0.0,
            busiest: 0.0,
            rate: 0.0,
            rate_slow: 0.0,
            leaps: 0.0,
            leap_rate: 0.0,
            peaks: Peaks::default(),
            onsets: Onsets::default(),
            peak_crowd: 1.0,
            quiet_s: 0.0,
            in_flight: Vec::with_capacity(IN_FLIGHT_WINDOWS),
            clients: None,
        }
    }

    /// Takes in a look.
    pub fn glance(&mut self, seen: &Glimpse) {
        if seen.span.0 <= 0.0 {
            return;
        }
        let look = (seen.offered() as f64, seen.span.0);
        self.onsets.glance(look.0, look.1);
        if self.looks.len() < LOOKS_MAX {
            self.looks.push(look);
        }
    }

    /// Requests that the looks of the running window have seen.
    pub fn arrived(&self) -> f64 {
        self.looks.iter().map(|look| look.0).sum()
    }

    /// Takes in a window that ran with `held` at these stretches.
    pub fn learn(
        &mut self,
        seen: &Observation,
        latency: &LatencyObservation,
        stretches: &[f64],
        is_settled: bool,
        dt: Seconds,
        settings: &ForesightSettings,
    ) {
        let offered = (latency.offered() as f64).min(REQUESTS_MAX);
        if is_settled {
            self.learn_work(seen, latency, stretches, dt);
        }
        let rate = offered / dt.0;
        let is_quiet = offered <= 0.0 && !latency.has_in_flight();
        self.quiet_s = if is_quiet { self.quiet_s + dt.0 } else { 0.0 };
        self.learn_moments(offered, rate, dt.0);
        let busiest = self.busiest_moment().unwrap_or(rate);
        self.busiest = busiest;

        let span = (dt / settings.window).min(4.0);
        self.peaks.learn(busiest, span, settings.record_memory_windows);
        self.learn_peak_crowd();
        let leapt = seen.alarm || (rate > 1.6 * self.rate.max(self.rate_slow) && offered > 50.0);
        let keep = f64::powf(1.0 - 1.0 / settings.leap_memory_windows, span);
        self.leaps = self.leaps * keep + f64::from(u8::from(leapt)) * (1.0 - keep);
        self.leap_rate *= keep;
        if leapt {
            self.leap_rate = self.leap_rate.max(if seen.alarm { busiest } else { rate });
        }
        self.rate = if seen.alarm { busiest.max(rate) } else { rate };
        let weight = 1.0 - f64::powf(0.85, span);
        self.rate_slow += weight * (rate - self.rate_slow);
        if let Some(in_flight) = latency.in_flight {
            self.learn_in_flight(in_flight.requests as f64);
        }
        self.looks.clear();
    }

    fn learn_work(
        &mut self,
        seen: &Observation,
        latency: &LatencyObservation,
        stretches: &[f64],
        dt: Seconds,
    ) {
        let possible = |share: f64| if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let requests = (latency.requests as f64).min(REQUESTS_MAX);
        let keep = if requests > 0.0 { WORK_MEMORY } else { 1.0 };
        let unexplained = requests <= 0.0 && latency.offered() == 0 && !latency.has_in_flight();
        self.requests = self.requests * keep + requests;
        self.background_s = self.background_s * WORK_MEMORY + dt.0;
        for (at, (group, stretch)) in seen.groups.iter().zip(stretches).enumerate() {
            let core_s = f64::from(group.cores) * dt.0 / stretch;
            let (Some(work), Some(others), Some(background)) =
                (self.work.get_mut(at), self.others.get_mut(at), self.background.get_mut(at))
            else {
                return;
            };
            let clients_core_s = possible(group.utilisation_clients) * core_s;
            if unexplained {
                *others = (*others * WORK_MEMORY).max(clients_core_s / dt.0);
            } else if requests > 0.0 {
                // What is not theirs is still somebody's: both together are what was seen.
                *work = *work * keep + (clients_core_s - *others * dt.0).max(0.0);
                *others *= OTHERS_MEMORY;
            }
            let done = possible(group.utilisation_background) * core_s;
            *background = *background * WORK_MEMORY + done;
        }
    }

    /// How requests came within the window: those that came in busy moments meet other queues.
    fn learn_moments(&mut self, offered: f64, rate: f64, dt_s: f64) {
        self.last_moments = None;
        self.last_crowd = self.crowd;
        if self.looks.is_empty() || offered <= 0.0 || dt_s <= 0.0 {
            return;
        }
        let sum: f64 = self.looks.iter().map(|look| look.0).sum();
        if let Some(crowd) = self.crowd_of_looks(sum, dt_s) {
            self.crowd_requests = (self.crowd_requests + sum).min(CROWD_REQUESTS);
            let weight = (sum / self.crowd_requests).min(0.5);
            self.last_crowd = crowd;
            self.crowd += weight * (self.last_crowd - self.crowd);
        }
        let mut here = Moments::default();
        for &(arrived, span_s) in self.looks.iter().filter(|look| look.0 > 0.0) {
            let ratio = arrived / span_s / rate;
            let kind = EDGES.iter().position(|&edge| ratio < edge).unwrap_or(EDGES.len());
            here[kind] = (here[kind].0 + arrived, here[kind].1 + arrived * ratio);
        }
        let requests: f64 = self.moments.iter().map(|moment| moment.0).sum();
        // A window counts by its requests, but no more than the memory allows.
        let keep = MOMENTS_MAX / (MOMENTS_MAX + offered.min(MOMENTS_MAX));
        let keep = if requests > 0.0 { keep.max(0.5) } else { 0.0 };
        for (moment, here) in self.moments.iter_mut().zip(here) {
            *moment = (moment.0 * keep + here.0, moment.1 * keep + here.1);
        }
        self.last_moments = (sum > 0.0).then_some(here);
    }

    /// Whether the requests of a moment that is as busy as any come together: a burst that lasts shows in the
    /// looks before and after its busiest one, too. One at a time is believed at once, what lasts only
    /// after some of them.
    fn learn_peak_crowd(&mut self) {
        let busier = |a: &&[(f64, f64)], b: &&[(f64, f64)]| a[1].0.total_cmp(&b[1].0);
        let Some(&[before, (requests, span_s), after]) = self.looks.windows(3).max_by(busier)
        else {
            return;
        };
        let told = requests >= PEAK_REQUESTS && span_s <= CROWD_LOOK_S;
        let busiest = self.peaks.at_risk(0.0).unwrap_or(0.0);
        if !told || requests / span_s < PEAK_SHARE * busiest {
            return;
        }
        // Of those in both neighbours some are there by chance.
        let lasting = before.0.min(after.0) + 2.0 * requests.sqrt();
        let alone = (1.0 - lasting / requests).max(0.0);
        let lower = self.peak_crowd + PEAK_WEIGHT * (alone - self.peak_crowd);
        self.peak_crowd = lower.max(alone);
    }

    /// The crowd that the looks of a window show. Few looks show none: what comes within one of them comes
    /// together or not, for all that they tell, and a rate that differs between them is no crowd.
    fn crowd_of_looks(&self, sum: f64, dt_s: f64) -> Option<f64> {
        let n = self.looks.len() as f64;
        if sum <= 0.0 || n < 2.0 || dt_s > n * CROWD_LOOK_S {
            return None;
        }
        let squares: f64 = self.looks.iter().map(|look| look.0 * look.0).sum();
        let beside: f64 = self.looks.windows(2).map(|pair| pair[0].0 * pair[1].0).sum();
        // What neighbouring looks share is the rate of that moment, and no crowd; there is one pair of
        // them fewer than there are looks.
        Some(((squares - beside * n / (n - 1.0)) / sum - 1.0).max(0.0))
    }

    /// How alike the busiest moments of windows are: 1 if they are all the same, 0 if they usually
    /// differ much.
    pub fn steadiness(&self) -> f64 {
        self.peaks.steadiness()
    }

    /// The busiest moment of the last window, in requests a second.
    pub fn busiest(&self) -> f64 {
        self.busiest
    }

    /// The busiest moment that windows are usually at most seen to have, in requests a second.
    pub fn usually_at_most(&self) -> f64 {
        self.peaks.usually_at_most()
    }

    /// The greatest rate over two looks of the running window.
    fn busiest_moment(&self) -> Option<f64> {
        let both = |pair: &[(f64, f64)]| (pair[0].0 + pair[1].0) / (pair[0].1 + pair[1].1);
        self.looks.windows(2).map(both).max_by(f64::total_cmp)
    }

    /// Clients' core-seconds for each request, by group.
    pub fn work_s(&self, group: usize) -> f64 {
        if self.requests > 0.0 { self.work[group] / self.requests } else { 0.0 }
    }

    /// Cores' worth of clients' work that no request explains, by group.
    pub fn others(&self, group: usize) -> f64 {
        self.others[group]
    }

    /// Background work in cores' worth that was done, by group.
    pub fn background_done(&self, group: usize) -> f64 {
        if self.background_s > 0.0 { self.background[group] / self.background_s } else { 0.0 }
    }

    /// The part of the background work that a group has.
    pub fn background_share(&self, group: usize) -> f64 {
        let all: f64 = self.background.iter().sum();
        if all > 0.0 { self.background[group] / all } else { 1.0 / self.background.len() as f64 }
    }

    /// The rate that is expected of the next window: that of the last one, smoothed where there
    /// were few requests.
    pub fn rate(&self, window: Seconds) -> f64 {
        let requests = self.rate * window.0;
        let own = requests / (requests + REQUESTS_NOISY);
        own * self.rate + (1.0 - own) * self.rate_slow.max(0.5 * self.rate)
    }

    /// What a sleep of the drives costs that ends with the next requests.
    pub fn waking(&self, drives: u32, wake: Seconds) -> Costs {
        self.onsets.waking(&self.peaks, drives, wake, self.quiet_s)
    }

    /// Time since the last request, in seconds.
    pub fn quiet_s(&self) -> f64 {
        self.quiet_s
    }

    /// The requests of a window at this rate, by the moments in which they come.
    pub fn scenes(&self, rate: f64, window: Seconds) -> Vec<Scene> {
        scenes_of(&self.moments, rate, window, self.crowd)
    }

    /// The requests of the window just seen, likewise.
    pub fn last_scenes(&self, rate: f64, window: Seconds) -> Vec<Scene> {
        let moments = self.last_moments.as_ref().unwrap_or(&self.moments);
        scenes_of(moments, rate, window, self.last_crowd)
    }

    /// The leap that the load has shown, and the one that it has not yet, for as long as they last
    /// until there is full speed; while nobody asks, with the chance that somebody does.
    pub fn leaps(&self, reaction: Reaction, settings: &ForesightSettings) -> [Scene; 4] {
        let part = reaction.waking / settings.window;
        let ends = self.silence_ends(settings.window);
        let scene = |(chance, rate): (f64, f64)| Scene {
            rate,
            weight: chance * rate * part * ends,
            overload_s: reaction.waking.0,
            overload_awake_s: reaction.awake.0,
            crowd: rate * settings.look_every.0 * self.peak_crowd,
        };
        let [a, b, c] = self.peaks.next_records();
        [(self.leaps, self.leap_rate), a, b, c].map(scene)
    }

    /// The chance that the next window is not silent. How long silences are nobody tells, so that one
    /// that has lasted for `q` is taken to end within `w` with a chance of `w / (q + w)`. Without it a
    /// price that a burst had driven up kept cores running for minutes in which nobody asked.
    fn silence_ends(&self, window: Seconds) -> f64 {
        window.0 / (self.quiet_s + window.0)
    }

    /// A burst that must not break the promise by itself, with the number of its requests as weight.
    pub fn risk(&self, reaction: Reaction, settings: &ForesightSettings) -> Option<Scene> {
        let rate = self.peaks.at_risk(settings.risk_deviations + self.peaks.youth())?;
        Some(Scene {
            rate,
            weight: rate * reaction.waking.0,
            overload_s: reaction.waking.0,
            overload_awake_s: reaction.awake.0,
            crowd: rate * settings.look_every.0 * self.peak_crowd,
        })
    }

    /// How many clients wait for their answers, if that is who sends.
    pub fn clients_in_closed_loop(&self) -> Option<f64> {
        self.clients
    }

    fn learn_in_flight(&mut self, requests: f64) {
        if self.in_flight.len() == IN_FLIGHT_WINDOWS {
            self.in_flight.remove(0);
        }
        self.in_flight.push(requests);
        self.clients = self.waiting_clients();
    }

    /// Whether as many requests are under way all the time: clients that wait. Those who were taken for
    /// such remain so until it is plain that they are not: a price that comes and goes by chance would
    /// have the setting swing.
    fn waiting_clients(&self) -> Option<f64> {
        let n = self.in_flight.len() as f64;
        if self.in_flight.len() < IN_FLIGHT_WINDOWS_MIN {
            return None;
        }
        let mean = self.in_flight.iter().sum::<f64>() / n;
        let variance = self.in_flight.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let regular = if self.clients.is_some() { REGULAR_STILL } else { REGULAR };
        (mean >= 0.5 && variance < regular * mean).then_some(mean)
    }
}

fn scenes_of(moments: &Moments, rate: f64, window: Seconds, crowd: f64) -> Vec<Scene> {
    let all: f64 = moments.iter().map(|moment| moment.0).sum();
    if all <= 0.0 {
        return vec![Scene {
            rate,
            weight: rate,
            overload_s: window.0,
            overload_awake_s: window.0,
            crowd,
        }];
    }
    let scene = |(kind, &(requests, ratios)): (usize, &(f64, f64))| {
        let (share, ratio) = (requests / all, ratios / requests.max(1e-9));
        let overload_s = if kind == 0 { window.0 } else { MOMENT_S };
        (share > 0.005).then_some(Scene {
            rate: rate * ratio,
            weight: rate * share,
            overload_s,
            overload_awake_s: overload_s,
            crowd,
        })
    };
    moments.iter().enumerate().filter_map(scene).collect()
}

/// Windows over which the requests in flight are compared, at most and at least: clients that wait are
/// to be known soon, and of a load that goes on for hours those who do not wait look as regular in some
/// 16 windows every minute.
const IN_FLIGHT_WINDOWS: usize = 32;
const IN_FLIGHT_WINDOWS_MIN: usize = 16;
/// Variance over mean of the requests in flight of clients that wait; it is 1 of those that do not,
/// and of 16 samples of them below this once in a hundred times, of 32 once in a thousand.
const REGULAR: f64 = 0.4;
/// The same until which clients that were taken for such are still.
const REGULAR_STILL: f64 = 0.7;
/// Requests over which the moments are remembered.
const MOMENTS_MAX: f64 = 20_000.0;
/// A moment tells whether its requests come together if it has so many, and this share of the rate of
/// the busiest so far; and how much of what is believed then.
const PEAK_REQUESTS: f64 = 20.0;
const PEAK_SHARE: f64 = 0.5;
const PEAK_WEIGHT: f64 = 0.3;
/// Looks that are longer on average do not tell crowds, in seconds.
const CROWD_LOOK_S: f64 = 0.05;
/// Requests of a window that change the memory of crowds to their part of this.
const CROWD_REQUESTS: f64 = 500.0;
/// With so many requests in a window half of its rate is noise's.
const REQUESTS_NOISY: f64 = 30.0;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot make its law has failed")]
mod tests {
    use super::*;

    const REACTION: Reaction = Reaction { waking: Seconds(0.03), awake: Seconds(0.03) };

    /// The crowd of a window of 50 looks, of which so many have so many requests each.
    fn crowd(looks: usize, requests: f64) -> f64 {
        let mut load = Load::new(1);
        let look = |at: usize| if (20..20 + looks).contains(&at) { requests } else { 0.0 };
        load.looks = (0..50).map(|at| (look(at), 0.01)).collect();
        let offered = looks as f64 * requests;
        load.learn_moments(offered, offered / 0.5, 0.5);
        load.last_crowd
    }

    /// The part of a burst's requests that come together, after so many windows with a burst over so many looks.
    fn peak_crowd(windows: usize, looks: usize) -> f64 {
        let mut load = Load::new(1);
        for _ in 0..windows {
            let middle = 20 + looks / 2;
            let in_burst = |at: usize| 400.0 - at.abs_diff(middle) as f64;
            let look = |at| if (20..20 + looks).contains(&at) { in_burst(at) } else { 1.0 };
            load.looks = (0..50).map(|at| (look(at), 0.01)).collect();
            load.peaks.learn(40e3, 1.0, 2000.0);
            load.learn_peak_crowd();
        }
        load.peak_crowd
    }

    /// All requests of a burst to come were taken for such as come at once: after one burst of half a
    /// second, and 60 s of silence, four fifths of what could be saved were not.
    #[test]
    fn bursts_that_last_are_not_expected_to_come_at_once() {
        assert_eq!(peak_crowd(0, 1), 1.0, "nothing is known");
        assert!(peak_crowd(10, 1) > 0.85, "in one look");
        assert!(peak_crowd(10, 2) > 0.85, "in one look or in two, nobody can tell");
        assert!((0.5..0.8).contains(&peak_crowd(1, 20)), "one burst tells little");
        assert!(peak_crowd(10, 20) < 0.05);
    }

    /// A burst that lasts was taken for requests that come at once, and full speed was thought to be
    /// late in it: what the setting cost seemed to be little.
    #[test]
    fn a_burst_that_lasts_is_no_crowd() {
        assert!((crowd(1, 400.0) - 399.0).abs() < 1e-9, "all come in one look");
        assert!(crowd(2, 200.0) < 100.0);
        assert!(crowd(20, 400.0) < 20.0);
        assert_eq!(crowd(1, 1.0), 0.0);
    }

    /// The crowd of requests that come by chance, so many in a window, in so many looks at it.
    fn crowd_by_chance(looks: usize, requests: f64) -> f64 {
        let mut load = Load::new(1);
        let each = requests / looks as f64;
        // As far above the mean as below it, by as much as chance has it.
        let look = |at: usize| each + [1.0, 1.0, -1.0, -1.0][at % 4] * each.sqrt();
        load.looks = (0..looks).map(|at| (look(at), 0.5 / looks as f64)).collect();
        let offered: f64 = load.looks.iter().map(|look| look.0).sum();
        load.learn_moments(offered, offered / 0.5, 0.5);
        load.crowd
    }

    /// Of a host that is looked at once or twice in a window all requests, or a quarter of them, were
    /// taken for a crowd, and nothing was saved there; of fifty looks a fiftieth of one look's were.
    #[test]
    fn requests_that_come_by_chance_are_no_crowd_however_few_looks_there_are() {
        for looks in [1, 2, 3, 8, 16, 50] {
            let crowd = crowd_by_chance(looks, 9000.0);
            assert!(crowd < 1.0, "{looks} looks: {crowd}");
        }
    }

    /// Half a second in which more comes than in the next is no crowd.
    #[test]
    fn long_looks_tell_of_no_crowd() {
        let mut load = Load::new(1);
        load.looks = vec![(2000.0, 0.25), (4000.0, 0.25)];
        load.learn_moments(6000.0, 12e3, 0.5);
        assert_eq!((load.crowd, load.last_crowd), (0.0, 0.0));
    }

    /// Clients that did not wait were taken for such as do for one window in fourteen, at a price that
    /// let nothing be saved.
    #[test]
    fn requests_under_way_by_chance_are_of_no_clients_that_wait() {
        let mut load = Load::new(1);
        let (mut state, mut taken) = (7_u64, 0);
        let mut drawn = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // The better half of the bits.
            (state >> 32) as u32
        };
        let windows = 20_000;
        for _ in 0..windows {
            // Of 32 that may be under way each is with a chance of 1/16.
            let bits = drawn() & drawn() & drawn() & drawn();
            load.learn_in_flight(f64::from(bits.count_ones()));
            taken += u32::from(load.clients_in_closed_loop().is_some());
        }
        assert!(taken < windows / 50, "{taken}");
    }

    /// Four clients, each of which is in the network for a quarter of the time.
    #[test]
    fn clients_that_wait_are_known_within_sixteen_windows() {
        let mut load = Load::new(1);
        for under_way in [3.0, 4.0, 2.0, 3.0].repeat(4) {
            load.learn_in_flight(under_way);
        }
        assert_eq!(load.clients_in_closed_loop(), Some(3.0));
    }

    /// A price that a burst had driven up kept cores awake for minutes in which nobody asked.
    #[test]
    fn the_longer_nobody_asks_the_less_is_a_leap_to_be_expected() {
        let settings = ForesightSettings::usual();
        let mut load = Load::new(1);
        for rate in [1000.0, 3000.0, 1000.0] {
            load.peaks.learn(rate, 1.0, 2000.0);
        }
        let expected = |quiet_s: f64| {
            let load = Load { quiet_s, ..load.clone() };
            load.leaps(REACTION, &settings).iter().map(|scene| scene.weight).sum::<f64>()
        };
        let at_once = expected(0.0);
        assert!(at_once > 0.0);
        assert!((expected(0.5) - 0.5 * at_once).abs() < 1e-9 * at_once);
        assert!((expected(59.5) - at_once / 120.0).abs() < 1e-9 * at_once);
        assert_eq!(load.risk(REACTION, &settings).map(|scene| scene.weight > 0.0), Some(true));
    }
}
