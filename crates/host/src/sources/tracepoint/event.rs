//! Lines of `trace_pipe`: `dd-812 [000] ..s1. 13861.371439: block_rq_complete: 254,0 WS () 8 + 8 [0]`.
//!
//! Source: the print formats of kernel `include/trace/events/block.h`; newer kernels print the
//! request's priority before the last brackets; it is ignored.

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request went to the device.
    Issue(Step),
    /// The device answered a request, or the first part of it.
    Complete(Step),
    /// The kernel's buffer was full, and this many events are lost.
    Lost(u64),
}

/// What happened to a request that reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Microseconds of the trace's clock.
    pub at_us: u64,
    /// Major and minor number.
    pub device: (u32, u32),
    /// The first sector of 512 bytes.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
    /// Whether it reads.
    pub read: bool,
}

/// The longest line that the kernel writes, with room.
pub const LINE_BYTES_MAX: usize = 8 << 10;

/// Reads a line; `None` if it is something else: a flush, a discard, a command of the driver.
#[must_use]
pub fn parse(line: &str) -> Option<Event> {
    if let Some(rest) = line.strip_prefix("CPU:") {
        let (_, rest) = rest.split_once("[LOST ")?;
        return Some(Event::Lost(rest.strip_suffix(" EVENTS]")?.parse().ok()?));
    }
    let (head, rest) = line.split_once(": block_rq_")?;
    let (kind, rest) = rest.split_once(": ")?;
    let (seconds, micros) = head.split_ascii_whitespace().next_back()?.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let micros: u64 = micros.parse().ok()?;
    let at_us = seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?;

    let (request, place) = rest.split_once('(')?;
    let mut request = request.split_ascii_whitespace();
    let (major, minor) = request.next()?.split_once(',')?;
    // Letters: F flush before, R or W or D, F forced, A ahead, S synchronous, M metadata.
    let flags = request.next()?;
    let read = match flags.trim_start_matches('F').chars().next()? {
        'R' => true,
        'W' => false,
        _ => return None,
    };
    let (_, place) = place.split_once(')')?;
    let mut place = place.split_ascii_whitespace();
    let sector = place.next()?.parse().ok()?;
    let sectors = place.nth(1)?.parse().ok()?;
    if sectors == 0 {
        return None;
    }
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let step = Step { at_us, device, sector, sectors, read };
    match kind {
        "issue" => Some(Event::Issue(step)),
        "complete" => Some(Event::Complete(step)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_old_and_new_kernels_are_read() {
        let step = Step {
            at_us: 13_861_371_439,
            device: (254, 0),
            sector: 335_792_096,
            sectors: 8,
            read: false,
        };
        for line in [
            "      dd-13959   [000] ..... 13861.371439: block_rq_issue: 254,0 WS 4096 () 335792096 + 8 be,0,4 [dd]",
            "  a b: c-1 [000] d..1 13861.371439: block_rq_issue: 254,0 FWFSM 4096 () 335792096 + 8 [x]",
        ] {
            assert_eq!(parse(line), Some(Event::Issue(step)), "{line}");
        }
        let line = "<idle>-0 [000] ..s1. 13861.371439: block_rq_complete: 254,0 RA () 335792096 + 8 be,0,4 [0]";
        assert_eq!(parse(line), Some(Event::Complete(Step { read: true, ..step })));
        assert_eq!(parse("CPU:1 [LOST 42 EVENTS]"), Some(Event::Lost(42)));
    }

    #[test]
    fn what_is_no_read_or_write_is_left_out() {
        for line in [
            "kworker-4 [000] ..... 1.371624: block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [k]",
            "cat-1 [000] ..s.. 1.371654: block_rq_complete: 254,0 FF () 18446744073709551615 + 0 [0]",
            "cat-1 [000] d.s1. 1.371655: block_rq_complete: 254,0 WS () 0 + 0 be,0,4 [0]",
            "cat-1 [000] d.s1. 1.371655: block_rq_issue: 254,0 DS 4096 () 8 + 8 be,0,4 [0]",
            "cat-1 [000] d.s1. 1.371655: block_rq_issue: 8,0 N 36 (12 00 00) 0 + 0 be,0,4 [0]",
            "cat-1 [000] d.s1. 1.371655: block_rq_merge: 8,0 W 4096 () 8 + 8 [x]",
            "",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(
            text: String,
            rest in "[0-9]{0,21}\\.[0-9]{6}: block_rq_(issue|complete): [0-9]{0,9},0 [FRW]{0,3} [0-9]{0,9} \\(\\)? ?[0-9]{0,21} \\+ [0-9]{0,21}"
        ) {
            let _ = parse(&text);
            let _ = parse(&rest);
            let _ = parse(&format!("CPU:{text} [LOST {text} EVENTS]"));
        }
    }
}
