"""The command line of wattio: one file per command, each loaded only when it is called.

Exit codes: 0 done, 1 the command found a problem, 2 input that cannot be used, 130 stopped.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches

from cyclopts import App, CycloptsError

from wattio.errors import Cancelled, HostError, InputError, WattioError

EXIT_PROBLEM = 1
EXIT_BAD_INPUT = 2
EXIT_STOPPED = 130


def _version() -> str:
    from importlib.metadata import version

    return version("wattio")


def _plain(error: CycloptsError) -> str:
    return f"wattio: {error}"


_COMMANDS = {
    "simulate": ("simulate:app", "Simulate one server under one load with one policy."),
    "oracle": ("oracle:app", "Find the least power that any policy could reach on a load."),
    "run": ("run:app", "Run a study; its results go into a folder of their own."),
    "attach": ("attach:app", "Join recorded power samples to a measurement afterwards."),
    "report": ("report:app", "Make the report of a result folder: one HTML page, SVG and CSV."),
    "compare": ("compare:app", "Compare two results, or two runs: ratios with intervals."),
    "check": ("check:app", "Check study, server, policy, profile and wattiod files."),
    "peak": ("peak:app", "Find the most that memory, network and disks allow together."),
    "advise": ("advise:app", "Choose by a model: the I/O approach of a simulation."),
    "recompute": ("recompute:app", "Derive every metric of a result again from its raw data."),
    "import": ("import_results:app", "Read what fio, IOR and mdtest have printed, in one form."),
    "calibrate": ("calibrate:app", "Fit the models of this host to a meter."),
    "meter": ("meter:app", "Power meters: list, read, record, check and serve them."),
    "trace": ("trace:app", "Look into block traces, convert and record them."),
    "hpcio": ("hpcio:app", "Output of parallel simulations: run, inspect, assemble, calibrate."),
    "doctor": ("doctor:app", "Show what this machine offers wattio, and what it lacks."),
}


def build(called: str | None = None) -> App:
    """Make the command line; no command is imported before it is called.

    The list of commands shows the summaries above. The command that is `called` keeps the longer
    help of its own, which a summary given here would replace.
    """
    root = App(
        name="wattio",
        help="Measure, model and cut the energy that storage uses, within a stated latency bound.",
        help_epilogue="`wattio COMMAND --help` shows the options of a command, with examples.",
        help_format="markdown",
        version=_version,
        error_formatter=_plain,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for order, (name, (target, summary)) in enumerate(_COMMANDS.items()):
        own = None if name == called else summary
        root.command(f"wattio.cli.{target}", name=name, help=own, sort_key=order)
    return root


app = build()


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the console command; always leaves through SystemExit."""
    words = sys.argv[1:] if arguments is None else arguments
    called = words[0] if words and not words[0].startswith("-") else None
    if called is not None and called not in _COMMANDS:
        close = get_close_matches(called, _COMMANDS, n=1)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        known = ", ".join(_COMMANDS)
        sys.exit(_complain(f'unknown command "{called}"; {hint}allowed: {known}', EXIT_BAD_INPUT))
    try:
        code = build(called)(words)
    except InputError as error:
        sys.exit(_complain(str(error), EXIT_BAD_INPUT))
    except (KeyboardInterrupt, Cancelled) as stop:
        sys.exit(_complain(str(stop) or "stopped", EXIT_STOPPED))
    except (WattioError, HostError) as error:
        sys.exit(_complain(str(error), EXIT_BAD_INPUT))
    except BrokenPipeError:
        # Whoever read our output has left (`wattio ... | head`); the interpreter would complain
        # about the same thing once more when it flushes.
        sys.stderr.close()
        sys.exit(EXIT_PROBLEM)
    except OSError as error:
        # A full disk, a folder that others closed: a file of ours, and nothing to trace.
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(_complain(f"{where}{error.strerror or error}", EXIT_BAD_INPUT))
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"wattio: {message}\n")
    return code
