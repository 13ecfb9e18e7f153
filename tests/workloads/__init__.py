"""Tests of the workloads and of the parsers of their output."""
