"""What killed runs have left on this host: systems that are still up, control groups, knobs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from wattio.errors import HostError
from wattio.knobs.holder import SNAPSHOT, Holder
from wattio.systems import claims
from wattio.workloads import slow_cores


def removed() -> Iterator[str]:
    """Remove systems and groups whose process is gone; what was found, and what stays, in words.

    Knobs are put back by a holder that is started.
    """
    slow_cores.sweep_dead()
    try:
        every = claims.left(remove=True)
    except OSError as error:
        yield f"{claims.place()}: cannot be searched: {error.strerror}"
        return
    for one in every:
        if not one.runs:
            yield f"{one}: removed" if one.complaint is None else one.complaint


def knobs_changed() -> bool:
    """Whether a snapshot of old values lies there: knobs are held now, or their holder was killed.

    False where only root may look.
    """
    with contextlib.suppress(PermissionError):
        return SNAPSHOT.exists()
    return False


def put_knobs_back() -> str | None:
    """Put back what a killed holder has left changed; a complaint where that cannot be, or held."""
    try:
        with Holder():
            return None
    except HostError as error:
        return str(error)
