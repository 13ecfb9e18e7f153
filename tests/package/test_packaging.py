"""What is packaged: the unit keeps its sandbox, and the examples are right."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import trustme

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "packaging" / "systemd"
UNIT = SYSTEMD / "wattiod.service"
TARGET = SYSTEMD / "wattio-target.service"
DROP_INS = sorted(SYSTEMD.glob("*.service.d/*.conf"))
EXAMPLES = sorted((ROOT / "packaging" / "examples").glob("*.toml"))
BINARY = ROOT / "target" / "debug" / "wattiod"
GUIDE = ROOT / "docs" / "wattiod.md"
TARGET_BINARY = BINARY.with_name("wattio-target")
TARGET_CONFIG = ROOT / "packaging" / "examples" / "wattio-target" / "wattio-target.toml"
INSTALLED = "/usr/local/sbin"
SPOKEN = {".md", ".py", ".rs", ".toml", ".sh", ".ipynb"}
# systemd-analyze's scale: 0 is a program without rights, 10 one without a sandbox. As written, with
# systemd 252, wattiod is 2.3, of which being root counts for 0.4; wattio-target is 1.8, of which
# the network counts for 1.
EXPOSURE_MAX = {UNIT.name: 3.0, TARGET.name: 2.0}


def settings(text: str) -> dict[str, list[str]]:
    """Every key of a unit with its values, in their order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def installed(unit: Path, folder: Path) -> Path:
    """A unit with a program that is there, and its socket."""
    (folder / unit.stem).symlink_to(shutil.which("true") or "/bin/true")
    for file in unit.parent.glob(f"{unit.stem}.*"):
        if file.is_file():
            text = file.read_text().replace(f"{INSTALLED}/", f"{folder}/")
            (folder / file.name).write_text(text)
    return folder / unit.name


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze, of the package systemd."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: apt install systemd")
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is said of our files; a host's other units may have troubles of their own."""
    return [line for line in done.stderr.splitlines() if "wattio" in line]


def check(config: Path, *options: str, program: Path = BINARY) -> subprocess.CompletedProcess[str]:
    """Run `wattiod check`, or that of another program."""
    command = [str(program), "check", str(config), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.system
@pytest.mark.parametrize(
    "unit", [UNIT, TARGET, TARGET.with_suffix(".socket")], ids=lambda path: path.name
)
def test_systemd_understands_the_unit(unit: Path, tmp_path: Path) -> None:
    folder = installed(unit, tmp_path).parent
    done = analyze("verify", folder / unit.name)
    assert complaints(done) == []


@pytest.mark.system
@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: f"{path.parent.stem}-{path.stem}")
def test_systemd_understands_each_drop_in(drop_in: Path, tmp_path: Path) -> None:
    unit = installed(SYSTEMD / drop_in.parent.stem, tmp_path)
    folder = unit.with_name(f"{unit.name}.d")
    folder.mkdir()
    (folder / drop_in.name).write_text(drop_in.read_text().replace(f"{INSTALLED}/", f"{tmp_path}/"))
    done = analyze("verify", unit)
    assert complaints(done) == []


@pytest.mark.system
@pytest.mark.parametrize("unit", [UNIT, TARGET], ids=lambda path: path.stem)
def test_the_sandbox_is_as_tight_as_it_was(unit: Path, tmp_path: Path) -> None:
    limit = f"--threshold={round(EXPOSURE_MAX[unit.name] * 10)}"
    done = analyze("security", "--offline=true", limit, installed(unit, tmp_path))
    assert done.returncode == 0, done.stdout


def test_the_unit_restores_after_every_end() -> None:
    unit = settings(UNIT.read_text())
    config = "/etc/wattiod.toml"
    assert unit["ExecStart"] == [f"{INSTALLED}/wattiod run {config}"]
    assert unit["ExecStopPost"] == [f"{INSTALLED}/wattiod restore {config}"]
    assert unit["ExecReload"] == [f"{INSTALLED}/wattiod check {config}", "kill -HUP $MAINPID"]
    assert unit["StateDirectoryMode"] == ["0700"]
    # Every right that the daemon keeps is explained.
    text = UNIT.read_text()
    for capability in " ".join(unit["CapabilityBoundingSet"]).split():
        assert re.search(rf"^#\s+{capability}  \S", text, re.MULTILINE), capability


def test_with_hotplug_control_groups_stay_writable() -> None:
    """The drop-in made all of /sys read-only: no set got back a core that had been off."""
    hotplug = settings((SYSTEMD / "wattiod.service.d" / "hotplug.conf").read_text())
    assert "/sys" in hotplug["ReadOnlyPaths"][0].split()
    assert "-/sys/fs/cgroup" in hotplug["ReadWritePaths"]
    assert settings(UNIT.read_text())["ProtectControlGroups"] == ["no"]


def test_the_target_may_do_what_it_has_to_and_is_nobody_else() -> None:
    unit = settings(TARGET.read_text())
    assert unit["ExecStart"] == [f"{INSTALLED}/wattio-target serve /etc/wattio-target.toml"]
    assert unit["User"] == unit["Group"] == ["wattio-target"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["DevicePolicy"] == ["closed"]
    calls = " ".join(unit["SystemCallFilter"]).split()
    assert {"io_uring_setup", "io_uring_enter", "io_uring_register"} <= set(calls)
    # Its end removes the runtime directory: a socket of systemd's in there would go, too.
    socket = settings(TARGET.with_suffix(".socket").read_text())
    folder = f"/run/{unit['RuntimeDirectory'][0]}/"
    assert [path for path in socket["ListenStream"] if path.startswith(folder)] == []


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
def test_each_stage_of_a_rollout_is_a_command_that_the_unit_can_run(tmp_path: Path) -> None:
    """`observe` in the unit's place wrote its results below /, which is read-only there."""
    text = (SYSTEMD / "wattiod.service.d" / "stages.conf").read_text()
    assert settings(text)["ExecStart"][0] == "", "else the unit has two"
    stages = re.findall(r"^#?ExecStart=(.+)$", text, re.MULTILINE)
    assert [stage.split()[1] for stage in stages] == ["observe", "run", "run"]
    absent = str(tmp_path / "absent.toml")
    for stage in stages:
        program, *words = shlex.split(stage.replace("%%", "%"))
        assert program == f"{INSTALLED}/wattiod"
        assert stage.count("%") == 2 * stage.count("%%"), "each is a specifier of the unit's"
        words = [absent if word == "/etc/wattiod.toml" else word for word in words]
        command = [str(BINARY), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert absent in done.stderr, "the arguments are right, and the file is looked for"
        if "--out" in words:
            state = settings(UNIT.read_text())["StateDirectory"][0]
            assert words[words.index("--out") + 1].startswith(f"/var/lib/{state}/")
        else:
            assert words[0] == "run", "which keeps no windows unless it is told to"


def test_manual_pages_fit_a_terminal() -> None:
    """A paragraph of --help was one line of 260 columns, whatever the terminal had."""
    place = SYSTEMD.parent / "debian" / "manual.py"
    manual = runpy.run_path(str(place))
    option = "  --alternate <LENGTH>  " + "Govern by turns with full speed " * 5
    parts = manual["folded"](option.rstrip())
    assert all(len(part) <= manual["COLUMNS_MAX"] for part in parts)
    assert {len(part) - len(part.lstrip()) for part in parts[1:]} == {24}
    assert " ".join(" ".join(parts).split()) == " ".join(option.split())
    prose = "Start with this. " * 10
    assert not any(part.startswith(" ") for part in manual["folded"](prose.rstrip()))
    assert manual["folded"]("  short") == ["  short"]


def test_examples_of_manual_pages_stay_whole() -> None:
    """What an example is for was torn, and began anew in the middle of the page."""
    manual = runpy.run_path(str(SYSTEMD.parent / "debian" / "manual.py"))
    short = ["Examples:", "  a run    to see", "  a stop   to end"]
    assert manual["paragraph"](short) == short
    options = " ".join(f"--option-{number} {number * 1111}" for number in range(1, 6))
    below = ["Examples:", f"  a serve {options}", f"{60 * ' '}all of it", "  a run          to see"]
    assert manual["paragraph"](below) == [
        "Examples:",
        "  a serve --option-1 1111 --option-2 2222 --option-3 3333 \\",
        "      --option-4 4444 --option-5 5555",
        "      all of it",
        "  a run",
        "      to see",
    ]
    prose = ["It stops at once. For other", "servers, it does " + "not " * 12 + "stop."]
    filled = manual["paragraph"](prose)
    assert filled[0].startswith("It stops at once. For other servers, it does not not")
    assert all(len(part) <= manual["COLUMNS_MAX"] for part in filled)


def test_every_drop_in_is_listed_in_the_unit() -> None:
    assert {path.parent.name for path in DROP_INS} == {f"{UNIT.name}.d", f"{TARGET.name}.d"}
    unlisted = [
        path.name for path in DROP_INS if path.name not in (SYSTEMD / path.parent.stem).read_text()
    ]
    assert unlisted == []


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_right(example: Path) -> None:
    done = check(example, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == example.stem


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_leaves_out_is_right_too(example: Path, tmp_path: Path) -> None:
    """Lines that are commented out, with `#` and no blank, are meant to be put in."""
    whole = tmp_path / example.name
    whole.write_text(re.sub(r"^#(?=\S)", "", example.read_text(), flags=re.MULTILINE))
    done = check(whole)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not TARGET_BINARY.exists(), reason="make daemon builds it")
def test_the_example_of_the_target_is_right_with_what_it_leaves_out(tmp_path: Path) -> None:
    """`listen` is what the socket unit passes; the volume lies where the service may write."""
    # Certificates that are named are read, too.
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    own.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    authority.cert_pem.write_to_path(tmp_path / "clients.pem")
    text = TARGET_CONFIG.read_text().replace("/etc/wattio-target/", f"{tmp_path}/")
    whole = re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE)
    assert whole.count("[[export]]") == 2
    for part in (text, whole):
        config = tmp_path / "target.toml"
        config.write_text(part)
        done = check(config, program=TARGET_BINARY)
        assert done.returncode == 0, done.stderr
    read = tomllib.loads(text)
    assert read["listen"] == ["systemd"]
    state = f"/var/lib/{settings(TARGET.read_text())['StateDirectory'][0]}/"
    assert all(path.startswith(state) for path in read["export"][0]["devices"])


@pytest.mark.skipif(not BINARY.exists(), reason="make daemon builds it")
def test_the_configuration_in_the_guide_is_right(tmp_path: Path) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    configurations = [block for block in blocks if "[latency]" in block]
    assert configurations
    for text in configurations:
        config = tmp_path / "guide.toml"
        config.write_text(text)
        done = check(config)
        assert done.returncode == 0, done.stderr


def test_the_guide_names_every_knob_and_source() -> None:
    text = GUIDE.read_text()
    host = ROOT / "crates" / "host" / "src"
    knobs = re.findall(r'serde\(rename = "([a-z.]+)"\)', (host / "knobs" / "mod.rs").read_text())
    sources = [
        "diskstats",
        "prometheus",
        "ceph",
        "tracepoint",
        "exec",
        "fio-log",
        "proc-stat",
        "spdk",
    ]
    assert len(knobs) >= 15, "the expression finds them"
    assert [name for name in [*knobs, *sources] if name not in text] == []


def test_nobody_is_told_to_install_what_no_registry_has() -> None:
    """`pip install 'wattio[hpc]'` stood in messages and documents; no registry has wattio."""
    told = re.compile(r"pip install[^\n]*[\s'\"/]wattio(?![\w./-]*\*|-[\w.*])")
    folders = [ROOT / name for name in ("docs", "python", "examples", "packaging", "crates")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in SPOKEN]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [ROOT / "README.md", ROOT / "examples" / "io" / "CMakeLists.txt", *files]
        for line in path.read_text(encoding="utf-8").splitlines()
        if told.search(line) and "target/dist" not in line
    ]
    assert wrong == []


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("goal", ["run", "build"])
def test_a_first_build_says_that_it_takes_long(goal: str, tmp_path: Path) -> None:
    """uv is silent while it compiles: `make run` looked as if it hung, for minutes."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    true = shutil.which("true")
    assert true is not None
    words = ["make", goal, "--assume-old=needs", f"UV={true}"]
    # As from a shell: a make that another one starts says more.
    shell = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }

    def said() -> tuple[str, str]:
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=True, env=shell
        )
        return done.stdout, done.stderr

    assert said() == ("", "building wattio, which takes a few minutes the first time\n")
    command = tmp_path / ".venv" / "bin" / "wattio"
    command.parent.mkdir(parents=True)
    command.write_text("")
    command.chmod(0o755)
    assert said() == ("", "")
