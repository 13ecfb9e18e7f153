//! A model of a live host, fitted to windows that were measured at full speed: what the latency
//! would be with fewer or slower cores. Shadow mode closes the law's loop over it.
//!
//! Each group of cores is a queue of `n` servers whose work per request is learned from the load;
//! what a request spends elsewhere (drives, network) is learned too. The queue's wait is
//! Sakasegawa's approximation of M/M/n (H. Sakasegawa, 1977):
//! `W = s rho^(sqrt(2 (n + 1)) - 1) / (n (1 - rho))`.

use thiserror::Error;

/// One window, measured with all cores at the highest frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Requests per second.
    pub rate: f64,
    /// Their mean latency in microseconds.
    pub latency_us: f64,
    /// Cores and their utilisation (0 to 1), group by group.
    pub groups: Vec<(f64, f64)>,
}

/// The work of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Core-seconds for each request.
    pub core_s: f64,
    /// Cores that are busy without any request.
    pub cores_background: f64,
}

/// A fitted host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    /// The work of each group.
    pub demands: Vec<Demand>,
    /// Time of a request outside the queues, in microseconds: at no load, and the increase for each
    /// request per second.
    pub latency_us_base: f64,
    /// See `latency_us_base`.
    pub latency_us_per_rate: f64,
    /// The fitted windows' rates, from the least to the greatest.
    pub rates: (f64, f64),
    /// Median of `|predicted - measured| / measured` over windows that were kept out of the fit.
    pub error_median: f64,
    /// Its 90th percentile.
    pub error_p90: f64,
    /// Windows fitted, and kept out.
    pub windows: (usize, usize),
}

/// Why there is no model.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum NoModel {
    /// More windows are needed.
    #[error("{have} windows with requests so far, {need} are needed")]
    TooFew {
        /// How many there are.
        have: usize,
        /// How many there must be.
        need: usize,
    },
    /// The cores are busy all the time: nothing can be learned of a queue that never empties.
    #[error(
        "the host is saturated: in {saturated} of {all} windows a group's cores were busy for more \
         than {:.0} % of the time",
        UTILISATION_MAX * 100.0
    )]
    Saturated {
        /// Windows that were saturated.
        saturated: usize,
        /// Windows in all.
        all: usize,
    },
    /// The model does not match what was measured.
    #[error(
        "the fitted model is off by {:.0} % (median over {windows} windows kept out of the fit), {:.0} % is allowed",
        error_median * 100.0,
        allowed * 100.0
    )]
    Poor {
        /// The median error.
        error_median: f64,
        /// The error that is allowed.
        allowed: f64,
        /// Windows on which it was measured, none of which was fitted.
        windows: usize,
        /// Windows that were fitted.
        fitted: usize,
        /// Median share of its time for which the busiest group's cores were busy.
        busy: f64,
    },
}

impl NoModel {
    /// What would help to get a model. A server that measures its `own` latency has no other source to
    /// choose.
    #[must_use]
    pub fn help(&self, own: bool) -> String {
        match self {
            Self::TooFew { have: 0, .. } if !own => {
                "wait; if there were requests, is it the right metric, the right device?".to_owned()
            }
            Self::TooFew { .. } => "wait, or observe when there are more requests".to_owned(),
            Self::Saturated { .. } => {
                "observe at a quieter hour, or stop what else runs on these cores".to_owned()
            }
            Self::Poor { busy, .. } if *busy > BUSY => format!(
                "its cores were busy for {:.0} % of the time (median), too busy to learn from: \
                 observe at a quieter hour, or stop what else runs on them",
                busy * 100.0
            ),
            Self::Poor { .. } => {
                let longer = "the load does not explain the latency: observe longer, over more and \
                              less load";
                let nearer = ", or take a source that is nearer to the client";
                format!("{longer}{}", if own { "" } else { nearer })
            }
        }
    }
}

/// The prediction for a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Mean latency in microseconds.
    pub latency_us: f64,
    /// Utilisation of each group by requests, and by all work, 0 to 1.
    pub utilisation: Vec<(f64, f64)>,
}

/// Windows that a fit needs.
pub const WINDOWS_MIN: usize = 40;
/// One window in this many is kept out of the fit.
const KEPT_OUT: usize = 5;
/// Busier windows are not used for fitting.
const UTILISATION_MAX: f64 = 0.95;
/// From this on a queue's wait depends on little differences of load: advice is to observe when it
/// is quieter.
const BUSY: f64 = 0.7;
/// Predictions cap utilisation at this.
const LOAD_MAX: f64 = 0.995;

impl Window {
    /// How busy its busiest group was, 0 to 1.
    fn busy(&self) -> f64 {
        self.groups.iter().map(|&(_, utilisation)| utilisation).fold(0.0, f64::max)
    }

    /// Whether a queue can be seen in it: no group was busy all the time.
    #[must_use]
    pub fn is_unsaturated(&self) -> bool {
        self.busy() <= UTILISATION_MAX
    }
}

impl HostModel {
    /// Fits a model to windows at full speed; every fifth one is kept out to measure the error.
    ///
    /// # Errors
    /// [`NoModel`] where there are too few windows, or the error's median is above `error_max`.
    pub fn fit(windows: &[Window], error_max: f64) -> Result<Self, NoModel> {
        let groups = windows.first().map_or(0, |window| window.groups.len());
        let possible = |w: &&Window| {
            let sound = w.groups.iter().all(|&(n, u)| n >= 1.0 && (0.0..=1.0).contains(&u));
            w.rate > 0.0
                && w.latency_us > 0.0
                && w.groups.len() == groups
                && sound
                && w.rate.is_finite()
                && w.latency_us.is_finite()
        };
        let (usable, saturated): (Vec<_>, Vec<_>) =
            windows.iter().filter(possible).partition(|window| window.is_unsaturated());
        if saturated.len() > usable.len() {
            let (saturated, all) = (saturated.len(), saturated.len() + usable.len());
            return Err(NoModel::Saturated { saturated, all });
        }
        if usable.len() < WINDOWS_MIN || groups == 0 {
            return Err(NoModel::TooFew { have: usable.len(), need: WINDOWS_MIN });
        }
        let kept_out = |at: usize| at % KEPT_OUT == KEPT_OUT - 1;
        let (mut fitted, mut held) = (Vec::new(), Vec::new());
        for (at, &window) in usable.iter().enumerate() {
            if kept_out(at) { held.push(window) } else { fitted.push(window) }
        }
        let mut model = Self::of(&fitted, groups);
        let mut errors: Vec<_> = held
            .iter()
            .map(|window| {
                let cores: Vec<_> = window.groups.iter().map(|&(n, _)| (n, 1.0)).collect();
                let predicted = model.predict(window.rate, &cores, 0.0).latency_us;
                (predicted - window.latency_us).abs() / window.latency_us
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        let at_share = |share: f64| errors[((errors.len() - 1) as f64 * share).round() as usize];
        (model.error_median, model.error_p90) = (at_share(0.5), at_share(0.9));
        model.windows = (fitted.len(), held.len());
        let error_median = model.error_median;
        if error_median <= error_max {
            Ok(model)
        } else {
            let (windows, fitted) = (held.len(), fitted.len());
            let mut busy: Vec<_> = usable.iter().map(|window| window.busy()).collect();
            busy.sort_by(f64::total_cmp);
            let busy = busy[busy.len() / 2];
            Err(NoModel::Poor { error_median, allowed: error_max, windows, fitted, busy })
        }
    }

    fn of(fitted: &[&Window], groups: usize) -> Self {
        let demands: Vec<_> = (0..groups)
            .map(|at| {
                let points = fitted.iter().map(|w| (w.rate, w.groups[at].0 * w.groups[at].1));
                let sums = Sums::of(points);
                let (cores_background, core_s) = sums.line().unwrap_or_else(|| sums.proportional());
                Demand { core_s, cores_background }
            })
            .collect();
        let mut model = Self {
            demands,
            latency_us_base: 0.0,
            latency_us_per_rate: 0.0,
            rates: (f64::INFINITY, 0.0),
            error_median: f64::NAN,
            error_p90: f64::NAN,
            windows: (0, 0),
        };
        let outside = fitted.iter().map(|window| {
            let cores: Vec<_> = window.groups.iter().map(|&(n, _)| (n, 1.0)).collect();
            (window.rate, window.latency_us - model.queues_us(window.rate, &cores, 0.0))
        });
        let sums = Sums::of(outside);
        let (base, per_rate) = sums.line().unwrap_or_else(|| sums.constant());
        (model.latency_us_base, model.latency_us_per_rate) = (base, per_rate);
        for window in fitted {
            model.rates = (model.rates.0.min(window.rate), model.rates.1.max(window.rate));
        }
        model
    }

    /// What `rate` requests per second would experience with `groups` of (cores, frequency over the
    /// highest), where `frequency_bound_share` of a task's time scales with `1/f`.
    #[must_use]
    pub fn predict(
        &self,
        rate: f64,
        groups: &[(f64, f64)],
        frequency_bound_share: f64,
    ) -> Prediction {
        let outside = self.latency_us_base + self.latency_us_per_rate * rate;
        let queues = self.queues_us(rate, groups, frequency_bound_share);
        let utilisation = self.demands.iter().zip(groups).map(|(demand, &(cores, phi))| {
            let stretch = stretch(phi, frequency_bound_share) / cores.max(1.0);
            let clients = demand.core_s * rate * stretch;
            (clients.min(1.0), (clients + demand.cores_background * stretch).min(1.0))
        });
        Prediction { latency_us: (outside + queues).max(1e-3), utilisation: utilisation.collect() }
    }

    /// Waiting in the queues, and what slower cores add to the work itself.
    fn queues_us(&self, rate: f64, groups: &[(f64, f64)], frequency_bound_share: f64) -> f64 {
        let one = |(demand, &(cores, phi)): (&Demand, &(f64, f64))| {
            let stretch = stretch(phi, frequency_bound_share);
            let (work_s, n) = (demand.core_s * stretch, cores.max(1.0));
            let offered = (rate * demand.core_s + demand.cores_background) * stretch;
            let load = (offered / n).clamp(0.0, LOAD_MAX);
            let wait = load.powf((2.0 * (n + 1.0)).sqrt() - 1.0) / (n * (1.0 - load));
            (work_s * wait + work_s - demand.core_s) * 1e6
        };
        self.demands.iter().zip(groups).map(one).sum()
    }
}

/// `1 - c + c / phi`, as in the server description of the simulator.
fn stretch(phi: f64, share: f64) -> f64 {
    1.0 - share + share / phi.clamp(0.01, 1.0)
}

/// Sums over points for least squares.
#[derive(Default)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Sums {
    fn of(points: impl Iterator<Item = (f64, f64)>) -> Self {
        points.fold(Self::default(), |sums, (x, y)| Self {
            n: sums.n + 1.0,
            x: sums.x + x,
            y: sums.y + y,
            xx: sums.xx + x * x,
            xy: sums.xy + x * y,
        })
    }

    /// `y = a + b x` with both at least 0, as neither work nor time is negative; `None` also if `x`
    /// hardly varies, which gives no slope.
    fn line(&self) -> Option<(f64, f64)> {
        let spread = self.n * self.xx - self.x * self.x;
        let slope = (self.n * self.xy - self.x * self.y) / spread;
        let intercept = (self.y - slope * self.x) / self.n;
        let sound = spread > 1e-6 * self.n * self.xx && slope >= 0.0 && intercept >= 0.0;
        sound.then_some((intercept, slope))
    }

    /// `y = b x`.
    fn proportional(&self) -> (f64, f64) {
        (0.0, if self.xx > 0.0 { (self.xy / self.xx).max(0.0) } else { 0.0 })
    }

    /// `y = a`.
    fn constant(&self) -> (f64, f64) {
        ((self.y / self.n).max(0.0), 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A host of 8 cores, 20 us of work for each request and 100 us elsewhere.
    fn windows(noise: f64) -> Vec<Window> {
        let truth = HostModel {
            demands: vec![Demand { core_s: 20e-6, cores_background: 0.5 }],
            latency_us_base: 120.0,
            latency_us_per_rate: 0.0,
            rates: (0.0, 0.0),
            error_median: 0.0,
            error_p90: 0.0,
            windows: (0, 0),
        };
        (0..200u32)
            .map(|at| {
                let rate = 20_000.0 + 1_500.0 * f64::from(at % 100);
                let seen = truth.predict(rate, &[(8.0, 1.0)], 0.6);
                let off = 1.0 + noise * (f64::from(at * 7919 % 13) / 6.0 - 1.0);
                Window {
                    rate,
                    latency_us: seen.latency_us * off,
                    groups: vec![(8.0, seen.utilisation[0].1)],
                }
            })
            .collect()
    }

    #[test]
    fn the_parameters_of_a_known_host_are_found() {
        let model = HostModel::fit(&windows(0.0), 0.05).unwrap();
        assert!((model.demands[0].core_s / 20e-6 - 1.0).abs() < 1e-6, "{model:?}");
        assert!((model.demands[0].cores_background - 0.5).abs() < 1e-6);
        assert!((model.latency_us_base / 120.0 - 1.0).abs() < 1e-3);
        assert!(model.error_p90 < 1e-3);
        assert_eq!(model.windows, (160, 40));
    }

    #[test]
    fn fewer_and_slower_cores_take_longer() {
        let model = HostModel::fit(&windows(0.02), 0.05).unwrap();
        let latency = |cores, phi| model.predict(50_000.0, &[(cores, phi)], 0.6).latency_us;
        assert!(latency(2.0, 1.0) > latency(4.0, 1.0));
        assert!(latency(4.0, 0.5) > latency(4.0, 1.0));
        assert!(latency(8.0, 1.0) < 130.0);
    }

    #[test]
    fn a_load_that_hardly_varies_still_tells_work_and_time() {
        let steady: Vec<_> = windows(0.0).into_iter().step_by(100).cycle().take(60).collect();
        let model = HostModel::fit(&steady, 0.05).unwrap();
        assert_eq!((model.latency_us_per_rate, model.demands[0].cores_background), (0.0, 0.0));
        assert!(
            (model.predict(20_000.0, &[(8.0, 1.0)], 0.6).latency_us / 120.0 - 1.0).abs() < 0.01
        );
    }

    #[test]
    fn a_host_that_the_model_does_not_fit_gets_no_estimate() {
        let poor = HostModel::fit(&windows(0.8), 0.15).unwrap_err();
        assert!(matches!(poor, NoModel::Poor { .. }), "{poor}");
        assert!(poor.to_string().contains("kept out of the fit"), "{poor}");
        let full: Vec<_> = windows(0.0)
            .into_iter()
            .map(|window| Window { groups: vec![(8.0, 1.0)], ..window })
            .collect();
        let saturated = HostModel::fit(&full, 0.15).unwrap_err().to_string();
        assert!(saturated.contains("saturated"), "{saturated}");
        let few = HostModel::fit(&windows(0.0)[..30], 0.15).unwrap_err();
        assert_eq!(few, NoModel::TooFew { have: 30, need: WINDOWS_MIN });
    }

    /// "The fitted model is off by 56283 %" did not say that the host was too busy to learn from.
    #[test]
    fn what_would_help_depends_on_how_busy_the_host_is() {
        let busy_at = |share: f64| {
            let windows: Vec<_> = windows(0.8)
                .into_iter()
                .map(|window| Window { groups: vec![(8.0, share)], ..window })
                .collect();
            HostModel::fit(&windows, 0.05).unwrap_err()
        };
        let busy = busy_at(0.9).help(false);
        assert!(busy.contains("busy for 90 % of the time") && busy.contains("quieter"), "{busy}");
        assert!(busy_at(0.3).help(false).contains("does not explain"), "{:?}", busy_at(0.3));
        assert!(busy_at(1.0).help(false).contains("quieter"), "{:?}", busy_at(1.0));
        let few = |have| NoModel::TooFew { have, need: WINDOWS_MIN }.help(false);
        assert!(few(0).contains("the right device"), "{}", few(0));
        assert!(few(1).contains("wait"), "{}", few(1));
    }

    /// `wattio-target observe` advised to take another source, and asked for the right device.
    #[test]
    fn a_server_that_measures_itself_is_not_told_to_choose_a_source() {
        let poor =
            NoModel::Poor { error_median: 0.5, allowed: 0.15, windows: 8, fitted: 32, busy: 0.1 };
        for (why, says) in [
            (NoModel::TooFew { have: 0, need: WINDOWS_MIN }, "wait, or observe when"),
            (poor, "over more and less load"),
        ] {
            let help = why.help(true);
            assert!(help.contains(says), "{help}");
            assert!(
                !["source", "metric", "device"].iter().any(|word| help.contains(word)),
                "{help}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_windows_make_it_panic_or_predict_what_cannot_be(
            raw in proptest::collection::vec((-1e3f64..1e9, -10.0f64..1e9, 0.0f64..64.0, -0.5f64..1.5), 0..120),
        ) {
            let windows: Vec<_> = raw
                .into_iter()
                .map(|(rate, latency_us, n, u)| Window { rate, latency_us, groups: vec![(n, u)] })
                .collect();
            if let Ok(model) = HostModel::fit(&windows, 1e9) {
                let seen = model.predict(1e4, &[(2.0, 0.4)], 0.6);
                prop_assert!(seen.latency_us.is_finite() && seen.latency_us > 0.0);
                prop_assert!(seen.utilisation.iter().all(|&(c, a)| c <= a && a <= 1.0));
            }
        }
    }
}
