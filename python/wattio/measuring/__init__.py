"""Measurement studies: plan, recording, running, verdicts and metrics."""
