//! Requests to a running daemon over its socket: one JSON object per line, one answer each.

use crate::moment::Moment;
use crate::status::Status;
use serde::{Deserialize, Serialize};
use wattio_service::Program;
use wattio_service::metrics::Family;

/// A request. Anything else is refused; nothing in it is ever run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The status.
    Status {},
    /// Another latency tolerance, from the next step on.
    SetTolerance {
        /// 0.1 is 10 % above the latency at full speed.
        tolerance: f64,
        /// Of which application; of all where none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
    },
    /// Full speed until resumed.
    Pause {},
    /// Ends a pause and closes the breaker.
    Resume {},
}

/// An answer.
pub type Answer = wattio_service::Answer<Status>;

/// The daemon, as page, metrics and socket show it.
#[derive(Debug)]
pub enum Wattiod {}

impl Program for Wattiod {
    const NAME: &'static str = "wattiod";
    const VIEW: &'static str = include_str!("../page/view.js");
    const HAS_ITS_OWN_USER: bool = false;
    const ALLOWED: &'static str = r#"allowed is one JSON object a line: {"op":"status"}, {"op":"set_tolerance","tolerance":0.1}, {"op":"pause"} or {"op":"resume"}"#;
    type Status = Status;
    type Moment = Moment;
    type Request = Request;

    fn metrics(status: &Status) -> Vec<Family<'_>> {
        crate::metrics::families(status)
    }

    fn moment(status: &Status) -> (u64, String, Moment) {
        let groups: usize = status.applications().map(|one| one.groups.len()).sum();
        let kind =
            format!("{}, {} applications, {groups} groups", status.mode, 1 + status.others.len());
        (status.utc_ns, kind, Moment::of(status))
    }

    fn asks_status(request: &Request) -> bool {
        *request == Request::Status {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wattio_service::{LINE_BYTES_MAX, read_request};

    fn read(line: &str) -> Result<Request, String> {
        read_request::<Wattiod>(line.as_bytes())
    }

    #[test]
    fn reads_what_the_daemon_understands() {
        assert_eq!(read(r#"{"op":"status"}"#), Ok(Request::Status {}));
        assert_eq!(read(r#" {"op":"pause"} "#), Ok(Request::Pause {}));
        assert_eq!(read(r#"{"op":"resume"}"#), Ok(Request::Resume {}));
        let tolerance = r#"{"tolerance":0.1,"op":"set_tolerance"}"#;
        assert_eq!(
            read(tolerance),
            Ok(Request::SetTolerance { tolerance: 0.1, application: None })
        );
    }

    #[test]
    fn refuses_everything_else_and_says_what_is_allowed() {
        let lines = [
            "",
            "status",
            "[]",
            r#"{"op":"reboot"}"#,
            r#"{"op":"pause","command":"reboot"}"#,
            r#"{"op":"set_tolerance"}"#,
            r#"{"op":"set_tolerance","tolerance":"0.1"}"#,
            r#"{"op":"set_tolerance","tolerance":1e999}"#,
            r#"{"op":"status"} {"op":"pause"}"#,
        ];
        for line in lines {
            let message = read(line).expect_err(line);
            assert!(message.contains("set_tolerance"), "{message}");
        }
        assert!(read(&" ".repeat(LINE_BYTES_MAX + 1)).unwrap_err().contains("4096 bytes"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_request::<Wattiod>(&line);
        }

        #[test]
        fn nothing_like_json_panics(line in r#"[\{\}\[\]":,a-z0-9.eE+\-\\ ]{0,120}"#) {
            let _ = read_request::<Wattiod>(line.as_bytes());
        }

        #[test]
        fn whatever_is_asked_is_read_back(
            tolerance in 0.0..10.0f64,
            application in prop::option::of("[a-z]{1,9}"),
        ) {
            let request = Request::SetTolerance { tolerance, application };
            let line = serde_json::to_vec(&request).unwrap();
            prop_assert_eq!(read_request::<Wattiod>(&line), Ok(request));
        }
    }
}
