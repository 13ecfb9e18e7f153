//! Where latency and utilisation come from.
