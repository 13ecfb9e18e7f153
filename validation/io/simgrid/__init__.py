"""SimGrid beside the extended model: `python -m validation.io.simgrid`."""
