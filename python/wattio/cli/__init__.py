"""The command line of wattio: one file per command, each loaded only when it is called.

Exit codes: 0 done, 1 the command found a problem or the machine has one (a full disk), 2 input that
cannot be used, 130 stopped.

Nothing else is imported here before `main` has begun: what a Ctrl-C interrupts while modules are
being loaded ends in one line, too.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself takes its time to load.
    from collections.abc import Sequence

    from cyclopts import App, Token

EXIT_DONE = 0
EXIT_PROBLEM = 1
EXIT_BAD_INPUT = 2
EXIT_STOPPED = 130

_COMMANDS = {
    "simulate": ("simulate:app", "Simulate one server under one load with one policy."),
    "oracle": ("oracle:app", "Find the least power that any policy could reach on a load."),
    "run": ("run:app", "Run a study, simulated or measured; its results go into a new folder."),
    "new": ("new:app", "Start a study or a server description of your own from an example."),
    "attach": ("attach:app", "Add recorded power samples to a measurement afterwards."),
    "energy": ("energy:app", "Compute the energy of phases from recorded power, without a study."),
    "report": ("report:app", "Make the report of a result folder: one HTML page, SVG and CSV."),
    "compare": ("compare:app", "Compare two results, or two runs: ratios with intervals."),
    "check": ("check:app", "Check any file that wattio, wattiod or wattio-target reads."),
    "peak": ("peak:app", "Find the most that memory, network and disks allow."),
    "advise": ("advise:app", "Advice from models: a simulation's I/O, a cluster's next purchase."),
    "recompute": ("recompute:app", "Derive every metric of a result again from its raw data."),
    "import": ("import_results:app", "Show the output of fio, IOR or mdtest in one common form."),
    "calibrate": (
        "calibrate:app",
        "Measure, and fit a model: of this host's power, or of a storage target.",
    ),
    "meter": ("meter:app", "Power meters: list, read, record, check and serve them."),
    "trace": ("trace:app", "Inspect, convert and record block traces."),
    "hpcio": (
        "hpcio:app",
        "Output of parallel simulations: run, inspect, assemble, calibrate, prefix.",
    ),
    "clean": ("clean:app", "Remove what killed measurements have left on this host."),
    "doctor": ("doctor:app", "Show what this machine offers wattio, and what it lacks."),
    "completion": ("completion:app", "Print a script for shell completion."),
}


def _version() -> str:
    from importlib.metadata import version

    return version("wattio")


def _shown_default(value: object) -> str | None:
    """What help says of a default: nothing of a flag that is off, or where there is none."""
    if value in (None, "", ()) or value is False:
        return None
    if value is True:
        return "on"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _converted(kind: type[object], tokens: Sequence[Token]) -> object:
    """As cyclopts does it, except that no fraction is rounded to a whole number."""
    from cyclopts import CoercionError, convert

    for token in tokens:
        if kind is int and token.value.partition(".")[2].strip("0"):
            raise CoercionError(token=token, target_type=int)
    return convert(kind, tokens)


def build(called: str | None = None) -> App:
    """Make the command line; no command is imported before it is called.

    The list of commands shows the summaries above. The command that is `called` keeps the longer
    help of its own, which a summary given here would replace.
    """
    from cyclopts import App, Parameter

    root = App(
        name="wattio",
        help="Measure, model and cut the energy that storage uses, within a stated latency bound.",
        help_epilogue="`wattio COMMAND --help` shows the options of a command, with examples."
        " `--verbose` with any command shows what it reads, runs and opens.",
        help_format="markdown",
        default_parameter=Parameter(show_default=_shown_default, converter=_converted),
        version=_version,
        print_error=False,
        exit_on_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for order, (name, (target, summary)) in enumerate(_COMMANDS.items()):
        own = None if name == called else summary
        root.command(f"wattio.cli.{target}", name=name, help=own, sort_key=order)
    return root


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console command; always leaves through SystemExit."""
    try:
        _have_streams()
        code = _call(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = _stopped()
    if arguments is None:
        _leaving()
    sys.exit(code)


def _have_streams() -> None:
    """Write into nothing where a stream was closed (`wattio ... >&-`), as it is None then.

    What is opened later would else get its number, and be written to by child processes. What the
    characters of a terminal do not hold, as µ in ASCII, is shown as a question mark.
    """
    import io
    import os

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")
        elif stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123 (open to the end)


def _call(words: list[str]) -> int:
    """Call the command that is named; its exit code, or that of what went wrong."""
    try:
        from wattio.cli.failures import joined, refuse_unknown

        if "--verbose" in words:
            from wattio.cli import log

            words = log.taken_from(words)
        if words[:1] == ["completions"]:  # as wattiod and wattio-target call it
            words = ["completion", *words[1:]]
        refuse_unknown(words, _COMMANDS)
        called = words[0] if words and not words[0].startswith("-") else None
        code = build(called)(joined(words))
        # What was printed is a part of what was asked for, and may find no room.
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Exception as error:
        from wattio.cli.failures import answer

        return answer(error)


def _stopped() -> int:
    sys.stderr.write("wattio: stopped\n")
    return EXIT_STOPPED


def _leaving() -> None:
    """From here on nothing is to be kept or put back: a Ctrl-C ends the process at once.

    Unless it is ignored, as shells have it for what they start in the background.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
