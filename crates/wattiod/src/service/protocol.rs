//! Lines of the control socket, read without a socket.

use crate::control::Request;

/// The most bytes of a request, without its line end.
pub const LINE_BYTES_MAX: usize = 4096;

/// The requests there are, for messages.
const ALLOWED: &str = r#"allowed is one JSON object a line: {"op":"status"}, {"op":"set_tolerance","tolerance":0.1}, {"op":"pause"} or {"op":"resume"}"#;

/// The request on a line.
///
/// # Errors
/// What was wrong with the line and what is allowed.
pub fn read_request(line: &[u8]) -> Result<Request, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(too_long());
    }
    serde_json::from_slice(line).map_err(|error| format!("not a request: {error}; {ALLOWED}"))
}

/// What to say of a line without end.
pub(super) fn too_long() -> String {
    format!("a request has more than {LINE_BYTES_MAX} bytes; {ALLOWED}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<Request, String> {
        read_request(line.as_bytes())
    }

    #[test]
    fn reads_what_the_daemon_understands() {
        assert_eq!(read(r#"{"op":"status"}"#), Ok(Request::Status {}));
        assert_eq!(read(r#" {"op":"pause"} "#), Ok(Request::Pause {}));
        assert_eq!(read(r#"{"op":"resume"}"#), Ok(Request::Resume {}));
        let tolerance = r#"{"tolerance":0.1,"op":"set_tolerance"}"#;
        assert_eq!(read(tolerance), Ok(Request::SetTolerance { tolerance: 0.1 }));
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
            let _ = read_request(&line);
        }

        #[test]
        fn nothing_like_json_panics(line in r#"[\{\}\[\]":,a-z0-9.eE+\-\\ ]{0,120}"#) {
            let _ = read_request(line.as_bytes());
        }

        #[test]
        fn whatever_is_asked_is_read_back(tolerance in 0.0..10.0f64) {
            let request = Request::SetTolerance { tolerance };
            let line = serde_json::to_vec(&request).unwrap();
            prop_assert_eq!(read_request(&line), Ok(request));
        }
    }
}
