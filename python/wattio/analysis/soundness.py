"""Whether what was saved may be called saved: one rule for all kinds of studies."""

from __future__ import annotations

BACKGROUND_FLOOR = 0.98
"""Background work below this share of native's was not put off but left undone."""


def does_background(share: float | None) -> bool:
    """Whether background work was done, by its share of what native does; None: there was none."""
    return share is None or share >= BACKGROUND_FLOOR


def sound(bound_kept: bool | None, background: float | None) -> bool:
    """Whether a saving broke no bound and left no work undone; what is not known speaks for it.

    `bound_kept` is None where there is no bound, or nothing to hold it against; `background` is
    the background work done as a share of native's.
    """
    return bound_kept is not False and does_background(background)
