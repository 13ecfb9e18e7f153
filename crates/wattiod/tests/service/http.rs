//! What the page's address answers, and what it refuses.

use crate::support::{Running, any_port, full_status};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use wattiod::service::ServiceError;
use wattiod::status::Status;

#[test]
fn the_page_and_its_files_are_served_with_their_types() {
    let running = Running::http();
    for (path, kind, start) in [
        ("/", "text/html", "<!doctype html>"),
        ("/page.css", "text/css", "/*"),
        ("/main.js", "text/javascript", "//"),
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
    let named: Vec<&str> = ["href=\"", "src=\""]
        .iter()
        .flat_map(|start| page.split(start).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(named.len() >= 5, "{named:?}");
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
    let read = || serde_json::from_str::<serde_json::Value>(&running.get("/v1/history").body);
    // Kept by a task of its own: at most a moment later.
    let history = std::iter::repeat_with(|| read().unwrap())
        .find(|history| history["moments"].as_array().is_some_and(|moments| !moments.is_empty()))
        .unwrap();
    let (moment, status) = (&history["moments"][0], full_status());
    assert_eq!(moment["utc_ns"], status.utc_ns);
    assert_eq!(moment["latency"]["bound_us"].as_f64(), status.latency.bound_us);
    assert_eq!(moment["groups"].as_array().map(Vec::len), Some(status.groups.len()));
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
        running
            .publish
            .send_replace(Arc::new(Status { reason: reason.to_owned(), ..full_status() }));
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
    let free = (0..1000).any(|_| {
        running.publish.send_replace(Arc::new(full_status()));
        running.open(head).status() == 200
    });
    assert!(free);
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
    let settings = wattiod::service::ServiceSettings { listen: Some(taken), ..any_port() };
    let error = Running::try_start(settings).err().unwrap();
    assert!(matches!(error, ServiceError::Listen { .. }));
    assert!(error.to_string().starts_with(&format!("cannot listen on {taken}")), "{error}");
}
