//! What every connection needs: the last status, and the channel to the loop.

use super::ServiceRequest;
use super::history::History;
use crate::control::{Answer, Request};
use crate::status::Status;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};

/// How many browsers may stream changes at the same time.
pub(super) const STREAMS_MAX: usize = 16;
/// How long the loop may take to answer: a step with knobs that hang takes a few seconds.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// A status and its JSON.
type Rendered = (Arc<Status>, Arc<str>);

/// Shared by all connections.
#[derive(Clone)]
pub(super) struct AppState {
    pub status: watch::Receiver<Arc<Status>>,
    pub streams: Arc<Semaphore>,
    requests: mpsc::Sender<ServiceRequest>,
    /// The last status as JSON, rendered once for all connections.
    rendered: Arc<Mutex<Option<Rendered>>>,
    /// The last minutes, for pages that are opened now.
    history: Arc<Mutex<History>>,
}

impl AppState {
    pub fn new(
        status: watch::Receiver<Arc<Status>>,
        requests: mpsc::Sender<ServiceRequest>,
    ) -> Self {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let history = Arc::default();
        Self { status, streams, requests, rendered: Arc::default(), history }
    }

    /// The last status.
    pub fn last(&self) -> Arc<Status> {
        self.status.borrow().clone()
    }

    /// The last status as one line of JSON.
    pub fn last_json(&self) -> Arc<str> {
        let last = self.last();
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*rendered {
            Some((of, json)) if Arc::ptr_eq(of, &last) => json.clone(),
            _ => {
                // Numbers, text and lists: serde_json cannot fail.
                let json: Arc<str> = serde_json::to_string(&*last).unwrap_or_default().into();
                *rendered = Some((last, json.clone()));
                json
            }
        }
    }

    /// Keeps the last minutes for as long as there is a loop.
    pub async fn remember(self) {
        let mut status = self.status.clone();
        status.mark_changed();
        while status.changed().await.is_ok() {
            let last = status.borrow_and_update().clone();
            self.history.lock().unwrap_or_else(PoisonError::into_inner).add(&last);
        }
    }

    /// The last minutes as JSON.
    pub fn history_json(&self) -> String {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        // Numbers and lists, as above.
        serde_json::to_string(&*history).unwrap_or_default()
    }

    /// The answer to a request: the status at once, everything else from the loop.
    pub async fn answer(&self, request: Request) -> Answer {
        if request == (Request::Status {}) {
            return Answer::Status { status: Box::new((*self.last()).clone()) };
        }
        let (reply, answer) = oneshot::channel();
        let stopping = || refused("the daemon is stopping");
        if self.requests.send(ServiceRequest { request, reply }).is_err() {
            return stopping();
        }
        match tokio::time::timeout(ANSWER_WAIT, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| stopping()),
            Err(_) => refused(&format!(
                "the loop has not answered within {} s and may still do it; look at the status",
                ANSWER_WAIT.as_secs()
            )),
        }
    }
}

/// A refusal.
pub(super) fn refused(message: &str) -> Answer {
    Answer::Refused { message: message.to_owned() }
}
