"""Energy, efficiency, histograms and statistics: pure functions over arrays."""
