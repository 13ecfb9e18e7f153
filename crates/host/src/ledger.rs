//! Energy since the start: according to the meter, if there is one, and to the model.

use crate::price::{Price, SavedYear};
use serde::{Deserialize, Serialize};
use std::path::Path;
use wattio_files::read_text;
use wattio_governor::journal::WindowPower;
use wattio_law::{CorePower, GroupLimits, GroupObservation};
use wattio_plant::{ASSUMED_POWER_MODEL, CorePoint, PowerModel};
use wattio_units::{Hertz, Seconds, Watts};

/// Points of the power table of cores that can run at any frequency.
const POWER_POINTS: u32 = 16;

/// Power drawn and saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerStatus {
    /// The meter, if there is one.
    pub meter: Option<String>,
    /// The problem it last reported, until it has power again.
    #[serde(default)]
    pub meter_trouble: Option<String>,
    /// Mean power of the last window by the meter; absent if it had none.
    pub measured_w: Option<f64>,
    /// Energy by the meter since the start, over the windows it covers.
    pub measured_j: Option<f64>,
    /// The model that estimates, and where its numbers come from.
    pub model: Option<String>,
    /// Estimated power of the setting in force; in shadow mode of the one that would be.
    pub estimated_w: Option<f64>,
    /// Estimated power at full speed under the same load.
    pub estimated_full_speed_w: Option<f64>,
    /// Time over which there was an estimate.
    #[serde(default)]
    pub estimated_span_s: Option<f64>,
    /// Estimated energy over that time.
    pub estimated_j: Option<f64>,
    /// Estimated energy over that time, had it run at full speed.
    pub estimated_full_speed_j: Option<f64>,
    /// What that difference would be in a year.
    #[serde(default)]
    pub estimated_saved_year: Option<SavedYear>,
    /// Why there is no estimate, if there is none.
    pub no_estimate: Option<String>,
}

impl PowerStatus {
    /// What is measured, estimated and saved, as rows of a text.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        match (&self.meter, self.measured_w, &self.meter_trouble) {
            (Some(meter), Some(watts), _) => {
                rows.push(("measured", format!("{watts:.1} W ({meter})")));
            }
            (Some(_), None, Some(problem)) => rows.push(("not measured", problem.clone())),
            _ => {}
        }
        match (self.estimated_w, self.estimated_full_speed_w) {
            (Some(here), Some(full)) => {
                let model = self.model.as_deref().unwrap_or("model");
                let text = format!("{here:.1} W of {full:.1} W at full speed; {model}");
                rows.push(("estimate", text));
                let saving = self.estimated_saved_year.map(|year| format!("{year} (estimate)"));
                rows.extend(saving.map(|saving| ("saving", saving)));
            }
            _ => {
                let why = self.no_estimate.as_deref().unwrap_or("not yet");
                rows.push(("no estimate", why.to_owned()));
            }
        }
        rows
    }
}

/// Limits with what cores draw by the power model, if there is one.
#[must_use]
pub fn with_power(limits: GroupLimits, model: Option<&PowerModel>) -> GroupLimits {
    let Some(model) = model else { return limits };
    let (least, most) = (limits.frequency_min, limits.frequency_max);
    let evenly = |at: u32| least + (most - least) * (f64::from(at) / f64::from(POWER_POINTS - 1));
    let frequencies: Vec<Hertz> = match limits.frequency_steps.as_slice() {
        [] => (0..POWER_POINTS).map(evenly).collect(),
        steps => steps.to_vec(),
    };
    let point = |frequency: Hertz| {
        let (running, idle) = model.core(frequency / most);
        CorePower { frequency, running, idle }
    };
    GroupLimits {
        power: frequencies.into_iter().map(point).collect(),
        frequency_bound_share: Some(model.frequency_bound_share),
        ..limits
    }
}

/// The power model of a configuration's key `power.model`: `assumed`, or a file whose path is relative
/// to that of the configuration.
///
/// # Errors
/// What is wrong with it, with the key.
pub fn power_model(name: &str, config: &Path) -> Result<PowerModel, String> {
    let at = |what: &dyn std::fmt::Display| format!("power.model, {name}: {what}");
    if name == "assumed" {
        return PowerModel::from_toml(ASSUMED_POWER_MODEL).map_err(|error| at(&error));
    }
    let path = config.parent().unwrap_or(Path::new("")).join(name);
    let text = read_text(&path).map_err(|error| at(&error))?;
    PowerModel::from_toml(&text).map_err(|error| at(&error))
}

/// The account.
#[derive(Clone, Debug)]
pub struct Ledger {
    model: Option<PowerModel>,
    frequencies_max: Vec<Hertz>,
    /// What an operator sets to name a model.
    model_key: &'static str,
    meter: Option<String>,
    last: WindowPower,
    measured_j: f64,
    estimated_j: f64,
    full_speed_j: f64,
    estimated_span_s: f64,
    price: Price,
}

impl Ledger {
    /// With a model and the name of a meter, if there are any.
    #[must_use]
    pub fn new(
        model: Option<PowerModel>,
        meter: Option<String>,
        frequencies_max: Vec<Hertz>,
    ) -> Self {
        Self {
            model,
            frequencies_max,
            model_key: "power.model",
            meter,
            last: WindowPower::default(),
            measured_j: 0.0,
            estimated_j: 0.0,
            full_speed_j: 0.0,
            estimated_span_s: 0.0,
            price: Price::default(),
        }
    }

    /// With another name than that of the configuration's key for what sets the model.
    #[must_use]
    pub fn with_model_key(self, model_key: &'static str) -> Self {
        Self { model_key, ..self }
    }

    /// With an operator's own factors.
    #[must_use]
    pub fn priced(self, price: Price) -> Self {
        Self { price, ..self }
    }

    /// Takes in a window under a load; `groups` is `None` where they are unknown.
    pub fn window(
        &mut self,
        dt: Seconds,
        rate: f64,
        groups: Option<Groups<'_>>,
        measured: Option<Watts>,
    ) -> WindowPower {
        let measured_w = measured.map(|measured| measured.0);
        self.measured_j += measured_w.unwrap_or(0.0) * dt.0;
        let estimated = self.model.as_ref().zip(groups).map(|(model, groups)| {
            let [here, full] = [groups.here, groups.full].map(|setting| {
                let cores = setting.iter().zip(groups.full).enumerate();
                let with_others = |(at, (group, full)): (usize, (&GroupObservation, _))| {
                    groups.others.beside(at, *group, full)
                };
                self.power(model, cores.map(with_others), rate)
            });
            (here, full)
        });
        if let Some((here_w, full_w)) = estimated {
            self.estimated_j += here_w * dt.0;
            self.full_speed_j += full_w * dt.0;
            self.estimated_span_s += dt.0;
        }
        self.last = WindowPower {
            measured_w,
            estimated_w: estimated.map(|(here_w, _)| here_w),
            estimated_full_speed_w: estimated.map(|(_, full_w)| full_w),
        };
        self.last
    }

    /// For the status; `no_estimate` says why the last window had none.
    #[must_use]
    pub fn status(&self, no_estimate: Option<String>) -> PowerStatus {
        let origin = |model: &PowerModel| {
            let origin = if model.is_measured() { "measured" } else { "not measured on this host" };
            format!("{} ({origin})", model.name)
        };
        let ever = (self.estimated_span_s > 0.0).then_some(());
        let no_model = || {
            let none =
                || format!("no power model: set {} to a file, or to \"assumed\"", self.model_key);
            self.model.is_none().then(none)
        };
        PowerStatus {
            meter: self.meter.clone(),
            meter_trouble: None,
            measured_w: self.last.measured_w,
            measured_j: self.meter.as_ref().map(|_| self.measured_j),
            model: self.model.as_ref().map(origin),
            estimated_w: self.last.estimated_w,
            estimated_full_speed_w: self.last.estimated_full_speed_w,
            estimated_span_s: ever.map(|()| self.estimated_span_s),
            estimated_j: ever.map(|()| self.estimated_j),
            estimated_full_speed_j: ever.map(|()| self.full_speed_j),
            estimated_saved_year: ever.map(|()| {
                let saved_j = self.full_speed_j - self.estimated_j;
                self.price.year(Watts(saved_j / self.estimated_span_s))
            }),
            no_estimate: no_model().or(no_estimate).filter(|_| self.last.estimated_w.is_none()),
        }
    }

    /// The power by the model of groups of cores under a load, beside others; `full` are the groups at
    /// full speed. `None` without a model.
    #[must_use]
    pub fn estimate_w(
        &self,
        groups: &[GroupObservation],
        full: &[GroupObservation],
        others: &Others,
        rate: f64,
    ) -> Option<f64> {
        let pairs = groups.iter().zip(full).enumerate();
        let in_use = pairs.map(|(at, (group, full))| others.beside(at, *group, full));
        self.model.as_ref().map(|model| self.power(model, in_use, rate))
    }

    fn power(&self, model: &PowerModel, groups: impl Iterator<Item = InUse>, rate: f64) -> f64 {
        let point = |(group, &most): (InUse, &Hertz)| CorePoint {
            cores: group.cores,
            utilisation: (group.busy / group.cores.max(1e-9)).clamp(0.0, 1.0),
            frequency_share: (group.frequency / most).clamp(0.0, 1.0),
        };
        let points: Vec<_> = groups.zip(&self.frequencies_max).map(point).collect();
        model.power(&points, rate).0
    }
}

/// What a window is accounted by.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// The groups in the setting in force.
    pub here: &'a [GroupObservation],
    /// The same under the same load at full speed.
    pub full: &'a [GroupObservation],
    /// What others do on the groups' cores.
    pub others: &'a Others,
}

/// What others do on cores that groups have left, or would have.
#[derive(Clone, Debug, PartialEq)]
pub enum Others {
    /// Nothing: whoever leaves a core leaves it to nobody.
    Nothing,
    /// So many cores' worth of work on those that each group has left. It is in no group's use.
    OnLeft(Vec<f64>),
    /// The same where the server itself tells how busy a group is: then what others do is in no
    /// group's use on any core, but a core that they use is not idle.
    UncountedOnLeft(Vec<f64>),
    /// So many cores' worth on all cores of each group, which has left none yet: taken to be spread
    /// evenly, and to stay where it is (an estimate). It is in the groups' use.
    OnAll(Vec<f64>),
}

/// Cores of a group that are not idle, whoever uses them.
struct InUse {
    cores: f64,
    /// How many of them are busy.
    busy: f64,
    frequency: Hertz,
}

impl Others {
    /// A group beside others, of the cores that it has at full speed.
    fn beside(&self, at: usize, group: GroupObservation, full: &GroupObservation) -> InUse {
        let (cores, most) = (f64::from(group.cores), f64::from(full.cores));
        let of = |work: &[f64]| work.get(at).copied().unwrap_or(0.0);
        let (kept, uncounted) = match self {
            Self::Nothing => (0.0, 0.0),
            Self::OnLeft(work) => (of(work), of(work)),
            Self::UncountedOnLeft(work) => (of(work), 0.0),
            Self::OnAll(work) => ((1.0 - cores / most.max(1.0)).max(0.0) * of(work), 0.0),
        };
        InUse {
            cores: (cores + kept).min(most.max(cores)),
            busy: cores * group.utilisation() + uncounted,
            frequency: group.frequency,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cores: u32, utilisation: f64, frequency: f64) -> GroupObservation {
        GroupObservation {
            cores,
            frequency: Hertz(frequency),
            utilisation_clients: utilisation,
            utilisation_background: 0.0,
            queued: None,
            waited_for_drives: false,
        }
    }

    fn ledger() -> Ledger {
        let model = PowerModel::from_toml(wattio_plant::ASSUMED_POWER_MODEL).unwrap();
        Ledger::new(Some(model), Some("rapl:package-0".into()), vec![Hertz(3e9)])
    }

    fn alone<'a>(here: &'a [GroupObservation], full: &'a [GroupObservation]) -> Groups<'a> {
        Groups { here, full, others: &Others::Nothing }
    }

    /// Where others keep the cores busy that a group has left, leaving them saves nothing: this was
    /// estimated as if the cores were idle.
    #[test]
    fn a_core_that_others_keep_busy_saves_nothing() {
        let (few, all) = ([group(2, 0.8, 3e9)], [group(8, 0.2, 3e9)]);
        let saved_w = |others: Others| {
            let groups = Groups { others: &others, ..alone(&few, &all) };
            let power = ledger().window(Seconds(1.0), 1e3, Some(groups), None);
            power.estimated_full_speed_w.unwrap() - power.estimated_w.unwrap()
        };
        let most = saved_w(Others::Nothing);
        assert!(most > 0.0);
        assert_eq!(saved_w(Others::OnLeft(vec![0.0])), most);
        let half = saved_w(Others::OnLeft(vec![3.0]));
        assert!((half / most - 0.5).abs() < 1e-9, "half of them are idle");
        let busy = [group(8, 0.125, 3e9)];
        let few = [group(1, 1.0, 3e9)];
        let groups = Groups { here: &few, full: &busy, others: &Others::OnLeft(vec![7.0]) };
        let power = ledger().window(Seconds(1.0), 1e3, Some(groups), None);
        assert!((power.estimated_full_speed_w.unwrap() - power.estimated_w.unwrap()).abs() < 1e-9);
    }

    /// Where a server tells its own use, others are in no window at full speed. They were in those with
    /// fewer cores: governing by turns seemed to draw what others drew.
    #[test]
    fn others_that_full_speed_does_not_count_are_not_what_leaving_a_core_costs() {
        let (few, all) = ([group(1, 0.2, 3e9)], [group(2, 0.1, 3e9)]);
        let estimated_w = |here: &[GroupObservation], others: Others| {
            let groups = Groups { others: &others, ..alone(here, &all) };
            ledger().window(Seconds(1.0), 1e3, Some(groups), None).estimated_w.unwrap()
        };
        let full_w = estimated_w(&all, Others::UncountedOnLeft(vec![0.0]));
        let busy_w = estimated_w(&few, Others::UncountedOnLeft(vec![1.0]));
        assert!((busy_w - full_w).abs() < 1e-9, "{busy_w} W beside others, {full_w} W before");
        assert!(estimated_w(&few, Others::UncountedOnLeft(vec![0.0])) < full_w);
        assert!(estimated_w(&few, Others::OnLeft(vec![1.0])) > full_w);
    }

    /// Shadow mode took cores for idle that would be left to others who keep them busy.
    #[test]
    fn what_others_do_would_stay_on_cores_that_would_be_left() {
        let (few, all) = ([group(2, 0.8, 3e9)], [group(8, 0.2, 3e9)]);
        let here_w =
            |work: f64| ledger().estimate_w(&few, &all, &Others::OnAll(vec![work]), 1e3).unwrap();
        let full_w = ledger().estimate_w(&all, &all, &Others::OnAll(vec![1.6]), 1e3).unwrap();
        let saved = |work: f64| (full_w - here_w(work)) / (full_w - here_w(0.0));
        // The work is the same whoever does it: only the cores that would idle are fewer.
        assert!((saved(1.6) - 0.8).abs() < 1e-9, "1.2 of 6 cores stay in use: {}", saved(1.6));
        assert_eq!(full_w, ledger().estimate_w(&all, &all, &Others::Nothing, 1e3).unwrap());
    }

    #[test]
    fn energy_adds_up_over_windows_with_an_estimate() {
        let mut ledger = ledger();
        let (few, all) = ([group(2, 0.4, 1.5e9)], [group(8, 0.1, 3e9)]);
        let power = ledger.window(Seconds(2.0), 1e3, Some(alone(&few, &all)), Some(Watts(61.0)));
        ledger.window(Seconds(2.0), 1e3, None, Some(Watts(63.0)));
        let status = ledger.status(None);
        assert_eq!(status.measured_j, Some(248.0));
        assert_eq!(status.estimated_j, power.estimated_w.map(|w| w * 2.0));
        assert!(status.estimated_j < status.estimated_full_speed_j);
        assert_eq!(status.estimated_span_s, Some(2.0));
        let saved_w = power.estimated_full_speed_w.unwrap() - power.estimated_w.unwrap();
        assert_eq!(status.estimated_saved_year, Some(Price::default().year(Watts(saved_w))));
    }

    #[test]
    fn a_missing_model_or_meter_reading_is_said_and_not_zero() {
        let mut ledger = Ledger::new(None, None, vec![Hertz(3e9)]);
        ledger.window(Seconds(1.0), 0.0, None, None);
        let status = ledger.status(Some("no fit".into()));
        assert_eq!((status.measured_j, status.estimated_j), (None, None));
        assert!(status.no_estimate.unwrap().contains("set power.model to"));
        let status = ledger.with_model_key("--power-model").status(None);
        assert!(status.no_estimate.unwrap().contains("set --power-model to"));

        let mut ledger = self::ledger();
        ledger.window(Seconds(1.0), 0.0, None, None);
        let status = ledger.status(None);
        assert_eq!((status.measured_w, status.measured_j), (None, Some(0.0)));
    }
}
