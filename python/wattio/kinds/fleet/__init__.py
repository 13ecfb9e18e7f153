"""Fleets: many servers over days, by rates and formulas, policy by policy."""
