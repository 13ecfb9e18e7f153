//! What a governor knows about the current window: the samples, and the sources that do not answer.

use crate::cpus::Cpus;
use crate::source::{
    BackgroundSource, CpuSource, GroupUse, LatencySample, LatencySource, PowerSource, SourceError,
};
use wattio_law::{BackgroundObservation, Glimpse, InFlight};
use wattio_units::{Seconds, Watts};

/// More than any host draws: a counter that was reset but taken for one that wrapped reads as 500
/// kW over half a second.
const POWER_W_MAX: f64 = 1e5;
/// More requests a second than any host serves.
const RATE_HZ_MAX: f64 = 1e8;

/// Whether a host may have served as many requests as a sample has in such a time, and as many may have
/// arrived. What came late stands in a sample of a moment: a second at least is counted.
fn is_served(sample: &LatencySample, span: Seconds) -> bool {
    let most = RATE_HZ_MAX * span.0.max(1.0);
    sample.requests.max(sample.arrived.unwrap_or(0)) as f64 <= most
}

/// The sources, and what they said since the last step.
pub(crate) struct Sensors {
    latency: Box<dyn LatencySource>,
    cpu: Box<dyn CpuSource>,
    background: Option<Box<dyn BackgroundSource>>,
    power: Option<Box<dyn PowerSource>>,
    /// What the source of power last said was wrong.
    power_trouble: Option<String>,
    /// What came in since the last step.
    pending: Option<LatencySample>,
    /// Why the running window must not be used: an error, a gap in time, a knob that is stuck.
    spoiled: Option<String>,
    /// Which sources do not answer.
    silent: [bool; 3],
    /// When the newest sample was taken.
    sampled_at: Seconds,
    /// Since when requests are in flight of which none was answered.
    stalled_since: Option<Seconds>,
    /// Who fell silent or answers again, for the log.
    changes: Vec<Change>,
}

/// A source fell silent, answers again, or has something to tell.
pub(crate) enum Change {
    Silent(SourceError),
    Note(String),
    /// Of a source that the law can do without.
    Missed(SourceError),
    Answers(String),
}

#[derive(Clone, Copy)]
enum Part {
    Latency,
    Cpu,
    Background,
}

impl Sensors {
    pub fn new(
        latency: Box<dyn LatencySource>,
        cpu: Box<dyn CpuSource>,
        background: Option<Box<dyn BackgroundSource>>,
        power: Option<Box<dyn PowerSource>>,
        now: Seconds,
    ) -> Self {
        Self {
            latency,
            cpu,
            background,
            power,
            power_trouble: None,
            pending: None,
            spoiled: None,
            silent: [false; 3],
            sampled_at: now,
            stalled_since: None,
            changes: Vec::new(),
        }
    }

    /// See [`LatencySource::interval`].
    pub fn interval(&self) -> Option<Seconds> {
        self.latency.interval()
    }

    /// Takes in what the latency source has; returns what is new of it.
    pub fn sample_latency(&mut self, now: Seconds) -> Glimpse {
        let sample = self.latency.sample(now).and_then(|sample| match sample {
            Some(sample) if !is_served(&sample, sample.at - self.sampled_at) => {
                let message = format!(
                    "says {} requests, which no host serves",
                    sample.requests.max(sample.arrived.unwrap_or(0))
                );
                Err(SourceError::new(self.latency.name(), message))
            }
            told => Ok(told),
        });
        if let Some(note) = self.latency.note() {
            self.changes.push(Change::Note(format!("{}: {note}", self.latency.name())));
        }
        let Some(mut sample) = self.hear(Part::Latency, sample).flatten() else {
            return Glimpse::default();
        };
        self.tell_age(&mut sample);
        let glimpse = Glimpse {
            // To whole nanoseconds, so that a span is the same at any time of the day.
            span: Seconds(((sample.at - self.sampled_at).0 * 1e9).round() * 1e-9),
            arrived: sample.arrived,
            completed: sample.requests,
            latency_us_mean: sample.latency_us_mean,
            in_flight: sample.in_flight,
            is_ready: true,
        };
        self.sampled_at = sample.at;
        self.pending = Some(match self.pending.take() {
            Some(before) => before.merge(sample),
            None => sample,
        });
        glimpse
    }

    /// A source that counts the requests under way seldom knows their age. While none is answered,
    /// the oldest has been waiting for at least as long as that lasts.
    fn tell_age(&mut self, sample: &mut LatencySample) {
        let Some(InFlight { requests: 1.., oldest }) = &mut sample.in_flight else {
            self.stalled_since = None;
            return;
        };
        if sample.requests > 0 {
            self.stalled_since = None;
        }
        let since = *self.stalled_since.get_or_insert(sample.at);
        oldest.get_or_insert(Seconds((sample.at - since).0.max(0.0)));
    }

    /// The utilisation of each group's `active` cores; empty if unknown.
    pub fn sample_cpu(&mut self, now: Seconds, active: &[Cpus]) -> Vec<GroupUse> {
        let uses = self.cpu.sample(now, active).and_then(|uses| {
            let plausible = |u: &GroupUse| {
                u.utilisation_clients.is_finite() && u.utilisation_background.is_finite()
            };
            if uses.len() == active.len() && uses.iter().all(plausible) {
                Ok(uses)
            } else {
                let message = format!("reported {} groups, there are {}", uses.len(), active.len());
                Err(SourceError::new(self.cpu.name(), message))
            }
        });
        if let Some(note) = self.cpu.note() {
            self.changes.push(Change::Note(format!("{}: {note}", self.cpu.name())));
        }
        self.hear(Part::Cpu, uses).unwrap_or_default()
    }

    /// How far background work has come, if a source reports it.
    pub fn sample_background(&mut self, now: Seconds) -> Vec<BackgroundObservation> {
        let Some(background) = &mut self.background else { return Vec::new() };
        let told = background.sample(now);
        self.hear(Part::Background, told).unwrap_or_default()
    }

    /// Mean power since the last call, if a source knows it. A missing reading does not spoil the
    /// window.
    pub fn sample_power(&mut self, now: Seconds) -> Option<Watts> {
        let power = self.power.as_mut()?;
        let told = power.sample(now).and_then(|watts| match watts {
            Some(Watts(watts)) if !(watts > 0.0 && watts <= POWER_W_MAX) => {
                let message = format!("says {watts} W, which no host draws");
                Err(SourceError::new(power.name(), message))
            }
            told => Ok(told),
        });
        match told {
            Ok(None) => None,
            Ok(told) => {
                if self.power_trouble.take().is_some() {
                    self.changes.push(Change::Answers(power.name().to_owned()));
                }
                told
            }
            Err(error) => {
                if self.power_trouble.replace(error.to_string()).is_none() {
                    self.changes.push(Change::Missed(error));
                }
                None
            }
        }
    }

    /// Whether there is a source of power.
    pub fn has_power(&self) -> bool {
        self.power.is_some()
    }

    /// Why power is not known, if its source reports a problem.
    pub fn power_trouble(&self) -> Option<&str> {
        self.power_trouble.as_deref()
    }

    /// Whether the law can be stepped: there is a sample, a problem, or a sample is overdue.
    pub fn has_news(&self, now: Seconds, overdue: Seconds) -> bool {
        self.pending.is_some() || self.spoiled.is_some() || now - self.sampled_at > overdue
    }

    /// What came in since the last step.
    pub fn take_pending(&mut self) -> Option<LatencySample> {
        self.pending.take()
    }

    /// Why the running window must not be used, if so.
    pub fn take_spoiled(&mut self) -> Option<String> {
        self.spoiled.take()
    }

    /// Marks the running window as unusable.
    pub fn spoil(&mut self, why: &str) {
        self.spoiled = Some(why.to_owned());
    }

    /// Who fell silent or answers again.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// A source that does not answer spoils every window until it does, but counts as a single
    /// failure.
    fn hear<T>(&mut self, part: Part, answer: Result<T, SourceError>) -> Option<T> {
        let was_silent = std::mem::replace(&mut self.silent[part as usize], answer.is_err());
        match answer {
            Ok(answer) => {
                if was_silent {
                    self.changes.push(Change::Answers(self.name(part).to_owned()));
                }
                Some(answer)
            }
            Err(error) => {
                self.pending = None;
                self.spoiled = Some(error.to_string());
                if !was_silent {
                    self.changes.push(Change::Silent(error));
                }
                None
            }
        }
    }

    fn name(&self, part: Part) -> &str {
        match (part, &self.background) {
            (Part::Latency, _) => self.latency.name(),
            (Part::Background, Some(background)) => background.name(),
            _ => self.cpu.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command told 10^12 requests in a second: a report had 2250989 W.
    #[test]
    fn more_requests_than_any_host_serves_are_no_sample() {
        let sample = |requests, arrived| LatencySample {
            at: Seconds(1.0),
            requests,
            arrived,
            in_flight: None,
            latency_us_mean: Some(100.0),
            bytes_mean: None,
            read_share: None,
            histogram: None,
        };
        for (requests, arrived, span, is_one) in [
            (0, None, 0.5, true),
            (40_000_000, Some(40_000_000), 0.5, true),
            (100_000_000, None, 0.01, true),
            (100_000_001, None, 0.5, false),
            (100_000_001, None, 2.0, true),
            (1_000_000_000_000, None, 1.0, false),
            (1, Some(u64::MAX), 1.0, false),
        ] {
            let told = is_served(&sample(requests, arrived), Seconds(span));
            assert_eq!(told, is_one, "{requests} {arrived:?} in {span} s");
        }
    }
}
