//! What the page's address answers, and what it refuses.

use crate::support::{DEADLINE, Running, Status, any_port, full_status};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use wattio_service::{ServiceError, ServiceSettings};

#[test]
fn the_page_and_its_files_are_served_with_their_types() {
    let running = Running::http();
    for (path, kind, start) in [
        ("/", "text/html", "<!doctype html>"),
        ("/page.css", "text/css", "/*"),
        ("/main.js", "text/javascript", "//"),
        ("/view.js", "text/javascript", "// What the page shows of a kettle."),
        ("/icon.svg", "image/svg+xml", "<svg"),
        ("/uplot-1.6.32/uPlot.iife.min.js", "text/javascript", "/*!"),
    ] {
        let answer = running.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(kind), "{path}");
        assert!(answer.body.starts_with(start), "{path}");
    }
}

/// What the page names is served; nothing in it is inline or from elsewhere.
#[test]
fn the_page_names_only_files_that_are_served() {
    let running = Running::http();
    let page = running.get("/").body;
    let scripts = ["/main.js", "/charts.js", "/render.js"].map(|path| running.get(path).body);
    let scripts = scripts.concat();
    let named: Vec<&str> = [("href=\"", &page), ("src=\"", &page), ("from \"", &scripts)]
        .iter()
        .flat_map(|(start, text)| text.split(start).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(named.len() >= 10, "{named:?}");
    for path in named {
        assert_eq!(running.get(path).status, 200, "{path}");
    }
    assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("onclick"));
}

#[test]
fn the_status_is_one_json_object() {
    let running = Running::http();
    let answer = running.get("/v1/status");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(serde_json::from_str::<Status>(&answer.body).unwrap(), full_status());
}

/// A page that was opened just now had nothing to show of the minutes before.
#[test]
fn the_last_minutes_are_kept_for_pages_that_are_opened_later() {
    let running = Running::http();
    let history: serde_json::Value =
        serde_json::from_str(&running.get("/v1/history").body).unwrap();
    let (moment, status) = (&history["moments"][0], full_status());
    assert_eq!(moment["utc_ns"], status.utc_ns);
    assert_eq!(moment["celsius"], status.celsius);
    assert_eq!(moment.as_object().map(serde_json::Map::len), Some(2), "only what charts show");
}

/// The thread that serves kept them, was woken for each, and missed those that came before it ran.
#[test]
fn each_status_is_kept_without_anybody_to_serve_it() {
    let running = Running::http();
    let first = full_status();
    for second in 1..=100 {
        running
            .publish
            .send(Status { utc_ns: first.utc_ns + second * 1_000_000_000, ..full_status() });
    }
    let history: serde_json::Value =
        serde_json::from_str(&running.get("/v1/history").body).unwrap();
    assert_eq!(history["moments"].as_array().map(Vec::len), Some(101));
}

/// Whatever was asked for, the answer was OpenMetrics, which not every reader reads.
#[test]
fn metrics_come_as_text_and_as_openmetrics_where_that_is_asked_for() {
    let running = Running::http();
    let ask = |accept: &str| {
        running.send(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}"))
    };
    for accept in ["", "Accept: */*\r\n", "Accept: text/plain;version=0.0.4\r\n"] {
        let answer = ask(accept);
        let kind = answer.header("content-type").unwrap();
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8", "{accept}");
        assert!(answer.body.contains("\n# TYPE kettle_boiled_total counter\n"), "{}", answer.body);
        assert!(answer.body.ends_with("\nkettle_boiled_total 3\n"), "{}", answer.body);
        assert_eq!(answer.header("vary"), Some("accept"));
    }
    let answer = ask("Accept: text/plain;q=0.5\r\nAccept: application/openmetrics-text\r\n");
    let kind = answer.header("content-type").unwrap();
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(answer.body.contains("\n# TYPE kettle_boiled counter\n"), "{}", answer.body);
    assert!(answer.body.ends_with("\nkettle_boiled_total 3\n# EOF\n"), "{}", answer.body);
}

#[test]
fn every_answer_has_the_headers_that_protect_a_browser() {
    let running = Running::http();
    for path in ["/", "/main.js", "/v1/status", "/metrics", "/nothing-here"] {
        let answer = running.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|given| given == part), "{path}: {part} in {policy}");
        }
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
    }
    for path in ["/v1/status", "/v1/history", "/metrics"] {
        assert_eq!(running.get(path).header("cache-control"), Some("no-store"), "{path}");
    }
    assert_eq!(running.get("/nothing-here").status, 404);
}

#[test]
fn anything_but_reading_is_refused() {
    let running = Running::http();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/", "/v1/status", "/nothing-here"] {
            let answer = running.send(&format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
            ));
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), Some("GET, HEAD"));
        }
    }
    let head = running.send("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

/// A page from elsewhere may have its own name point here; its name is not answered.
#[test]
fn unknown_names_are_refused() {
    let running = Running::http();
    let ask = |host: &str| running.send(&format!("GET /v1/status HTTP/1.1\r\n{host}")).status;
    for host in ["localhost:9288", "127.0.0.1", "storage7.example:80", "[::1]:1"] {
        assert_eq!(ask(&format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "storage8.example", ""] {
        assert_eq!(ask(&format!("Host: {host}\r\n")), 403, "{host}");
    }
    assert_eq!(ask(""), 403);
    assert_eq!(ask("Host: localhost\r\nHost: evil.example\r\n"), 403);
}

#[test]
fn events_bring_the_status_now_and_at_each_change() {
    let running = Running::http();
    let mut events = running.open("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n");
    assert!(events.head.to_lowercase().contains("content-type: text/event-stream"));
    assert!(events.head.to_lowercase().contains("cache-control: no-store"));
    let first: Status = serde_json::from_str(&events.line_after("data: ")).unwrap();
    assert_eq!(first, full_status());
    for reason in ["first change", "second change"] {
        running.publish.send(Status { reason: reason.to_owned(), ..full_status() });
        let next: Status = serde_json::from_str(&events.line_after("data: ")).unwrap();
        assert_eq!(next.reason, reason);
    }
}

#[test]
fn the_seventeenth_who_watches_is_told_to_come_back() {
    let running = Running::http();
    let head = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n";
    let mut watching: Vec<_> = (0..16).map(|_| running.open(head)).collect();
    assert!(watching.iter().all(|events| events.status() == 200));
    let refused = running.send(head);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    // A place is free again when somebody leaves, which the service sees when it next writes.
    drop(watching.pop());
    let until = Instant::now() + DEADLINE;
    loop {
        running.publish.send(full_status());
        if running.open(head).status() == 200 {
            break;
        }
        assert!(Instant::now() < until, "no place is free again");
    }
}

/// Clients that ask for much and never read took every place, of their address or of all: whoever
/// came then was turned away, or waited until they were given up.
#[test]
fn who_never_reads_keeps_nobody_out() {
    let running = Running::http();
    let many =
        "GET /uplot-1.6.32/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
    let mut silent = Vec::new();
    for from in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        for _ in 0..32 {
            let mut stream = running.connect_from(from.into());
            // As far as the kernel takes it.
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(many.as_bytes());
            silent.push(stream);
        }
    }
    let began = Instant::now();
    for path in ["/metrics", "/", "/v1/status"] {
        assert_eq!(running.get(path).status, 200, "{path}");
    }
    // A second of grace where all places are taken; they are given up after ten.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// An answer does not wait for a body that is announced and never comes, and the connection ends.
#[test]
fn no_body_is_waited_for() {
    let running = Running::http();
    let announced = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n";
    let answer = running.open(announced).rest();
    assert_eq!(answer.status, 200);
}

#[test]
fn the_service_ends_with_open_connections() {
    let running = Running::http();
    let address = running.address();
    let mut events = running.open("GET /v1/events HTTP/1.1\r\nHost: localhost\r\n");
    let mut silent = TcpStream::connect(address).unwrap();
    silent.write_all(b"GET / HT").unwrap();
    drop(running);
    while !events.line().is_empty() {}
    let mut rest = Vec::new();
    // Closed or reset: in any case it ends.
    let _ = silent.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn an_address_in_use_is_said() {
    let running = Running::http();
    let taken = running.address();
    let settings = ServiceSettings { listen: Some(taken), ..any_port() };
    let error = Running::try_start(settings).err().unwrap();
    assert!(matches!(error, ServiceError::Listen { .. }));
    assert!(error.to_string().starts_with(&format!("cannot listen on {taken}")), "{error}");
}
