"""Workloads: one module for each, all of the shape that `workload` describes."""
