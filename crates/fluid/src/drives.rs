//! Drives as formulas: wait, wake-up, sleep and power of an array under random requests.

use crate::pool::{LOAD_MAX, sakasegawa};
use wattio_law::DriveAction;
use wattio_plant::Drives;

/// What requests to the drives meet, and what the drives draw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriveState {
    /// Mean wait for a place in a drive, in seconds.
    pub queue_s: f64,
    /// Mean wait for a drive to wake, in seconds.
    pub wake_s: f64,
    /// Mean square of that wait.
    pub wake_square_s2: f64,
    /// Power of all drives in watts.
    pub power_w: f64,
    /// Share of the time in which a drive sleeps.
    pub asleep: f64,
}

/// The load of a drive is a mean over this time as far as it is awake, as in the simulator.
const SETTLE_S: f64 = 0.1;

/// Rates of all drives together: requests a second with their mean time and mean square time at
/// full speed, and background tasks a second, each of which keeps the next drive awake.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriveLoad {
    /// Requests a second.
    pub rate: f64,
    /// Mean time of a request in seconds.
    pub time_s: f64,
    /// Mean square of that time.
    pub square_s2: f64,
    /// Background tasks a second.
    pub holds: f64,
}

/// What an array meets with a load and an action.
#[must_use]
pub fn of(model: &Drives, load: &DriveLoad, action: DriveAction) -> DriveState {
    let count = f64::from(model.count);
    let rate = load.rate / count;
    let mut state = DriveState::default();
    let busy = rate * load.time_s;
    let parallel = f64::from(model.parallel);
    let share = (busy / parallel).min(LOAD_MAX);
    if share > 0.0 {
        let variation = load.square_s2 / (load.time_s * load.time_s);
        let wait = sakasegawa(share, parallel) / (parallel * (1.0 - share));
        state.queue_s = 0.5 * variation * load.time_s * wait;
    }
    // A point of time is asleep in a state when neither a request (Poisson) nor the hold of a
    // background task (evenly spaced) lies within the time that the state is entered after.
    let hold_gap_s = if load.holds > 0.0 { count / load.holds } else { f64::INFINITY };
    let hold_s = if load.holds > 0.0 { model.background_hold.0 } else { 0.0 };
    let undisturbed = |after_s: f64| {
        let held = (1.0 - (after_s + hold_s) / hold_gap_s).max(0.0);
        (-rate * after_s).exp() * held
    };
    let mut idle = (-busy).exp();
    let mut asleep_w = 0.0;
    let deepest = model.sleep.len().saturating_sub(1);
    // Wake-ups make a drive busy for longer, which makes it sleep less: twice round is enough.
    for _ in 0..2 {
        (asleep_w, state.asleep, state.wake_s, state.wake_square_s2) = (0.0, 0.0, 0.0, 0.0);
        for (at, sleep) in model.sleep.iter().enumerate() {
            let share = match action {
                DriveAction::Awake => 0.0,
                DriveAction::Asleep if at == deepest => idle * undisturbed(0.0),
                DriveAction::Asleep => 0.0,
                DriveAction::Own => {
                    let next = model.sleep.get(at + 1);
                    let later = next.map_or(0.0, |next| undisturbed(next.after.0));
                    idle * (undisturbed(sleep.after.0) - later)
                }
            };
            let wake_s = sleep.wake.0;
            state.asleep += share;
            asleep_w += share * sleep.power.0;
            // Who wakes it waits for all of it, and whoever comes meanwhile for the rest.
            state.wake_s += share * (wake_s + 0.5 * rate * wake_s * wake_s);
            state.wake_square_s2 +=
                share * (wake_s * wake_s + rate * wake_s * wake_s * wake_s / 3.0);
        }
        if rate > 0.0 {
            let busy_s = busy.exp_m1() / rate + state.wake_s;
            idle = (1.0 / rate) / (1.0 / rate + busy_s);
        }
    }
    let in_flight = rate * (load.time_s + state.wake_s);
    let spread = (rate * load.square_s2 / SETTLE_S).sqrt();
    let awake = (1.0 - state.asleep).max(1e-12);
    let full = model.full_load_parallel * awake;
    let awake_w = mean_power_w(model, in_flight / full, spread / full);
    state.power_w = count * (asleep_w + awake * awake_w);
    state
}

/// The mean over a normally spread load of the power that [`Drives::power_awake`] interpolates.
fn mean_power_w(model: &Drives, share: f64, spread: f64) -> f64 {
    let points = &model.load;
    let mut power_w = points[0].power.0;
    let mut slope_before = 0.0;
    for pair in points.windows(2) {
        let slope = (pair[1].power.0 - pair[0].power.0) / (pair[1].share - pair[0].share);
        power_w += (slope - slope_before) * excess(share - pair[0].share, spread);
        slope_before = slope;
    }
    power_w - slope_before * excess(share - 1.0, spread)
}

/// `E[max(X, 0)]` of a normal variable.
fn excess(mean: f64, spread: f64) -> f64 {
    let z = mean / spread.max(1e-12);
    if z.abs() > 6.0 {
        return mean.max(0.0);
    }
    let density = (-0.5 * z * z).exp() * 0.398_942_280_401_432_7;
    mean * normal_below(z) + spread * density
}

/// The normal distribution function, by the rational approximation of M. Abramowitz and
/// I. A. Stegun (1964, formula 26.2.17), true to 1e-7.
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = series * (-0.5 * z * z).exp() * 0.398_942_280_401_432_7;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattio_plant::{SMALL, Server, SleepState};
    use wattio_units::Seconds;

    fn small() -> Drives {
        Server::from_toml(SMALL).unwrap().drives.unwrap()
    }

    #[test]
    fn drives_that_nobody_asks_sleep_in_their_deepest_state() {
        let state = of(&small(), &DriveLoad::default(), DriveAction::Own);
        assert!((state.power_w - 4.0 * 0.8).abs() < 1e-9, "{state:?}");
        let state = of(&small(), &DriveLoad::default(), DriveAction::Awake);
        assert!((state.power_w - 4.0 * 4.5).abs() < 1e-9, "{state:?}");
    }

    #[test]
    fn the_same_requests_cost_the_same_where_sleep_saves_nothing() {
        let mut model = small();
        model.load.retain(|point| point.share == 0.0 || point.share == 1.0);
        let load = DriveLoad { rate: 400.0, time_s: 1e-3, square_s2: 1e-6, holds: 0.0 };
        let power = model.power_awake(0.0);
        model.sleep = vec![SleepState { after: Seconds(1e-3), power, wake: Seconds(0.0) }];
        let asleep = of(&model, &load, DriveAction::Own);
        assert!(asleep.asleep > 0.5, "{asleep:?}");
        let awake = of(&model, &load, DriveAction::Awake);
        assert!((asleep.power_w / awake.power_w - 1.0).abs() < 1e-9, "{asleep:?} {awake:?}");
    }

    #[test]
    fn background_tasks_that_come_often_keep_every_drive_awake() {
        let load = DriveLoad { holds: 8000.0, ..DriveLoad::default() };
        assert_eq!(of(&small(), &load, DriveAction::Own).asleep, 0.0);
    }

    /// The mean over the spread of the load, by summing over it.
    #[test]
    fn mean_power_is_that_of_a_sum_over_the_spread() {
        let model = small();
        for (share, spread) in [(0.05, 0.03), (0.1, 0.02), (0.5, 0.1), (0.98, 0.05)] {
            let (mut sum, mut weights) = (0.0, 0.0);
            for step in -600..=600 {
                let z = f64::from(step) / 100.0;
                let weight = (-0.5 * z * z).exp();
                let at = share + z * spread;
                // Below 0 the first slope goes on: a load is never negative.
                let power_w =
                    if at < 0.0 { model.power_awake(0.0).0 } else { model.power_awake(at).0 };
                sum += weight * power_w;
                weights += weight;
            }
            let found = mean_power_w(&model, share, spread);
            assert!((found / (sum / weights) - 1.0).abs() < 1e-4, "{share} {spread}: {found}");
        }
    }
}
