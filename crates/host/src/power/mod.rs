//! What tells power.
