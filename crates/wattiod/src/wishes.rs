//! What the outside wants of the loop: requests from the socket and signals, in one queue, so that
//! either ends the loop's wait.

use crate::service::ServiceRequest;
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// One wish.
#[derive(Debug)]
pub(crate) enum Wish {
    /// From the socket.
    Asked(ServiceRequest),
    /// To read the configuration again.
    Reload,
    /// To end.
    End,
}

/// The queue.
pub(crate) struct Wishes {
    queue: Receiver<Wish>,
    entrance: Sender<Wish>,
}

impl Wishes {
    /// Catches the signals from now on, until the process ends.
    ///
    /// # Errors
    /// Where the system refuses that.
    pub fn listen() -> Result<Self> {
        let (entrance, queue) = channel();
        let signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP]);
        let mut signals = signals.context("signals cannot be caught")?;
        let told = entrance.clone();
        let tell = move || {
            let wish = |signal| if signal == SIGHUP { Wish::Reload } else { Wish::End };
            // Ends with the loop that listens, or with the process.
            let _ = signals.forever().try_for_each(|signal| told.send(wish(signal)));
        };
        let named = Builder::new().name("signals".to_owned());
        named.spawn(tell).context("no thread to catch signals")?;
        Ok(Self { queue, entrance })
    }

    /// Takes requests in too.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub fn hear(&self, requests: Receiver<ServiceRequest>) -> Result<()> {
        let entrance = self.entrance.clone();
        let pass_on = move || {
            let _ = requests.into_iter().try_for_each(|asked| entrance.send(Wish::Asked(asked)));
        };
        let named = Builder::new().name("requests".to_owned());
        named.spawn(pass_on).context("no thread to hear requests")?;
        Ok(())
    }

    /// The next wish; `None` when there was none within the time.
    pub fn wait(&self, most: Duration) -> Option<Wish> {
        // The entrance is held open here: an error is that the time is over.
        self.queue.recv_timeout(most).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};

    /// A signal was seen at the law's next tick only: with windows of a minute a stop took one.
    #[test]
    fn a_signal_ends_the_wait() {
        let wishes = Wishes::listen().unwrap();
        for (signal, reload) in [(Signal::HUP, true), (Signal::TERM, false), (Signal::INT, false)] {
            kill_process(getpid(), signal).unwrap();
            // Far longer than a signal takes; where none ends the wait there is no wish after it.
            let wish = wishes.wait(Duration::from_secs(30));
            assert!(matches!(wish, Some(Wish::Reload)) == reload, "{signal:?}: {wish:?}");
            assert!(matches!(wish, Some(Wish::End)) != reload, "{signal:?}: {wish:?}");
        }
        assert!(wishes.wait(Duration::ZERO).is_none());
    }
}
