//! Meters read many times a second, by a thread of its own, into files of records.
//!
//! A record is what `python/wattio/recording/samples.py` reads: nanoseconds since 1970 and on the
//! monotonic clock as `i64`, power in watts, energy in joules since opening, and the counter, as
//! `f64` with NaN where there is none; all little-endian. Records are written every quarter of a
//! second.

use super::Meter;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use wattio_units::{Seconds, Watts};

const RECORD_BYTES: usize = 40;
const FLUSH_NS: i64 = 250_000_000;

/// A meter to be sampled.
#[derive(Debug)]
pub struct Sampled {
    /// The open meter, which its opener may read again once the sampler has released it.
    pub meter: Arc<Mutex<Meter>>,
    /// Zero of the times at which the meter is read.
    pub opened: Instant,
    /// Whether its energy is counted, and not only its power held from reading to reading.
    pub counts_energy: bool,
    /// The highest plausible power.
    pub most: Watts,
    /// Takes the records.
    pub file: File,
}

/// The state of sampling of one meter.
#[derive(Debug, Default)]
pub struct SamplingStatus {
    newest_ns: AtomicI64,
    missed: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl SamplingStatus {
    /// When the newest reading was taken, on the monotonic clock in nanoseconds; 0 for none yet.
    #[must_use]
    pub fn newest_ns(&self) -> i64 {
        self.newest_ns.load(Ordering::Relaxed)
    }

    /// How many readings were due and not taken in time.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Why it is no longer sampled.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A thread that samples; it ends with this value.
#[derive(Debug)]
pub struct Sampler {
    statuses: Vec<Arc<SamplingStatus>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts to read all of these meters every `period_ns` nanoseconds.
    #[must_use]
    pub fn start(meters: Vec<Sampled>, period_ns: u32) -> Self {
        let statuses: Vec<_> = meters.iter().map(|_| Arc::new(SamplingStatus::default())).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let each = meters.into_iter().zip(statuses.iter().cloned());
        let outlets = each.map(|(meter, status)| Outlet { meter, status, records: Vec::new() });
        let mut outlets: Vec<_> = outlets.collect();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || run(&mut outlets, period_ns, &stopped));
        Self { statuses, stop, thread: Some(thread) }
    }

    /// The state of each meter, in the order in which they were given.
    #[must_use]
    pub fn statuses(&self) -> &[Arc<SamplingStatus>] {
        &self.statuses
    }

    /// Ends the thread; every record is in its file then.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has left whole records.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Outlet {
    meter: Sampled,
    status: Arc<SamplingStatus>,
    records: Vec<u8>,
}

impl Outlet {
    /// Takes a reading.
    fn sample(&mut self) -> Result<(), String> {
        let before_ns = now_ns(ClockId::Monotonic);
        let utc_ns = now_ns(ClockId::Realtime);
        let now = Seconds(self.meter.opened.elapsed().as_secs_f64());
        let reading = {
            let mut meter = self.meter.meter.lock().unwrap_or_else(PoisonError::into_inner);
            meter.read(now).map_err(|error| error.to_string())?
        };
        let half_ns = (now_ns(ClockId::Monotonic) - before_ns) / 2;
        let (power_w, energy_j) = reading
            .map_or((f64::NAN, f64::NAN), |reading| (reading.power_w, reading.energy_j_since_open));
        if !power_w.is_nan() && !(0.0..=self.meter.most.0).contains(&power_w) {
            return Err(format!("says {power_w} W, which cannot be true"));
        }
        let energy_j = if self.meter.counts_energy { energy_j } else { f64::NAN };
        let monotonic_ns = before_ns + half_ns;
        self.records.reserve(RECORD_BYTES);
        self.records.extend_from_slice(&(utc_ns + half_ns).to_le_bytes());
        self.records.extend_from_slice(&monotonic_ns.to_le_bytes());
        for value in [power_w, energy_j, energy_j] {
            self.records.extend_from_slice(&value.to_le_bytes());
        }
        self.status.newest_ns.store(monotonic_ns, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let written = self.meter.file.write_all(&self.records);
        self.records.clear();
        written.map_err(|error| format!("its records cannot be written: {error}"))
    }

    /// Records a failure; returns whether there was none.
    fn passes(&self, outcome: Result<(), String>) -> bool {
        let Err(message) = outcome else { return true };
        *self.status.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
        false
    }
}

fn run(outlets: &mut Vec<Outlet>, period_ns: u32, stopped: &AtomicBool) {
    let period_ns = i64::from(period_ns.max(1));
    let mut due_ns = now_ns(ClockId::Monotonic) + period_ns;
    let mut flush_ns = due_ns + FLUSH_NS;
    while !outlets.is_empty() && !stopped.load(Ordering::Relaxed) {
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(due_ns));
        let flushing = due_ns >= flush_ns;
        outlets.retain_mut(|outlet| {
            let sampled = outlet.sample();
            // A failed meter is released after its pending records are written.
            let written = if flushing || sampled.is_err() { outlet.flush() } else { Ok(()) };
            outlet.passes(sampled.and(written))
        });
        if flushing {
            flush_ns = due_ns + FLUSH_NS;
        }
        due_ns += period_ns;
        // One due time that has just passed is still served, late; earlier ones are lost.
        let skipped = (now_ns(ClockId::Monotonic) - due_ns) / period_ns;
        if skipped > 0 {
            due_ns += skipped * period_ns;
            for outlet in outlets.iter() {
                outlet.status.missed.fetch_add(skipped.unsigned_abs(), Ordering::Relaxed);
            }
        }
    }
    for outlet in outlets {
        let outcome = outlet.flush();
        outlet.passes(outcome);
    }
}

fn now_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn timespec(ns: i64) -> Timespec {
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use super::super::Meters;
    use super::*;
    use crate::Root;
    use std::time::Duration;

    struct Host {
        folder: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let chip = folder.path().join("sys/class/hwmon/hwmon0");
            std::fs::create_dir_all(&chip).unwrap();
            std::fs::write(chip.join("name"), "chip\n").unwrap();
            let host = Self { folder };
            host.say("5000000\n");
            host
        }

        fn say(&self, text: &str) {
            // A reader never finds half a file.
            let chip = self.folder.path().join("sys/class/hwmon/hwmon0");
            std::fs::write(chip.join("new"), text).unwrap();
            std::fs::rename(chip.join("new"), chip.join("power1_input")).unwrap();
        }

        fn sampler(&self) -> Sampler {
            let meter = Meters::open(&Root::new(self.folder.path()), "hwmon:chip/power1").unwrap();
            let sampled = Sampled {
                meter: Arc::new(meter.into()),
                opened: Instant::now(),
                counts_energy: false,
                most: Watts(100.0),
                file: File::create(self.folder.path().join("records")).unwrap(),
            };
            Sampler::start(vec![sampled], 1_000_000)
        }

        fn records(&self) -> Vec<(i64, i64, f64, f64)> {
            let bytes = std::fs::read(self.folder.path().join("records")).unwrap();
            let whole = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
            let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
            let record = |r: &[u8]| {
                (whole(&r[..8]), whole(&r[8..16]), number(&r[16..24]), number(&r[24..32]))
            };
            bytes.chunks_exact(RECORD_BYTES).map(record).collect()
        }
    }

    fn wait_for(condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < Duration::from_secs(30), "it never came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn readings_are_written_in_order_and_all_of_them_when_it_stops() {
        let host = Host::new();
        let mut sampler = host.sampler();
        let began_ns = now_ns(ClockId::Monotonic);
        wait_for(|| sampler.statuses()[0].newest_ns() > began_ns + 20_000_000);
        sampler.stop();
        let records = host.records();
        assert!(
            records.iter().all(|&(_, _, power_w, energy_j)| power_w == 5.0 && energy_j.is_nan())
        );
        assert!(records.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert_eq!(records.last().unwrap().1, sampler.statuses()[0].newest_ns());
        assert!(sampler.statuses()[0].failure().is_none());
    }

    #[test]
    fn a_meter_that_fails_says_why_and_keeps_what_it_had() {
        for (text, says) in [("nonsense\n", "not a number"), ("500000000\n", "cannot be true")] {
            let host = Host::new();
            let sampler = host.sampler();
            wait_for(|| sampler.statuses()[0].newest_ns() > 0);
            host.say(text);
            wait_for(|| sampler.statuses()[0].failure().is_some());
            assert!(sampler.statuses()[0].failure().unwrap().contains(says));
            drop(sampler);
            assert!(!host.records().is_empty());
        }
    }
}
