//! Power, sleep and layout of the drives.

use crate::cores::interpolate;
use crate::load_error::{DescriptionError, require};
use serde::{Deserialize, Serialize};
use wattio_units::{Seconds, Watts};

/// How client writes reach the drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteLayout {
    /// No redundancy: one write on one drive.
    Single,
    /// Log-structured RAID-6: full stripes, `count / (count - 2)` writes for each.
    Raid6FullStripe,
    /// RAID-6 in place: three reads and three writes for each.
    Raid6InPlace,
}

/// Power of an awake drive at a share of its full load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPoint {
    /// Share of the full load, 0 to 1.
    pub share: f64,
    /// Power at that load.
    pub power: Watts,
}

/// A state that a drive enters by itself after some time without a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepState {
    /// Time without a request until it is entered.
    pub after: Seconds,
    /// Power in it.
    pub power: Watts,
    /// What the next request waits.
    pub wake: Seconds,
}

/// All drives of a server; they are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drives {
    /// How many there are.
    pub count: u32,
    /// Requests that one drive works on at the same time.
    pub parallel: u32,
    /// How many requests a drive works on, on average, when its load counts as full.
    pub full_load_parallel: f64,
    /// Redundancy: how a write reaches the drives.
    pub layout: WriteLayout,
    /// Share of a drive's time for a request that grows with its size.
    pub size_share: f64,
    /// Coefficient of variation of a drive's time, 0 to 1.
    pub time_variation: f64,
    /// How long a background task's own request keeps a drive from sleeping.
    pub background_hold: Seconds,
    /// Power by load, ascending from share 0 to 1.
    pub load: Vec<LoadPoint>,
    /// Sleep states, ascending by `after`; empty: the drives never sleep.
    #[serde(default)]
    pub sleep: Vec<SleepState>,
}

impl Drives {
    /// Power of an awake drive at a share of its full load.
    #[must_use]
    pub fn power_awake(&self, share: f64) -> Watts {
        let points: Vec<_> = self.load.iter().map(|p| (p.share, p.power.0)).collect();
        Watts(interpolate(&points, share.clamp(0.0, 1.0)))
    }

    /// Work on the drives for one client write, as a multiple of the same bytes written once.
    #[must_use]
    pub fn write_cost(&self) -> f64 {
        match self.layout {
            WriteLayout::Single => 1.0,
            WriteLayout::Raid6FullStripe => f64::from(self.count) / f64::from(self.count - 2),
            WriteLayout::Raid6InPlace => 6.0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        require((1..=1024).contains(&self.count), "drives.count", "allowed is 1 to 1024")?;
        require(
            self.layout == WriteLayout::Single || self.count >= 4,
            "drives.layout",
            "RAID-6 needs at least 4 drives",
        )?;
        require((1..=4096).contains(&self.parallel), "drives.parallel", "allowed is 1 to 4096")?;
        let full_load = self.full_load_parallel > 0.0 && self.full_load_parallel <= 4096.0;
        require(full_load, "drives.full_load_parallel", "allowed is above 0 to 4096")?;
        for (key, share) in
            [("drives.size_share", self.size_share), ("drives.time_variation", self.time_variation)]
        {
            require((0.0..=1.0).contains(&share), key, format!("is {share}; allowed is 0 to 1"))?;
        }
        let hold = (0.0..=3600.0).contains(&self.background_hold.0);
        require(hold, "drives.background_hold", "allowed is 0 s to 1 h")?;
        let ascending = self.load.windows(2).all(|pair| pair[0].share < pair[1].share);
        let spans = self.load.first().is_some_and(|point| point.share == 0.0)
            && self.load.last().is_some_and(|point| point.share == 1.0);
        require(ascending && spans, "drives.load", "shares must ascend from 0 to 1")?;
        require(
            self.load.iter().all(|point| point.power.0 >= 0.0),
            "drives.load",
            "powers must not be negative",
        )?;
        let deeper = self.sleep.windows(2).all(|pair| pair[0].after < pair[1].after);
        let sane = self.sleep.iter().all(|state| {
            (0.0..=1e8).contains(&state.after.0)
                && state.power.0 >= 0.0
                && (0.0..=60.0).contains(&state.wake.0)
        });
        require(
            deeper && sane,
            "drives.sleep",
            "states must ascend by `after`, draw 0 W or more and wake within 60 s",
        )
    }
}
