//! What the log says of clients that are turned away. Whoever can connect can cause such a line as
//! often as he likes, so only a few are written.

use std::time::{Duration, Instant};

/// So many lines are written in each span.
const LINES_MAX: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

/// What was written of them.
#[derive(Debug, Default)]
pub struct TurnedAway {
    /// When the span began.
    since: Option<Instant>,
    lines: u32,
    /// Clients of which nothing was written since the last line.
    untold: u64,
}

impl TurnedAway {
    /// What is written of a client that is turned away `now`, if anything.
    pub fn line(&mut self, reason: &str, now: Instant) -> Option<String> {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= SPAN) {
            self.since = Some(now);
            self.lines = 0;
        }
        if self.lines == LINES_MAX {
            self.untold += 1;
            return None;
        }
        self.lines += 1;
        let before = match std::mem::take(&mut self.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more were since the last one that was told of)"),
        };
        let after = match self.lines {
            LINES_MAX => "; more of them within 10 s are only counted",
            _ => "",
        };
        Some(format!("a client is turned away: {reason}{before}{after}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3,000 connections that asked for a web page left as many lines in the log.
    #[test]
    fn a_flood_of_clients_is_no_flood_of_lines() {
        let start = Instant::now();
        let mut turned_away = TurnedAway::default();
        let mut told = |after_ms| turned_away.line("no", start + Duration::from_millis(after_ms));
        let lines: Vec<String> = (0..3000).filter_map(&mut told).collect();
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[0], "a client is turned away: no");
        assert!(lines[9].ends_with("; more of them within 10 s are only counted"), "{}", lines[9]);
        let next = told(10_000).expect("a new span");
        assert!(
            next.ends_with("no (2990 more were since the last one that was told of)"),
            "{next}"
        );
        assert_eq!(told(10_001).expect("the second of it"), "a client is turned away: no");
    }
}
