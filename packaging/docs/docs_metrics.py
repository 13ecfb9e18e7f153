"""Tables of the metrics that programs offer to Prometheus, of the Rust sources that define them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs_reference import head, row

ROOT = Path(__file__).parents[2]

PROGRAMS = {
    "wattiod": ROOT / "crates" / "wattiod" / "src" / "metrics",
    "wattio-target": ROOT / "crates" / "target" / "src" / "shown" / "metrics",
}
"""By program, the folder of its metrics."""

_LABELS = {"GROUPS": "group", "BOUNDS": "bound", "CLASSES": "class", "VOLUMES": "export"}
"""By table in a source, the label of its series."""

_UNITS = {
    **{"seconds": "s", "watts": "W", "joules": "J", "bytes": "B", "hertz": "Hz"},
    **{"eur_per_kilowatt_hour": "EUR/kWh", "grams_per_kilowatt_hour": "g/kWh"},
    **{"per_second": "1/s"},
}
"""By the words at a name's end, perhaps before a statistic."""

_ENDS = {"counter": "_total", "info": "_info"}
"""What the text format adds to a name, by kind."""

_TABLE = re.compile(r"^(?:pub(?:\(super\))? )?const ([A-Z]+): &\[.*?^\];", re.M | re.S)
_METRIC = re.compile(
    r'(?:name: |\()\s*"(?P<name>\w+)",\s*(?:help: )?"(?P<help>[^"]+)",'
    r"(?:\s*(?:kind: )?Kind::(?P<kind>\w+))?"
)


def programs() -> Iterator[str]:
    """A section for each program."""
    for program, folder in PROGRAMS.items():
        lines = [head("metric", "unit", "kind", "of each", "what it is")]
        lines += [row(f"`{name}`", *rest) for name, *rest in sorted(_metrics(folder))]
        about = f"What `{program}` offers to Prometheus. A unit of 1 is a share, a count or a flag."
        yield f"## Metrics page of {program}\n\n{about}\n\n" + "\n".join(lines)


def _metrics(folder: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """Name as on the page, unit, kind, label and meaning of each metric."""
    for path in sorted(folder.glob("*.rs")):
        text = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
        tables = [(found.span(), found[1]) for found in _TABLE.finditer(text)]
        for found in _METRIC.finditer(text):
            table = next((name for (a, b), name in tables if a <= found.start() < b), "")
            told = found["kind"] or ("Counter" if table == "COUNTERS" else "Gauge")
            kind, name = told.lower(), found["name"]
            label = _LABELS.get(table, "state" if name.startswith("wattio_state") else "")
            yield name + _ENDS.get(kind, ""), unit(name), kind, label, found["help"].rstrip(".")


def unit(name: str) -> str:
    """The unit that a metric's name tells."""
    return next((unit for word, unit in _UNITS.items() if re.search(rf"_{word}(_|$)", name)), "1")
