"""Catalogs of version 0.1, in the tables of today.

A run was a load on a server under a policy with a bound, also where it was measured: there the
policy was called "measured". A measured metric had its phase before its name.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

_ENDS = ".seconds"
"""Every measured phase had this metric."""

_MEASURED = "measured"


@dataclass(frozen=True)
class Old:
    """The rows of the tables that have changed; `attempts` tells whether the third one knew any."""

    runs: list[tuple[str, str, str, str, str, str, float, str | None, str | None, int]]
    metrics: list[tuple[str, str, float, str]]
    attempts: bool


def take_out(connection: sqlite3.Connection) -> Old | None:
    """Read the old tables, and remove them; None if there are none."""
    known = connection.execute("SELECT name FROM sqlite_master WHERE name = 'runs'").fetchone()
    if known is None:
        return None
    columns = [row[1] for row in connection.execute("PRAGMA table_info(iterations)")]
    old = Old(
        connection.execute("SELECT * FROM runs").fetchall(),
        connection.execute("SELECT iteration, name, value, unit FROM metrics").fetchall(),
        "attempt" in columns,
    )
    for table in ("metrics", "runs"):
        connection.execute(f"DROP TABLE {table}")
    return old


def put_in(connection: sqlite3.Connection, old: Old | None) -> None:
    """Write what was read into the new tables."""
    if old is None:
        return
    for run, load, server, policy, label, settings, plf, sweep_of, swept, position in old.runs:
        facts = {"policy": policy, "plf": plf, "sweep_of": sweep_of, "sweep_setting": swept}
        known = {key: value for key, value in facts.items() if value is not None}
        text = json.dumps({} if policy == _MEASURED else known, sort_keys=True)
        row = (run, load, server, label, settings, text, position)
        connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    if not old.attempts:
        column = "attempt INTEGER NOT NULL DEFAULT 0"
        connection.execute(f"ALTER TABLE iterations ADD COLUMN {column}")
    kinds = dict(connection.execute("SELECT iteration, kind FROM iterations"))
    phases: dict[str, list[str]] = {}
    for key, name, _, _ in old.metrics:
        if name.endswith(_ENDS):
            phases.setdefault(key, []).append(name.removesuffix(_ENDS))
    for key, name, value, unit in old.metrics:
        phase, own = "", name
        if kinds[key] == "measurement":
            # Phases are named by their programs, and a name can have dots.
            within = [p for p in phases.get(key, []) if name.startswith(f"{p}.")]
            phase = max(within, key=len, default=name.partition(".")[0])
            own = name.removeprefix(f"{phase}.")
        connection.execute(
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", (key, phase, own, value, unit)
        )
