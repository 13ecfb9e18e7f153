"""`wattio trace info`, `convert` and what `record` refuses."""

import json
import os
import signal
from pathlib import Path

import pytest
from places import TRACES
from wattio import _core
from wattio.cli import main
from wattio.errors import InputError
from wattio.kinds.simulation import trace_set
from wattio.tracing.recorder import device_number
from wattio.tracing.tracefs import remove_stale

FIXTURES = sorted(TRACES.glob("synthetic.*"))
REQUESTS = 40


def run(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return int(left.value.code or 0)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_info_knows_every_format(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("trace", "info", path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == path.name.split(".")[1]
    assert (found["ios"], found["idle_gaps"]["count"]) == (REQUESTS, 1)
    assert found["read_share"] == 0.75


def test_there_are_fixtures() -> None:
    assert len(FIXTURES) >= 17


def test_info_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("trace", "info", TRACES / "synthetic.msr.gz") == 0
    shown = capsys.readouterr().out
    for part in ("msr", "40", "75.0 %", "idle gaps over 30 s", "64 KiB"):
        assert part in shown


@pytest.mark.parametrize(
    ("step_us", "told"),
    [
        (1, "mean 2,000,000"),  # 2 requests in 1 us; p50 and max were told as 2.
        (20_000_000, "p50 0, p95 1, max 1, mean 0.1"),
        (160_000_000, "mean 0.0125"),  # It was told as 0.0.
    ],
)
def test_rates_are_told_as_far_as_a_trace_has_them(
    step_us: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.csv"
    path.write_text("".join(f"1,R,{at * 4096},4096,{at * step_us}\n" for at in range(2)))
    assert run("trace", "info", path, "--format", "alibaba") == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "per second" in line)
    assert line.split("second")[1].strip().endswith(told)
    assert ("max" in line) == (step_us > 1_000_000)


@pytest.mark.parametrize("form", ["wtrace", "msr", "fio2", "fio3"])
def test_convert_keeps_the_requests(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    assert run("trace", "convert", TRACES / "synthetic.msr", target, "--to", form) == 0
    capsys.readouterr()
    assert run("trace", "info", target, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["ios"], found["devices"]) == (form, REQUESTS, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_convert_scales(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "target.wtrace"
    source = TRACES / "synthetic.wtrace"
    scales = ("--rate-scale", "3", "--time-scale", "0.5")
    assert run("trace", "convert", source, target, *scales) == 0
    capsys.readouterr()
    assert run("trace", "info", target, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ios"] == 3 * REQUESTS
    assert found["span_s"] < 25


COLUMNS = "time=When:s,op=Kind:get/put/stat,lba=Block:4k,size=Bytes:bytes"
ROWS = "When;Kind;Block;Bytes\n1.5;get;8;4096\n2.5;put;9;8192\n2.6;stat;0;0\n12.5;get;10;512\n"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "disk.csv"
    path.write_text(ROWS)
    return path


def test_described_columns_are_read_by_every_command(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--columns", COLUMNS)
    assert run("trace", "info", rows, *given, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["ios"], found["span_s"]) == ("columns", 3, 11.0)
    assert found["skipped"]["others"] == 1
    assert run("trace", "convert", rows, tmp_path / "disk.wtrace", *given) == 0
    assert run("trace", "info", tmp_path / "disk.wtrace") == 0
    capsys.readouterr()
    pressure = ("--server", "small", "--segment", "5 s", "--json")
    assert run("trace", "pressure", rows, *given, *pressure) == 0
    assert len(json.loads(capsys.readouterr().out)["segments"]) == 3
    for command in ("simulate", "oracle"):
        assert run(command, "--server", "small", "--trace", rows, *given, "--json") == 0
        assert json.loads(capsys.readouterr().out)["ios"] == 3


def test_what_is_wrong_with_columns_names_file_line_and_column(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = COLUMNS.replace("get/put/stat", "get/put")
    for words in (("trace", "info", rows), ("simulate", "--server", "small", "--trace", rows)):
        assert run(*words, "--columns", other) == 2
        message = capsys.readouterr().err
        for part in ("disk.csv", "line 4", 'column Kind is "stat"', "get (read) or put (write)"):
            assert part in message
        assert run(*words, "--columns", "time=0:us,op=1,lba=2:bytes") == 2
        assert "size is missing; an example: time=0:us,op=2," in capsys.readouterr().err
        assert run(*words, "--columns", COLUMNS, "--format", "spc") == 2
        assert "exclude each other" in capsys.readouterr().err
        assert run(*words, "--format", "csv") == 2
        assert "known are vscsi" in capsys.readouterr().err
    assert run("simulate", "--columns", COLUMNS) == 2
    assert "--columns cannot be used with a pattern" in capsys.readouterr().err


def test_a_named_format_is_not_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    path = TRACES / "synthetic.spc"
    assert run("trace", "info", path, "--format", "spc", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ios"] == REQUESTS
    assert run("trace", "info", path, "--format", "fiu") == 2
    assert "fiu trace, record 1 (line 1, byte 0): 1 columns in" in capsys.readouterr().err


def test_a_trace_is_not_converted_into_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a trace at a tenth of the rate the rest was lost."""
    source = tmp_path / "mine.msr"
    source.write_bytes((TRACES / "synthetic.msr").read_bytes())
    (tmp_path / "link").hardlink_to(source)
    for target in (source, tmp_path / "link"):
        assert run("trace", "convert", source, target, "--rate-scale", "0.1") == 2
        told = f"TARGET: {target} is what is read; name another file"
        assert told in " ".join(capsys.readouterr().err.split())
    assert source.read_bytes() == (TRACES / "synthetic.msr").read_bytes()


def test_bad_input_is_exit_code_2_and_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.vscsi"
    cut.write_bytes((TRACES / "synthetic.vscsi").read_bytes()[:-1])
    for words in (("info", cut), ("convert", cut, tmp_path / "target")):
        assert run("trace", *words) == 2
        message = capsys.readouterr().err
        assert "cut.vscsi" in message
        assert "record 40 (byte 1248)" in message
    assert [path.name for path in tmp_path.iterdir()] == ["cut.vscsi"]


def test_a_trace_of_a_header_alone_is_told_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a table of zeros and exit code 0, and a simulation of half a second of nothing."""
    path = tmp_path / "head.csv"
    path.write_text("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n")
    study = tmp_path / "study.toml"
    study.write_text(
        '[study]\nname = "empty"\nkind = "simulation"\n'
        '[[load]]\nname = "head"\nserver = "small"\ntrace = "head.csv"\n'
        '[[policy]]\nname = "ondemand"\n'
    )
    load = ("--server", "small", "--trace", path)
    for words, code in (
        (("trace", "info", path), 1),
        (("trace", "info", path, "--json"), 1),
        (("trace", "pressure", path), 2),
        (("simulate", *load), 2),
        (("oracle", *load), 2),
        (("check", study), 2),
    ):
        assert run(*words) == code, words
        shown = capsys.readouterr()
        assert f"{path}: the trace holds no requests with data" in shown.err + shown.out, words
    traces = tmp_path / "traces"
    traces.mkdir()
    path.rename(traces / path.name)
    with pytest.raises(InputError, match=r"no readable trace \(head.csv: the trace holds"):
        trace_set.expand(trace_set.TraceSetEntry(servers=["small"]), traces)


def test_a_missing_file_and_two_devices_for_vscsi_are_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("trace", "info", tmp_path / "missing") == 2
    assert "missing" in capsys.readouterr().err
    source = TRACES / "synthetic.msr"
    assert run("trace", "convert", source, tmp_path / "target", "--to", "vscsi") == 2
    assert "devices 0 and 1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_end_stop_the_native_work(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*words: object, **_: object) -> int:
        progress = words[-1]
        assert callable(progress)
        assert progress(0.1) is True
        os.kill(os.getpid(), number)
        assert progress(0.2) is False
        raise InputError("stopped on request")

    before = signal.getsignal(number)
    monkeypatch.setattr(_core, "trace_convert", interrupted)
    assert run("trace", "convert", TRACES / "synthetic.msr", tmp_path / "target") == 130
    assert "nothing was written" in capsys.readouterr().err
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("duration", "out", "part"),
    [
        ("0 s", "trace", "allowed is 1 ms to"),
        ("3 parsecs", "trace", "parsec"),
        ("3 s", "missing/trace", "there is no folder"),
        ("3 s", "trace", "needs root"),
    ],
)
def test_record_refuses(
    duration: str,
    out: str,
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    words = ("--device", "vda", "--duration", duration, "--out", tmp_path / out)
    assert run("trace", "record", *words) == 2
    assert part in capsys.readouterr().err


def fake_disk(root: Path, name: str, number: str) -> None:
    folder = root / "block" / name
    folder.mkdir(parents=True)
    (folder / "dev").write_text(number + "\n")


def test_a_device_is_found_by_name_or_path(tmp_path: Path) -> None:
    fake_disk(tmp_path, "vda", "254:0")
    assert device_number("vda", tmp_path) == (254, 0)
    assert device_number("/dev/vda", tmp_path) == (254, 0)
    for wrong in ("vdb", "", "..", "/dev/", "vda/dev"):
        with pytest.raises(InputError, match="disks: vda"):
            device_number(wrong, tmp_path)


def test_instances_of_dead_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / "proc" / "77").mkdir(parents=True)
    own = f"wattio-{os.getpid()}"
    names = ("wattio-77", "wattio-77-1", "wattio-78", "wattio-78-0", own, "other-78")
    for name in names:
        (tmp_path / "instances" / name).mkdir(parents=True)
    remove_stale(tmp_path, tmp_path / "proc")
    left = sorted(path.name for path in (tmp_path / "instances").iterdir())
    assert left == ["other-78", "wattio-77", "wattio-77-1"]


def test_a_pipe_is_read_where_once_is_enough_and_a_fifo_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They waited for a writer for ever, whatever the signal; `simulate` reads a trace twice."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    into = tmp_path / "target.wtrace"
    for call in (
        ("trace", "info", fifo, "--json"),
        ("trace", "convert", fifo, into),
        ("simulate", "--trace", fifo),
    ):
        assert run(*call) == 2
        assert capsys.readouterr().err == f"wattio: {fifo}: is a pipe (FIFO), not a file\n"
    once: list[tuple[tuple[str, ...], int]] = [(("trace", "info", "--json"), 0)]
    for words, code in [*once, (("simulate", "--trace"), 2)]:
        reader, writer = os.pipe()
        try:
            os.write(writer, (TRACES / "synthetic.msr").read_bytes())
            os.close(writer)
            assert run(*words, f"/proc/self/fd/{reader}") == code
        finally:
            os.close(reader)
        told = capsys.readouterr()
        assert ("is a pipe (FIFO), not a file" in told.err) == (code == 2)
        assert code or json.loads(told.out)["ios"] == REQUESTS


def test_the_systems_words_come_without_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"
    assert run("trace", "info", missing) == 2
    assert capsys.readouterr().err == f"wattio: {missing}: No such file or directory\n"
