//! What every connection needs: the last status, and the channel to the loop.

use crate::history::History;
use crate::protocol::{line_of, refused};
use crate::shown::Shown;
use crate::{Answer, Program, ServiceRequest};
use axum::body::Bytes;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};

/// How many browsers may stream changes at the same time.
pub(super) const STREAMS_MAX: usize = 16;
/// How long the loop may take to answer: a step with knobs that hang takes a few seconds.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// A status and its JSON.
type Rendered<S> = (Arc<S>, Arc<str>);

/// Shared by all connections.
pub(super) struct AppState<P: Program> {
    pub status: watch::Receiver<Arc<P::Status>>,
    pub streams: Arc<Semaphore>,
    requests: mpsc::Sender<ServiceRequest<P>>,
    /// The last status as JSON, rendered once for all connections.
    rendered: Arc<Mutex<Option<Rendered<P::Status>>>>,
    /// The last minutes, for pages that are opened now.
    history: Arc<Mutex<History>>,
}

/// By hand: a program need not be one that can be cloned.
impl<P: Program> Clone for AppState<P> {
    fn clone(&self) -> Self {
        Self {
            status: self.status.clone(),
            streams: self.streams.clone(),
            requests: self.requests.clone(),
            rendered: self.rendered.clone(),
            history: self.history.clone(),
        }
    }
}

impl<P: Program> AppState<P> {
    pub fn new(shown: Shown<P>, requests: mpsc::Sender<ServiceRequest<P>>) -> Self {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let history = shown.history();
        Self { status: shown.status, streams, requests, rendered: Arc::default(), history }
    }

    /// The last status.
    pub fn last(&self) -> Arc<P::Status> {
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

    /// The last minutes as JSON.
    pub fn history_json(&self) -> Bytes {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).json()
    }

    /// The line that answers a request: the status at once, everything else from the loop.
    pub async fn answer(&self, request: P::Request) -> String {
        if P::asks_status(&request) {
            return line_of(&Answer::Status { status: Box::new(&*self.last()) });
        }
        line_of(&self.ask(request).await)
    }

    async fn ask(&self, request: P::Request) -> Answer<P::Status> {
        let (reply, answer) = oneshot::channel();
        let stopping = || refused(&format!("{} is stopping", P::NAME));
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
