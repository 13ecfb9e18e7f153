//! Detection of a stuck exporter behind a page that does not change.
//!
//! A server without requests and an exporter that returns the same page for ever look alike:
//! neither counts requests. But most pages change by themselves (processor time, memory, open
//! files), and if one used to and has stopped, the server is not merely quiet.

use std::hash::{DefaultHasher, Hash, Hasher};
use wattio_units::Seconds;

/// A page that used to change by itself and has not for this long is stuck.
const STUCK_AFTER: Seconds = Seconds(10.0);

/// The last state of a page.
#[derive(Clone, Debug, Default)]
pub struct Frozen {
    last: Option<Seen>,
    /// Whether the page ever changed while what is counted on it did not.
    changes_by_itself: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    page: u64,
    counted: u64,
    since: Seconds,
}

impl Frozen {
    /// Takes in a page and what was counted on it.
    ///
    /// # Errors
    /// When the page is stuck, in words.
    pub fn look(&mut self, now: Seconds, page: &[u8], counted: u64) -> Result<(), String> {
        let mut hasher = DefaultHasher::new();
        page.hash(&mut hasher);
        let page = hasher.finish();
        match &mut self.last {
            Some(last) if last.page == page => {
                let stuck = now - last.since;
                if self.changes_by_itself && stuck >= STUCK_AFTER {
                    return Err(format!(
                        "no figure on the page has changed for {:.0} s, though it changes without \
                         requests: its exporter is stuck",
                        stuck.0
                    ));
                }
            }
            last => {
                self.changes_by_itself |= last.is_some_and(|last| last.counted == counted);
                *last = Some(Seen { page, counted, since: now });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under a load that the metric does not count, a frozen page looked like a quiet server, and
    /// its cores were turned off.
    #[test]
    fn a_page_that_used_to_change_by_itself_and_stops_is_stuck() {
        let mut frozen = Frozen::default();
        assert!(frozen.look(Seconds(0.0), b"requests 5\ncpu 1", 5).is_ok());
        assert!(frozen.look(Seconds(0.5), b"requests 5\ncpu 2", 5).is_ok());
        assert!(frozen.look(Seconds(10.0), b"requests 5\ncpu 2", 5).is_ok());
        let message = frozen.look(Seconds(10.6), b"requests 5\ncpu 2", 5).unwrap_err();
        assert!(message.contains("stuck"), "{message}");
        assert!(frozen.look(Seconds(11.0), b"requests 6\ncpu 3", 6).is_ok(), "it lives again");
    }

    #[test]
    fn a_page_that_tells_requests_alone_may_be_quiet_for_long() {
        let mut frozen = Frozen::default();
        assert!(frozen.look(Seconds(0.0), b"requests 5", 5).is_ok());
        assert!(frozen.look(Seconds(1.0), b"requests 6", 6).is_ok());
        assert!(frozen.look(Seconds(900.0), b"requests 6", 6).is_ok());
    }
}
