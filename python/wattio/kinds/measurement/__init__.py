"""Measurement studies: workloads on storage systems, between power meters."""
