//! The mix of a window's requests: with it laws compare latencies of windows whose requests differ.

/// No request is larger than a gibibyte.
const BYTES_MAX: f64 = 1_073_741_824.0;

/// The share of reads, and the mean size in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    pub read_share: f64,
    pub bytes_mean: f64,
}

impl Mix {
    /// The mix that a source tells; `None` where it does not tell all of it, or what cannot be:
    /// one such value in the sums would stay there.
    pub fn of(read_share: Option<f64>, bytes_mean: Option<f64>) -> Option<Self> {
        let read_share = read_share.filter(|share| (0.0..=1.0).contains(share))?;
        let bytes_mean = bytes_mean.filter(|bytes| (0.0..=BYTES_MAX).contains(bytes))?;
        Some(Self { read_share, bytes_mean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_or_cannot_be_is_no_mix() {
        assert!(Mix::of(Some(0.5), Some(8192.0)).is_some());
        for (read_share, bytes_mean) in [
            (None, Some(8192.0)),
            (Some(0.5), None),
            (Some(1.5), Some(8192.0)),
            (Some(f64::NAN), Some(8192.0)),
            (Some(0.5), Some(-1.0)),
            (Some(0.5), Some(f64::INFINITY)),
        ] {
            assert_eq!(Mix::of(read_share, bytes_mean), None, "{read_share:?} {bytes_mean:?}");
        }
    }
}
