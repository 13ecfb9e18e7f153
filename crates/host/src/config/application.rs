//! The applications of a configuration: one without a name, or several with names.

use super::{DaemonConfig, PolicyConfig};
use crate::groups::GroupConfig;
use crate::sources::{BackgroundConfig, CpuConfig, LatencyConfig};
use serde::Deserialize;
use wattio_governor::Cpus;
use wattio_law::{Bound, Statistic};

/// Knobs that take cores away.
pub const CORE_KNOBS: [&str; 3] = ["cpu.cpuset", "cpu.affinity", "cpu.online"];
/// Those of them that leave cores to other programs.
pub const LEAVING_KNOBS: [&str; 2] = ["cpu.cpuset", "cpu.affinity"];

/// One of several applications on the host; each has its own cores, latency and bounds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationConfig {
    /// The application's name in metrics and results. Allowed: as for the host's `name`; unique.
    pub name: String,
    /// The law, its parameters and its bounds. Default: those of `[policy]`. Allowed: the keys of
    /// `[policy]`.
    #[serde(default)]
    pub policy: Option<PolicyConfig>,
    /// The source of its clients' latency. Allowed: the keys of `[latency]`.
    pub latency: LatencyConfig,
    /// The source of utilisation. Default: that of `[cpu]`. Allowed: the keys of `[cpu]`.
    #[serde(default)]
    pub cpu: Option<CpuConfig>,
    /// The source that reports the progress of background work. Allowed: the keys of
    /// `[background]`; for one application only.
    #[serde(default)]
    pub background: Option<BackgroundConfig>,
    /// Its groups of cores. Allowed: at least one `[[application.group]]`, with the keys of
    /// `[[group]]`.
    #[serde(rename = "group", default)]
    pub groups: Vec<GroupConfig>,
}

/// An application, however it is written.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// Its name; `None` if it is the only one.
    pub name: Option<&'a str>,
    /// The law.
    pub policy: &'a PolicyConfig,
    /// Where its clients' latency comes from.
    pub latency: &'a LatencyConfig,
    /// Where utilisation comes from.
    pub cpu: &'a CpuConfig,
    /// Where the progress of background work comes from.
    pub background: Option<&'a BackgroundConfig>,
    /// Its groups of cores.
    pub groups: &'a [GroupConfig],
}

impl Application<'_> {
    /// A key of it, as messages name it.
    pub(super) fn key(&self, at: usize, key: &str) -> String {
        self.name.map_or_else(|| key.to_owned(), |_| format!("application[{at}].{key}"))
    }
}

impl DaemonConfig {
    /// The applications, at least one in a configuration that was checked; knobs and groups are in
    /// the same order.
    #[must_use]
    pub fn applications(&self) -> Vec<Application<'_>> {
        let one = self.latency.as_ref().map(|latency| Application {
            name: None,
            policy: &self.policy,
            latency,
            cpu: &self.cpu,
            background: self.background.as_ref(),
            groups: &self.groups,
        });
        let several = self.applications.iter().map(|application| Application {
            name: Some(&application.name),
            policy: application.policy.as_ref().unwrap_or(&self.policy),
            latency: &application.latency,
            cpu: application.cpu.as_ref().unwrap_or(&self.cpu),
            background: application.background.as_ref(),
            groups: &application.groups,
        });
        one.into_iter().chain(several).collect()
    }

    /// The groups of which nothing could be set on any host, by name: no core may leave, and no knob
    /// turns the frequency. Without any knob shadow mode tries what the host has.
    #[must_use]
    pub fn fixed_groups(&self) -> Vec<&str> {
        let any = |names: &[&str]| self.knobs.iter().any(|knob| names.contains(&knob.name()));
        let (cores, frequency) = (any(&CORE_KNOBS), any(&["cpu.frequency"]));
        let count = |group: &GroupConfig| group.cores.parse::<Cpus>().map_or(0, |cpus| cpus.len());
        let stay = |group: &&GroupConfig| !cores || count(group) <= group.cores_min as usize;
        let groups = self.applications().into_iter().flat_map(|application| application.groups);
        let groups = groups.filter(|_| !self.knobs.is_empty() && !frequency).filter(stay);
        groups.map(|group| group.name.as_str()).collect()
    }

    /// Of each application whose source tells no percentiles the first bound on one, which nobody can
    /// check.
    #[must_use]
    pub fn unjudged_bounds(&self) -> Vec<&Bound> {
        let sources = self.applications().into_iter();
        let blind = sources.filter(|application| !application.latency.may_tell_percentiles());
        let on_percentile = |bound: &&Bound| bound.statistic != Statistic::Mean;
        blind
            .filter_map(|application| application.policy.bounds.iter().find(on_percentile))
            .collect()
    }

    /// The groups of all applications, in their order.
    #[must_use]
    pub fn all_groups(&self) -> Vec<GroupConfig> {
        self.applications().iter().flat_map(|application| application.groups.to_vec()).collect()
    }
}
