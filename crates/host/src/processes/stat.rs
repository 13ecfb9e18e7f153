//! What `/proc/PID/stat` says, as far as it is used here. Source: `proc_pid_stat(5)`.

/// The kernel refuses to move this thread (`PF_NO_SETAFFINITY` in `include/linux/sched.h`).
const NO_SETAFFINITY: u64 = 0x0400_0000;
/// The thread belongs to the kernel (`PF_KTHREAD`).
const KERNEL: u64 = 0x0020_0000;

/// One process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The number of the process that it was born to, or of whoever took it over since.
    pub parent: u32,
    /// When it started, in clock ticks since boot: with the number it identifies it for good.
    pub start: u64,
    /// Processor time that it took, with all its threads, in ticks of 10 ms ([`super::TICK`]).
    pub ticks: u64,
    /// Whether it ended and only waits for its parent to notice.
    pub ended: bool,
    /// Whether a signal stopped it (SIGSTOP, SIGTSTP); not whether a debugger did.
    pub stopped: bool,
    /// Whether the kernel keeps it on its processors.
    pub fixed: bool,
    /// Whether it is a thread of the kernel.
    pub kernel: bool,
}

/// Reads one line of `stat`; `None` if it makes no sense.
#[must_use]
pub fn parse(text: &str) -> Option<Stat> {
    // The name is in parentheses and may itself hold blanks and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // Counted from 1 in the manual, state is 3, ppid 4, flags 9, utime 14, stime 15, starttime 22.
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    let (user, system): (u64, u64) = (fields.nth(4)?.parse().ok()?, fields.next()?.parse().ok()?);
    let start = fields.nth(6)?.parse().ok()?;
    Some(Stat {
        parent,
        start,
        ticks: user.saturating_add(system),
        ended: matches!(state, "Z" | "X" | "x"),
        stopped: state == "T",
        fixed: flags & NO_SETAFFINITY != 0,
        kernel: flags & KERNEL != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_may_hold_anything() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 7 0 5678 1000 2 3";
        let stat = parse(text).unwrap();
        assert_eq!((stat.parent, stat.start, stat.ticks), (1, 5678, 7));
        assert!(!stat.ended && !stat.stopped && !stat.fixed && !stat.kernel);
        assert!(parse(&text.replace(" S ", " T ")).unwrap().stopped);
    }

    #[test]
    fn a_thread_of_the_kernel_is_known_as_one() {
        let text = "15 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 0 1 0 0 20 0 1 0 3 0 0 1";
        let stat = parse(text).unwrap();
        assert!(stat.fixed && stat.kernel);
        assert!(parse("15 (x) Z 2 0 0 0 -1 0 0 0 0 0 0 1 0 0 20 0 1 0 3 0").unwrap().ended);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r"\PC*", fields in r"[0-9]* ?\(?[a-z)]*\)?( [A-Z0-9-]{0,20}){0,30}") {
            let _ = (parse(&text), parse(&fields));
        }
    }
}
