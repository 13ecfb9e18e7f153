//! What the loop waits for besides the time: requests from the control socket, and signals, in one
//! queue.

use crate::{Program, ServiceRequest};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// A message to the loop.
pub enum Message<P: Program> {
    /// From the control socket.
    Request(ServiceRequest<P>),
    /// Read the configuration again.
    Reload,
    /// Stop.
    Stop,
}

/// The queue.
pub struct Inbox<P: Program> {
    messages: Receiver<Message<P>>,
    sender: Sender<Message<P>>,
}

impl<P: Program> Inbox<P> {
    /// Catches the signals from now on, until the process ends.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open() -> Result<Self> {
        let (sender, messages) = channel();
        let signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP]);
        let mut signals = signals.context("signals cannot be caught")?;
        let signal_sender = sender.clone();
        let forward = move || {
            let message = |signal| if signal == SIGHUP { Message::Reload } else { Message::Stop };
            // Ends when the loop drops the queue, or with the process.
            let _ = signals.forever().try_for_each(|signal| signal_sender.send(message(signal)));
        };
        let named = Builder::new().name("signals".to_owned());
        named.spawn(forward).context("no thread to catch signals")?;
        Ok(Self { messages, sender })
    }

    /// Puts requests into the queue too.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn forward(&self, requests: Receiver<ServiceRequest<P>>) -> Result<()> {
        let sender = self.sender.clone();
        let forward = move || {
            let _ = requests.into_iter().try_for_each(|each| sender.send(Message::Request(each)));
        };
        let named = Builder::new().name("requests".to_owned());
        named.spawn(forward).context("no thread to take requests")?;
        Ok(())
    }

    /// What stops the loop as a signal does, from any thread.
    pub fn stopper(&self) -> impl FnOnce() + Send + use<P> {
        let sender = self.sender.clone();
        // Without a loop there is nothing to stop.
        move || drop(sender.send(Message::Stop))
    }

    /// The next message; `None` if none came within the time.
    #[must_use]
    pub fn wait(&self, most: Duration) -> Option<Message<P>> {
        // A sender is held here, so the only error is a timeout.
        self.messages.recv_timeout(most).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Family;
    use rustix::process::{Signal, getpid, kill_process};

    enum Nothing {}

    impl Program for Nothing {
        const NAME: &'static str = "nothing";
        const VIEW: &'static str = "";
        const HAS_ITS_OWN_USER: bool = false;
        const ALLOWED: &'static str = "";
        type Status = ();
        type Moment = ();
        type Request = ();

        fn metrics((): &()) -> Vec<Family<'_>> {
            Vec::new()
        }

        fn moment((): &()) -> (u64, String, ()) {
            (0, String::new(), ())
        }

        fn asks_status((): &()) -> bool {
            true
        }
    }

    /// A signal was only noticed at the law's next tick: with windows of a minute, stopping took a
    /// minute.
    #[test]
    fn a_signal_ends_the_wait() {
        let inbox = Inbox::<Nothing>::open().unwrap();
        for (signal, reload) in [(Signal::HUP, true), (Signal::TERM, false), (Signal::INT, false)] {
            kill_process(getpid(), signal).unwrap();
            // Far longer than a signal takes; if none ends the wait, no message follows.
            let message = inbox.wait(Duration::from_secs(30));
            assert!(matches!(message, Some(Message::Reload)) == reload, "{signal:?}");
            assert!(matches!(message, Some(Message::Stop)) != reload, "{signal:?}");
        }
        assert!(inbox.wait(Duration::ZERO).is_none());
    }
}
