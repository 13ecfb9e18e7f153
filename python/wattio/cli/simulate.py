"""`wattio simulate`: one server, one load, one policy, and its native twin."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from wattio import _core
from wattio.analysis import efficiency
from wattio.analysis.price import Price
from wattio.analysis.soundness import does_background, sound
from wattio.cli import output
from wattio.cli.load_options import LoadOptions, Quantity, progress_of, within
from wattio.errors import InputError, unusable
from wattio.simulator import server_power
from wattio.simulator.bounds import Bound, judge, takes_bounds
from wattio.simulator.native import NativeSimulator, side_by_side
from wattio.simulator.oracle import check_bounds
from wattio.simulator.policies import BOUND_BY
from wattio.simulator.simulation import (
    Outcome,
    Request,
    Setting,
    overload,
    relate,
)

app = App(
    name="simulate",
    help_format="markdown",
    help_epilogue="""**Examples**

```
wattio simulate --server dorado6000 --policy pacer --plf 0.2 --pressure 0.10
wattio simulate --policy pacer --without frequency --pattern Seq_W \\
    --pressure 0.03 --json
wattio simulate --server small --trace pgbench --policy ondemand
wattio simulate --profile quickstart/day.toml --policy pacer \\
    --set window="250 ms"
wattio simulate --policy fixed --set cores_share=0.63 --pressure 0.10
wattio simulate --server small --iops 4000 --bound "mean 20%" \\
    --bound "p99 2 ms window"
wattio simulate --server small --trace pgbench --oracle
wattio simulate --server small --power-model power-model.toml --pressure 0.05
wattio simulate --list
```

Power is simulated from the server's description, not measured.""",
)


PLF = (0.001, 10.0)
"""What a performance-loss factor may be."""


@dataclass(frozen=True)
class PolicyOptions:
    """Which law, and how it is set.

    Parameters
    ----------
    policy
        Name of a policy, or oracle; `--list` shows them all.
    plf
        Performance-loss factor: how far the mean latency may exceed that at full speed; default:
        0.2, which is 20 %.
    without
        Part of PACER to switch off; may be given more than once.
    set
        A parameter of the policy as key=value; may be given more than once.
    bound
        A bound on latency, instead of --plf: a statistic, a limit (a share above full speed, or a
        time) and a scope, such as "mean 20% run" or "p99 2 ms window"; may be given more than once.
        The policy aims to keep it, and the run is checked against it.
    """

    policy: str = "pacer"
    plf: float | None = None
    without: Annotated[
        tuple[Literal["cores", "frequency", "background"], ...], Parameter(negative="")
    ] = ()
    set: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    bound: Annotated[tuple[str, ...], Parameter(negative="")] = ()

    def settings(self) -> dict[str, Setting]:
        """The policy's settings. Raises InputError."""
        settings: dict[str, Setting] = {}
        for text in self.set:
            key, sign, value = text.partition("=")
            if not sign:
                raise InputError(f'--set "{text}": allowed is key=value')
            settings[key.strip()] = self._value(key.strip(), value.strip())
        if self.without and self.policy != "pacer":
            raise InputError(f"--without is for the policy pacer, not for {self.policy}")
        settings.update({f"adapt_{adaptor}": False for adaptor in self.without})
        if self.plf is not None:
            within("--plf", self.plf, *PLF)
        if self.plf is not None and takes_bounds(self.policy):
            settings["plf"] = self.plf
        return settings

    def _value(self, key: str, text: str) -> Setting:
        if text in ("true", "false"):
            return text == "true"
        try:
            value = float(text)
        except ValueError:
            return text
        if not math.isfinite(value):
            raise InputError(f"--set {key}: {unusable(value, self._allowed(key))}")
        return value

    def _allowed(self, key: str) -> str:
        """The range of a parameter of the policy, in words."""
        table = json.loads(_core.policies()).get(self.policy, {"parameters": []})
        for parameter in table["parameters"]:
            if parameter["name"] == key and parameter["minimum"] is not None:
                return f"{parameter['minimum']} to {parameter['maximum']}"
        return "a finite number"

    def tolerance(self) -> float:
        """The tolerated loss that the run is held against where no bound is given."""
        if self.plf is not None:
            return self.plf
        plf = self.settings().get("plf", 0.2)
        return float(plf)

    def bounds(self) -> tuple[Bound, ...]:
        """The bounds as given. Raises InputError."""
        if self.bound and self.plf is not None:
            raise InputError('--bound and --plf exclude each other: --plf 0.2 is "mean 20% run"')
        return Bound.several(self.bound)


@app.default
def simulate(
    *,
    server: str = "dorado6000",
    power_model: Path | None = None,
    chosen: Annotated[PolicyOptions, Parameter(name="*")] = PolicyOptions(),
    load: Annotated[LoadOptions, Parameter(name="*")] = LoadOptions(),  # noqa: B008
    warmup: Quantity | None = None,
    seed: int = 1,
    oracle: Annotated[bool, Parameter("--oracle", negative="")] = False,
    listing: Annotated[bool, Parameter("--list", negative="")] = False,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Simulate one server under one load with one policy, beside a native twin.

    Parameters
    ----------
    server
        Built-in description (dorado6000, small) or a TOML file.
    power_model
        Power of the server's cores, from a file that `wattio calibrate power` wrote.
    warmup
        Time that is simulated first and not counted; default: 10 s, or none before a trace.
    seed
        Seed of all random numbers; the same seed gives the same result.
    oracle
        Also search for the least power on this load, and show what share of that saving the policy
        reached; accepts up to three bounds.
    listing
        Show all servers and policies with their parameters.
    as_json
        Print one JSON object.
    """
    if listing:
        return _list(as_json)
    promised = chosen.bounds()
    request = load.request(server, chosen.policy, chosen.settings(), seed, warmup, power_model)
    request = replace(request, bounds=tuple(bound.text for bound in promised))
    if oracle or chosen.policy == BOUND_BY:
        check_bounds(promised)
    NativeSimulator().settings(chosen.policy, request.settings)
    outcome, native = run_with_twin(request, quiet=as_json)
    plf = chosen.tolerance()
    judged = [judge(bound, outcome, native) for bound in promised or (Bound.of_plf(plf),)]
    related = relate(outcome, native, None if promised else plf)
    result = {**outcome.summary, **related, "bounds": judged}
    if oracle:
        result["share_of_oracle"] = _share_of_oracle(outcome, native, plf, quiet=as_json)
    if as_json:
        output.print_json(with_year(result, native.summary))
    else:
        show(result, native.summary, request)
    return 0


def run_with_twin(request: Request, *, quiet: bool) -> tuple[Outcome, Outcome]:
    """Simulate a request and its native twin side by side, with a progress bar."""
    twin = replace(request, policy="native", settings={})
    with progress_of(("policy", "native twin"), quiet=quiet) as watch:
        outcome, native = side_by_side([request, twin], watch)
    return outcome, native


def show(result: dict[str, Any], native: dict[str, Any], request: Request) -> None:
    """Print a run of a request beside its twin as a table, with the bound in words."""
    from rich.table import Table

    table = Table(
        title=f"{result['policy']} on {result['server']}, simulated", title_justify="left"
    )
    for heading in ("", "native", result["policy"], "ratio"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, key, form in _ROWS:
        ours, theirs = _value_of(result, key), _value_of(native, key)
        cells = [_shown(theirs, form), _shown(ours, form)]
        ratio = ours / theirs if ours is not None and theirs else None
        table.add_row(name, *cells, _number(ratio, 3))
    output.console().print(table)
    if few := _few(result["ios"]):
        output.console().print(few, highlight=False)
    if "profile" in result:
        day = result["profile"]
        output.console().print(
            f"profile {day['name']}: {day['span_s'] / 3600:g} h in {day['simulated_s']:g} s; "
            f"one simulated second stands for {day['compression']:g} s"
        )
    if "power_model" in result:
        for line in server_power.sentences(result["power_model"]):
            output.console().print(line, markup=False, highlight=False)
    states = result.get("state_share")
    if states:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in states.items())
        output.console().print(f"time in states: {shares}")
    for who, summary in (("native", native), (result["policy"], result)):
        left = overload(request, summary)
        if left is not None:
            output.console().print(f"overloaded: under {who} {left}", highlight=False)
    for bound in result.get("bounds", ()):
        output.console().print(_sentence(bound), highlight=False)
    output.console().print(
        f"{output.year({result['policy']: saved(result, native)})} {Price().stated}",
        highlight=False,
    )
    done = result["relative_to_native"]["background_rate"]
    if not does_background(done):
        left = f"{output.share(1 - done)} of the background work is left undone"
        output.console().print(f"{left}: what is saved by that is in brackets.", highlight=False)
    if "share_of_oracle" in result:
        share = result["share_of_oracle"]
        told = "nothing that could be saved" if share is None else f"{share:.0%}"
        output.console().print(f"share of what the oracle saves: {told}")


def with_year(result: dict[str, Any], native: Mapping[str, Any]) -> dict[str, Any]:
    """A result as plain data, with what its saving is worth in a year."""
    return result | {"saved_in_a_year": output.year_json(*saved(result, native))}


def saved(result: Mapping[str, Any], native: Mapping[str, Any]) -> tuple[float, bool]:
    """By how many watts a run draws less than its twin, and whether that may be called saved."""
    kept = all(bound["kept"] is not False for bound in result.get("bounds", ()))
    done = result["relative_to_native"]["background_rate"]
    return native["power_w_mean"] - result["power_w_mean"], sound(kept, done)


def _few(requests: int) -> str:
    """Which of the percentiles shown are the slowest request alone, in words; or nothing."""
    names = [name for name, share in _TAILS.items() if 0 < requests <= math.ceil(share * requests)]
    if not names:
        return ""
    which = "latencies are" if len(names) > 1 else "latency is"
    return f"{requests:,} requests are few: the {' and '.join(names)} {which} that of the slowest"


def _sentence(bound: dict[str, Any]) -> str:
    """How a bound fared, in words."""
    kept = {True: "kept", False: "NOT kept", None: "nothing to compare it with"}[bound["kept"]]
    ratio, over = bound["run_ratio"], bound["violation_share"]
    if not bound["answered_enough"]:
        share = bound["answered_share"]
        kept = f"{kept}, as only {share:.1%} of the requests that native answers were answered"
    over_run = "" if ratio is None else f"; {ratio:.3f} x its limit over the run"
    windows = "" if over is None else f"; {over:.1%} of the latency windows above it"
    return f"bound {bound['bound']}: {kept}{over_run}{windows}"


def _share_of_oracle(outcome: Outcome, native: Outcome, plf: float, *, quiet: bool) -> float | None:
    """What a run saves as a share of what the oracle saves within its bounds, or those of plf."""
    request = replace(outcome.request, policy="oracle", settings={"plf": plf})
    with progress_of(("oracle",), quiet=quiet) as watch:
        best = NativeSimulator().simulate(request, progress=watch(0))
    powers = (each.summary["power_w_mean"] for each in (outcome, native, best))
    return efficiency.captured_share(*powers)


_ROWS: tuple[tuple[str, str, int | str], ...] = (
    ("power, W", "power_w_mean", 1),
    ("energy", "energy_j", "J"),
    ("I/Os a second", "iops_mean", ""),
    ("I/Os a second and watt", "iops_per_watt", ""),
    ("mean latency", "latency_us_mean", "us"),
    ("99 % latency", "latency_us_p99", "us"),
    ("99.9 % latency", "latency_us_p999", "us"),
    ("99.99 % latency", "latency_us_p9999", "us"),
    ("background work, cores' worth", "background_rate_mean", 2),
    ("active cores", "cores_active_mean", 1),
    ("frequency, GHz", "frequency_ghz_mean", 3),
)


_TAILS = {"99 %": 0.99, "99.9 %": 0.999}
"""Percentiles that are shown however few requests there were."""


def _value_of(summary: dict[str, Any], key: str) -> float | None:
    if key == "frequency_ghz_mean":
        hertz = summary.get("frequency_hz_mean")
        return None if hertz is None else hertz / 1e9
    value: float | None = summary.get(key)
    return value


def _shown(value: float | None, form: int | str) -> str:
    """A value with so many decimals, or in the unit that fits."""
    if isinstance(form, int):
        return _number(value, form)
    return output.quantity(value, form)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _list(as_json: bool) -> int:
    from rich.table import Table
    from rich.text import Text

    servers = {
        name: json.loads(_core.check_server(text))["title"]
        for name, text in _core.built_in_servers().items()
    }
    policies = json.loads(_core.policies())
    if as_json:
        output.print_json({"servers": servers, "policies": policies})
        return 0
    console = output.console()
    for name, title in servers.items():
        console.print(Text.assemble("server ", (name, "bold"), f": {title}"))
    for name, policy in policies.items():
        console.print(Text.assemble("\npolicy ", (name, "bold"), f": {policy['doc']}"))
        if not policy["parameters"]:
            continue
        table = Table("parameter", "default", "range", "unit", "meaning", "source")
        for item in policy["parameters"]:
            ends = (item["minimum"], item["maximum"])
            span = "" if ends == (None, None) else f"{ends[0]} to {ends[1]}"
            default = str(item["default"]).lower()
            table.add_row(item["name"], default, span, item["unit"], item["doc"], item["source"])
        console.print(table)
    return 0
