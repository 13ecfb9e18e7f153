//! Latency of operations of Ceph OSDs, from their admin sockets.
//!
//! `perf dump` reports count and sum of `op_latency`: client operations from their arrival at the
//! OSD to the reply, including replication but not the client's network. Several OSDs are summed.

use super::differences::{Differences, Totals, sum_windows};
use super::polled::{Polled, at_least, interval};
use super::unix_socket::{ANSWER_BYTES_MAX, connect, explain};
use crate::Root;
use crate::Stopwatch;
use crate::processes::matches;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use wattio_governor::{LatencySample, LatencySource, SourceError};
use wattio_units::Seconds;

/// Ends with a zero byte; the answer begins with its length in four bytes, highest first.
const QUESTION: &[u8] = b"{\"prefix\": \"perf dump\"}\0";

/// The table `kind = "ceph"`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Admin sockets of OSDs. Allowed: a list of absolute paths, such as
    /// `["/var/run/ceph/ceph-osd.*.asok"]`; `*` in the last part matches any text.
    pub sockets: Vec<String>,
    /// How often to query. Default: half a window, at most `"250 ms"`. Allowed: at least 1 ms.
    pub interval: Option<Seconds>,
    /// How long to wait for an answer. Default: `"1 s"`. Allowed: at least 1 ms.
    #[serde(default = "timeout_default")]
    pub timeout: Seconds,
}

fn timeout_default() -> Seconds {
    Seconds(1.0)
}

#[derive(Deserialize)]
struct Dump {
    osd: Osd,
}

#[derive(Deserialize)]
struct Osd {
    op_latency: Latency,
    op_r_latency: Option<Latency>,
    op_in_bytes: Option<u64>,
    op_out_bytes: Option<u64>,
    op_wip: Option<u64>,
}

#[derive(Deserialize)]
struct Latency {
    avgcount: u64,
    /// In seconds.
    sum: f64,
}

/// The counters in the answer to `perf dump`.
///
/// # Errors
/// Says what the answer has not.
pub fn parse(answer: &[u8]) -> Result<Totals, String> {
    let Dump { osd } = serde_json::from_slice(answer)
        .map_err(|error| format!("its perf dump is not an OSD's: {error}"))?;
    if !(osd.op_latency.sum >= 0.0 && osd.op_latency.sum.is_finite()) {
        return Err(format!("its op_latency has the sum {} s", osd.op_latency.sum));
    }
    let bytes = osd.op_in_bytes.zip(osd.op_out_bytes);
    Ok(Totals {
        requests: osd.op_latency.avgcount,
        under_way: osd.op_wip,
        latency_us_sum: Some(osd.op_latency.sum * 1e6),
        bytes_sum: bytes.map(|(received, sent)| received.saturating_add(sent)),
        reads: osd.op_r_latency.map(|reads| reads.avgcount),
        ..Totals::default()
    })
}

/// The OSDs, asked where it may take a moment.
#[derive(Debug)]
struct Osds {
    name: String,
    root: Root,
    sockets: Vec<String>,
    timeout: Seconds,
    differences: BTreeMap<String, Differences>,
}

/// Starts to ask in a thread of its own.
///
/// # Errors
/// When the configuration makes no sense. An OSD that does not run is not an error yet.
pub fn open(
    config: &Config,
    root: &Root,
    period: Seconds,
    stopwatch: Stopwatch,
) -> Result<Polled, SourceError> {
    let name = format!("ceph {}", config.sockets.join(" "));
    let whole =
        |path: &String| path.rsplit_once('/').is_some_and(|(folder, _)| !folder.contains('*'));
    if config.sockets.is_empty() || !config.sockets.iter().all(whole) {
        return Err(SourceError::new(
            &name,
            "sockets must be absolute paths with * in the last part only, such as \
             [\"/var/run/ceph/ceph-osd.*.asok\"]",
        ));
    }
    let interval = interval(&name, config.interval, period)?;
    let timeout = at_least(&name, "timeout", config.timeout, Seconds(0.001))?;
    let (root, sockets) = (root.clone(), config.sockets.clone());
    let osds = Osds { name, root, sockets, timeout, differences: BTreeMap::new() };
    Polled::start(osds, interval, stopwatch)
}

impl Osds {
    /// The sockets that are there now.
    fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for pattern in &self.sockets {
            let (folder, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
            if !name.contains('*') {
                paths.insert(pattern.clone());
                continue;
            }
            let found = self.root.list(folder).into_iter().filter(|entry| matches(name, entry));
            paths.extend(found.map(|entry| format!("{folder}/{entry}")));
        }
        paths
    }

    fn ask(&self, path: &str) -> Result<Totals, SourceError> {
        let answer = self.answer(path).map_err(|error| explain(&error, self.timeout));
        answer
            .and_then(|answer| parse(&answer))
            .map_err(|message| SourceError::new(&self.name, format!("{path}: {message}")))
    }

    fn answer(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = connect(&self.root.path(path), self.timeout)?;
        stream.write_all(QUESTION)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u64::from(u32::from_be_bytes(length));
        if length > ANSWER_BYTES_MAX {
            let message = format!("the answer has {length} bytes, more than {ANSWER_BYTES_MAX}");
            return Err(std::io::Error::other(message));
        }
        let mut answer = Vec::new();
        stream.take(length).read_to_end(&mut answer)?;
        if (answer.len() as u64) < length {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }
}

impl LatencySource for Osds {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, now: Seconds) -> Result<Option<LatencySample>, SourceError> {
        let paths = self.paths();
        if paths.is_empty() {
            let message = "there is no such socket; is an OSD running?";
            return Err(SourceError::new(&self.name, message));
        }
        let totals: Vec<_> = paths.iter().map(|path| (path, self.ask(path))).collect();
        self.differences.retain(|path, _| paths.contains(path));
        let name = &self.name;
        let differences = &mut self.differences;
        sum_windows(totals.into_iter().map(|(path, totals)| {
            let new = || Differences::new(format!("{name}: {path}"));
            differences.entry(path.clone()).or_insert_with(new).answer(now, totals)
        }))
    }
}

#[cfg(test)]
mod tests {
    //! OSDs in this process.

    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    /// A dump of the shape of Ceph 16's.
    fn dump(requests: u64, sum_s: f64, reads: u64) -> String {
        format!(
            r#"{{"AsyncMessenger::Worker-0": {{"msgr_recv_messages": 66}}, "osd": {{
                "op_wip": 2, "op": {requests}, "op_in_bytes": {0}, "op_out_bytes": {0},
                "op_latency": {{"avgcount": {requests}, "sum": {sum_s:.9}, "avgtime": 0.1}},
                "op_r_latency": {{"avgcount": {reads}, "sum": 0.0, "avgtime": 0.0}}}}}}"#,
            requests * 2048
        )
    }

    /// Answers one question after another.
    fn osd(path: &std::path::Path, answers: Vec<Vec<u8>>) -> JoinHandle<()> {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = vec![0; QUESTION.len()];
                stream.read_exact(&mut question).unwrap();
                assert_eq!(question, QUESTION);
                stream.write_all(&answer).unwrap();
            }
        })
    }

    fn framed(text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&length, text.as_bytes()].concat()
    }

    fn osds(root: &Root, sockets: &[&str]) -> Osds {
        Osds {
            name: "ceph".to_owned(),
            root: root.clone(),
            sockets: sockets.iter().map(|&socket| socket.to_owned()).collect(),
            timeout: Seconds(10.0),
            differences: BTreeMap::new(),
        }
    }

    #[test]
    fn several_osds_are_summed_and_a_restart_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let first = [dump(100, 1.0, 50), dump(110, 1.1, 55), dump(1, 0.1, 1)];
        let second = [dump(200, 1.0, 0), dump(230, 1.1, 0), dump(240, 1.2, 0)];
        let answers = |dumps: [String; 3]| dumps.iter().map(|dump| framed(dump)).collect();
        let servers = [
            osd(&path("ceph-osd.0.asok"), answers(first)),
            osd(&path("ceph-osd.11.asok"), answers(second)),
        ];
        std::fs::write(path("ceph-mon.a.asok"), "").unwrap();

        let mut source = osds(&Root::new(folder.path()), &["/ceph-osd.*.asok"]);
        assert_eq!(source.sample(Seconds(0.0)), Ok(None));
        let sample = source.sample(Seconds(1.0)).unwrap().unwrap();
        assert_eq!((sample.requests, sample.arrived), (40, Some(40)));
        assert!((sample.latency_us_mean.unwrap() - 5_000.0).abs() < 1e-3, "{sample:?}");
        assert_eq!((sample.bytes_mean, sample.read_share), (Some(4096.0), Some(0.125)));
        let error = source.sample(Seconds(2.0)).unwrap_err().to_string();
        assert!(error.contains("ceph-osd.0.asok: counters went back"), "{error}");
        for server in servers {
            server.join().unwrap();
        }
        // The files are still there, as after a crash.
        let error = source.sample(Seconds(3.0)).unwrap_err().to_string();
        assert!(error.contains("nobody listens there"), "{error}");
    }

    #[test]
    fn an_osd_that_failed_begins_a_new_window_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let dumps =
            |dumps: &[u64]| dumps.iter().map(|&count| framed(&dump(count, 1.0, 0))).collect();
        let mut first: Vec<_> = dumps(&[100, 9000, 9004]);
        first.insert(1, framed("{}"));
        let servers = [
            osd(&path("ceph-osd.0.asok"), first),
            osd(&path("ceph-osd.1.asok"), dumps(&[10, 20, 30, 40])),
        ];
        let mut source = osds(&Root::new(folder.path()), &["/ceph-osd.*.asok"]);
        let mut next =
            |at: f64| source.sample(Seconds(at)).map(|sample| sample.map(|sample| sample.requests));
        assert_eq!(next(0.0), Ok(None));
        assert!(next(1.0).is_err());
        assert_eq!(next(2.0), Ok(Some(10)), "of the other one");
        assert_eq!(next(3.0), Ok(Some(14)));
        for server in servers {
            server.join().unwrap();
        }
    }

    #[test]
    fn what_is_no_whole_answer_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("osd.asok");
        let answers = vec![
            framed("{}"),
            framed("{\"osd\": {\"op_latency\": {\"avgcount\": 1, \"sum\": -1}}}"),
            vec![0, 0, 0, 9, b'{'],
            vec![0, 0],
            vec![255, 0, 0, 0],
        ];
        let server = osd(&path, answers);
        let mut source = osds(&Root::new(folder.path()), &["/osd.asok"]);
        for why in ["missing field `osd`", "the sum -1 s", "ends early", "ends early", "more than"]
        {
            let error = source.sample(Seconds(0.0)).unwrap_err().to_string();
            assert!(error.contains("/osd.asok: ") && error.contains(why), "{error}");
        }
        server.join().unwrap();
        let mut none = osds(&Root::new(folder.path()), &["/ceph-osd.*.asok"]);
        assert!(none.sample(Seconds(0.0)).unwrap_err().to_string().contains("no such socket"));
        let config = Config {
            sockets: vec!["/var/*/a.asok".to_owned()],
            interval: None,
            timeout: Seconds(1.0),
        };
        let stopwatch: Stopwatch = Arc::new(|| Seconds(0.0));
        let error = open(&config, &Root::default(), Seconds(0.5), stopwatch).err().unwrap();
        assert!(error.to_string().contains("last part only"), "{error}");
    }

    #[test]
    #[ignore = "needs WATTIO_SAMPLES: make test-system"]
    fn a_real_dump_is_read() {
        let Some(folder) = std::env::var_os("WATTIO_SAMPLES") else {
            return println!("skipped: WATTIO_SAMPLES is not set, the samples are not at hand");
        };
        let file = std::path::Path::new(&folder).join("ceph_osd0_perf_dump.json");
        let totals = parse(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!((totals.requests, totals.reads), (4412, Some(2438)));
        assert!((totals.latency_us_sum.unwrap() - 253_809_040.53).abs() < 1.0);
        assert_eq!(totals.bytes_sum, Some(474_851_328 + 473_956_352));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in "\\{\"osd\": \\{\"op_latency\": \\{\\PC{0,30}") {
            let _ = parse(&bytes);
            let _ = parse(text.as_bytes());
        }
    }
}
