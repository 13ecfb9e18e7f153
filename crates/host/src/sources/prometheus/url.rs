//! The address of a page: `http://host:port/path`, or `https://`.

/// Where a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name, an IPv4 address or an IPv6 address without its brackets.
    pub host: String,
    /// The port; where none is given 80, or 443 with TLS.
    pub port: u16,
    /// The host and port as given, for the header `Host`.
    pub authority: String,
    /// With the leading slash and the query.
    pub path: String,
    /// Whether it is asked for by HTTPS.
    pub tls: bool,
}

/// Reads an address.
///
/// # Errors
/// Says what is wrong and what is allowed.
pub fn parse(text: &str) -> Result<Url, String> {
    let refused = |why: &str| {
        Err(format!("{text:?} {why}; write for example \"http://127.0.0.1:9100/metrics\""))
    };
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return refused("does not begin with http:// or https://"),
    };
    let usual = if tls { "443" } else { "80" };
    // Anything else could end the line of the request early.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("has a blank or a character that is not ASCII");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    if authority.contains('@') {
        return refused("has a user name, which is not supported");
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some(usual))),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some(usual)),
        },
    };
    let digits = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.filter(digits).and_then(|port| port.parse().ok()).filter(|&port| port > 0);
    let Some(port) = port else {
        return refused("has a port that is not a number from 1 to 65535");
    };
    if host.is_empty() {
        return refused("has no host");
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Url { host: host.to_owned(), port, authority: authority.to_owned(), path, tls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_taken_apart() {
        let url = parse("http://127.0.0.1:2379/metrics?x=1#top").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("127.0.0.1", 2379));
        assert_eq!((url.authority.as_str(), url.path.as_str()), ("127.0.0.1:2379", "/metrics?x=1"));
        let url = parse("http://[::1]:9100").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 9100, "/"));
        let url = parse("http://node?a").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("node", 80, "/?a"));
        assert!(!url.tls);
        for (text, port) in [("https://node/x", 443), ("https://[::1]", 443), ("https://a:1", 1)] {
            let url = parse(text).unwrap();
            assert_eq!((url.port, url.tls), (port, true), "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for (text, why) in [
            ("ftp://a", "does not begin with http:// or https://"),
            ("http://a b/", "blank"),
            ("http://a/\r\nX: y", "blank"),
            ("http://me@a/", "user name"),
            ("http://a:0/", "port"),
            ("http://a:+5/", "port"),
            ("http://[::1]x/", "port"),
            ("http://:80/", "no host"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why) && error.contains("9100/metrics"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(https?://)?\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
