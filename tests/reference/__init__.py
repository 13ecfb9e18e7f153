"""Slow, equation-shaped references that the fast code is compared with."""
