"""What is derived from a governor's journal: catalog, samples, verdicts, and deriving it again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import ResultError
from wattio.kinds.governor import folder as governed
from wattio.kinds.governor import metrics as governed_metrics
from wattio.kinds.governor import recompute
from wattio.kinds.governor import windows as governed_windows
from wattio.kinds.governor.folder import GovernorFolder
from wattio.kinds.governor.journal import Machine, Window, parse
from wattio.kinds.governor.metrics import Tally
from wattio.results.folder import kind_of

from governor import governed_fake as fake

COUNT = 400

Change = Callable[[list[dict[str, Any]]], None]


def derived(path: Path) -> GovernorFolder:
    folder = GovernorFolder(path)
    folder.refresh()
    return folder


def verdicts(folder: GovernorFolder) -> dict[str, str]:
    """Verdict by the first word of its reason."""
    found, _ = folder.recorded()
    return {v.reason.partition(":")[0]: v.verdict for v in found.verdicts}


def test_metrics_are_those_of_the_windows_one_by_one(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    folder = derived(fake.write(tmp_path / "r", rows))
    recorded, phase = folder.recorded()
    value = {name: metric[0] for name, metric in recorded.metrics.items()}
    saving = [row for row in rows if row["power_w_estimated"] is not None]
    here_j = sum(row["power_w_estimated"] * row["dt_s"] for row in saving)
    assert value["energy_j_estimated"] == pytest.approx(here_j)
    full_j = sum(row["power_w_full_speed_estimated"] * row["dt_s"] for row in saving)
    assert value["energy_j_full_speed_estimated"] == pytest.approx(full_j)
    assert value["saving_share_estimated"] == pytest.approx(1 - here_j / full_j)
    assert "energy_j_measured" not in value
    assert (value["violations_estimated"], value["windows_bounded"]) == fake.bounded(rows)
    assert 0 < value["violations_estimated"] < value["windows_bounded"]
    served = [row for row in rows if row["requests"]]
    total = sum(row["requests"] for row in served)
    mean_us = sum(row["requests"] * row["latency_us_mean"] for row in served) / total
    assert value["latency_us_mean"] == pytest.approx(mean_us)
    setting = [(row["cores"], row["frequency_hz"]) for row in rows]
    changes = sum(a != b for a, b in pairwise(setting))
    assert value["setting_changes_estimated"] == changes
    idle = sum(row["state"] == "idle" for row in rows) / COUNT
    assert value["state_share_idle"] == pytest.approx(idle)
    assert value["prediction_error_median"] == 0.04
    assert value["span_s"] == COUNT / 2
    assert (phase.name, phase.start_utc_ns) == ("observe", fake.START_UTC_NS)
    assert phase.end_monotonic_ns == rows[-1]["monotonic_ns"]
    assert recorded.run.plf == 0.2
    assert recorded.run.settings == {"plf": 0.2}
    assert verdicts(folder) == {"": "VALID"}


def test_a_configuration_may_begin_with_a_mark_of_the_byte_order(tmp_path: Path) -> None:
    path = fake.write(tmp_path / "r", fake.windows(COUNT))
    (path / "study.toml").write_text(fake.CONFIG, encoding="utf-8-sig")
    folder = derived(path)
    assert folder.recorded()[0].run.settings == {"plf": 0.2}
    assert folder.config_text() == fake.CONFIG


def test_what_acted_is_not_called_an_estimate(tmp_path: Path) -> None:
    folder = derived(fake.write(tmp_path / "r", fake.windows(COUNT, "run"), "run"))
    metrics = folder.recorded()[0].metrics
    assert {"violations", "setting_changes", "loss_mean", "energy_j_measured"} <= metrics.keys()
    named = {name for name in metrics if name.endswith("_estimated")}
    assert all(name.startswith(("energy", "power", "saving", "span")) for name in named)


@pytest.mark.parametrize("piece", [1, 7, COUNT, 10 * COUNT])
def test_pieces_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    rows = fake.windows(60)
    whole = derived(fake.write(tmp_path / "a", rows)).recorded()[0].metrics
    monkeypatch.setattr(governed, "PIECE", piece)
    folder = derived(fake.write(tmp_path / "b", rows))
    pieces = folder.recorded()[0].metrics
    assert {k: v[0] for k, v in pieces.items()} == pytest.approx(
        {k: v[0] for k, v in whole.items()}
    )
    assert recompute.compare(folder).differences == []


def test_samples_hold_every_window_on_both_clocks(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    folder = derived(fake.write(tmp_path / "r", rows))
    files = str(folder.path / "samples" / "*.parquet")
    found = duckdb.execute(
        "SELECT utc_ns, monotonic_ns, reason, forced, cores_reactors, frequency_hz_aux,"
        ' state, histogram_count FROM read_parquet(?) ORDER BY "window"',
        [files],
    ).fetchall()
    assert len(found) == COUNT
    for row, sample in zip(rows, found, strict=True):
        assert sample[:4] == (row["utc_ns"], row["monotonic_ns"], row["reason"], row["forced"])
        assert sample[4:6] == (row["cores"][0], None)
        assert sample[6] == ("unstable", "stable", "idle").index(row["state"])
        counts = [count for _, count in row["histogram"] or [] if count]
        assert sample[7] == counts


def test_derived_once_and_again_when_the_journal_has_grown(tmp_path: Path) -> None:
    rows = fake.windows(100)
    path = fake.write(tmp_path / "r", rows[:70], status=fake.summary(70))
    folder = derived(path)
    before = (path / "catalog.sqlite").stat().st_mtime_ns
    folder.refresh()
    assert (path / "catalog.sqlite").stat().st_mtime_ns == before
    fake.lines(path / "raw" / "windows.jsonl", rows)
    with pytest.raises(ResultError, match="has grown"):
        recompute.compare(folder)
    folder.refresh()
    assert folder.recorded()[0].metrics["windows"][0] == 100
    assert len(list((path / "samples").iterdir())) == 1
    assert not list(path.glob(".derived-*"))


def test_garbage_leaves_what_was_derived_before(tmp_path: Path) -> None:
    path = fake.write(tmp_path / "r", fake.windows(70))
    folder = derived(path)
    with (path / "raw" / "windows.jsonl").open("a") as file:
        file.write("garbage\n")
    with pytest.raises(ResultError, match=r"raw/windows\.jsonl:71: "):
        folder.refresh()
    assert folder.recorded()[0].metrics["windows"][0] == 70
    assert not list(path.glob(".derived-*"))


def test_an_empty_journal_is_invalid(tmp_path: Path) -> None:
    folder = derived(fake.write(tmp_path / "r", []))
    assert verdicts(folder) == {"NO_WINDOWS": "INVALID"}
    assert recompute.compare(folder).differences == []


def test_one_window(tmp_path: Path) -> None:
    folder = derived(fake.write(tmp_path / "r", fake.windows(3)[2:]))
    assert verdicts(folder) == {"LOW_N": "WARN"}
    assert folder.recorded()[0].metrics["setting_changes_estimated"][0] == 0
    assert recompute.compare(folder).differences == []


def _gap(rows: list[dict[str, Any]]) -> None:
    del rows[200:260]


def _set(rows: list[dict[str, Any]]) -> None:
    """The wall clock only: what is timed by the other one was called INVALID."""
    for row in rows[200:]:
        row["utc_ns"] += 60 * 10**9


def _back(rows: list[dict[str, Any]]) -> None:
    rows[200], rows[201] = rows[201], rows[200]


def _long(rows: list[dict[str, Any]]) -> None:
    rows[200]["dt_s"] = 300.0


def _missing(rows: list[dict[str, Any]]) -> None:
    for row in rows[200:210]:
        row["requests"] = row["latency_us_mean"] = row["latency_us_seen"] = None


def _forced(rows: list[dict[str, Any]]) -> None:
    for row in rows[200:240]:
        row["forced"] = "paused"


@pytest.mark.parametrize(
    ("change", "reason", "verdict"),
    [
        (_gap, "GAPS", "WARN"),
        (_set, "CLOCK", "WARN"),
        (_back, "CLOCKS", "INVALID"),
        (_long, "CLOCKS", "INVALID"),
        (_missing, "MISSING", "WARN"),
        (_forced, "FORCED", "WARN"),
    ],
)
def test_verdicts_say_what_is_wrong(
    tmp_path: Path, change: Change, reason: str, verdict: str
) -> None:
    rows = fake.windows(COUNT)
    change(rows)
    found = verdicts(derived(fake.write(tmp_path / "r", rows)))
    assert found.get(reason) == verdict


def test_verdicts_from_what_the_daemon_says(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    status = fake.summary(COUNT, (0, 1))
    status["counts"] |= {"knob_failures": 2, "foreign_changes": 1, "breaker_trips": 1}
    events = [*fake.EVENTS, {"utc_ns": 5, "severity": "error", "message": "cpuset: refused"}]
    found = verdicts(derived(fake.write(tmp_path / "r", rows, status=status, events=events)))
    names = ("ACCOUNT", "BREAKER", "ERRORS", "FOREIGN_CHANGES", "KNOB_FAILURES")
    assert found == dict.fromkeys(names, "WARN")


def test_a_killed_daemon_leaves_a_usable_journal(tmp_path: Path) -> None:
    rows = fake.windows(COUNT)
    path = fake.write(tmp_path / "r", rows, status=fake.summary(360))
    with (path / "raw" / "windows.jsonl").open("a") as file:
        file.write('{"utc_ns": 18000000')
    (path / "raw" / "events.jsonl").unlink()
    found = verdicts(derived(path))
    assert found == {"TRUNCATED": "WARN", "SUMMARY": "WARN"}
    (path / "raw" / "summary.json").unlink()
    found = verdicts(derived(path))
    assert found == {"TRUNCATED": "WARN", "NO_SUMMARY": "WARN"}


def test_a_changed_catalog_or_sample_is_found(tmp_path: Path) -> None:
    path = fake.write(tmp_path / "r", fake.windows(COUNT))
    folder = derived(path)
    again = recompute.compare(folder)
    compared, found = again.compared, again.differences
    assert compared > 30
    assert found == []
    with sqlite3.connect(path / "catalog.sqlite") as connection:
        connection.execute("UPDATE metrics SET value = value * 1.001 WHERE name = 'span_s'")
    again = recompute.compare(folder)
    found = again.differences
    assert {(item.metric, item.source) for item in found} == {
        ("span_s", "journal"),
        ("span_s", "samples"),
    }


def test_nothing_derived_is_nothing_to_compare(tmp_path: Path) -> None:
    folder = GovernorFolder(fake.write(tmp_path / "r", fake.windows(5)))
    with pytest.raises(ResultError, match="wattio report"):
        recompute.compare(folder)


def test_which_folders_are_a_governor_s(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="is not a result folder"):
        kind_of(tmp_path)
    path = fake.write(tmp_path / "r", [])
    assert kind_of(path) == "governor"
    for text in ("[1]", "{", '{"kind": "breakfast"}', "[" * 100_000):
        (path / "machine.json").write_text(text)
        with pytest.raises(ResultError, match="is not a result folder"):
            kind_of(path)
    (path / "machine.json").write_text("{}")
    assert kind_of(path) == "simulation"
    (path / "machine.json").write_text('{"kind": "governor"}')
    with pytest.raises(ResultError, match=r"machine\.json: mode: field required"):
        GovernorFolder(path)


def test_names_of_groups_may_be_anything_but_equal(tmp_path: Path) -> None:
    names = ['a"b', "it's {0}"]
    facts = fake.machine() | {"groups": [{"name": name, "cores": "0-7"} for name in names]}
    path = fake.write(tmp_path / "r", fake.windows(70))
    (path / "machine.json").write_text(json.dumps(facts))
    assert recompute.compare(derived(path)).differences == []
    facts["groups"] = [{"name": "a", "cores": "0"}, {"name": "a", "cores": "1"}]
    (path / "machine.json").write_text(json.dumps(facts))
    with pytest.raises(ResultError, match="same name"):
        GovernorFolder(path)


_AMOUNT = st.none() | st.floats(0, 1e15)
_ROW = st.fixed_dictionaries(
    {
        "utc_ns": st.integers(0, 2**63 - 1),
        "monotonic_ns": st.integers(0, 2**63 - 1),
        "dt_s": st.floats(0, 1e9),
        "requests": st.none() | st.integers(0, 2**53),
        "latency_us_mean": _AMOUNT,
        "latency_us_seen": _AMOUNT,
        "baseline_us": _AMOUNT,
        "bound_us": _AMOUNT,
        "state": st.sampled_from(["unstable", "stable", "idle", None]),
        "forced": st.none() | st.text(),
        "cores": st.lists(st.integers(0, 1000), min_size=1, max_size=1),
        "frequency_hz": st.lists(_AMOUNT, min_size=1, max_size=1),
        "power_w_measured": _AMOUNT,
        "power_w_estimated": _AMOUNT,
        "power_w_full_speed_estimated": _AMOUNT,
    }
)


@given(st.lists(_ROW, max_size=8), st.integers(1, 3))
def test_any_windows_give_finite_metrics_and_a_verdict(
    rows: list[dict[str, Any]], piece: int
) -> None:
    windows = [parse(Window, json.dumps(row).encode()) for row in rows]
    machine = parse(Machine, json.dumps(fake.machine("run")).encode())
    tally = Tally()
    for first in range(0, len(windows), piece):
        part = windows[first : first + piece]
        columns = governed_windows.columns(part, first, ["g"])
        tally.add(columns, governed_windows.histograms(part))
    found = governed_metrics.of_tally(tally, machine)
    assert all(np.isfinite(value) for value, _ in found.values())
    assert found["windows"][0] == len(rows)
    assert found["violations"][0] <= found["windows_bounded"][0] <= len(rows)
    assert governed_metrics.verdicts(tally, None, [], 0)
