"""`wattio new`: a study or a server description of one's own, from an example that is shipped."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from wattio import _core, shipped
from wattio.cli import output
from wattio.errors import InputError
from wattio.files import document
from wattio.files.document import nearest
from wattio.files.whole import write_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,-]{0,63}")

app = App(
    name="new",
    help="Start a study or a server description of your own from an example.",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio new study --list
wattio new study my-study
wattio new study disks --from dvfs-fio
wattio new server --list
wattio new server my-server --from small
```""",
)


@app.command
def study(
    name: Path | None = None,
    /,
    *,
    source: Annotated[str, Parameter("--from")] = "quickstart",
    listing: Annotated[bool, Parameter("--list", negative="")] = False,
) -> int:
    """Copy a study that comes with wattio into a new folder, for you to change.

    Exit code 2 if the folder already exists: nothing is overwritten.

    Parameters
    ----------
    name
        The folder to make. Its last part becomes the name of the study.
    source
        Which study to copy; --list shows them.
    listing
        Show the studies, and the question that each answers.
    """
    if listing:
        for known, file in shipped.named_studies().items():
            head = document.read(file).content["study"]
            output.say(f"{known:21} {head['kind']:12} {head['description']}")
        return 0
    if source in shipped.named_studies():
        source = source.partition("/")[0]  # one of several studies: they share files
    files = shipped.examples().get(source)
    if files is None:
        raise InputError(f'--from "{source}": {nearest(source, list(shipped.examples()))}')
    target = _free(name, "wattio new study my-study")
    example = files[0].parent
    try:
        for file in sorted(example.rglob("*.toml")):
            copy = target / file.relative_to(example)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_text(encoding="utf-8")
            write_whole(copy, _renamed(text, source, target))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    made = [target / file.name for file in files]
    output.say(f"{', '.join(map(str, made))}: made from {source}; change it, then:")
    for one in [target] if len(made) == 1 else made:
        output.say(f"  wattio check {one}\n  wattio run {one}")
    return 0


@app.command
def server(
    name: Path | None = None,
    /,
    *,
    source: Annotated[str, Parameter("--from")] = "small",
    listing: Annotated[bool, Parameter("--list", negative="")] = False,
) -> int:
    """Copy a built-in server description into a new file, for you to change.

    Exit code 2 if the file already exists.

    Parameters
    ----------
    name
        The file to write; `.toml` is added if it is missing.
    source
        The built-in server to copy; --list shows them.
    listing
        Show the built-in servers.
    """
    built_in = _core.built_in_servers()
    if listing:
        for known, text in built_in.items():
            output.say(f"{known:21} {json.loads(_core.check_server(text))['title']}")
        return 0
    if source not in built_in:
        raise InputError(f'--from "{source}": {nearest(source, list(built_in))}')
    wanted = None if name is None else name.with_name(f"{name.name.removesuffix('.toml')}.toml")
    target = _free(wanted, "wattio new server my-server")
    text = re.sub(r'(?m)^name = ".*"$', f'name = "{target.stem}"', built_in[source], count=1)
    write_whole(target, text)
    output.say(f"{target}: made from {source}; change it, then:")
    output.say(f"  wattio check {target}\n  wattio simulate --server {target}")
    return 0


def _free(name: Path | None, example: str) -> Path:
    """A path that nothing is at yet, in a folder that is there. Raises InputError."""
    if name is None:
        raise InputError(f"a name is required, as in: {example}")
    if not _NAME.fullmatch(name.name):
        allowed = "1 to 64 letters, digits and . _ + = , - after a letter or digit"
        raise InputError(f'"{name.name}" is not a valid name; allowed: {allowed}')
    if name.exists() or name.is_symlink():
        raise InputError(f"{name}: already exists; nothing was changed")
    if not name.absolute().parent.is_dir():
        raise InputError(f"{name}: the folder {name.absolute().parent} does not exist")
    return name


def _renamed(text: str, source: str, target: Path) -> str:
    """A file of an example, under the new name: in `[study]` and in commands in its comments."""
    # Where there are several studies, each has a name of its own behind that of the folder.
    name = re.compile(rf'(?m)^name = "{re.escape(source)}(-\w+)?"$')
    named = name.sub(lambda found: f'name = "{target.name}{found[1] or ""}"', text, count=1)
    command = re.compile(rf"(?m)^(# .*wattio \w+) {re.escape(source)}\b")
    results = re.compile(rf"\bresults/{re.escape(source)}\b")
    named = results.sub(f"results/{target.name}", named)
    return command.sub(lambda found: f"{found[1]} {target}", named)
