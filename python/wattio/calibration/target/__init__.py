"""A server description measured from wattio-target.

`design` says which loads are asked of it, `sweep` starts it and asks, `threads` reads what its
threads did, `points` keeps what was seen, `fit` makes demands of it, `description` writes them as
what `wattio simulate` takes, and `comparison` holds the simulation against the server.
"""
