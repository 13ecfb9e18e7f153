//! What sources of latency and of utilisation must do, window by window.

use wattio_governor::{CpuSource, Cpus, GroupUse, LatencySample, LatencySource};
use wattio_units::Seconds;

/// How far a mean latency may be off: some sources round to milliseconds over a window.
const LATENCY_TOLERANCE: f64 = 0.01;

/// What a source of latency said so far.
#[derive(Default)]
pub struct LatencyBody {
    last: Option<Seconds>,
    /// All requests that it handed out.
    pub requests: u64,
}

impl LatencyBody {
    /// Asks once a window has passed. `truth` is what completed in it, requests and their mean
    /// latency in microseconds, where the test knows; answers whether there was a sample.
    pub fn window(
        &mut self,
        source: &mut dyn LatencySource,
        now: Seconds,
        truth: Option<(u64, Option<f64>)>,
    ) -> bool {
        let name = source.name().to_owned();
        assert!(!name.is_empty());
        assert!(source.interval().is_none_or(|interval| interval.0 > 0.0 && interval.0 < 1e6));
        let sample = source.sample(now);
        let Some(sample) = sample.unwrap_or_else(|error| panic!("{error}")) else {
            assert!(truth.is_none_or(|(requests, _)| requests == 0), "{name} says nothing");
            return false;
        };
        self.is_plausible(&sample, now);
        if let Some((requests, latency_us_mean)) = truth {
            assert_eq!(sample.requests, requests, "{name}");
            if let Some((told, true_us)) = sample.latency_us_mean.zip(latency_us_mean) {
                assert!((told / true_us - 1.0).abs() <= LATENCY_TOLERANCE, "{told}, not {true_us}");
            }
            assert_eq!(sample.latency_us_mean.is_some(), latency_us_mean.is_some());
            // Nothing is handed out twice.
            let again = source.sample(now).unwrap_or_else(|error| panic!("{error}"));
            assert!(again.is_none_or(|again| again.requests == 0), "{name} repeats itself");
        }
        self.last = Some(sample.at);
        self.requests += sample.requests;
        assert_eq!(source.name(), name);
        true
    }

    fn is_plausible(&self, sample: &LatencySample, now: Seconds) {
        assert!(sample.at.0 <= now.0, "{sample:?} is of the future");
        assert!(self.last.is_none_or(|last| last.0 <= sample.at.0), "{sample:?} is out of order");
        assert_eq!(sample.requests > 0, sample.latency_us_mean.is_some(), "{sample:?}");
        let positive = |value: Option<f64>| value.is_none_or(|value| value > 0.0 && value < 1e12);
        assert!(positive(sample.latency_us_mean), "{sample:?}");
        // A flush has no bytes.
        assert!(sample.bytes_mean.is_none_or(|bytes| (0.0..1e12).contains(&bytes)), "{sample:?}");
        assert!(sample.read_share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{sample:?}");
        let Some(histogram) = &sample.histogram else { return };
        let edges: Vec<_> = histogram.buckets.iter().map(|bucket| bucket.0).collect();
        assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{sample:?}");
        let counted: u64 = histogram.buckets.iter().map(|bucket| bucket.1).sum();
        assert_eq!(counted, sample.requests, "{sample:?}");
    }
}

/// What a source of utilisation must say of a window.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    pub clients: f64,
    pub background: f64,
    /// By how much either may be off: the kernel counts in ticks.
    pub tolerance: f64,
}

/// What a source of utilisation said so far.
#[derive(Default)]
pub struct CpuBody {
    /// Windows of which it told.
    pub windows: u32,
}

impl CpuBody {
    /// Asks once a window has passed, for these groups' active cores. `truth` is what each group
    /// did, where the test knows; elsewhere no tick may have passed, and the source says so.
    pub fn window(
        &mut self,
        source: &mut dyn CpuSource,
        now: Seconds,
        active: &[Cpus],
        truth: Option<&[Used]>,
    ) {
        let name = source.name().to_owned();
        assert!(!name.is_empty());
        let uses = match (source.sample(now, active), truth) {
            (Ok(uses), _) => uses,
            (Err(error), None) => return assert!(error.to_string().starts_with(&name), "{error}"),
            (Err(error), Some(_)) => panic!("{error}"),
        };
        assert_eq!(uses.len(), active.len(), "{name}: an entry for each group");
        for GroupUse { utilisation_clients, utilisation_background, .. } in &uses {
            for share in [utilisation_clients, utilisation_background] {
                assert!((0.0..=1.0).contains(share), "{uses:?}");
            }
            assert!(utilisation_clients + utilisation_background <= 1.0 + 1e-9, "{uses:?}");
        }
        for (told, truth) in uses.iter().zip(truth.unwrap_or_default()) {
            let near = |told: f64, truth_is: f64| (told - truth_is).abs() <= truth.tolerance;
            let right = near(told.utilisation_clients, truth.clients)
                && near(told.utilisation_background, truth.background);
            assert!(right, "{name}: {told:?}, not {truth:?}");
        }
        self.windows += 1;
        assert_eq!(source.name(), name);
    }
}
