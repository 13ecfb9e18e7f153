//! The processor time of threads of this process, as the scheduler counts it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads the processor time of one thread again and again.
#[derive(Debug)]
pub struct ProcessorTime(File);

impl ProcessorTime {
    /// Of a thread of this process.
    ///
    /// # Errors
    /// Where the kernel does not tell (`CONFIG_SCHED_INFO`).
    pub fn of(thread: i32) -> io::Result<Self> {
        let path = format!("/proc/self/task/{thread}/schedstat");
        let file = File::open(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        Ok(Self(file))
    }

    /// Nanoseconds since the thread began.
    ///
    /// # Errors
    /// When the thread has ended, or the file has another form.
    pub fn read_ns(&self) -> io::Result<u64> {
        let mut text = [0; 128];
        let count = self.0.read_at(&mut text, 0)?;
        let text = std::str::from_utf8(text.get(..count).unwrap_or_default());
        let number = text.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| io::Error::other("schedstat has another form"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_thread() {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let Ok(time) = ProcessorTime::of(thread) else { return };
        let (before, own) = (time.read_ns().unwrap(), own_ns());
        while own_ns() < own + 20_000_000 {}
        let used = time.read_ns().unwrap() - before;
        // The scheduler counts at its ticks and when it switches.
        assert!((5_000_000..200_000_000).contains(&used), "{used}");
        assert!(ProcessorTime::of(-1).is_err());
    }

    fn own_ns() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}
