"""Simulation studies: loads under policies, on simulated servers."""
