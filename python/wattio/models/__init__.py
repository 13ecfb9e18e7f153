"""Time, power and energy of a simulation that writes checkpoints, by I/O approach.

`document` holds the equations of Dorier et al. 2016 as they stand; `extended` adds
what they leave out: time partitioning, I/O that takes longer than computing, and contention.
Platforms and applications come from TOML files (`files`); each number has an interval and an
origin, and `advice` carries both through to a ranking.
"""
