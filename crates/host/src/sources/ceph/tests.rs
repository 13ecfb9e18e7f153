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
    for why in ["missing field `osd`", "the sum -1 s", "ends early", "ends early", "more than"] {
        let error = source.sample(Seconds(0.0)).unwrap_err().to_string();
        assert!(error.contains("/osd.asok: ") && error.contains(why), "{error}");
    }
    server.join().unwrap();
    let mut none = osds(&Root::new(folder.path()), &["/ceph-osd.*.asok"]);
    assert!(none.sample(Seconds(0.0)).unwrap_err().to_string().contains("no such socket"));
    let config =
        Config { sockets: vec!["/var/*/a.asok".to_owned()], interval: None, timeout: Seconds(1.0) };
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
