"""Tables as columns, and as Arrow or pandas where these are installed."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattio.errors import HostError, InputError, needed
from wattio.files.document import nearest
from wattio.files.plain import plain

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS_SHOWN = 20


class Table(Mapping[str, NDArray[Any]]):
    """Columns of equal length, by name, in their order.

    A column of numbers is an array of float64 with NaN where a value is missing, or of int64; any
    other is an array of objects with None if one is missing. `len()` is the number of columns,
    as of any mapping; `rows` is the number of rows.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any] | Sequence[Any]]) -> None:
        """Take columns of equal length."""
        self._columns = {name: _array(values) for name, values in columns.items()}

    @classmethod
    def of_rows(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
        """A table of rows that have a value for each name."""
        return cls({name: [row[at] for row in rows] for at, name in enumerate(names)})

    @property
    def rows(self) -> int:
        """The number of rows."""
        return next((len(column) for column in self._columns.values()), 0)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column. Raises InputError that names the nearest one."""
        if name not in self._columns:
            raise InputError(f'no column is called "{name}"; {nearest(name, list(self._columns))}')
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def to_pandas(self) -> pd.DataFrame:
        """As a data frame of pandas. Raises HostError where pandas is not installed."""
        try:
            import pandas as pd
        except ImportError:
            raise HostError(f"a table as pandas {needed('tables')}") from None
        return pd.DataFrame(self._columns)

    def to_arrow(self) -> pa.Table:
        """As a table of Arrow; NaN becomes null. Raises HostError where pyarrow is missing."""
        try:
            import pyarrow as pa
        except ImportError:
            raise HostError(f"a table as Arrow {needed('tables')}") from None
        return pa.table(
            {name: pa.array(column, from_pandas=True) for name, column in self._columns.items()}
        )

    def __repr__(self) -> str:
        """Rows and names of columns."""
        return f"<wattio table of {self.rows} rows: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self)
        lines = [
            "".join(f"<td>{html.escape(_shown(column[at]))}</td>" for column in self.values())
            for at in range(min(self.rows, ROWS_SHOWN))
        ]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        left = self.rows - len(lines)
        more = f"<p>and {left} more rows</p>" if left else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _array(values: NDArray[Any] | Sequence[Any]) -> NDArray[Any]:
    """A column as an array of one of the kinds that `Table` promises."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.filled(np.nan) if values.dtype.kind == "f" else values.tolist()
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        return values
    items = list(values)
    if items and all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        return np.array(items, dtype=np.int64)
    number = (int, float, type(None))
    if any(item is not None for item in items) and all(
        isinstance(item, number) and not isinstance(item, bool) for item in items
    ):
        return np.array([np.nan if item is None else item for item in items], dtype=np.float64)
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


def _shown(value: Any) -> str:  # noqa: ANN401 (whatever a column holds)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "-"
    return plain(value, 6) if isinstance(value, float) else str(value)
