//! A thread that periodically does slow work, and its last result.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use wattio_governor::SourceError;
use wattio_units::Seconds;

/// The thread. It ends when this is dropped, at the latest after its current work.
#[derive(Debug)]
pub(super) struct Worker<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

#[derive(Debug)]
struct State<T> {
    slot: T,
    stop: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Does `work` now and every `interval`, and stores the result in the slot with `post`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start<R>(
        source_name: &str,
        interval: Seconds,
        slot: T,
        mut work: impl FnMut() -> R + Send + 'static,
        mut post: impl FnMut(&mut T, R) + Send + 'static,
    ) -> Result<Self, SourceError> {
        let interval = Duration::try_from_secs_f64(interval.0).unwrap_or(Duration::MAX);
        let state = Mutex::new(State { slot, stop: false });
        let shared = Arc::new(Shared { state, wake: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let run = move || {
            loop {
                let found = work();
                let mut state = theirs.lock();
                post(&mut state.slot, found);
                let waited = theirs.wake.wait_timeout_while(state, interval, |state| !state.stop);
                if waited.unwrap_or_else(PoisonError::into_inner).0.stop {
                    return;
                }
            }
        };
        // Thread names are cut at 15 bytes.
        let name = source_name.split(' ').next().unwrap_or_default().to_owned();
        let thread =
            Builder::new().name(name).stack_size(256 << 10).spawn(run).map_err(|error| {
                SourceError::new(source_name, format!("no thread can be started: {error}"))
            })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Accesses the slot.
    pub fn with<O>(&self, look: impl FnOnce(&mut T) -> O) -> O {
        look(&mut self.shared.lock().slot)
    }

    /// Whether the thread ended unexpectedly: it panicked.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}
