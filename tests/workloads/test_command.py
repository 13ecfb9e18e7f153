"""Any program as a workload: phases by its own word, in every client's folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from wattio.errors import HostError, ResultError, WorkloadFailed
from wattio.workloads import command
from wattio.workloads.workload import Context, Place

TELLS = """\
import os
with os.fdopen(int(os.environ["WATTIO_PHASES"]), "w") as phases:
    for name in ("write", "read"):
        print("begin", name, file=phases, flush=True)
        open(name, "w").write(os.environ["WATTIO_CLIENT"])
        print("result", name, "bytes=1048576 operations=4 latency_us_p99=7", file=phases)
        print("end", name, file=phases, flush=True)
"""


def work(base: Path, code: str) -> command.Work:
    return command.Work(command.Options(run=[sys.executable, "-c", code]), base)


def context(base: Path, clients: int = 1) -> Context:
    places = []
    for number in range(clients):
        (base / f"client-{number}").mkdir(exist_ok=True)
        places.append(Place(base / f"client-{number}"))
    (base / "raw").mkdir(exist_ok=True)
    return Context(tuple(places), base / "raw")


def test_a_program_that_tells_nothing_is_one_phase(tmp_path: Path) -> None:
    where = context(tmp_path)
    (span,) = work(tmp_path, "print('hello')").run("run", where)
    assert span.name == "run"
    (found,) = command.results(where.raw)
    assert (found.operation, found.phase, found.bytes) == ("run", "run", None)
    assert found.seconds == pytest.approx(span.seconds)
    assert (where.raw / "run-0.out").read_text() == "hello\n"


def test_phases_and_results_of_one_client(tmp_path: Path) -> None:
    where = context(tmp_path)
    spans = work(tmp_path, TELLS).run("run", where)
    assert [one.name for one in spans] == ["write", "read"]
    assert spans[0].end.monotonic_ns <= spans[1].start.monotonic_ns
    found = command.results(where.raw)
    assert [(one.phase, one.bytes, one.operations) for one in found] == [
        ("write", 1 << 20, 4),
        ("read", 1 << 20, 4),
    ]
    assert found[0].latency_us == {"p99": 7.0}
    # On a busy machine both lines of a phase may be read at once; it has no length then.
    if found[0].seconds is None:
        assert spans[0].seconds == 0
    else:
        assert found[0].throughput_mib_s == pytest.approx(1 / found[0].seconds)


def test_several_clients_are_summed(tmp_path: Path) -> None:
    where = context(tmp_path, clients=2)
    work(tmp_path, TELLS).run("run", where)
    for number in range(2):
        assert (tmp_path / f"client-{number}" / "write").read_text() == str(number)
    found = command.results(where.raw)
    assert [(one.phase, one.bytes, one.latency_us) for one in found] == [
        ("write", 2 << 20, {}),
        ("read", 2 << 20, {}),
    ]


@pytest.mark.parametrize(
    ("begin_s", "seconds", "rate_mib_s"), [(0, 10.0, 2.0), (5, 15.0, 20 / 15), (30, 40.0, 0.5)]
)
def test_amounts_of_clients_are_over_the_time_of_all_of_them(
    tmp_path: Path, begin_s: int, seconds: float, rate_mib_s: float
) -> None:
    """10 MiB of each client in 10 s, of which they shared 5: that was told as 4 MiB/s."""
    where = context(tmp_path, clients=2)
    work(tmp_path, TELLS).run("run", where)
    for number, start_s in enumerate((0, begin_s)):
        lines = (("begin x", 0), (f"result x bytes={10 << 20} operations=10", 9), ("end x", 10))
        stamped = (((100 + start_s + after_s) * 10**9, line) for line, after_s in lines)
        rows = ({"utc_ns": at, "monotonic_ns": at, "line": line} for at, line in stamped)
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (where.raw / f"run-{number}.phases").write_text(text)
    (found,) = command.results(where.raw)
    assert found.seconds == seconds
    assert found.throughput_mib_s == pytest.approx(rate_mib_s)
    assert found.iops == pytest.approx(20 / seconds)


def test_clients_that_tell_other_phases_are_refused(tmp_path: Path) -> None:
    code = (
        "import os\nfd = int(os.environ['WATTIO_PHASES'])\n"
        "name = os.environ['WATTIO_CLIENT']\nos.write(fd, f'begin {name}\\nend {name}\\n'.encode())"
    )
    where = context(tmp_path, clients=2)
    with pytest.raises(WorkloadFailed, match="client 1 reported other phases than client 0"):
        work(tmp_path, code).run("run", where)
    with pytest.raises(ResultError, match="client 1"):
        command.results(where.raw)


def test_phases_that_make_no_sense_fail(tmp_path: Path) -> None:
    code = "import os; os.write(int(os.environ['WATTIO_PHASES']), b'begin a\\n')"
    with pytest.raises(WorkloadFailed, match='phase "a" never ends'):
        work(tmp_path, code).run("run", context(tmp_path))


def test_programs_before_and_after(tmp_path: Path) -> None:
    script = tmp_path / "tool.sh"
    script.write_text(
        '#!/bin/sh\necho "$1 $WATTIO_CLIENTS $WATTIO_STUDY" >> "$WATTIO_FOLDER/log"\n'
    )
    script.chmod(0o755)
    options = command.Options(
        run=["./tool.sh", "run"], prepare=["./tool.sh", "prepare"], clean=["./tool.sh", "clean"]
    )
    made = command.Work(options, tmp_path)
    made.probe()
    where = context(tmp_path)
    made.prepare(where)
    made.run("run", where)
    made.clean(where)
    words = (tmp_path / "client-0" / "log").read_text().splitlines()
    assert words == [f"{verb} 1 {tmp_path}" for verb in ("prepare", "run", "clean")]
    assert made.describe()["prepare"] == ["./tool.sh", "prepare"]
    assert made.seconds_guess(1) == 60.0


def test_what_is_missing_or_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'"./none.sh" is not a program'):
        command.Work(command.Options(run=["./none.sh"]), tmp_path).probe()
    with pytest.raises(WorkloadFailed, match=r"exit code 1\): no luck"):
        work(tmp_path, "raise SystemExit('no luck')").run("run", context(tmp_path))
