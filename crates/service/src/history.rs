//! The last 15 minutes, so that a page shows them as soon as it is opened.

use axum::body::Bytes;
use std::collections::VecDeque;

/// How far back it goes.
const SPAN_NS: u64 = 15 * 60 * 1_000_000_000;
/// The most moments; where windows are shorter than their share of the span, some are left out.
const MOMENTS_MAX: u64 = 3600;

/// Moments of one kind, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    kind: String,
    /// When, and what charts show of it as JSON.
    moments: VecDeque<(u64, Box<str>)>,
    /// All of it as JSON, until something is added: however many read it, it is there once.
    rendered: Option<Bytes>,
}

impl History {
    /// Adds a moment. What is older than the span goes; all of it where the clock was set back, or
    /// the kind is another.
    pub fn add(&mut self, utc_ns: u64, kind: String, json: String) {
        if self.kind != kind {
            self.moments.clear();
            self.kind = kind;
        }
        if let Some(&(last_ns, _)) = self.moments.back() {
            if utc_ns < last_ns {
                self.moments.clear();
            } else if utc_ns - last_ns < SPAN_NS / MOMENTS_MAX {
                return;
            }
        }
        self.rendered = None;
        self.moments.push_back((utc_ns, json.into()));
        let oldest = utc_ns.saturating_sub(SPAN_NS);
        while self.moments.front().is_some_and(|first| first.0 < oldest) {
            self.moments.pop_front();
        }
    }

    /// All of it, as one object. Making it takes some tenths of a millisecond at most, for which the loop
    /// may have to wait where a page is opened at that moment.
    pub fn json(&mut self) -> Bytes {
        let moments = &self.moments;
        let render = || {
            let moments: Vec<&str> = moments.iter().map(|(_, json)| &**json).collect();
            format!(r#"{{"moments":[{}]}}"#, moments.join(",")).into()
        };
        self.rendered.get_or_insert_with(render).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn add(history: &mut History, utc_ns: u64, kind: &str) {
        history.add(utc_ns, kind.to_owned(), format!(r#"{{"utc_ns":{utc_ns}}}"#));
    }

    fn times(history: &History) -> Vec<u64> {
        history.moments.iter().map(|moment| moment.0 / SECOND).collect()
    }

    #[test]
    fn it_goes_back_a_quarter_of_an_hour_and_no_further() {
        let mut history = History::default();
        for second in 1..=2000 {
            add(&mut history, second * SECOND, "run");
        }
        let times = times(&history);
        assert_eq!((times[0], times.len(), times.last()), (1100, 901, Some(&2000)));
    }

    #[test]
    fn short_windows_do_not_fill_the_memory() {
        let mut history = History::default();
        for step in 0..200_000 {
            add(&mut history, step * SECOND / 100, "run");
        }
        let count = history.moments.len() as u64;
        assert!(count <= MOMENTS_MAX + 1 && count > MOMENTS_MAX / 2, "{count}");
    }

    #[test]
    fn another_kind_or_a_clock_set_back_begin_anew() {
        let mut history = History::default();
        for (second, kind) in [(10, "run 1"), (11, "run 1"), (12, "observe 1")] {
            add(&mut history, second * SECOND, kind);
        }
        assert_eq!(times(&history), [12]);
        add(&mut history, 13 * SECOND, "observe 2");
        assert_eq!(times(&history), [13]);
        add(&mut history, 5 * SECOND, "observe 2");
        assert_eq!(times(&history), [5]);
    }

    #[test]
    fn it_is_told_as_one_object() {
        let mut history = History::default();
        assert_eq!(history.json(), r#"{"moments":[]}"#);
        add(&mut history, 7 * SECOND, "run");
        add(&mut history, 8 * SECOND, "run");
        let expected = r#"{"moments":[{"utc_ns":7000000000},{"utc_ns":8000000000}]}"#;
        assert_eq!(history.json(), expected);
    }
}
