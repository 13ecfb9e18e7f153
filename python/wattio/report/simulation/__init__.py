"""The page of a simulation study."""
