"""Reports: one self-contained page, with its figures and tables beside it, from a result folder.

Nothing here simulates or measures; every number on a page can be found in the result folder.
"""

from wattio.report.page import make

__all__ = ["make"]
