//! Power, kept separately for each source that reports it.

/// Power or energy by each of its two sources: a meter, and the limits' table. A meter covers more
/// than the table knows, and misses windows, so a value of one is never compared with one of the
/// other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BySource {
    /// As measured.
    pub measured: Option<f64>,
    /// By the table.
    pub by_table: Option<f64>,
}

impl BySource {
    /// A function of each value.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { measured: self.measured.map(&of), by_table: self.by_table.map(&of) }
    }

    /// A function of the two values of each source.
    pub fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let both = |mine: Option<f64>, theirs: Option<f64>| Some(of(mine?, theirs?));
        Self {
            measured: both(self.measured, other.measured),
            by_table: both(self.by_table, other.by_table),
        }
    }

    /// Whether any source has a value.
    pub fn is_known(self) -> bool {
        self.measured.is_some() || self.by_table.is_some()
    }
}
