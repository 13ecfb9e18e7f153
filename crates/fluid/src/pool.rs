//! How long a client's task waits for a core.

/// A pool of cores with clients' tasks, which go first, and background tasks, none of which is
/// interrupted once it runs. Rates in tasks a second, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Cores that take tasks.
    pub cores: f64,
    /// Clients' tasks a second.
    pub clients_rate: f64,
    /// Mean time of a clients' task.
    pub clients_s: f64,
    /// Squared coefficient of variation of its time.
    pub clients_variation: f64,
    /// Background tasks a second.
    pub background_rate: f64,
    /// Mean time of a background task.
    pub background_s: f64,
    /// Coefficient of variation of its time.
    pub background_variation: f64,
}

/// What a client's task meets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wait {
    /// Mean wait in seconds.
    pub mean_s: f64,
    /// Share of tasks that wait at all.
    pub probability: f64,
}

/// No queue in equilibrium is believed to be fuller of clients than this: what exceeds it is a
/// backlog that grows.
pub const LOAD_MAX: f64 = 0.995;

/// The share of tasks that wait in M/M/n, as H. Sakasegawa's approximation of the wait implies it
/// (1977): `rho^(sqrt(2 (n + 1)) - 1)`.
#[must_use]
pub fn sakasegawa(load: f64, cores: f64) -> f64 {
    load.powf((2.0 * (cores + 1.0)).sqrt() - 1.0)
}

/// The wait with constant times over that with exponential times (G. P. Cosmetatos, 1976).
fn constant_over_exponential(load: f64, cores: f64) -> f64 {
    let spread = (1.0 - load) * (cores - 1.0) * ((4.0 + 5.0 * cores).sqrt() - 2.0);
    0.5 * (1.0 + (spread / (16.0 * load.max(1e-9) * cores)).min(1.0))
}

impl Pool {
    /// Mean wait of a client's task.
    ///
    /// Background tasks begin one after the other as they are released, so that their number is
    /// all but constant: a mean over four numbers near it. It varies by that of
    /// evenly spaced arrivals, `m v / 2` for `m` tasks whose time is a constant and an exponential
    /// part `v`, but not where they take every core that clients leave.
    #[must_use]
    pub fn wait(&self) -> Wait {
        if self.clients_rate <= 0.0 || self.clients_s <= 0.0 || self.cores <= 0.0 {
            return Wait::default();
        }
        let clients = (self.clients_rate * self.clients_s).min(LOAD_MAX * self.cores);
        let room = self.cores - clients;
        let background = (self.background_rate * self.background_s).min(room);
        if background <= 0.0 {
            return self.beside(0.0, clients);
        }
        // Split between whole numbers, a deviation below 1 has itself as its variance.
        let variance = 0.5 * background * self.background_variation;
        let off = variance.min(variance.sqrt()).min(room - background);
        if off <= 0.0 {
            return self.beside(background, clients);
        }
        let mut wait = Wait::default();
        let mut last = (f64::NAN, Wait::default());
        for taken in [background - off, background + off] {
            let taken = taken.clamp(0.0, self.cores);
            let part = taken - taken.floor();
            for (whole, weight) in [(taken.floor(), 1.0 - part), (taken.ceil(), part)] {
                // Neighbours are often the same number.
                if weight > 0.0 && last.0 != whole {
                    last = (whole, self.beside(whole, clients));
                }
                wait.mean_s += 0.5 * weight * last.1.mean_s;
                wait.probability += 0.5 * weight * last.1.probability;
            }
        }
        wait
    }

    /// The wait while so many cores have background tasks.
    ///
    /// Who finds the other cores busy waits for the first of all to end its task, then for those
    /// ahead; clients take every core that ends one, so that `W = P / (ends - lambda)` with `ends`
    /// the tasks of both kinds that all busy cores end a second. Without background that is M/M/n;
    /// where clients have just the cores they need (`P = 1`) it is the time to the next end of a
    /// background task. While clients wait, cores pass from the long tasks of the background to
    /// theirs and end more, as many as end within the wait; that helps those who are not the only
    /// ones to wait, whose share is taken for that of a geometric queue. Times that vary less than
    /// exponentially shorten the part of the wait that is for clients' cores (Cosmetatos).
    fn beside(&self, background: f64, clients: f64) -> Wait {
        let cores = (self.cores - background).max(0.0);
        let probability = if clients < cores { sakasegawa(clients / cores, cores) } else { 1.0 };
        if probability < 1e-9 {
            return Wait::default();
        }
        let slower = if background > 0.0 { background / self.background_s } else { 0.0 };
        let spare = (cores - clients) / self.clients_s;
        let ends = spare + slower;
        let gain = if background > 0.0 {
            (background / self.clients_s - slower).max(0.0) / self.background_s
        } else {
            0.0
        };
        // W (ends + gain W) = P.
        let wait_s = |gain: f64| {
            let root = (ends * ends + 4.0 * gain * probability).sqrt();
            2.0 * probability / (ends + root).max(1e-12)
        };
        let queued = clients / self.clients_s * wait_s(gain);
        let mean_s = wait_s(gain * queued / (1.0 + queued));
        let share = (spare / ends.max(1e-12)).clamp(0.0, 1.0);
        let factor = 1.0 - (1.0 - self.variation_factor(clients)) * share;
        Wait { mean_s: mean_s * factor, probability }
    }

    /// The wait over that with exponential times.
    fn variation_factor(&self, clients: f64) -> f64 {
        let variation = self.clients_variation.clamp(0.0, 4.0);
        if variation < 1.0 {
            let constant = constant_over_exponential(clients / self.cores, self.cores);
            variation + (1.0 - variation) * constant
        } else {
            0.5 * (1.0 + variation)
        }
    }
}
