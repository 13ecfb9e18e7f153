"""Whose work a rank looks at, which should be another client's: its own may be in its cache."""

from __future__ import annotations

import random


def owner(rank: int, size: int, per_client: int, shift: bool | str, by: int, seed: int) -> int:
    """The rank whose work a rank of `size` looks at; ranks are numbered client by client.

    Without `shift` it is its own. With it, it is that of the rank in its place so many clients
    further, as IOR's -C and -Q; with "random" (-Z) that of a rank drawn, never of its own client
    where there is another.
    """
    if not shift:
        return rank
    if shift != "random":
        return (rank + by * per_client) % size
    draw = random.Random(f"shift {seed}")  # noqa: S311 (the same at each rank)
    clients = _circle(size // per_client, draw)
    orders = [draw.sample(range(per_client), per_client) for _ in clients]
    client, place = divmod(rank, per_client)
    return clients[client] * per_client + orders[client][place]


def _circle(count: int, draw: random.Random) -> list[int]:
    """A permutation that is one circle (Sattolo 1986), so that none of two or more stays."""
    found = list(range(count))
    for last in range(count - 1, 0, -1):
        other = draw.randrange(last)
        found[last], found[other] = found[other], found[last]
    return found
