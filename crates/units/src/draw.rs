//! Numbers that belong to a seed and a place, for what needs no stream of them.

/// The number at `index` (from 0) of SplitMix64's sequence from a seed (Steele, Lea, Flood: "Fast
/// splittable pseudorandom number generators", 2014).
#[must_use]
pub const fn splitmix64(seed: u64, index: u64) -> u64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bits = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// The same number as a share, in 0..1.
#[must_use]
pub fn splitmix64_share(seed: u64, index: u64) -> f64 {
    (splitmix64(seed, index) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the seed 1234567, as the authors' C program prints them.
    #[test]
    fn the_published_sequence_comes_out() {
        let first =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0, 1, 2].map(|index| splitmix64(1_234_567, index)), first);
        assert!((splitmix64_share(1_234_567, 0) - 0.350_078_764).abs() < 1e-6);
    }
}
