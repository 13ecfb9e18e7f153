//! A group of cores as one queue: how long a client's task waits for a core.
//!
//! Tasks of clients go first, but a task that runs is not interrupted, so that a client who comes
//! while every core is busy waits for the first of them to end its task, be it a client's or a slice
//! of background work. With `a = (a_c + a_b) x` cores' worth of work on `n` cores, at `x` times
//! their time at the highest frequency:
//!
//! `W = C(n, a) R / (n (1 - a_c x / n))`
//!
//! where `C` is Erlang's formula for waiting (A. K. Erlang, 1917), `R` the mean time that a running
//! task has left, and the last factor the clients who are ahead (A. Cobham, 1954, for two
//! priorities without interruption). Exact for exponential times of one length.

use std::array;
use std::ops::RangeInclusive;

/// What a group of cores has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Clients' work in cores' worth at the highest frequency.
    pub clients: f64,
    /// Background work in cores' worth at the highest frequency.
    pub background: f64,
    /// Mean time left of a client's task that runs, in seconds at the highest frequency.
    pub task_left_s: f64,
    /// Mean time left of a slice of background work that runs, likewise.
    pub slice_left_s: f64,
}

/// In equilibrium the clients' load is capped at this; beyond it the queue grows for as long as the
/// load lasts.
const LOAD_MAX: f64 = 0.95;

impl Station {
    /// Tells `each` the numbers of cores, and how long a task waits with so many, in seconds, at
    /// each of `stretches` times the time at the highest frequency. A load beyond so many cores lasts for
    /// `overload_s` of them, in which its queue grows.
    ///
    /// What is known of one core less is needed for one more, but not what is known of the other
    /// stretches: together they take little longer than one alone.
    #[inline]
    pub fn waits<const N: usize>(
        &self,
        stretches: [f64; N],
        cores: RangeInclusive<u32>,
        overload_s: impl Fn(u32) -> f64,
        mut each: impl FnMut(u32, [f64; N]),
    ) {
        let all = self.clients + self.background;
        let left_s = if all > 0.0 {
            (self.clients * self.task_left_s + self.background * self.slice_left_s) / all
        } else {
            0.0
        };
        let left_s = stretches.map(|stretch| left_s * stretch);
        let clients = stretches.map(|stretch| self.clients * stretch);
        let offered = stretches.map(|stretch| all * stretch);
        let mut erlang = offered.map(Erlang::new);
        for n in 1..=*cores.end() {
            erlang.iter_mut().for_each(Erlang::add_core);
            if n < *cores.start() {
                continue;
            }
            let cores = f64::from(n);
            let growth_s = 0.5 * overload_s(n) / cores;
            let wait_s = |at: usize| {
                let free = (cores - clients[at]).max(cores * (1.0 - LOAD_MAX));
                let queue_s = left_s[at] / (erlang[at].all_busy_inverse() * free);
                queue_s + (clients[at] - cores * LOAD_MAX).max(0.0) * growth_s
            };
            each(n, array::from_fn(wait_s));
        }
    }

    /// How long a task waits with so many cores, in seconds: [`Station::waits`] for one number.
    #[must_use]
    pub fn wait_s(&self, stretch: f64, cores: u32, overload_s: f64) -> f64 {
        let mut found_s = 0.0;
        self.waits([stretch], cores..=cores, |_| overload_s, |_, [wait_s]| found_s = wait_s);
        found_s
    }
}

/// The chance that all cores are busy, for one core after another. What is kept is one over it: the
/// recursion then has no division that the next has to wait for.
#[derive(Clone, Copy, Debug)]
struct Erlang {
    offered: f64,
    one_over_offered: f64,
    cores: f64,
    /// One over Erlang's loss probability (Erlang B); infinite where that is too small.
    one_over_loss: f64,
}

impl Erlang {
    fn new(offered: f64) -> Self {
        Self { offered, one_over_offered: 1.0 / offered, cores: 0.0, one_over_loss: 1.0 }
    }

    #[inline]
    fn add_core(&mut self) {
        self.cores += 1.0;
        self.one_over_loss = 1.0 + self.cores * self.one_over_offered * self.one_over_loss;
    }

    /// One over Erlang C.
    #[inline]
    fn all_busy_inverse(&self) -> f64 {
        let free = 1.0 - self.offered / self.cores;
        if free > 0.0 { 1.0 + (self.one_over_loss - 1.0) * free } else { 1.0 }
    }
}

/// The probability that a task has to wait at `cores` cores with `offered` cores' worth of work
/// (Erlang C); 1 from saturation on.
#[must_use]
pub fn erlang_c(cores: u32, offered: f64) -> f64 {
    let mut erlang = Erlang::new(offered);
    (0..cores).for_each(|_| erlang.add_core());
    1.0 / erlang.all_busy_inverse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The formula as it is printed: a quotient of sums.
    fn erlang_c_by_sums(cores: u32, offered: f64) -> f64 {
        let term = |k: u32| (1..=k).fold(1.0, |product, i| product * offered / f64::from(i));
        let n = f64::from(cores);
        let last = term(cores) * n / (n - offered);
        last / ((0..cores).map(term).sum::<f64>() + last)
    }

    #[test]
    fn one_core_waits_as_in_a_simple_queue() {
        let station =
            Station { clients: 0.5, background: 0.0, task_left_s: 1.0, slice_left_s: 0.0 };
        assert!((station.wait_s(1.0, 1, 0.0) - 1.0).abs() < 1e-12, "M/M/1: rho / (1 - rho)");
        assert!((erlang_c(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_do_means_no_wait_and_too_much_a_wait_that_grows() {
        let idle = Station { clients: 0.0, background: 0.0, task_left_s: 0.0, slice_left_s: 0.0 };
        assert_eq!(idle.wait_s(1.0, 4, 1.0), 0.0);
        let full = Station { clients: 8.0, background: 4.0, task_left_s: 1e-5, slice_left_s: 1e-4 };
        assert!(full.wait_s(1.0, 4, 0.5) > 0.2);
        // One over a loss that no number can hold.
        let sparse = Station { clients: 1e-9, background: 0.0, ..full };
        assert_eq!(sparse.wait_s(1.0, 400, 0.5), 0.0);
    }

    /// Sakasegawa's approximation (1977), which the model of hosts uses, lies within a tenth of a
    /// service time of Erlang's formula.
    #[test]
    fn sakasegawa_is_near_erlang() {
        for cores in [1_u32, 2, 4, 8, 16, 40] {
            for load in [0.1, 0.3, 0.5, 0.7, 0.9] {
                let n = f64::from(cores);
                let exact = erlang_c(cores, load * n) / (n * (1.0 - load));
                let near = f64::powf(load, (2.0 * (n + 1.0)).sqrt() - 1.0) / (n * (1.0 - load));
                assert!((exact - near).abs() < 0.1, "{cores} {load}: {exact} {near}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_fast_formula_is_the_printed_one(cores in 1u32..60, load in 0.001f64..0.999) {
            let offered = load * f64::from(cores);
            let (fast, slow) = (erlang_c(cores, offered), erlang_c_by_sums(cores, offered));
            prop_assert!((fast - slow).abs() < 1e-9 * slow.max(1e-6), "{fast} {slow}");
        }

        #[test]
        fn more_or_faster_cores_never_make_anyone_wait_longer(
            clients in 0.0f64..20.0, background in 0.0f64..20.0, stretch in 1.0f64..4.0,
            slice_us in 1.0f64..500.0,
        ) {
            let station = Station {
                clients, background, task_left_s: 1e-5, slice_left_s: slice_us * 1e-6,
            };
            let mut last_s = f64::INFINITY;
            station.waits([stretch], 1..=48, |_| 0.5, |_, [wait_s]| {
                assert!(wait_s >= 0.0 && wait_s <= last_s * (1.0 + 1e-12));
                last_s = wait_s;
            });
            let slower_s = station.wait_s(stretch * 1.1, 16, 0.5);
            prop_assert!(slower_s >= station.wait_s(stretch, 16, 0.5) * (1.0 - 1e-12));
        }
    }
}
