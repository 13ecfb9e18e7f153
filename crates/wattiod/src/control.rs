//! Requests to a running daemon over its socket: one JSON object per line, one answer each.

use crate::status::Status;
use serde::{Deserialize, Serialize};

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
    },
    /// Full speed until resumed.
    Pause {},
    /// Ends a pause and closes the breaker.
    Resume {},
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The status.
    Status {
        /// As on the page.
        status: Box<Status>,
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
}
