"""What a summary of measurements has beside that of any result: products of equal work."""

from __future__ import annotations

from collections.abc import Sequence

from wattio.analysis import efficiency
from wattio.results.summary import Row, equal_work


def normalised_edp(among: Sequence[Row], weight: int, net: bool = False) -> dict[str, float]:
    """Energy-delay products divided by the least one, by run, over rows of equal work.

    Empty where the rows did not do the same work, or one has no product: a comparison would be
    meaningless. Source: the thesis, equation 6.1, and its section 6.3.
    """
    name = f"edp_w{weight}{'_net' if net else ''}"
    products = [row.get(name) for row in among]
    if not among or any(product is None for product in products) or not equal_work(among):
        return {}
    least = efficiency.normalised_to_least([p.mean for p in products if p is not None])
    return {row.run.name: value for row, value in zip(among, least, strict=True)}
