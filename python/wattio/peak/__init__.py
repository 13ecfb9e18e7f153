"""Measuring the parts that bound a storage cluster, and the file that keeps them."""
