//! Monotonic time for threads, to which no caller can pass the time.

use std::sync::Arc;
use std::time::Instant;
use wattio_units::Seconds;

/// Monotonic time since an arbitrary origin.
pub type Stopwatch = Arc<dyn Fn() -> Seconds + Send + Sync>;

/// The host's monotonic clock.
#[must_use]
pub fn stopwatch() -> Stopwatch {
    let start = Instant::now();
    Arc::new(move || Seconds(start.elapsed().as_secs_f64()))
}
