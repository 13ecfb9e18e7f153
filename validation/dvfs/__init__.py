"""The fio document against itself: `python -m validation.dvfs`."""
