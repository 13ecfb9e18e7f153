"""What the command line says on bad days: one line each, nothing that steers the terminal."""

from __future__ import annotations

import errno
import io
import os
import sqlite3
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from rich.table import Table
from wattio import _core, cli
from wattio.cli import output
from wattio.cli.failures import answer, joined
from wattio.cli.printable import printable
from wattio.cli.resumable import resumable
from wattio.errors import ResultError, storage_reason
from wattio.results.folder import ResultFolder


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(list(arguments))
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simulate", "--wrong"), "unknown option --wrong; wattio simulate --help lists"),
        (("simulate", "--presure", "1"), "did you mean --pressure?"),
        (("simulate", "extra", "words"), '"extra" "words": wattio simulate takes no more'),
        (("simulate", "--duration", "-1 s"), '--duration: "-1 s"'),
        (("simulate", "--pressure", "-0.5"), "pressure -0.5: allowed is above 0"),
        (("simulate", "--plf", "20%"), 'wattio: --plf: "20%" is not a number\n'),
        (("simulate", "--seed", "1.5"), 'wattio: --seed: "1.5" is not a whole number\n'),
        (("simulate", "--seed", "one"), 'wattio: --seed: "one" is not a whole number\n'),
        (("hpcio", "assemble", "x", "a", "--out", "b"), 'STEP: "a" is not a whole number\n'),
        (("simulate", "--pressure", "-inf"), "--pressure: -inf is not a number"),
        (("simulate", "--iops", "-nan"), "nan is not a number that can be used"),
        (("simulate", "--duration"), "wattio simulate: --duration needs a value"),
        (("report",), "wattio report: RESULT is missing"),
        (("meter", "foo"), 'unknown command "foo"'),
        (("doctor", "--root", "/nosuch"), "--root: /nosuch is not a folder"),
        (("run", "a\0b.toml"), r"a\x00b.toml"),
        (("check", "\x1b[31mred.toml"), r"\x1b[31mred.toml: cannot be read"),
        (("run", "stüdie.toml"), "stüdie.toml: cannot be read"),
        (("run", "\udcff.toml"), r"\xff.toml: cannot be read"),
        (("simulate", "--server", "\0"), r"\x00"),
        (("trace", "info", "\0"), r"\x00"),
        (("meter", "read", "csv:\0"), r"\x00"),
        (("report", "\0"), r"\x00"),
        (("hpcio", "inspect", "\0"), r"\x00"),
        (("peak", "\0"), r"\x00"),
        (("import", "fio", "\0"), r"\x00"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--wrong` was answered with "Did you mean --open?", `-1 s` with "requires an argument"."""
    monkeypatch.chdir(tmp_path)
    code = called(*arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("wattio: ")
    assert captured.err.count("\n") == 1
    assert code == 2


@pytest.mark.parametrize("content", [b"\xff\xfe\x00garbage", b"a\0b", b"\x1b[2J = 1\n"])
def test_a_server_file_of_garbage_is_named(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of the codec was printed as it is."""
    path = tmp_path / "server.toml"
    path.write_bytes(content)
    assert called("simulate", "--server", str(path)) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"wattio: {path}: ")
    assert "codec" not in told
    assert "\x1b" not in told


TAKES = {
    ("simulate", "--server"): "a server description",
    ("simulate", "--power-model"): "a power model",
    ("simulate", "--profile"): "a profile",
    ("run",): "a study",
    ("advise", "cluster"): "a theoretical peak",
}
IS = {
    "servers/small.toml": "a server description",
    "servers/assumed-power-model.toml": "a power model",
    "studies/quickstart/day.toml": "a profile",
    "studies/foresight/study.toml": "a study",
}


@pytest.mark.parametrize(
    ("words", "file"),
    [(words, file) for words, kind in TAKES.items() for file in IS if IS[file] != kind],
)
def test_a_file_of_another_kind_is_told_as_that(
    words: tuple[str, ...], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first unknown field was told, and fields that it should have."""
    path = ROOT / file
    assert called(*words, str(path)) == 2
    told = f"wattio: {path}: is {IS[file]}; {TAKES[words]} is expected\n"
    assert capsys.readouterr().err == told


def test_a_meter_of_binary_data_is_shown_and_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "meter.csv"
    path.write_bytes(b"\x1b]0;title\x07,\x9b2J\n1,2\n")
    assert called("meter", "read", f"csv:{path}") == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert not [c for c in told[:-1] if unicodedata.category(c) == "Cc"]


def test_tables_show_escapes_and_markup_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder named `[/red]` was a MarkupError, `\\x1b[2J` cleared the screen."""
    table = Table("[bold]x[/]", title="[/red]")
    table.add_row("\x1b[2J:smile:")
    output.console().print(table)
    output.messages().print("[/]\x07\x1b[31m")
    told = capsys.readouterr()
    assert r"\x1b[2J:smile:" in told.out
    assert "[/red]" in told.out
    assert "[bold]x[/]" in told.out
    assert told.err == "[/]\\x07\\x1b[31m\n" or told.err == "[/]\\x1b[31m\n"  # Rich drops bells.


@given(st.text())
def test_printable_text_steers_nothing(text: str) -> None:
    found = printable(text)
    assert all(c.isprintable() or c in "\n\t" or c.isspace() for c in found)
    assert not {"\x1b", "\r", "\x9b", "\u202e"} & set(found)
    assert printable(found) == found
    found.encode()


def test_negative_quantities_belong_to_their_options() -> None:
    assert joined(["--span", "-1 s", "--json"]) == ["--span=-1 s", "--json"]
    assert joined(["--span=1 s", "-1"]) == ["--span=1 s", "-1"]
    assert joined(["x", "-1", "--", "--span", "-1"]) == ["x", "-1", "--", "--span", "-1"]
    assert joined(["-h"]) == ["-h"]


def test_a_file_system_is_quoted_in_few_words() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/y")
    assert storage_reason(full) == "/x/y: No space left on device"
    assert storage_reason(ValueError("x")) is None
    database = sqlite3.OperationalError("database or disk is full")
    assert storage_reason(database) == "catalog.sqlite: No space left on device"
    caused = ResultError("x")
    caused.__cause__ = full
    assert storage_reason(caused) == "/x/y: No space left on device"


def test_a_fault_of_ours_is_one_line_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(cli, "build", lambda _: fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert called("run") == 1
    told = capsys.readouterr().err
    assert told.startswith("wattio: internal error: ZeroDivisionError: by nothing")
    assert told.count("\n") == 1
    (kept,) = tmp_path.glob("wattio-fault-*.txt")
    assert str(kept) in told
    assert "Traceback" in kept.read_text()


_INTERRUPTED = """
import sys
seen = 0
def watch(event, arguments):
    global seen
    if event == "import":
        seen += 1
        if seen == {at}:
            raise KeyboardInterrupt
from wattio.cli import main
sys.addaudithook(watch)
sys.argv = ["wattio", "simulate", "--list"]
main()
"""


@pytest.mark.parametrize("at", [1, 2, 5, 20, 100, 250, 400])
def test_ctrl_c_while_modules_are_loaded_is_one_line(at: int) -> None:
    """Ctrl-C in the first 0.3 s ended in the traceback of whatever was being imported."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED.format(at=at)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout, done.returncode) == ("wattio: stopped\n", "", 130)


def test_the_front_of_the_command_line_loads_nothing() -> None:
    """What is loaded before `main` has begun is not covered by its answer to Ctrl-C."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "import wattio.cli\n"
        "print(*sorted(set(sys.modules) - before - {'wattio', 'wattio.cli', '__future__'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_nothing_is_held_back_from_a_ctrl_c_at_the_end() -> None:
    code = (
        "import signal, sys; from wattio import cli; sys.argv = ['wattio', '--version']\n"
        "try: cli.main()\n"
        "except SystemExit: print(signal.getsignal(signal.SIGINT) is signal.SIG_DFL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
    assert io.StringIO(done.stderr).read() == ""


def test_a_nul_in_a_file_is_named_by_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOML can spell one, no path can hold one: "embedded null byte" came as a traceback."""
    path = tmp_path / "study.toml"
    path.write_text('[study]\nname = "a"\n[[load]]\nname = "x"\ntrace = "a\\u0000b"\n')
    assert called("check", str(path)) == 2
    assert f"{path}:5: load[1].trace: holds the character NUL" in capsys.readouterr().err


SMALL = """\
[study]
name = "small"
kind = "simulation"

[[load]]
name = "steady"
server = "small"
pattern = "Rand_RW"
pressure = 0.1
duration = "40 s"

[[policy]]
name = "pacer"
"""


@pytest.mark.parametrize(
    "text",
    [
        '[policy]\nname = "pacer"\n',
        _core.assumed_power_model(),
        _core.built_in_servers()["small"],
        (ROOT / "packaging/examples/redis.toml").read_text(),
        SMALL,
    ],
    ids=["policy", "power model", "server", "daemon", "study"],
)
def test_a_mark_of_the_byte_order_may_stand_first_in_a_file(text: str, tmp_path: Path) -> None:
    """Editors of Windows write one: "is not valid TOML: Invalid statement (line 1, column 1)"."""
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8-sig")
    assert called("check", str(path)) == 0


def test_the_reader_of_the_output_may_leave() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from wattio.cli import main; main()", "simulate", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


def test_a_broken_pipe_to_a_child_is_not_taken_for_a_reader_that_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A killed child was answered with exit code 1 and no word, as `wattio ... | head` is."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert answer(BrokenPipeError(errno.EPIPE, "Broken pipe")) == 1
    told = capsys.readouterr().err
    assert "internal error: BrokenPipeError" in told
    assert told.count("\n") == 1
    assert storage_reason(BrokenPipeError()) is None


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        (("completion", "bash"), ">&-", 0),
        (("report", "nosuch"), "2>&-", 2),
        (("report", "nosuch"), ">&- 2>&-", 2),
    ],
)
def test_closed_streams_change_no_exit_code(words: tuple[str, ...], closed: str, code: int) -> None:
    """A stream that is closed is None: that ended in an internal error, and in exit code 1."""
    command = f'exec "$0" -m wattio.cli "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, *words], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize("characters", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_gets_what_it_can_show(characters: str) -> None:
    """The µ of a latency, the ₂ of CO₂ and the line of a table were an internal error."""
    words = ("simulate", "--server", "small", "--duration", "1 s")
    done = subprocess.run(
        [sys.executable, "-m", "wattio.cli", *words],
        env={**os.environ, "PYTHONIOENCODING": characters},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    told = done.stdout.decode(characters)
    assert "mean latency" in told
    assert "saved in a year, and its CO?: pacer" in told


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [("--version",), ("new", "study", "--list"), ("completion", "bash")]
)
def test_output_that_finds_no_room_is_told_as_output(
    words: tuple[str, ...], unbuffered: str
) -> None:
    """It was not said what was full; what stayed in the buffer, Python complained about itself."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "wattio.cli", *words],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (
        1,
        f"wattio: standard output: {os.strerror(errno.ENOSPC)}\n",
    )


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (2, "1 of 3 runs are kept in r; when that is fixed, continue with: wattio run --resume r"),
        (0, "all 3 runs are kept in r, and nothing is left to run; for the report: wattio report"),
    ],
)
def test_a_result_that_is_whole_is_not_to_be_continued(left: int, told: str) -> None:
    """On a disk that is read-only, `--resume` of one ended with how to continue."""
    folder = cast("ResultFolder", SimpleNamespace(path=Path("r")))
    refused = OSError(errno.EROFS, os.strerror(errno.EROFS), "r/lock")
    with (
        pytest.raises(ResultError, match=f"r/lock: Read-only file system; {told}"),
        resumable(folder, 3, lambda: left, "runs"),
    ):
        raise refused
