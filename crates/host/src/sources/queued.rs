//! Tasks that wait for a core, as reported by the servers themselves: a gauge of each group's queue
//! on a metrics page, in addition to the source of utilisation.
//!
//! The kernel does not know them. Its run queues hold threads that are ready to run, while a
//! server's requests wait in its own queues. Pressure (`/proc/pressure/cpu`) is a share of time,
//! not a number of tasks. `/proc/schedstat` gives a mean over all tasks, including background ones,
//! and only if the kernel was built with it and has it switched on.

use super::polled::interval;
use super::prometheus::access::Access;
use super::prometheus::gauge::{self, Gauge};
use super::worker::Worker;
use crate::Stopwatch;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use wattio_governor::{CpuSource, Cpus, GroupUse, SourceError};
use wattio_units::Seconds;

/// How long a page is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A value that is this many windows old is stale, as for latency.
const WINDOWS_MAX: f64 = 2.0;
/// More than any queue holds.
const QUEUED_MAX: f64 = 1e9;

/// The table `queue` of a group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The metrics page, such as `http://127.0.0.1:9100/metrics`. Allowed: an address that begins
    /// with `http://` or `https://`.
    pub url: String,
    /// A file with the token that the server asks for (`Authorization: Bearer`), which not every
    /// user may read; it is read for each request. Default: none. Allowed: an absolute path; with
    /// `http://`, only for an address of this host.
    pub token_file: Option<String>,
    /// The authorities whose certificates are trusted, in PEM, for `https://`; read again once it
    /// changes. Default: the host's own. Allowed: an absolute path.
    pub ca_file: Option<String>,
    /// The gauge that reports how many client tasks wait for one of the group's cores. Matching
    /// series are summed. Allowed: the full name of a metric on the page.
    pub metric: String,
    /// Labels that a series must have. Default: `{}` (all series). Allowed: a table such as `{
    /// shard = "0" }`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How often to read the page. Default: half a window, at most `"250 ms"`. Allowed: at least 1
    /// ms.
    pub interval: Option<Seconds>,
}

impl Config {
    fn access(&self) -> Result<Access, (&'static str, String)> {
        Access::new(&self.url, self.token_file.as_deref(), self.ca_file.as_deref())
    }

    /// Checks that do not need the host.
    ///
    /// # Errors
    /// The key below `queue`, and what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        gauge::check(self.access(), &self.metric, self.interval)
    }
}

/// A source of utilisation, with the tasks that wait for each group's cores.
pub struct WithQueues {
    inner: Box<dyn CpuSource>,
    queues: Vec<Option<Queue>>,
    stopwatch: Stopwatch,
    problem: Option<String>,
    note: Option<String>,
}

struct Queue {
    name: String,
    age_max: Seconds,
    worker: Worker<Option<(Seconds, Result<u64, String>)>>,
}

/// The source itself if no group has a queue to read.
///
/// # Errors
/// [`SourceError`] if a configuration makes no sense. A page that does not answer is not an error.
pub fn beside(
    inner: Box<dyn CpuSource>,
    queues: &[Option<Config>],
    period: Seconds,
    stopwatch: Stopwatch,
) -> Result<Box<dyn CpuSource>, SourceError> {
    if queues.iter().all(Option::is_none) {
        return Ok(inner);
    }
    let open = |config: &Option<Config>| {
        config.as_ref().map(|config| Queue::open(config, period, stopwatch.clone())).transpose()
    };
    let queues = queues.iter().map(open).collect::<Result<_, _>>()?;
    Ok(Box::new(WithQueues { inner, queues, stopwatch, problem: None, note: None }))
}

impl Queue {
    fn open(config: &Config, period: Seconds, stopwatch: Stopwatch) -> Result<Self, SourceError> {
        let name = format!("queue {} {}", config.url, config.metric);
        let interval = interval(&name, config.interval, period)?;
        let mut gauge =
            Gauge::new(&name, config.access(), &config.metric, &config.labels, TIMEOUT)?;
        let read = move || {
            // As old as the request.
            let at = stopwatch();
            let value = gauge.read().and_then(|(value, _)| whole(value));
            (at, value)
        };
        let worker = Worker::start(&name, interval, None, read, |slot, read| *slot = Some(read))?;
        let age_max = Seconds(period.0 * WINDOWS_MAX + interval.0);
        Ok(Self { name, age_max, worker })
    }

    fn waiting(&self, now: Seconds) -> Result<Option<u64>, String> {
        if self.worker.is_dead() {
            return Err(format!("{}: its thread died; this is a bug", self.name));
        }
        let told = self.worker.with(|slot| slot.clone());
        let Some((at, read)) = told else { return Ok(None) };
        let fresh = now - at <= self.age_max;
        read.map(|waiting| fresh.then_some(waiting))
            .map_err(|message| format!("{}: {message}", self.name))
    }
}

/// A number of tasks.
fn whole(value: f64) -> Result<u64, String> {
    if (0.0..=QUEUED_MAX).contains(&value) {
        return Ok(value.round() as u64);
    }
    Err(format!("says {value}, which is not a number of tasks"))
}

impl CpuSource for WithQueues {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn sample(&mut self, now: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let mut uses = self.inner.sample(now, active)?;
        let ticked = (self.stopwatch)();
        let mut problem = None;
        for (group, queue) in uses.iter_mut().zip(&self.queues) {
            let Some(queue) = queue else { continue };
            match queue.waiting(ticked) {
                Ok(waiting) => group.queued = waiting.or(group.queued),
                Err(message) => problem = Some(message),
            }
        }
        if problem.is_some() != self.problem.is_some() {
            let again = || "the queues of all groups are known again".to_owned();
            self.note = Some(problem.clone().unwrap_or_else(again));
        }
        self.problem = problem;
        Ok(uses)
    }

    fn note(&mut self) -> Option<String> {
        self.note.take().or_else(|| self.inner.note())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::page_fake::serve;
    use crate::stopwatch;
    use std::sync::{Arc, Mutex};

    struct Busy;

    impl CpuSource for Busy {
        fn name(&self) -> &str {
            "busy"
        }
        fn sample(&mut self, _: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
            let group = GroupUse {
                utilisation_clients: 0.5,
                utilisation_background: 0.0,
                queued: None,
                waited_for_drives: false,
            };
            Ok(vec![group; active.len()])
        }
    }

    fn config(url: &str) -> Config {
        let text = format!(
            "url = '{url}'\nmetric = 'queue_depth'\nlabels = {{ pool = 'io' }}\ninterval = '1 ms'"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_group_s_queue_is_told_beside_its_use_and_one_that_is_not_told_is_absent() {
        let page = "queue_depth{pool=\"io\",cpu=\"0\"} 3\nqueue_depth{pool=\"io\",cpu=\"1\"} 4\n\
                    queue_depth{pool=\"net\"} 90\n";
        let page = Arc::new(Mutex::new(page.to_owned()));
        let queues = [None, Some(config(&serve(&page)))];
        let mut source = beside(Box::new(Busy), &queues, Seconds(60.0), stopwatch()).unwrap();
        let active = [Cpus::default(), Cpus::default()];
        let mut until = |fits: &dyn Fn(&[GroupUse], Option<String>) -> bool| {
            let began = std::time::Instant::now();
            loop {
                let uses = source.sample(Seconds(0.0), &active).unwrap();
                if fits(&uses, source.note()) {
                    break;
                }
                assert!(began.elapsed().as_secs() < 30, "it never came: {uses:?}");
                std::thread::yield_now();
            }
        };
        until(&|uses, note| {
            assert_eq!((uses[0].queued, uses[1].utilisation_clients, note), (None, 0.5, None));
            uses[1].queued == Some(7)
        });
        *page.lock().unwrap() = "queue_depth{pool=\"io\"} -1\n".to_owned();
        until(&|uses, note| {
            let told =
                note.is_some_and(|note| note.contains("says -1, which is not a number of tasks"));
            assert!(!told || uses[1].queued.is_none());
            told
        });
        *page.lock().unwrap() = "queue_depth{pool=\"io\"} 0\n".to_owned();
        until(&|uses, note| {
            note.is_some_and(|note| note.contains("known again")) && uses[1].queued == Some(0)
        });
    }

    #[test]
    fn without_queues_the_source_is_itself_and_wrong_ones_are_named() {
        let source = beside(Box::new(Busy), &[None, None], Seconds(0.5), stopwatch()).unwrap();
        assert_eq!(source.name(), "busy");
        let good = config("http://127.0.0.1:1/metrics");
        assert_eq!(good.check(), Ok(()));
        for (wrong, key) in [
            (Config { url: "host".into(), ..good.clone() }, "url"),
            (Config { metric: String::new(), ..good.clone() }, "metric"),
            (Config { interval: Some(Seconds(1e-6)), ..good.clone() }, "interval"),
        ] {
            assert_eq!(wrong.check().unwrap_err().0, key);
        }
    }
}
