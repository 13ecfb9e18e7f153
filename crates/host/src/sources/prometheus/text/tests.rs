//! Pages as servers write them, and as nobody should.

use super::*;
use proptest::prelude::*;

const PAGE: &str = r#"# HELP wal_fsync_seconds The latency of fsync.
# TYPE wal_fsync_seconds histogram
wal_fsync_seconds_bucket{le="0.001"} 60
wal_fsync_seconds_bucket{le="0.002"} 90 1732118000000
wal_fsync_seconds_bucket{le="+Inf"} 100 # {trace_id="x"} 0.5 1.7
wal_fsync_seconds_sum 1.5e-1
wal_fsync_seconds_count 100
wal_fsync_seconds_created 1.7e9
rpc_seconds{method="GET",quantile="0.99"} NaN
rpc_seconds_sum{method="GET"} 2
rpc_seconds_count{method="GET"} 4
rpc_seconds_sum{method="a \"b\" \\ c\nd",} 1
rpc_seconds_count{ method="a \"b\" \\ c\nd" , } 1
up 1
"#;

fn selector(metric: &str, labels: &[(&str, &str)]) -> Selector {
    let labels = labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Selector { metric: metric.to_owned(), labels: labels.collect(), unit_us: 1e6 }
}

#[test]
fn a_histogram_has_sum_count_and_buckets() {
    let totals = read(PAGE, &selector("wal_fsync_seconds", &[])).unwrap();
    assert_eq!((totals.requests, totals.latency_us_sum), (100, Some(150_000.0)));
    let buckets = vec![(1_000.0, 60), (2_000.0, 30), (f64::INFINITY, 10)];
    assert_eq!(totals.buckets, Some(buckets));
}

#[test]
fn the_earliest_time_of_the_wanted_values_is_known() {
    let at = |metric: &str, labels: &[(&str, &str)]| {
        read_timed(PAGE, &selector(metric, labels)).unwrap().1
    };
    assert_eq!(at("wal_fsync_seconds", &[]), Some(1_732_118_000_000.0), "not that of the example");
    assert_eq!(at("rpc_seconds", &[("method", "GET")]), None);
    let page = "m_sum{a=\"1\"} 1 30\nm_count{a=\"1\"} 1 30\nm_sum 2 20\nm_count 2 20\n";
    assert_eq!(read_timed(page, &selector("m", &[])).unwrap().1, Some(20.0));
    assert_eq!(read_timed(page, &selector("m", &[("a", "1")])).unwrap().1, Some(30.0));
}

#[test]
fn series_are_summed_and_chosen_by_labels() {
    let all = read(PAGE, &selector("rpc_seconds", &[])).unwrap();
    assert_eq!((all.requests, all.latency_us_sum, all.buckets), (5, Some(3e6), None));
    let odd = read(PAGE, &selector("rpc_seconds", &[("method", "a \"b\" \\ c\nd")])).unwrap();
    assert_eq!((odd.requests, odd.latency_us_sum), (1, Some(1e6)));
}

#[test]
fn buckets_without_suffix_type_sum_and_order_are_read() {
    // As MinIO writes them: edges in the order of their text, equal ones left out.
    let page = r#"# TYPE ttfb_seconds_distribution counter
ttfb_seconds_distribution{le="+Inf",name="GetObject",type="s3"} 12
ttfb_seconds_distribution{le="+Inf",name="PutObject",type="s3"} 4
ttfb_seconds_distribution{le="0.050",name="GetObject",type="s3"} 10
ttfb_seconds_distribution{le="1.000",name="GetObject",type="s3"} 12
ttfb_seconds_distribution{le="1.000",type="s3",name="PutObject"} 4
ttfb_seconds_distribution{le="10.000",name="GetObject",type="s3"} 12
"#;
    let totals = read(page, &selector("ttfb_seconds_distribution", &[])).unwrap();
    assert_eq!((totals.requests, totals.latency_us_sum), (16, None));
    let buckets = vec![(50_000.0, 10), (1e6, 6), (1e7, 0), (f64::INFINITY, 0)];
    assert_eq!(totals.buckets, Some(buckets));
    let put = selector("ttfb_seconds_distribution", &[("name", "PutObject")]);
    assert_eq!(read(page, &put).unwrap().requests, 4);
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let message = |page: &str, metric: &str, labels: &[(&str, &str)]| {
        read(page, &selector(metric, labels)).unwrap_err()
    };
    let error = message(PAGE, "wal_fsync", &[]);
    assert!(error.contains("there are wal_fsync_seconds, rpc_seconds"), "{error}");
    let error = message(PAGE, "rpc_seconds", &[("method", "PUT")]);
    assert!(error.contains("no series of rpc_seconds has the labels"), "{error}");
    assert!(error.contains("\"method\" may be [\"GET\", "), "{error}");
    let error = message(PAGE, "rpc_seconds", &[("path", "/")]);
    assert!(error.ends_with("they have [\"method\", \"quantile\"]"), "{error}");
    let error = message(PAGE, "wal_fsync_seconds", &[("path", "/")]);
    assert!(error.ends_with("they have none"), "{error}");
    assert!(message(PAGE, "up", &[]).contains("neither buckets nor a sum"));
    assert!(message("<html>", "up", &[]).contains("right page"));
    for (line, why) in [
        ("m_sum NaN", "finite"),
        ("m_count -1", "not negative"),
        ("m_sum x", "value is not a number"),
        ("m_sum", "neither"),
        ("m_bucket{le=\"a\"} 1", "le"),
        ("m_bucket{le=\"NaN\"} 1", "le"),
        ("m_bucket{le=\"1} 1", "closing quotes"),
        ("m_bucket{le=1} 1", "no quotes"),
        ("m_bucket{le} 1", "no ="),
    ] {
        let error = message(&format!("{line}\nm_x 1"), "m", &[]);
        assert!(error.contains(why) || line == "m_sum", "{line}: {error}");
    }
}

#[test]
#[ignore = "needs WATTIO_SAMPLES: make test-system"]
fn real_minio_pages_are_read() {
    let Some(folder) = std::env::var_os("WATTIO_SAMPLES") else {
        return println!("skipped: WATTIO_SAMPLES is not set, the samples are not at hand");
    };
    let file = std::path::Path::new(&folder).join("minio_metrics_v3_api_requests.prom");
    let page = std::fs::read_to_string(file).unwrap();
    let metric = "minio_api_requests_ttfb_seconds_distribution";
    let totals = read(&page, &selector(metric, &[])).unwrap();
    assert_eq!((totals.requests, totals.latency_us_sum), (17, None));
    assert_eq!(totals.buckets.unwrap()[0], (50_000.0, 13));
    assert!(candidates(&page).contains(metric));
}

proptest! {
    #[test]
    fn no_text_panics(text: String, rest in "(_bucket|_sum|_count)?[{ ](le=\"\\PC{0,5}\"?,?){0,2}\\PC{0,20}") {
        let _ = read(&text, &selector("m", &[]));
        let _ = read(&format!("m{rest}\n{text}"), &selector("m", &[("a", "b")]));
        let _ = candidates(&rest);
        let labels = selector("m", &[("a", "b")]).labels;
        let _ = value(&text, "m", &labels);
        let _ = value(&format!("m{rest}\n{text}"), "m", &labels);
    }

    #[test]
    fn a_cumulative_histogram_is_read_back(counts in proptest::collection::vec(0u64..1000, 1..30)) {
        let mut page = String::new();
        let mut up_to = 0;
        for (at, count) in counts.iter().enumerate() {
            up_to += count;
            page += &format!("m_bucket{{le=\"{at}.5\"}} {up_to}\n");
        }
        let totals = read(&page, &selector("m", &[])).unwrap();
        let read: Vec<_> = totals.buckets.unwrap().into_iter().map(|bucket| bucket.1).collect();
        prop_assert_eq!(totals.requests, up_to);
        prop_assert_eq!(read, counts);
    }
}
