//! Lines of the control socket, read without a socket.

use crate::Program;
use serde::{Deserialize, Serialize};

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer<S> {
    /// The status.
    Status {
        /// As on the page.
        status: Box<S>,
    },
    /// Done.
    Done {
        /// What was done, for a person.
        message: String,
    },
    /// Not done.
    Refused {
        /// What was wrong and what is allowed.
        message: String,
    },
    /// Not done, though nothing is wrong with the request.
    Unable {
        /// Why it cannot be done now.
        message: String,
    },
}

/// The most bytes of a request, without its line end.
pub const LINE_BYTES_MAX: usize = 4096;

/// The request on a line.
///
/// # Errors
/// What was wrong with the line and what is allowed.
pub fn read_request<P: Program>(line: &[u8]) -> Result<P::Request, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(too_long::<P>());
    }
    serde_json::from_slice(line).map_err(|error| format!("not a request: {error}; {}", P::ALLOWED))
}

/// What to say of a line without end.
pub(super) fn too_long<P: Program>() -> String {
    format!("a request has more than {LINE_BYTES_MAX} bytes; {}", P::ALLOWED)
}

/// A refusal.
pub(super) fn refused<S>(message: &str) -> Answer<S> {
    Answer::Refused { message: message.to_owned() }
}

/// An answer as a line.
pub(super) fn line_of<S: Serialize>(answer: &Answer<S>) -> String {
    // Numbers, text and lists: serde_json cannot fail.
    let mut line = serde_json::to_string(answer).unwrap_or_default();
    line.push('\n');
    line
}
