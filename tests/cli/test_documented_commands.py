"""Every command line that README, the documents and `--help` show is one that the tool takes.

Several were not: `wattio peak` as README had it measured for a minute and failed, and a meter's
name of calibration.md is no meter's. A command is parsed here, not run; its files of this tree have
to be there, and names of meters have to be names of meters.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError
from cyclopts.exceptions import MissingArgumentError
from daemon.running import BINARY
from places import ROOT
from wattio import cli
from wattio.cli.failures import joined, of_arguments
from wattio.meters import KINDS, kind_of
from wattio.shipped import study_file

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *sorted((ROOT / "packaging").rglob("*.md")),
    *sorted((ROOT / "studies").rglob("*.md")),
    *sorted((ROOT / "validation").rglob("*.md")),
]

COMMENTED = [
    path
    for folder in ("studies", "packaging", "examples", "crates/plant/servers")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".toml", ".conf", ".service", ".socket", ".sql", ".yml")
]
"""Files whose comments show commands: set apart, in backticks, or as what a unit executes."""

HELPS = [
    path
    for crate in ("wattiod", "target")
    for path in sorted((ROOT / "crates" / crate / "src/cli").rglob("*.rs"))
]
"""Where the help of the native programs is written."""

_FENCE = re.compile(r"^```.*?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROGRAM = r"wattio(?:d|-target)? "
_INLINE = re.compile(rf"(?<!`)`({_PROGRAM}[^`]+)`(?!`)")
# Who runs it, and where it was built.
_WHO = r"(?:sudo |runuser -u wattio-target -- |podman exec wattiod /)?"
_PLACE = r"(?:target/release/|\.venv/bin/|/usr/bin/|/usr/local/sbin/)?"
_BEFORE = re.compile(rf"^\s*(\$ |# )?{_WHO}{_PLACE}")
_APART = re.compile(r"^\s*(?:#|--)(?:\s{2,}|\t)(\S.*)$", re.MULTILINE)
_EXECUTED = re.compile(r"^#?\s*Exec\w+=[-+!@:]*(\S.*)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(?:#|--) ?(.*)$", re.MULTILINE)
_HELP = re.compile(rf"^\s*{_WHO}({_PROGRAM}.*?)(?:\\n)?(?:\\|\"[;)\],]*)?$", re.MULTILINE)


def commands_of(text: str) -> Iterator[str]:
    """Command lines in fenced blocks, and those within a line that are whole."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            bare = _BEFORE.sub("", line)
            if re.match(_PROGRAM, bare):
                yield re.split(r"\s[|>]\s|\s&&?(?:\s|$)|;", bare)[0]
    yield from _INLINE.findall(_FENCE.sub("", text))


def commented(text: str) -> Iterator[str]:
    """Command lines in the comments of a file, and those that a unit executes."""
    lines = _APART.findall(text) + _EXECUTED.findall(text)
    yield from commands_of("```\n" + "\n".join(lines).replace("%%", "%") + "\n```\n")
    for one in _INLINE.findall(" ".join(_COMMENT.findall(text))):
        yield " ".join(one.split())


def of_rust(text: str) -> Iterator[str]:
    """Command lines that stand in a help text of a program in Rust."""
    for line in _HELP.findall(text):
        command = re.split(r"\s{2,}", line)[0].replace('\\"', '"')
        yield from commands_of(f"```\n{command}\n```\n")


def words_of(command: str) -> list[str]:
    """The words of a command; of alternatives (`a|b`) the first, with what is in brackets."""
    text = re.sub(r"\[(-[^]]*)\]", r"\1", command.replace("\\|", "|")).replace(" STEP", " 1")
    words = shlex.split(text, comments=True)
    return [word.split("|")[0] if re.fullmatch(r"[\w|-]+", word) else word for word in words]


def helps(app: App, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The help texts of a command and those below it."""
    told = [app.help_epilogue, app.help]
    yield " ".join(("wattio", *names)), "\n".join(text for text in told if isinstance(text, str))
    for name in app:
        if not name.startswith("-"):
            yield from helps(app[name], (*names, name))


def shown() -> Iterator[tuple[str, str]]:
    """Where each command stands, and the command."""
    for path in DOCUMENTS:
        where = str(path.relative_to(ROOT))
        for command in commands_of(path.read_text(encoding="utf-8")):
            yield where, command
    for paths, found_in in ((COMMENTED, commented), (HELPS, of_rust)):
        for path in paths:
            for command in found_in(path.read_text(encoding="utf-8")):
                yield str(path.relative_to(ROOT)), command
    for where, text in helps(cli.build()):
        for command in commands_of(text):
            yield f"{where} --help", command


SHOWN = sorted(set(shown()))


def test_examples_of_help_fit_a_terminal_of_80_columns() -> None:
    """Wrapped by the terminal, a line could not be copied."""
    blocks = [
        (where, block)
        for where, text in helps(cli.build())
        for block in re.findall(r"```\n(.*?)```", text, re.DOTALL)
    ]
    assert len(blocks) > 20
    wide = [(where, line) for where, block in blocks for line in block.splitlines() if line[78:]]
    assert not wide


def is_name(words: list[str]) -> bool:
    """Whether it only names a command, or an option of one (the last word)."""
    names = words[:-1] if words[-1].startswith("--") else words
    return not any(re.search(r"[^a-z-]|^-", word) for word in names)


@pytest.mark.parametrize(("where", "command"), [one for one in SHOWN if one[1][:7] == "wattio "])
def test_a_command_that_is_shown_is_taken(where: str, command: str) -> None:
    words = words_of(command)[1:]
    if "COMMAND" in words:
        return
    try:
        cli.build(words[0]).parse_args(joined(words), print_error=False, exit_on_error=False)
    except CycloptsError as error:
        if is_name(words) and isinstance(error, MissingArgumentError):
            return
        pytest.fail(f"{where}: {command}: {of_arguments(error)}")
    if words[0] == "run" and where.startswith("studies/"):
        study_is_one(words, f"{where}: {command}")
    for word in words:
        if re.match(r"(studies|servers|traces|validation)/", word):
            assert (ROOT / word).exists(), f"{where}: {command}: there is no {word}"
        if ":" in word and word.partition(":")[0] in KINDS:
            meter_is_one(word, f"{where}: {command}")


def study_is_one(words: list[str], where: str) -> None:
    file = study_file(words[1].removeprefix("studies/"))
    if "--scale" in words:
        scales = tomllib.loads(file.read_text(encoding="utf-8"))["scale"]
        assert words[words.index("--scale") + 1] in scales, where


def meter_is_one(name: str, where: str) -> None:
    from wattio.hosts.names import expand_within
    from wattio.meters.name import parse
    from wattio.meters.snmp_profile import target_of

    assert kind_of(name), where
    if name.startswith("snmp:"):
        for one in expand_within(name) if "[" in name else [name]:
            assert target_of(parse(one)), where


def test_commands_are_found() -> None:
    """The search itself: were it to find nothing, nothing would be tested."""
    assert len(SHOWN) > 150
    assert len({where for where, _ in SHOWN}) > 30
    text = "a `wattio check x` b\n```sh\nsudo wattio run a \\\n    --json  # why\nls\n```\n"
    assert [words_of(one) for one in commands_of(text)] == [
        ["wattio", "run", "a", "--json"],
        ["wattio", "check", "x"],
    ]
    assert len([where for where, command in NATIVE if command.startswith("wattio-target ")]) > 8
    text = "```\n.venv/bin/wattio run a\nsudo .venv/bin/wattio check b\n```\n"
    assert list(commands_of(text)) == ["wattio run a", "wattio check b"]
    text = "# Such as\n#     wattio run a \\\n#         --json\nx = 1\n# See `wattio\n# check b`.\n"
    text += (
        "# wattio is not called here\nExecStart=/usr/bin/wattiod run\n#ExecStop=-wattiod status\n"
    )
    assert [" ".join(one.split()) for one in commented(text)] == [
        *("wattio run a --json", "wattiod run", "wattiod status", "wattio check b"),
    ]
    text = '#[command(after_help = "\\\nExamples:\n  wattiod set plf 0.1   at once")]\n'
    assert list(of_rust(text)) == ["wattiod set plf 0.1"]
    found_in = {where.partition("/")[0] for where, _ in SHOWN}
    assert {"README.md", "docs", "studies", "packaging", "crates"} <= found_in
    text = "```\ntarget/release/wattio-target serve --tcp [::1]:1 &\n```\n"
    assert [words_of(one) for one in commands_of(text)] == [
        ["wattio-target", "serve", "--tcp", "[::1]:1"]
    ]


NATIVE = [one for one in SHOWN if one[1].startswith(("wattiod ", "wattio-target "))]


@pytest.mark.system
@pytest.mark.parametrize(("where", "command"), NATIVE)
def test_a_command_of_the_daemon_that_is_shown_is_taken(where: str, command: str) -> None:
    """With `--help` behind it, the daemon looks at the words before, and does nothing else."""
    program, *words = words_of(command)
    done = subprocess.run(
        [str(BINARY.with_name(program)), *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{where}: {command}: {done.stderr}"


HARMLESS = {
    ("advise", "cluster", "arm-cluster/thesis-peak.toml"),
    ("advise", "io"),
    ("check",),
    ("doctor",),
    ("meter", "list"),
    ("meter", "read", "estimate:assumed"),
    ("new",),
    ("oracle",),
    ("peak", "peak.toml"),
    ("peak", "studies/arm-cluster/thesis-peak.toml"),
    ("run", "arm-cluster", "--scale", "small", "--dry-run"),
    ("simulate",),
    ("trace", "convert"),
    ("trace", "info"),
    ("trace", "pressure"),
}
"""What is run, too: commands that begin so change nothing but the folder that they are run in. Days
are left out: they take minutes."""

FILES = {
    "Financial1.spc": "tests/data/traces/synthetic.spc",
    "app.toml": "studies/io-approaches/cm1.toml",
    "my-server.toml": "crates/plant/servers/small.toml",
    "server.toml": "crates/plant/servers/small.toml",
    "load.wtrace": "tests/data/traces/synthetic.wtrace",
    "my.vscsi": "tests/data/traces/synthetic.vscsi",
    "peak.toml": "studies/arm-cluster/thesis-peak.toml",
    "platform.toml": "studies/io-approaches/platforms/nancy.toml",
    "power-model.toml": "crates/plant/servers/assumed-power-model.toml",
    "studies": "studies",
    "web.csv.gz": "tests/data/traces/synthetic.msr.gz",
    "week.srt": "tests/data/traces/synthetic.srt",
    "week.wtrace": "tests/data/traces/synthetic.wtrace",
}
"""The reader's own files that commands name, and what stands for them."""

_TABLE = "When,x,Kind,Block,Bytes\n0,x,get,1,4096\n1,x,put,2,8192\n2,x,get,9,4096\n"
TEXTS = {
    "disk.csv": _TABLE.replace("get", "R").replace("put", "W"),
    "objects.csv": _TABLE,
    "my-policy.toml": '[policy]\nname = "pacer"\n[settings]\nplf = 0.1\n',
}


def is_run(words: list[str]) -> bool:
    """Whether it is harmless, and whole: no placeholder, and no name of a command alone."""
    placeholder = any(re.search(r"^[A-Z]{3,}$|\.\.\.", word) for word in words)
    known = any(tuple(words[: len(one)]) == one for one in HARMLESS)
    whole = words == ["doctor"] or not is_name(words)
    # The reader's hosts are not here.
    return known and whole and not placeholder and not {"--profile", "--hosts"} & set(words)


RUN = sorted({one for _, one in SHOWN if one[:7] == "wattio " and is_run(words_of(one)[1:])})


@pytest.mark.system
@pytest.mark.parametrize("command", RUN)
def test_a_command_that_is_shown_works(command: str, tmp_path: Path) -> None:
    words = words_of(command)[1:]
    if words[0] != "new":
        for name, target in FILES.items():
            (tmp_path / name).symlink_to(ROOT / target)
        for name, text in TEXTS.items():
            (tmp_path / name).write_text(text)
    if words[0] in ("simulate", "oracle") and not {"--list", "--duration"} & set(words):
        words += ["--duration", "2 s", "--warmup", "1 s"]
    done = subprocess.run(
        [sys.executable, "-m", "wattio.cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
    assert done.stdout or done.stderr
