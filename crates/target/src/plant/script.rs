//! Reactors for tests.

use super::{CLASSES, Layout, ReactorCounters, Reactors, Setting};
use std::time::Duration;

pub const REACTORS: usize = 8;
/// Processor time of a request.
const WORK_NS: u64 = 40_000;
pub const DEVICE_NS: f64 = 80_000.0;
/// Requests in a second that keep all reactors busy.
pub const SATURATION: f64 = REACTORS as f64 * 1e9 / WORK_NS as f64;
/// Blocks of each class that become due in a second (the last one has nothing to do), and what one
/// takes.
const DUE: [f64; CLASSES.len()] = [8000.0, 2000.0, 10_000.0, 0.0];
const BLOCK_NS: u64 = 12_000;

/// All of them as one group.
pub fn layout() -> Layout {
    // One stays of eight, which is allowed.
    Layout::new(REACTORS, 0, 1).expect("a layout")
}

/// Reactors by formulas: waiting grows as that of one queue.
pub struct Script {
    now: Duration,
    pub rate: f64,
    pub is_stalled: bool,
    pub refuses: bool,
    pub setting: Setting,
    pub counters: ReactorCounters,
    carry: f64,
    pub due_per_s: [f64; CLASSES.len()],
    due: [f64; CLASSES.len()],
}

impl Script {
    pub fn new(rate: f64) -> Self {
        let layout = layout();
        Self {
            now: Duration::ZERO,
            rate,
            is_stalled: false,
            refuses: false,
            setting: layout.setting(&layout.limits().full_speed()),
            counters: ReactorCounters::default(),
            carry: 0.0,
            due_per_s: DUE,
            due: [0.0; CLASSES.len()],
        }
    }

    /// The share of the reactors' time that requests take.
    pub fn load(&self) -> f64 {
        self.rate * WORK_NS as f64 * 1e-9 / self.setting.active().len() as f64
    }

    fn serve(&mut self, requests: u64) {
        let mean_ns = DEVICE_NS + WORK_NS as f64 / (1.0 - self.load()).max(0.02);
        let told = &mut self.counters.requests;
        for at in 0..requests {
            // From half of the mean to half above it.
            let latency_ns = (mean_ns * (0.5 + (at % 101) as f64 / 100.0)) as u64;
            told.latency_ns += latency_ns;
            told.latencies.record(latency_ns);
        }
        told.completed += requests;
        told.reads += requests / 2;
        told.bytes += requests * 4096;
        self.counters.work.clients_ns += requests * WORK_NS;
    }

    fn work(&mut self, dt_s: f64) {
        for (class, told) in self.counters.background.iter_mut().enumerate() {
            self.due[class] += self.due_per_s[class] * dt_s;
            let fresh = self.due[class].floor();
            self.due[class] -= fresh;
            told.backlog_blocks += fresh as u64;
            let may = self.setting.budgets[class].map_or(u64::MAX, |core_s_per_s| {
                (core_s_per_s * dt_s * 1e9 / BLOCK_NS as f64) as u64
            });
            let done = told.backlog_blocks.min(may);
            told.backlog_blocks -= done;
            told.done_blocks += done;
            told.done_ns += done * BLOCK_NS;
            self.counters.work.background_ns += done * BLOCK_NS;
            told.urgency = (told.backlog_blocks as f64 / 1e6).min(1.0);
        }
    }
}

impl Reactors for Script {
    fn read(&mut self, now: Duration) -> Vec<ReactorCounters> {
        let dt_s = (now - self.now).as_secs_f64();
        self.now = now;
        self.carry += self.rate * dt_s;
        let arrived = self.carry.floor();
        self.carry -= arrived;
        self.counters.requests.arrived += arrived as u64;
        if self.is_stalled {
            self.counters.requests.oldest.get_or_insert(now);
        } else {
            self.counters.requests.oldest = None;
            let waiting = self.counters.in_flight(now).requests;
            self.serve(waiting);
            self.work(dt_s);
        }
        // What a reactor that does nothing publishes.
        vec![self.counters.clone(), ReactorCounters::default()]
    }

    fn turn(&mut self, setting: &Setting) -> Result<(), String> {
        if self.refuses && setting.active().len() < REACTORS {
            return Err("reactor 7 does not answer".to_owned());
        }
        self.setting = setting.clone();
        Ok(())
    }
}
