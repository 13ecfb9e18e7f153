"""Reports: one self-contained page, with its figures and tables beside it, from a result folder.

Nothing here simulates or measures; every number on a page can be found in the result folder.
"""

from pathlib import Path

from wattio.report import fleet, governed, measured, page
from wattio.study.governed import is_governed
from wattio.study.result import StudyFolder

__all__ = ["make"]


def make(path: Path) -> Path:
    """Write `report/` of a result folder; return the page. Raises ResultError.

    The folder of a governor has what the run format promises derived first.
    """
    if is_governed(path):
        return governed.make(path)
    made = {"measurement": measured.make, "fleet": fleet.make}
    return made.get(StudyFolder(path).kind, page.make)(path)
