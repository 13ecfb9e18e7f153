"""The command line: exit codes, one clear message, JSON on standard output, a quick start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from simulation.study_fake import FakeSimulator
from wattio import cli
from wattio.errors import Cancelled, InputError
from wattio.simulator import native as simulator_module

STUDY = """\
[study]
name = "small"
kind = "simulation"

[[load]]
name = "steady"
server = "dorado6000"
pattern = "Rand_RW"
pressure = 0.1
duration = "40 s"

[[policy]]
name = "pacer"
label = "PACER"
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a study in it; simulations are made up."""
    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def called(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(list(arguments))
    assert isinstance(caught.value.code, int)
    return caught.value.code


def result_of(place: Path) -> str:
    return str(next((place / "results" / "small").iterdir()).relative_to(place))


def test_run_prints_a_summary_and_where_the_report_is(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("run", "study.toml", "--jobs", "2") == 0
    captured = capsys.readouterr()
    assert "PACER" in captured.out
    assert f"report: {result_of(place)}/report/index.html" in captured.out
    assert (place / result_of(place) / "report" / "index.html").is_file()
    assert "[2/2] steady/" in captured.err


def test_run_as_json_prints_one_object(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("run", "study.toml", "--json", "--no-report") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["complete"]
    assert [row["label"] for row in found["summary"]] == ["native", "PACER"]
    assert found["summary"][1]["metrics"]["saving_share"] > 0
    native, pacer = found["summary"]
    assert native["saved_in_a_year"] is None
    year = pacer["saved_in_a_year"]
    powers = [row["metrics"]["power_w_mean"] for row in (native, pacer)]
    assert year["kwh"] == pytest.approx((powers[0] - powers[1]) * year["hours"] / 1000)
    assert year["eur"] == pytest.approx(year["kwh"] * year["eur_per_kwh"])
    assert year["co2_kg"] == pytest.approx(year["kwh"] * year["co2_g_per_kwh"] / 1000)


def test_commands_on_a_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("run", "study.toml", "--no-report") == 0
    result = result_of(place)
    capsys.readouterr()
    assert called("report", result, "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert f"{result}/report/steady-power-latency.svg" in files
    assert called("recompute", result, "--json") == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []
    assert called("recompute", result) == 0
    assert called("compare", f"{result}:steady/native", f"{result}:steady/PACER") == 0
    assert "power_w_mean" in capsys.readouterr().out
    assert called("compare", result, result, "--json") == 0
    assert json.loads(capsys.readouterr().out)["compared"][0]["ratios"][0]["ratio"] == 1


def test_recompute_exits_1_on_a_difference(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("run", "study.toml", "--no-report") == 0
    for path in (place / result_of(place) / "raw").iterdir():
        summary = json.loads(path.read_text())
        path.write_text(json.dumps(summary | {"energy_j": 1.0}))
    assert called("recompute", result_of(place)) == 1
    assert "energy_j" in capsys.readouterr().out


def test_ctrl_c_says_how_to_go_on(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(simulator_module, "NativeSimulator", lambda: FakeSimulator(stop_after=1))
    assert called("run", "study.toml", "--jobs", "1") == 130
    message = capsys.readouterr().err
    assert "stopped; 1 of 2 runs are kept" in message
    assert f"wattio run --resume {result_of(place)}" in message

    monkeypatch.setattr(simulator_module, "NativeSimulator", FakeSimulator)
    assert called("run", "--resume", result_of(place), "--no-report") == 0
    assert "[1/1]" in capsys.readouterr().err


def test_ctrl_c_while_the_report_is_made_says_how_to_make_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said "stopped", and nothing of the runs that were all kept, nor of the report."""

    def stopped(_: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr("wattio.report.make", stopped)
        assert called("run", "study.toml") == 130
    told = capsys.readouterr().err
    assert told.endswith(f"only the report is missing: wattio report {result_of(place)}\n")
    assert called("report", result_of(place)) == 0


def test_resume_with_another_study_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("run", "study.toml", "--no-report") == 0
    (place / "other.toml").write_text(STUDY + "# changed\n")
    assert called("run", "other.toml", "--resume", result_of(place)) == 2
    assert "is not the study" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rum",), 'unknown command "rum"; did you mean "run"?'),
        (("run", "study.toml", "--jbos", "3"), "did you mean --jobs?"),
        (("run", "study.toml", "--jobs", "many"), "--jobs"),
        (("run", "study.toml", "--jobs", "0"), "--jobs 0: allowed is 1 to 1024"),
        (("run",), "needs a study file"),
        (("run", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("report", "."), "is not a result folder"),
        (("recompute", "nowhere"), "nowhere: not found"),
        (("compare", ".", "."), "is not a result folder"),
        (("check",), "needs a file or a folder"),
        (("check", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("report",), "RESULT is missing"),
    ],
)
@pytest.mark.usefixtures("place")
def test_bad_input_exits_2_with_one_message(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("wattio: ")
    assert message in " ".join(captured.err.split())
    assert "Traceback" not in captured.err


def test_check_knows_files_by_their_content(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "day.toml").write_text(
        '[profile]\nname = "d"\nrepresent = "10 s"\n'
        '[[segment]]\nspan = "1 h"\npattern = "Rand_R"\npressure = 0.1\n'
    )
    (place / "policy.toml").write_text('[policy]\nname = "pacer"\n[settings]\nplf = 0.1\n')
    (place / "output.toml").write_text('[hpcio]\napproach = "dc"\n')
    (place / "server.toml").write_text('name = "mine"\n[cores]\ncount = 4\n')
    assert called("check", ".") == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = [line.split(": ")[2].split(" ")[0] for line in lines]
    assert kinds == ["profile", "configuration", "settings", "server", "simulation"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'x = 1\n\n[[study]]\nname = "x"\n',
            "f.toml:3: study: must be [study] in place of [[study]]",
        ),
        ('[export]\nname = "x"\n', "f.toml:1: export: must be [[export]] in place of [export]"),
    ],
)
def test_check_tells_the_brackets_of_a_table(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It listed the tables that there are, the one that was there among them."""
    path = tmp_path / "f.toml"
    path.write_text(text)
    assert called("check", str(path)) == 2
    assert told in capsys.readouterr().err


def test_check_reports_every_bad_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "policy.toml").write_text('[policy]\nname = "pacr"\n')
    (place / "else.toml").write_text("[package]\n")
    assert called("check", ".", "--json") == 2
    files = json.loads(capsys.readouterr().out)["files"]
    assert [row["ok"] for row in files] == [False, False, True]
    assert "policy.toml:2: policy.name: unknown policy 'pacr'" in files[1]["message"]


@pytest.mark.parametrize("command", ["run", "report", "compare", "check", "recompute", "doctor"])
def test_every_command_has_help_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(command, "--help") == 0
    text = capsys.readouterr().out
    assert "Examples" in text
    assert f"wattio {command}" in text
    assert "--json" in text


def test_help_says_of_defaults_what_a_user_may_type(capsys: pytest.CaptureFixture[str]) -> None:
    """It said `[default: ()]` of lists, and of flags `[default: False]` or `[default: True]`."""
    assert called("simulate", "--help") == 0
    text = capsys.readouterr().out
    assert "[default: pacer]" in text
    assert called("run", "--help") == 0
    text += capsys.readouterr().out
    assert "[default: on]" in text
    assert not re.search(r"\[default:\s+(\(\)|False|True|None)", text)


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError("x"), 2), (Cancelled("x"), 130), (KeyboardInterrupt(), 130)],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "build", lambda _: fail)
    assert called("run") == code


def test_help_does_not_load_what_only_commands_need() -> None:
    code = (
        "import sys; from wattio import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'matplotlib', 'duckdb', 'scipy', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "recompute" in done.stdout


def test_every_file_below_studies_is_known_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    """Files for advice on I/O once passed for no file of wattio's."""
    studies = ROOT / "studies"
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", str(studies)])
    told = capsys.readouterr()
    assert ended.value.code == 0, told.err
    assert "platform graphene" in told.out
    assert "application CM1" in told.out
    assert "4 purchases to choose from" in told.out


def test_verbose_tells_what_is_read_and_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--verbose` stands anywhere; a name chosen by others stays on its line."""
    study = tmp_path / "a\nb.toml"
    study.write_text("[study]\n")
    environment = {key: value for key, value in os.environ.items() if key != "JOURNAL_STREAM"}
    command = [sys.executable, "-m", "wattio.cli", "check", str(study)]
    for words, journal in ((["--verbose"], False), (["--json", "--verbose"], True), ([], False)):
        own = environment | ({"JOURNAL_STREAM": "8:1"} if journal else {})
        done = subprocess.run(
            [*command, *words], env=own, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 2
        lines = [
            line for line in done.stderr.splitlines() if "wattio.files.document: reads" in line
        ]
        assert len(lines) == bool(words)
        assert all("a b.toml" in line for line in lines)
        assert all(line.startswith("<7>") is journal for line in lines)


def test_completions_are_printed_by_either_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The daemon's command is spelt with an s."""
    told = []
    for name in ("completion", "completions"):
        assert called(name, "fish") == 0
        told.append(capsys.readouterr().out)
    assert "simulate" in told[0]
    assert told[0] == told[1]
