//! The prometheus source against a real etcd (Debian package etcd-server). Without it on the PATH
//! this says so and ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wattio_governor::{LatencySample, LatencySource};
use wattio_host::Root;
use wattio_host::sources::LatencyConfig;
use wattio_units::Seconds;

const PATIENCE: Duration = Duration::from_secs(60);

/// A port that nobody has. A connection to it has just ended: the kernel gives it to nobody else for a
/// minute, and who names it may listen there (SO_REUSEADDR).
fn free_port() -> u16 {
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listening.local_addr().unwrap();
    let _client = TcpStream::connect(address).unwrap();
    // Who ends first keeps the port.
    drop(listening.accept().unwrap());
    address.port()
}

/// The file of the storage target's tests with this name: a certificate for `localhost`, its key, the
/// authority.
fn of_localhost(name: &str) -> String {
    format!("{}/../target/tests/serve/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

struct Etcd {
    child: Child,
    port: u16,
    /// Where it serves by HTTPS.
    tls_port: u16,
    _data: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        let (port, tls_port, peer_port) = (free_port(), free_port(), free_port());
        let client = format!("http://127.0.0.1:{port},https://127.0.0.1:{tls_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let child = Command::new("etcd")
            .args(["--name", "test", "--log-level", "error", "--data-dir"])
            .arg(data.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--cert-file", &of_localhost("certificate.pem")])
            .args(["--key-file", &of_localhost("key.pem")])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("test={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { child, port, tls_port, _data: data })
    }

    /// Stores one value through etcd's gateway; false while it does not serve yet.
    fn put(&self) -> bool {
        let body = r#"{"key":"d2F0dA==","value":"aW8="}"#;
        let answer = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(
                stream,
                "POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until a sample is as wanted.
fn until(
    source: &mut dyn LatencySource,
    mut wanted: impl FnMut(&LatencySample) -> bool,
) -> LatencySample {
    let start = Instant::now();
    let mut last = None;
    while start.elapsed() < PATIENCE {
        last = Some(source.sample(Seconds(start.elapsed().as_secs_f64())));
        if let Some(Ok(Some(sample))) = &last
            && wanted(sample)
        {
            return sample.clone();
        }
        std::thread::yield_now();
    }
    panic!("waited in vain; the last answer was {last:?}");
}

#[test]
#[ignore = "needs etcd: make test-system"]
fn the_fsyncs_of_etcd_are_seen() {
    let Some(etcd) = Etcd::start() else {
        eprintln!("skipped: no etcd on the PATH; apt install etcd-server");
        return;
    };
    let start = Instant::now();
    while !etcd.put() {
        assert!(start.elapsed() < PATIENCE, "etcd does not serve");
        std::thread::yield_now();
    }
    let plain = (format!("http://127.0.0.1:{}/metrics", etcd.port), None);
    let secure = (format!("https://localhost:{}/metrics", etcd.tls_port), Some("ca.pem"));
    for (url, ca) in [plain, secure] {
        fsyncs_are_seen(&etcd, &url, ca.map(of_localhost));
    }
}

fn fsyncs_are_seen(etcd: &Etcd, url: &str, ca_file: Option<String>) {
    let config: LatencyConfig = serde_json::from_value(serde_json::json!({
        "kind": "prometheus",
        "url": url,
        "metric": "etcd_disk_wal_fsync_duration_seconds",
        "interval": "5 ms",
        "ca_file": ca_file,
    }))
    .unwrap();
    let mut source = config.open(&Root::default(), Seconds(0.5)).unwrap();
    until(source.as_mut(), |_| true);
    let mut seen = 0;
    for _ in 0..20 {
        assert!(etcd.put());
    }
    let sample = until(source.as_mut(), |sample| {
        seen += sample.requests;
        sample.requests > 0
    });
    let mean_us = sample.latency_us_mean.unwrap();
    assert!((1.0..10e6).contains(&mean_us), "{sample:?}");
    let histogram = sample.histogram.unwrap();
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.1).sum::<u64>(), sample.requests);
    assert!(histogram.quantile_us(0.5).is_some());
    until(source.as_mut(), |sample| {
        seen += sample.requests;
        seen >= 20
    });
}
