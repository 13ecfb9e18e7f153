"""The pages that are made of code: whole, and true of results."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import docs_keys
import docs_metrics
import docs_reference
import docs_rust
import docs_site
import pytest
import wattio
from governor import governed_fake
from measuring import made_folder
from simulation.test_fleet import STUDY as FLEET
from wattio.analysis import modelled
from wattio.kinds.simulation.schema import LoadEntry, SimulationStudy
from wattio.report.measurement.phrases import MEANINGS
from wattio.workloads.training import UTILISATION

ROOT = Path(__file__).parents[1]


def listed(title: str) -> list[tuple[re.Pattern[str], str]]:
    """Names of a part of metrics.toml as patterns, with their units."""
    content = tomllib.loads(docs_reference.METRICS.read_text(encoding="utf-8"))
    part = next(part for part in content["part"] if part["title"] == title)
    return [
        (re.compile(re.sub(r"<\w+>", "[A-Za-z0-9_]+", name)), metric["unit"])
        for metric in part["metric"]
        for name in metric["name"].split(", ")
    ]


def units_of(name: str, known: list[tuple[re.Pattern[str], str]]) -> set[str]:
    """The units of a metric of a measurement, without what may stand before and behind a name."""
    whole = {name, name.partition(".")[2]}
    names = whole | {each.removeprefix("estimated_").removesuffix("_net") for each in whole}
    return {unit for pattern, unit in known for each in names if pattern.fullmatch(each)}


def test_every_metric_of_a_simulation_is_in_the_reference(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "all"\nkind = "simulation"\n[[load]]\nname = "one"\nserver = "small"\n'
        'pattern = "Rand_RW"\npressure = 0.1\nduration = "2 s"\nwarmup = "1 s"\n'
        '[[load]]\nname = "two"\nserver = "small"\nbounds = ["p99 20%"]\n'
        'pattern = "Rand_RW"\npressure = 0.1\nduration = "2 s"\nwarmup = "1 s"\n'
        '[[policy]]\nname = "pacer"\n[[policy]]\nname = "oracle"\n'
    )
    table = wattio.run(tmp_path, results=tmp_path / "results").table("metrics")
    known = listed("Simulations")
    assert table.rows > 40
    for name, unit in zip(table["name"], table["unit"], strict=True):
        units = {u for pattern, u in known if pattern.fullmatch(name)}
        assert unit in units, name


def test_every_metric_of_wattiod_is_in_the_reference(tmp_path: Path) -> None:
    governed_fake.write(tmp_path / "result", governed_fake.windows(200))
    table = wattio.open(tmp_path / "result").table("metrics")
    known = listed("Live servers (wattiod)")
    assert table.rows > 20
    for name, unit in zip(table["name"], table["unit"], strict=True):
        base = re.sub(r"_estimated$", "", name)
        units = {u for pattern, u in known if pattern.fullmatch(name) or pattern.fullmatch(base)}
        assert unit in units, name


@pytest.mark.parametrize("kind", ["meters", "nodes", "estimate"])
def test_every_metric_of_a_measurement_is_in_the_reference(kind: str, tmp_path: Path) -> None:
    """Of a folder that is made up; rows of core time, capacity and an estimate's range lacked."""
    study = made_folder.smaller(made_folder.STUDY, repetitions=1, clients="[1]")
    if kind == "nodes":
        path = made_folder.write(tmp_path, made_folder.of_nodes(study, 2), nodes=2)
    elif kind == "estimate":
        study = made_folder.only_estimate(study)
        busy = {"left": 0.5, "right": 0.25}
        path = made_folder.write(tmp_path, study, estimate_only=True, busy=busy)
    else:
        path = made_folder.write(tmp_path, study)
    table = wattio.open(path).table("metrics")
    units = dict(zip(table["name"], table["unit"], strict=True))
    assert len(units) > 25
    assert "raw_capacity_tb" in units
    assert ("cores_busy_s" in units) == (modelled.BY in units) == (kind == "estimate")
    # What only a system with late deletes, a sum of meters and a training have.
    units |= {"deletes_s": "s", modelled.MEASURED: "J"}
    units |= {UTILISATION: "1", f"{UTILISATION}_min": "1"}
    known = listed("Measurements")
    for name, unit in units.items():
        assert re.sub(r"^J s(\^\d+)?$", "J s^n", unit) in units_of(name, known), name


def test_every_metric_of_a_fleet_is_in_the_reference(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(FLEET)
    table = wattio.run(tmp_path, results=tmp_path / "results").table("metrics")
    known = listed("Fleets")
    assert len(set(table["name"])) > 20
    for name, unit in zip(table["name"], table["unit"], strict=True):
        units = {u for pattern, u in known if pattern.fullmatch(name)}
        assert unit in units, name


def test_every_key_of_every_study_is_in_the_reference() -> None:
    page = docs_keys.files()
    for model in (SimulationStudy, LoadEntry):
        for name in model.model_fields:
            assert f"| `{name}` |" in page
    assert "time with unit" in page
    # What the native side reads, of its structures' comments.
    for name in ("rest_power", "socket_group", "model_error_max", "idle_cores_poll"):
        assert f"| `{name}` |" in page


def test_every_key_of_every_file_has_its_meaning() -> None:
    """360 had none: they come from the comments at the fields."""
    told = []
    for table in re.findall(r"(?m)(?:^\|.*\n)+", docs_keys.files()):
        titles, _, *rows = [line.strip("| \n").split(" | ") for line in table.splitlines()]
        told += [(row[0], row[titles.index("meaning")]) for row in rows]
    assert len(told) > 500
    assert [key for key, meaning in told if len(meaning.split()) < 2] == []


def test_every_option_of_every_command_has_its_meaning() -> None:
    options = re.findall(r"(?m)^\* `([^`]+)`:?(.*)$", docs_reference.commands())
    assert len(options) > 100
    assert [name for name, meaning in options if not meaning.strip()] == []


def test_every_command_and_policy_is_in_the_reference() -> None:
    from wattio import _core
    from wattio.cli import _COMMANDS

    commands = docs_reference.commands()
    assert [name for name in _COMMANDS if f"## wattio {name}" not in commands] == []
    policies = docs_reference.policies()
    assert [name for name in json.loads(_core.policies()) if f"## {name}\n" not in policies] == []
    assert "wattio.simulate" in docs_reference.python()


def test_links_that_leave_the_pages_become_paths() -> None:
    text = "[examples](../packaging/examples/), [`x`](../x), [laws](laws.md), [far](https://e.org)"
    told = "examples (`packaging/examples/`), `x`, [laws](laws.md), [far](https://e.org)"
    assert docs_site.mended(text) == told


def test_the_glossary_is_its_table_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What follows it was reworded, and its links lead nowhere on the site."""
    page = docs_site.glossary()
    assert "| plf | performance loss factor" in page
    assert all(line.startswith(("#", "|")) for line in page.splitlines() if line)
    (tmp_path / "ARCHITECTURE.md").write_text("## Glossary\n\n| a | b |\n\nFurther reading: ...\n")
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    with pytest.raises(ValueError, match='"More about each room" does not follow "## Glossary"'):
        docs_site.glossary()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning() -> None:
    done = subprocess.run(
        ["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    site = ROOT / "target" / "site"
    text = (site / "reference" / "files.html").read_text()
    assert "cool_down_max" in text
    # Nothing is fetched when it is read: no script, style or font of another host.
    assert not re.search(r'(?:src|href)="https?://[^"]+\.(?:js|css|woff2?)"', text)


def test_every_reason_of_a_measurement_has_its_meaning_on_the_page_and_in_the_guide() -> None:
    guide = (ROOT / "docs/measuring.md").read_text(encoding="utf-8")
    told = re.findall(r"(?m)^\| `([A-Z_]+)` \| (?:WARN|INVALID) \|", guide)
    given = {
        code
        for path in (ROOT / "python/wattio/kinds/measurement").glob("*.py")
        for code in re.findall(r'f"([A-Z][A-Z_]+): ', path.read_text(encoding="utf-8"))
    }
    assert {"GAP", "UNREADABLE"} < given
    assert sorted(told) == sorted(MEANINGS) == sorted(given)


def test_every_reason_of_a_governed_report_is_in_the_guide() -> None:
    guide = (ROOT / "docs/wattiod.md").read_text(encoding="utf-8")
    told = re.findall(r"(?m)^\| `([A-Z_]+)` \| (?:WARN|INVALID) \|", guide)
    source = (ROOT / "python/wattio/kinds/governor/metrics.py").read_text(encoding="utf-8")
    given = set(re.findall(r'"([A-Z][A-Z_]+): ', source))
    assert {"GAPS", "NO_ESTIMATE"} < given
    assert sorted(told) == sorted(given)


@pytest.mark.parametrize(
    ("crate", "some"),
    [
        (
            "target-config",
            {"listen", "export[].accept_missing", "memory.write_buffer", "policy.name"},
        ),
        ("io", {"approach", "grace", "existing", "ranks_per_node"}),
    ],
)
def test_every_key_of_a_crate_is_in_its_guide(crate: str, some: set[str]) -> None:
    """The table is of the comments in its source: python packaging/docs/docs_keys.py renews it."""
    guide = docs_rust.GUIDES[crate].read_text(encoding="utf-8")
    assert docs_rust.renewed(guide, crate) == guide
    assert docs_rust.guide_keys(crate) in guide
    rows = re.findall(r"(?m)^\| `([\w.\[\]]+)` \| ([^|]*) \| ([^|]+) \| ([^|]*) \|$", guide)
    keys = [key for key, *_ in rows]
    assert some <= set(keys)
    assert len(keys) == docs_rust.guide_keys(crate).count("\n") - 1


def test_every_key_of_wattiod_is_on_its_page() -> None:
    """`python packaging/docs/docs_keys.py` renews it. Rust compares its defaults with the code."""
    page = docs_rust.WATTIOD.read_text(encoding="utf-8")
    assert page == docs_rust.wattiod_keys()
    sections = re.findall(r"(?ms)^##+ ([^\n]*)$(.*?)(?=^#|\Z)", page)
    keys = {
        title: re.findall(r"(?m)^\| `([\w.\[\]]+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$", text)
        for title, text in sections
    }
    assert {"`[policy]`", "`[[application]]`", "`[service]`", "`[background]`"} <= keys.keys()
    assert {"dwell", "cool_down_max", "check[].healthy"} <= set(keys["`[safety]`"])
    assert keys['`[cpu]`, `kind = "spdk"`'] == ["socket", "interval", "timeout"]
    assert keys['`[power.meter]`, `kind = "file"`'] == ["path", "unit", "range"]
    assert "commands[].is_paused" in keys['`[[knob]]`, `kind = "background"`']
    # Each row has all of its cells.
    assert sum(map(len, keys.values())) == len(re.findall(r"(?m)^\| `", page))
    # The site shows the same tables.
    tables = re.findall(r"(?m)(?:^\|.*\n)+", page)
    assert [table for table in tables if table not in docs_keys.files()] == []


@pytest.mark.parametrize("program", docs_metrics.PROGRAMS)
def test_every_metric_of_a_program_is_listed_with_its_unit(program: str) -> None:
    """There was no list of them but the programs' own pages, which tell no units."""
    (page,) = (page for page in docs_metrics.programs() if f"of {program}\n" in page)
    rows = [line.strip("| ").split(" | ") for line in page.splitlines()[6:]]
    names = [name.strip("`") for name, *_ in rows]
    assert len(names) == len(set(names)) > 50
    sources = "".join(
        path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
        for path in docs_metrics.PROGRAMS[program].glob("*.rs")
    )
    defined = set(re.findall(r'"((?:wattio|process)_\w*|wattio)"', sources))
    assert defined <= {re.sub("_(total|info)$", "", name) for name in names}
    units = {name.strip("`"): unit for name, unit, *_ in rows}
    assert units["wattio_latency_bound_seconds"] == "s"
    assert units["wattio_energy_estimated_joules_total"] == "J"
    assert units["wattio_windows_total"] == "1"
