"""Policies that have a part of their own in every comparison."""

REFERENCE = "native"
"""The policy that every other one is compared with."""

BOUND_BY = "oracle"
"""The policy that no other one can beat under the same bound: a search, no control law."""
