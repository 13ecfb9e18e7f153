//! Monotonic time for threads of their own, to which nobody passes it in.

use std::sync::Arc;
use std::time::Instant;
use wattio_units::Seconds;

/// Monotonic time since any origin.
pub type Stopwatch = Arc<dyn Fn() -> Seconds + Send + Sync>;

/// The host's monotonic clock.
#[must_use]
pub fn stopwatch() -> Stopwatch {
    let start = Instant::now();
    Arc::new(move || Seconds(start.elapsed().as_secs_f64()))
}
