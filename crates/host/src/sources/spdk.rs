//! Utilisation of an SPDK target's cores, as reported by the target itself: its reactors poll, so
//! to the kernel they always look busy.
//!
//! JSON-RPC 2.0 over the target's UNIX socket, method `framework_get_reactors`: ticks that each
//! reactor spent busy (a poller had work) and idle. All of it counts for clients. Built from SPDK's
//! documentation and tested with a fake target; untested against a real one.

use super::cores::{Cores, Reading, Ticks};
use super::polled::{at_least, interval};
use super::unix_socket::{ANSWER_BYTES_MAX, connect, explain};
use super::worker::Worker;
use crate::Root;
use crate::Stopwatch;
use serde::Deserialize;
use std::io::{BufReader, Read, Write};
use wattio_governor::{CpuSource, Cpus, GroupUse, SourceError};
use wattio_units::Seconds;

const QUESTION: &[u8] = br#"{"jsonrpc": "2.0", "id": 1, "method": "framework_get_reactors"}"#;
/// Ticks are good for two windows, but at least for this long.
const TICKS_AGE_MIN: Seconds = Seconds(2.0);

/// The table `kind = "spdk"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The target's socket. Default: `"/var/tmp/spdk.sock"`. Allowed: a path.
    #[serde(default = "socket_default")]
    pub socket: String,
    /// How often to query. Default: half a window, at most `"250 ms"`. Allowed: at least 1 ms.
    pub interval: Option<Seconds>,
    /// How long to wait for an answer. Default: `"1 s"`. Allowed: at least 1 ms.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn socket_default() -> String {
    "/var/tmp/spdk.sock".to_owned()
}

fn timeout_default() -> Seconds {
    Seconds(1.0)
}

#[derive(Deserialize)]
struct Answer {
    result: Option<Reactors>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

#[derive(Deserialize)]
struct Reactors {
    reactors: Vec<Reactor>,
}

#[derive(Deserialize)]
struct Reactor {
    lcore: u32,
    busy: u64,
    idle: u64,
}

/// The ticks of each reactor's core in one answer; what follows the answer is not read.
///
/// # Errors
/// Says what is wrong with the answer.
pub fn parse(answer: impl Read) -> Result<Reading, String> {
    let mut answers = serde_json::Deserializer::from_reader(answer).into_iter::<Answer>();
    let answer = match answers.next() {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => return Err(format!("its answer makes no sense: {error}")),
        None => return Err("it did not answer".to_owned()),
    };
    match (answer.result, answer.error) {
        (_, Some(refusal)) => Err(format!("it refuses: {:?}", refusal.message)),
        (None, None) => Err("its answer has no result".to_owned()),
        (Some(result), None) => {
            let ticks = |Reactor { busy: clients, idle, .. }: &Reactor| Ticks {
                clients: *clients,
                idle: *idle,
                ..Ticks::default()
            };
            Ok(result.reactors.iter().map(|reactor| (reactor.lcore, ticks(reactor))).collect())
        }
    }
}

/// The target's last answer.
type Newest = Option<Result<(Seconds, Reading), String>>;

/// The source.
pub struct Spdk {
    name: String,
    stopwatch: Stopwatch,
    age_max: Seconds,
    worker: Worker<Newest>,
    cores: Cores,
}

impl Spdk {
    /// Starts to ask in a thread of its own.
    ///
    /// # Errors
    /// When the configuration makes no sense. A target that does not run is not an error yet.
    pub fn open(
        config: &Config,
        root: &Root,
        period: Seconds,
        stopwatch: Stopwatch,
    ) -> Result<Self, SourceError> {
        let name = format!("spdk {}", config.socket);
        let interval = interval(&name, config.interval, period)?;
        let timeout = at_least(&name, "timeout", config.timeout, Seconds(0.001))?;
        let (path, clock) = (root.path(&config.socket), stopwatch.clone());
        let ask = move || {
            let at = clock();
            let answer = connect(&path, timeout).and_then(|mut stream| {
                stream.write_all(QUESTION)?;
                Ok(parse(BufReader::new(stream.take(ANSWER_BYTES_MAX))))
            });
            let ticks = answer.map_err(|error| explain(&error, timeout)).and_then(|ticks| ticks);
            ticks.map(|ticks| (at, ticks))
        };
        let post = |slot: &mut Newest, ticks| *slot = Some(ticks);
        let worker = Worker::start(&name, interval, None, ask, post)?;
        let age_max = Seconds((period.0 * 2.0).max(TICKS_AGE_MIN.0));
        Ok(Self { name, stopwatch, age_max, worker, cores: Cores::default() })
    }
}

impl CpuSource for Spdk {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, _: Seconds, active: &[Cpus]) -> Result<Vec<GroupUse>, SourceError> {
        let retry = |message: String| SourceError::new(&self.name, message);
        if self.worker.is_dead() {
            return Err(SourceError::new(&self.name, "its thread died; this is a bug"));
        }
        let newest = self.worker.with(|slot| slot.clone());
        let (at, ticks) =
            newest.ok_or_else(|| retry("has not answered yet".to_owned()))?.map_err(retry)?;
        let age = (self.stopwatch)() - at;
        if age > self.age_max {
            return Err(retry(format!("has not answered for {age}")));
        }
        self.cores.uses(ticks, active).map_err(retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    /// An answer as the documentation shows it.
    fn answer(busy: [u64; 2], idle: [u64; 2]) -> String {
        let reactor = |lcore: usize| {
            format!(
                r#"{{"lcore": {}, "busy": {}, "idle": {}, "in_interrupt": false, "irq": 0, "sys": 0,
                    "lw_threads": [{{"name": "app_thread", "id": 1, "cpumask": "1", "elapsed": 9}}]}}"#,
                lcore + 4,
                busy[lcore],
                idle[lcore]
            )
        };
        let (one, other) = (reactor(0), reactor(1));
        format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"tick_rate": 2400000000,
                "pid": 7, "reactors": [{one}, {other}]}}}}"#
        )
    }

    #[test]
    fn busy_ticks_become_utilisation() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("spdk.sock")).unwrap();
        let (say, answers) = channel::<String>();
        let (heard, asked) = channel();
        let target = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = vec![0; QUESTION.len()];
                stream.read_exact(&mut question).unwrap();
                assert_eq!(question, QUESTION);
                // The connection stays open, as a target's does.
                stream.write_all(answer.as_bytes()).unwrap();
                heard.send(stream).unwrap();
            }
        });
        let config = Config {
            socket: "/spdk.sock".to_owned(),
            interval: Some(Seconds(0.001)),
            timeout: Seconds(60.0),
        };
        let root = Root::new(folder.path());
        let stopwatch: Stopwatch = Arc::new(|| Seconds(0.0));
        let mut source = Spdk::open(&config, &root, Seconds(0.5), stopwatch).unwrap();
        let groups: Vec<Cpus> = ["4-5", "5"].map(|cpus| cpus.parse().unwrap()).into();
        assert!(source.sample(Seconds(0.0), &groups).is_err());

        let mut _open = None;
        let mut answer_until = |source: &mut Spdk, text: String, told: bool| loop {
            say.send(text.clone()).unwrap();
            _open = asked.recv().ok();
            let uses = source.sample(Seconds(0.0), &groups);
            let early = uses.as_ref().is_err_and(|error| !told && error.message.contains("tick"));
            if uses.is_ok() || early {
                return uses;
            }
        };
        answer_until(&mut source, answer([100, 100], [900, 900]), false).unwrap_err();
        let uses = answer_until(&mut source, answer([150, 180], [950, 920]), true).unwrap();
        assert_eq!((uses[0].utilisation_clients, uses[1].utilisation_clients), (0.65, 0.8));
        assert_eq!(uses[0].utilisation_background, 0.0);
        drop(say);
        target.join().unwrap();
    }

    #[test]
    fn refusals_and_other_answers_are_said() {
        let refused = r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "busy"}}"#;
        for (text, why) in [
            (refused, "it refuses: \"busy\""),
            ("{\"id\": 1}", "no result"),
            ("", "did not answer"),
            ("{\"result\": {}}", "missing field `reactors`"),
            ("{\"result\"", "makes no sense"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in "\\{\"result\": \\{\"reactors\": \\[\\PC{0,30}") {
            let _ = parse(bytes.as_slice());
            let _ = parse(text.as_bytes());
        }
    }
}
