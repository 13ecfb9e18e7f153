//! Requests that page and metrics refuse, and the headers of all responses.
//!
//! A page from elsewhere may make a browser ask an address on this host under a name of its own
//! (DNS rebinding) and read the answer. The name is then in the `Host` header: only known names
//! are answered. An IP address cannot be rebound. Where there is a token, only who knows it is answered.

use crate::log::{Priority, log};
use crate::token::PageToken;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Puts the guard before all routes.
pub(super) fn guarded(
    router: Router,
    host_names: &[String],
    token: Option<PageToken>,
    program: &'static str,
) -> Router {
    let known = Known { host_names: host_names.into(), token, program };
    router.layer(from_fn_with_state(known, guard))
}

/// What the guard goes by.
#[derive(Clone)]
struct Known {
    host_names: Arc<[String]>,
    token: Option<PageToken>,
    program: &'static str,
}

async fn guard(State(known): State<Known>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&request, &known) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    // Responses change from one moment to the next unless they say otherwise.
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

fn refusal(request: &Request, known: &Known) -> Option<Response> {
    let program = known.program;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allow = [(header::ALLOW, "GET, HEAD")];
        let message = format!("this page only shows; see `{program} --help` for what is set\n");
        return Some((StatusCode::METHOD_NOT_ALLOWED, allow, message).into_response());
    }
    let host = only_host(request.headers());
    if !host.is_some_and(|host| host_is_allowed(host, &known.host_names)) {
        let message = format!(
            "this name is not known here; ask for an IP address or localhost, or add the name to \
             service.host_names in the configuration of {program}\n"
        );
        return Some((StatusCode::FORBIDDEN, message).into_response());
    }
    if known.token.as_ref().is_some_and(|token| !is_given(token, request.headers(), program)) {
        // A browser then asks its user.
        let asks = [(header::WWW_AUTHENTICATE, format!("Basic realm=\"{program}\""))];
        let message = format!(
            "the token of this {program} is needed: as `Authorization: Bearer TOKEN`, or as the \
             password of any name\n"
        );
        return Some((StatusCode::UNAUTHORIZED, asks, message).into_response());
    }
    None
}

/// Whether a request knows the token that the file holds now, or held before where that is wrong.
fn is_given(token: &PageToken, headers: &HeaderMap, program: &str) -> bool {
    let (token, error) = token.current();
    if let Some(error) = error {
        let message = format!("service.token: {error}; the page keeps the token that it had");
        log(program, Priority::Error, &message);
    }
    token.is_given(headers)
}

/// The `Host` header, where there is exactly one.
fn only_host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(only), None) => only.to_str().ok(),
        _ => None,
    }
}

/// Whether a `Host` header names an IP address, `localhost` or one of the known names, with any
/// port or none.
fn host_is_allowed(host: &str, host_names: &[String]) -> bool {
    if host.contains('@') {
        return false;
    }
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let known = |known: &str| name.eq_ignore_ascii_case(known);
    bare.parse::<IpAddr>().is_ok()
        || known("localhost")
        || host_names.iter().any(|host_name| known(host_name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_localhost_and_known_names_are_answered() {
        let names = ["storage7.example".to_owned()];
        for host in [
            "127.0.0.1",
            "127.0.0.1:9288",
            "[::1]:9288",
            "10.1.2.3",
            "LocalHost:1",
            "Storage7.example:80",
        ] {
            assert!(host_is_allowed(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:9288",
            "localhost@evil.example",
            "evil.example@localhost",
            "storage7",
            "[::1",
            "local host",
        ] {
            assert!(!host_is_allowed(host, &names), "{host}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(host in r"\PC{0,60}") {
            let _ = host_is_allowed(&host, &["a".to_owned()]);
        }

        #[test]
        fn nothing_like_a_host_panics(host in r"[\[\]:@.a-f0-9%]{0,40}") {
            let _ = host_is_allowed(&host, &["a".to_owned()]);
        }
    }
}
