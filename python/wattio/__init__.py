"""wattio measures, models and cuts the energy that storage uses.

    import wattio

    done = wattio.simulate("small", policy="foresight", trace="pgbench", plf=0.2)
    done.saving_share, done.bound_kept, done.windows["latency_us_mean"]

    result = wattio.run("quickstart")          # or: wattio.open("results/quickstart/...")
    result.summary                             # a row for each run, with intervals
    result.table("samples").to_pandas()        # or .to_arrow()
    result.figures()                           # shown by notebooks

Names are loaded when they are first asked for, so that `import wattio` costs nothing. The I/O
middleware for parallel simulations is `wattio.hpcio`. Errors are those of `wattio.errors`:
`InputError` for what cannot be used, `HostError` for what a machine lacks, `ResultError` for a
folder that is no result.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself takes its time to load.
    from typing import Any

    from wattio.api import Figure, Result, Simulated, Table, run, simulate
    from wattio.api import open_result as open

    __version__: str

__all__ = ["Figure", "Result", "Simulated", "Table", "__version__", "open", "run", "simulate"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 (whatever has that name)
    if name == "__version__":
        from importlib.metadata import version

        return version("wattio")
    if name not in __all__:
        raise AttributeError(f"module 'wattio' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("wattio.api"), "open_result" if name == "open" else name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
