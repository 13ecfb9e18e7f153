//! What is shown: the last status, and the last minutes.

use crate::Program;
use crate::history::History;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The side of the loop, which shows a status.
pub struct Publisher<P: Program> {
    status: watch::Sender<Arc<P::Status>>,
    history: Arc<Mutex<History>>,
}

/// The side of those who look.
pub struct Shown<P: Program> {
    pub(crate) status: watch::Receiver<Arc<P::Status>>,
    history: Arc<Mutex<History>>,
}

/// Both sides, with a first status.
#[must_use]
pub fn shown<P: Program>(first: P::Status) -> (Publisher<P>, Shown<P>) {
    let history = Arc::<Mutex<History>>::default();
    remember::<P>(&history, &first);
    let (sender, receiver) = watch::channel(Arc::new(first));
    let publisher = Publisher { status: sender, history: history.clone() };
    (publisher, Shown { status: receiver, history })
}

impl<P: Program> Publisher<P> {
    /// Shows a status from now on. The thread that serves sleeps on where nobody has the page open:
    /// that a moment is kept is the loop's work, which is awake.
    pub fn send(&self, status: P::Status) {
        remember::<P>(&self.history, &status);
        self.status.send_replace(Arc::new(status));
    }
}

impl<P: Program> Shown<P> {
    /// The last minutes, for pages that are opened now.
    pub(crate) fn history(&self) -> Arc<Mutex<History>> {
        self.history.clone()
    }
}

/// By hand: a program need not be one that can be cloned.
impl<P: Program> Clone for Shown<P> {
    fn clone(&self) -> Self {
        Self { status: self.status.clone(), history: self.history.clone() }
    }
}

fn remember<P: Program>(history: &Mutex<History>, status: &P::Status) {
    let (utc_ns, kind, moment) = P::moment(status);
    // Numbers, text and lists: serde_json cannot fail.
    let json = serde_json::to_string(&moment).unwrap_or_default();
    history.lock().unwrap_or_else(PoisonError::into_inner).add(utc_ns, kind, json);
}
