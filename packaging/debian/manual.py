"""Makes manual pages of what commands say of themselves: `manual.py wattio|PROGRAM > PAGE`.

For `wattio` the page is its generated reference (commands, options, examples); for any other
program it is the text of `--help` of the program and of each of its commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

COLUMNS_MAX = 72
"""Of a terminal's 80 columns, without the margin that manual pages have."""

EXAMPLE_MARGIN = 6
"""Of what an example is for, where it stands below the command."""

_LINK = re.compile(r"\[([^\]]*)\]\(#[^)]*\)")


def escaped(text: str) -> str:
    """Text as roff takes it: nothing in it is a request, hyphens stay hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def plain(text: str) -> str:
    """A line of Markdown with bold and code as roff writes them."""
    text = escaped(re.sub(r"\*(\[[^\]]*\])\*", r"\1", _LINK.sub(r"\1", text)))
    text = re.sub(r"\*\*([^*]+)\*\*", r"\\fB\1\\fP", text)
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fP", text)


def of_markdown(text: str) -> Iterator[str]:
    """Lines of roff of the reference that cyclopts generates."""
    verbatim = False
    for line in text.splitlines():
        if line.startswith("```"):
            verbatim = not verbatim
            yield ".PP\n.nf\n.RS" if verbatim else ".RE\n.fi"
        elif verbatim:
            yield escaped(line)
        elif heading := re.match(r"(#+) (.*)", line):
            yield f".{'SH' if len(heading[1]) < 3 else 'SS'} {plain(heading[2])}"
        elif item := re.match(r"\s*[*-] (.*)", line):
            head, colon, rest = item[1].partition(": ")
            yield (
                f".TP\n{plain(head)}\n{plain(rest)}" if colon else f".IP \\(bu 2\n{plain(item[1])}"
            )
        else:
            yield plain(line.strip()) if line.strip() else ".PP"


def of_help(program: str) -> Iterator[str]:
    """Lines of roff of the help of a program and of its commands."""
    head = said(program, "--help")
    yield from section("DESCRIPTION", head)
    commands = re.search(r"(?ms)^Commands:\n(.*?)\n\n", head)
    for name in re.findall(r"(?m)^  (\w+) ", commands[1] if commands else ""):
        if name != "help":
            yield from section(f"{Path(program).name} {name}", said(program, name, "--help"))


def section(title: str, text: str) -> Iterator[str]:
    """A section of text that stays as it is, but for lines that are too long for a terminal."""
    yield f".SH {escaped(title)}\n.nf"
    yield "\n\n".join(
        "\n".join(map(escaped, paragraph(part.splitlines()))) for part in text.split("\n\n")
    )
    yield ".fi"


def paragraph(lines: list[str]) -> list[str]:
    """Lines that fit: examples stay whole, prose is filled, and all else is folded line by line."""
    if lines[:1] == ["Examples:"]:
        return [lines[0], *examples(lines[1:])]
    if not any(line.startswith(" ") or line.endswith(":") for line in lines):
        lines = [" ".join(lines)]
    return [part for line in lines for part in folded(line)]


def examples(lines: list[str]) -> list[str]:
    """Commands, each with what it is for beside it if all of them fit, else below it."""
    if all(len(line) <= COLUMNS_MAX for line in lines):
        return lines
    parts = []
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    for line in lines:
        if line[indent:].startswith(" "):
            # A command that leaves no room beside it has what it is for below it.
            command, what_for = "", line.strip()
        else:
            command, _, what_for = re.sub(r"(?<=\S) {2,}", "\n", line, count=1).partition("\n")
        parts += continued(command)
        parts += folded(EXAMPLE_MARGIN * " " + what_for) if what_for else []
    return parts


def continued(command: str) -> list[str]:
    """A command in lines that a shell takes for one."""
    indent = len(command) - len(command.lstrip())
    parts: list[str] = []
    # An option stays with its value.
    for word in re.split(r"(?= --)", command) if command else []:
        if parts and len(parts[-1]) + len(word) <= COLUMNS_MAX - len(" \\"):
            parts[-1] += word
        else:
            parts.append(f"{(indent + 4) * ' '}{word.lstrip()}" if parts else word)
    return [f"{part} \\" for part in parts[:-1]] + parts[-1:]


def folded(line: str) -> list[str]:
    """A line in parts that fit; further ones begin below what it says of an option or command."""
    if len(line) <= COLUMNS_MAX:
        return [line]
    said_of = re.match(r" *\S.*?\S {2,}(?=\S)", line)
    margin = len(said_of[0]) if said_of else len(line) - len(line.lstrip())
    margin = min(margin, COLUMNS_MAX // 2)
    return textwrap.wrap(
        line,
        COLUMNS_MAX,
        subsequent_indent=margin * " ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def said(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def page(program: str) -> str:
    """The whole manual page, in roff."""
    name = Path(program).name
    if name == "wattio":
        import wattio
        from wattio.cli import build

        app = build()
        version, what = wattio.__version__, str(app.help)
        markdown = app.generate_docs(output_format="markdown")
        body = list(of_markdown(markdown.split("**Commands**", 1)[1].partition("\n")[2]))
        number, body = "1", [".SH COMMANDS", *body]
    else:
        version = said(program, "--version").split()[-1]
        what = said(program, "--help").splitlines()[0]
        number, body = "8", list(of_help(program))
    title = f'.TH {name.upper()} {number} "" "{name} {version}"'
    return "\n".join([title, ".SH NAME", f"{name} \\- {plain(what)}", *body, ""])


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
