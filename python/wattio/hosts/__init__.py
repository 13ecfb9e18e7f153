"""Other machines that take part in a measurement: reached by OpenSSH, worked at by an agent.

`names` reads how clusters write them ("node[1-4]"), `agent` is the program that is sent over for
the time of a run, `host` talks to one, `hosts` to all, `clocks` puts their time on ours.
"""
