"""Names that windows of simulations and of `wattiod` have in common."""

STATES = ("unstable", "stable", "idle")
"""States of a policy, in the order of their numbers in the windows' `state`."""

STATE_OF = {"learning": "unstable", "guarding": "unstable", "saving": "stable"}
"""Modes of other laws than PACER, by the state that comes to the same: full speed, or saving."""

TAILS = {"latency_us_p999": 0.999, "latency_us_p9999": 0.9999}
PERCENTILES = {"latency_us_p50": 0.5, "latency_us_p99": 0.99, **TAILS}
"""Metrics of latency over all windows, by the share of requests below them."""
