"""A paper and a thesis on an ARM cluster against themselves: `python -m validation.arm`."""
