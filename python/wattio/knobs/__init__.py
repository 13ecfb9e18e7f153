"""Settings of this machine that a measurement changes, and puts back."""
