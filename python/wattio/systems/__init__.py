"""Storage systems under test: one module for each, all of the shape that `system` describes."""
