"""The page of a measurement."""
