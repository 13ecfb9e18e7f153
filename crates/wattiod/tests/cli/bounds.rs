//! Several bounds, each with an account of its own, from a source that tells how latencies spread.

use super::support::{PATIENCE, Place, me, output};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::Instant;

/// Mean 1.31 ms and, by straight lines within the buckets, a 99th percentile of 4 ms; 11 % of the
/// requests take more than 2 ms.
const LINE: &str = r#"{"requests": 1000, "latency_us_mean": 1310, "utilisation": [0.1],
    "buckets": [[1000, 800], [3000, 180], [5000, 20]]}"#;

/// Always the same requests, under these bounds.
fn steady(bounds: &[&str]) -> Place {
    let place = Place::measured();
    let line = LINE.replace('\n', "");
    let script = format!("while echo '{line}'; do sleep 0.05; done");
    fs::write(place.path("measure.sh"), script).unwrap();
    let config = fs::read_to_string(place.path("wattiod.toml")).unwrap();
    // Whatever else this host does, the server is as busy as it says.
    let busy = format!(
        "[cpu]\nkind = \"exec\"\ncommand = [\"/bin/sh\", \"{}\"]\nuser = \"{}\"\n",
        place.text("measure.sh"),
        me()
    );
    let policy = format!("[policy]\nbounds = {bounds:?}\nsettings = {{ window = 0.2 }}\n");
    fs::write(place.path("wattiod.toml"), config + &busy + &policy).unwrap();
    place
}

/// The status once windows were held against a bound, which takes a model first.
fn judged(socket: &str) -> Value {
    let began = Instant::now();
    loop {
        let output = output(&["status", "--json", "--socket", socket]);
        let status = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        let windows = status["bounds"][0]["windows"].as_u64().unwrap_or(0);
        if windows >= 3 {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
        std::thread::yield_now();
    }
}

fn is_close(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() < 1e-6 * expected.abs().max(1.0), "{value} is not {expected}");
}

/// Only the first bound was told: a load that never changed broke a 99th percentile in all windows, since
/// these were judged by the upper edge of its bucket, and the mean was said to have grown by as much.
#[test]
fn every_bound_is_told_with_its_own_limit_and_account() {
    let place = steady(&["p99 20% run", "mean 50% run", "p99 2 ms run"]);
    let running = place.observe(&["--no-results"]);
    let socket = place.text("socket");
    let status = judged(&socket);
    let bounds = status["bounds"].as_array().unwrap();
    let told: Vec<_> = bounds.iter().map(|one| (&one["bound"], &one["kept"])).collect();
    let texts = ["p99 20% run", "mean 50% run", "p99 2 ms run"].map(Value::from);
    let kept = [true, true, false].map(Value::from);
    assert_eq!(told, texts.iter().zip(&kept).collect::<Vec<_>>(), "{status}");
    for (bound, limit_us) in bounds.iter().zip([4800.0, 1965.0, 2000.0]) {
        is_close(&bound["limit_us"], limit_us);
        is_close(&bound["loss"], 0.0);
        let over = if bound["kept"] == true { 0 } else { bound["windows"].as_u64().unwrap() };
        assert_eq!(bound["windows_over"], over, "{bound}");
    }
    is_close(&bounds[2]["requests_over_share"], 0.11);
    is_close(&status["counts"]["loss_mean"], 0.0);
    is_close(&status["latency"]["latency_us_p99"], 4000.0);
    is_close(&status["latency"]["bound_us"], 1965.0);
    let page = String::from_utf8(output(&["status", "--socket", &socket]).stdout).unwrap();
    for line in
        ["4.80 ms (p99 20% run); broken in 0 of ", "1.97 ms (mean 50% run); broken in 0 of "]
    {
        assert!(page.contains(&format!("bound            {line}")), "{page}");
    }
    let beyond = page.lines().find(|line| line.contains("(p99 2 ms run); broken in ")).unwrap();
    assert!(beyond.contains("11.00 % of their requests above it"), "{page}");
    assert!(beyond.ends_with("; not kept over the run"), "{page}");
    running.signal(Signal::TERM);
    let text = String::from_utf8(running.end().stdout).unwrap();
    assert!(text.contains("would have broken the bound p99 20% run in 0 of "), "{text}");
    assert!(text.contains("would have broken the bound p99 2 ms run in "), "{text}");
    assert!(text.contains("mean latency +0.0 % against full speed in those windows"), "{text}");
}

/// The tolerance that stood beside the limit was that of whichever bound was named first.
#[test]
fn of_several_bounds_on_the_mean_the_tightest_is_told() {
    let place = steady(&["mean 50% run", "mean 20% run", "mean 5 ms run"]);
    let running = place.observe(&["--no-results"]);
    let status = judged(&place.text("socket"));
    is_close(&status["latency"]["bound_us"], 1572.0);
    is_close(&status["latency"]["tolerance"], 0.2);
    assert_eq!(status["bounds"].as_array().unwrap().len(), 3);
    running.signal(Signal::TERM);
    running.end();
}
