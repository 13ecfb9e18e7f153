"""The page of a fleet."""
