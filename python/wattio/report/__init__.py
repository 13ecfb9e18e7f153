"""Reports: one self-contained page, with its figures and tables beside it, from a result folder.

Nothing here simulates or measures; every number on a page can be found in the result folder.
"""

from importlib import import_module
from pathlib import Path

from wattio.results.folder import kind_of

__all__ = ["make"]


def make(path: Path, target: Path | None = None) -> Path:
    """Write the report of a result folder, to its `report/` or elsewhere; return the page.

    The folder of a governor has what the run format promises derived first. Raises ResultError.
    """
    maker = import_module(f"wattio.report.{kind_of(path)}.page")
    page: Path = maker.make(path, target or path / "report")
    return page
