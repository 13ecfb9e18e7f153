"""Fleets: many servers over days as fluids, each under a load of its own, policy by policy.

A study of kind "fleet" goes schema -> members (what is drawn) -> plan (batches) -> running ->
folder -> summary; `report/fleet.py` makes the page.
"""
