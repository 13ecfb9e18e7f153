"""`python -m wattio.cli`: the same as the command `wattio`."""

from wattio.cli import main

main()
