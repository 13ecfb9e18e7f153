//! Power and speed of processor cores.

use crate::load_error::{DescriptionError, require};
use serde::{Deserialize, Serialize};
use wattio_units::{Hertz, Seconds, Watts};

/// What a core without a task draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleKind {
    /// It polls its queue: the same as when busy (the document's run-to-completion server).
    Polling,
    /// It sleeps in a C-state and draws `idle_power`.
    CStates,
}

/// What it takes until a core that was idle works, as measured of threads that sleep in the kernel.
/// The event simulator has it; formulas (`fluid`, and what laws predict with) leave it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wake {
    /// Time from the task's coming until the core begins; nothing runs on it meanwhile.
    pub wait: Seconds,
    /// Work of the core before the task, at the highest frequency: a system call that returns,
    /// going to sleep again. Whoever comes while the core runs spares it.
    pub work: Seconds,
    /// Further work after a long sleep: caches that others have filled meanwhile.
    #[serde(default)]
    pub cold: Seconds,
    /// After a sleep this long 63 % of `cold` are due: `cold (1 - exp(-sleep / cooling))`.
    #[serde(default)]
    pub cooling: Seconds,
}

impl Wake {
    /// Work of the core after a sleep, at the highest frequency.
    #[must_use]
    pub fn work_after(&self, sleep: Seconds) -> Seconds {
        if self.cooling.0 <= 0.0 {
            return self.work + self.cold;
        }
        self.work + self.cold * (1.0 - (-sleep.0 / self.cooling.0).exp())
    }
}

/// All cores of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// Lowest frequency.
    pub frequency_min: Hertz,
    /// Highest frequency.
    pub frequency_max: Hertz,
    /// The frequencies that exist; empty: any between the two.
    #[serde(default)]
    pub frequency_steps: Vec<Hertz>,
    /// Whether an idle core polls or sleeps.
    pub idle: IdleKind,
    /// Power of a sleeping core that is on; with `c-states` only.
    #[serde(default)]
    pub idle_power: Option<Watts>,
    /// Power of a sleeping core at the highest frequency on top of `idle_power`, falling with the
    /// frequency; absent: none. Fitted models of hosts have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_frequency_power: Option<Watts>,
    /// Power of a running core that does not depend on the frequency.
    pub static_power: Watts,
    /// Power of a running core at the highest frequency on top of the static power.
    pub dynamic_power: Watts,
    /// Voltage in volts by frequency, ascending; empty: constant (as the document measured).
    #[serde(default)]
    pub voltage: Vec<(Hertz, f64)>,
    /// Share of a task's time that scales with 1/f.
    pub frequency_bound_share: f64,
    /// Time to take a core off; it draws power meanwhile.
    pub gate_off: Seconds,
    /// Time to bring a core back; it draws power and runs nothing meanwhile.
    pub gate_on: Seconds,
    /// Pause of a group for each queued task handed over from a core that leaves.
    pub migrate: Seconds,
    /// Pause of a group's cores when their frequency changes.
    pub frequency_change: Seconds,
    /// Coefficient of variation of a task's time, 0 (constant) to 1 (exponential).
    pub time_variation: f64,
    /// What a client's task pays that comes to an idle core; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
}

impl Cores {
    /// Time of a task at `frequency` over its time at the highest frequency:
    /// `1 - c + c f_max / f` with `c` the frequency-bound share.
    #[must_use]
    pub fn stretch(&self, frequency: Hertz) -> f64 {
        let share = self.frequency_bound_share;
        1.0 - share + share * (self.frequency_max / frequency)
    }

    /// Power of a running core: `P = C f V^2 + P_static` (PACER document, section V), with `C f_max
    /// V_max^2` the dynamic power.
    #[must_use]
    pub fn power_running(&self, frequency: Hertz) -> Watts {
        let volts = self.volts(frequency) / self.volts(self.frequency_max);
        let dynamic = self.dynamic_power * ((frequency / self.frequency_max) * volts * volts);
        self.static_power + dynamic
    }

    /// Power of a core that is on and has no task.
    #[must_use]
    pub fn power_idle(&self, frequency: Hertz) -> Watts {
        match (self.idle, self.idle_power) {
            (IdleKind::CStates, Some(power)) => {
                let rising = self.idle_frequency_power.unwrap_or_default();
                power + rising * (frequency / self.frequency_max)
            }
            _ => self.power_running(frequency),
        }
    }

    /// Voltage at a frequency, linear between the table's points; 1 where there is no table.
    fn volts(&self, frequency: Hertz) -> f64 {
        let points: Vec<_> = self.voltage.iter().map(|&(f, volts)| (f.0, volts)).collect();
        if points.is_empty() { 1.0 } else { interpolate(&points, frequency.0) }
    }

    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        require(
            self.frequency_min.0 > 0.0 && self.frequency_min <= self.frequency_max,
            "cores.frequency_min",
            "must be above 0 and at most frequency_max",
        )?;
        let steps = &self.frequency_steps;
        let ascending = steps.windows(2).all(|pair| pair[0] < pair[1]);
        let ends = steps.first().is_none_or(|&first| first == self.frequency_min)
            && steps.last().is_none_or(|&last| last == self.frequency_max);
        require(
            ascending && ends,
            "cores.frequency_steps",
            "must ascend from frequency_min to frequency_max",
        )?;
        require(
            (self.idle == IdleKind::CStates) == self.idle_power.is_some(),
            "cores.idle_power",
            "must be given with idle = \"c-states\" and only then",
        )?;
        require(
            self.idle_frequency_power.is_none() || self.idle_power.is_some(),
            "cores.idle_frequency_power",
            "goes with idle_power only",
        )?;
        for (key, power) in [
            ("cores.static_power", Some(self.static_power)),
            ("cores.dynamic_power", Some(self.dynamic_power)),
            ("cores.idle_power", self.idle_power),
            ("cores.idle_frequency_power", self.idle_frequency_power),
        ] {
            require(power.is_none_or(|power| power.0 >= 0.0), key, "must not be negative")?;
        }
        let volts_ascend = self.voltage.windows(2).all(|p| p[0].0 < p[1].0);
        let volts_positive =
            self.voltage.iter().all(|&(f, volts)| f.0 > 0.0 && volts > 0.0 && volts.is_finite());
        require(
            volts_ascend && volts_positive,
            "cores.voltage",
            "needs pairs of ascending frequency and positive volts",
        )?;
        for (key, share) in [
            ("cores.frequency_bound_share", self.frequency_bound_share),
            ("cores.time_variation", self.time_variation),
        ] {
            require((0.0..=1.0).contains(&share), key, format!("is {share}; allowed is 0 to 1"))?;
        }
        require(
            self.wake.is_none() || self.idle == IdleKind::CStates,
            "cores.wake",
            "goes with idle = \"c-states\" only: a core that polls does not sleep",
        )?;
        for (key, span) in [
            ("cores.wake.wait", self.wake.map_or(Seconds(0.0), |wake| wake.wait)),
            ("cores.wake.work", self.wake.map_or(Seconds(0.0), |wake| wake.work)),
            ("cores.wake.cold", self.wake.map_or(Seconds(0.0), |wake| wake.cold)),
            ("cores.wake.cooling", self.wake.map_or(Seconds(0.0), |wake| wake.cooling)),
            ("cores.gate_off", self.gate_off),
            ("cores.gate_on", self.gate_on),
            ("cores.migrate", self.migrate),
            ("cores.frequency_change", self.frequency_change),
        ] {
            let fits = (0.0..=10.0).contains(&span.0);
            require(fits, key, format!("is {span}; allowed is 0 s to 10 s"))?;
        }
        Ok(())
    }
}

/// Linear interpolation over ascending points; the end values hold beyond the ends.
pub(crate) fn interpolate(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points.partition_point(|&(x, _)| x < at);
    match (above.checked_sub(1).map(|below| points[below]), points.get(above)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (at - x0) / (x1 - x0),
        (Some((_, y)), None) | (None, Some(&(_, y))) => y,
        (None, None) => f64::NAN,
    }
}
