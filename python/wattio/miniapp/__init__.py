"""A small atmospheric model in MPI, of CM1's shape: the application that the I/O approaches carry.

A regular grid, cut into columns over a 2-D arrangement of ranks, holds a dry-isentropic atmosphere
with a warm, moist bubble that rises. `domain` says how large it is and who has which part,
`atmosphere` what is in it at first, `kernel` how it changes, `halo` what neighbours tell each
other, `model` puts these together, `fields` is what is written, `rank` is the program.

A state depends on the size and the number of steps alone, bit for bit: not on the number of ranks,
their arrangement, or how the output is written. No sum over ranks enters it, and every operation in
it is one of those that IEEE 754 rounds exactly (+, -, *, /, absolute value).
"""
