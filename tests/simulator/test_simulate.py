"""`wattio simulate` and `wattio oracle` from the command line, on short loads."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import ROOT
from wattio import _core, cli
from wattio.api import simulated as api
from wattio.errors import Cancelled, InputError
from wattio.kinds.simulation import metrics
from wattio.simulator import oracle, saturation, simulation
from wattio.simulator.native import NativeSimulator
from wattio.simulator.profile import PATTERNS
from wattio.simulator.simulation import Outcome, Request

SHORT = ("--pressure", "0.05", "--duration", "2 s", "--warmup", "4 s")
REQUIRED = {
    *("policy", "seed", "duration_s", "ios", "iops_mean", "latency_us_mean", "latency_us_p50"),
    *("latency_us_p99", "latency_us_p999", "power_w_mean", "energy_j", "iops_per_watt"),
    *("background_rate_mean", "cores_active_mean", "frequency_hz_mean", "state_share"),
    *("relative_to_native", "bound", "events", "events_per_s", "wall_s"),
    *("background_backlog_core_s_end", "background_delay_s_max", "energy_per_io_j", "bounds"),
    "ios_waiting_end",
}


def wattio(*words: str) -> subprocess.CompletedProcess[str]:
    """The command within this process: one of its own takes a second to begin."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as left,
    ):
        cli.main(list(words))
    code = left.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def answer(*words: str) -> dict[str, Any]:
    done = wattio(*words, "--json")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_one_object_with_everything_that_is_promised() -> None:
    result = answer("simulate", "--policy", "pacer", "--plf", "0.2", *SHORT)
    assert result.keys() >= REQUIRED
    assert set(result["state_share"]) == {"unstable", "stable", "idle"}
    relative = {"iops", "iops_per_watt", "latency_us_mean", "latency_us_p99", "background_rate"}
    assert result["relative_to_native"].keys() >= relative
    assert set(result["bound"]) == {"plf", "latency_us_mean_ok", "violation_share"}
    assert result["relative_to_native"]["iops_per_watt"] > 1.1
    parts = result["energy_by_component_j"]
    assert sum(parts.values()) == pytest.approx(result["energy_j"], rel=1e-12)


def test_a_rate_below_one_request_a_second_is_told() -> None:
    """A quiet trace had 0 I/Os a second, and 0.000 of them for each watt."""
    words = ("--server", "small", "--policy", "native", "--iops", "0.2", "--warmup", "1 s")
    done = wattio("simulate", *words, "--duration", "100 s", "--seed", "3")
    told = dict(re.findall(r"(I/Os a second(?: and watt)?) +│ +(\S+) │", done.stdout))
    assert 0 < float(told["I/Os a second"]) < 1
    assert 0 < float(told["I/Os a second and watt"]) < 0.01


def test_what_a_run_leaves_undone_is_told() -> None:
    words = ("simulate", "--server", "small", "--pressure", "0.3", "--duration", "2 s")
    put_off = answer(*words, "--policy", "foresight")
    # Work that was not done when the run began counts in its rate and in its rest.
    due = put_off["background_rate_due"] * put_off["duration_s"]
    assert 0 <= put_off["background_backlog_core_s_end"] < due
    done = put_off["background_rate_mean"] * put_off["duration_s"]
    assert put_off["background_backlog_core_s_end"] >= due - done - 1e-6
    assert put_off["energy_per_io_j"] == pytest.approx(put_off["energy_j"] / put_off["ios"])


def test_the_share_of_the_oracle_is_told_where_it_is_asked_for() -> None:
    words = ("simulate", "--policy", "foresight", "--server", "small", *SHORT)
    assert "share_of_oracle" not in answer(*words)
    ours = answer(*words, "--oracle")
    best, native = (
        answer("oracle", "--server", "small", *SHORT),
        answer(*words[:1], "--policy", "native", "--server", "small", *SHORT),
    )
    saved = [native["power_w_mean"] - run["power_w_mean"] for run in (ours, best)]
    assert ours["share_of_oracle"] == pytest.approx(saved[0] / saved[1], rel=1e-9)
    assert 0 < ours["share_of_oracle"] <= 1


def test_the_table_has_the_far_percentiles_and_a_year() -> None:
    told = wattio("simulate", "--policy", "ondemand", *SHORT)
    assert told.returncode == 0, told.stderr
    cell = r" +[\d.]+ (µs|ms) │"
    assert re.search(rf"99\.99 % latency +│{cell}{cell} +\d\.\d+ │", told.stdout)
    assert re.search(r"energy +│ +[\d.,]+ (J|Wh) │", told.stdout)
    assert re.search(r"saved in a year, .*: ondemand \(?-?[\d,.]+ kWh, .* EUR, .* kg", told.stdout)
    assert "0.25 EUR and 350 g" in told.stdout


def test_one_seed_is_one_result_but_for_the_clock() -> None:
    words = ("simulate", "--policy", "ondemand", "--server", "small", *SHORT)
    results = [answer(*words, "--seed", seed) for seed in ("3", "3", "4")]
    for result in results:
        del result["wall_s"], result["events_per_s"]
    assert results[0] == results[1]
    assert results[0]["latency_us_mean"] != results[2]["latency_us_mean"]


def test_an_adaptor_that_is_switched_off_never_moves() -> None:
    without_cores = answer("simulate", "--without", "cores", *SHORT)
    assert without_cores["cores_active_mean"] == 96.0
    assert without_cores["frequency_hz_mean"] < 2.6e9
    without_frequency = answer("simulate", "--without", "frequency", *SHORT)
    assert without_frequency["frequency_hz_mean"] == pytest.approx(2.6e9, rel=1e-12)
    assert without_frequency["cores_active_mean"] < 96.0


def test_the_oracle_saves_at_least_as_much_and_keeps_the_bound() -> None:
    found = answer("oracle", "--server", "small", *SHORT)
    pacer = answer("simulate", "--server", "small", *SHORT)
    assert found["power_w_mean"] <= pacer["power_w_mean"]
    assert found["bound"]["latency_us_mean_ok"]
    assert found["relative_to_native"]["background_rate"] >= 0.98
    segments = found["segments"]
    assert {len(segment["cores"]) for segment in segments} == {2}
    assert sum(segment["span_s"] for segment in segments) == pytest.approx(found["duration_s"])
    search = found["search"]
    assert search["slot_s"] == 0.5
    assert 0 <= search["tolerance_share"] < 0.05
    told = {rival["policy"]: rival for rival in search["rivals"] if not rival["switching_is_free"]}
    assert told["pacer"]["kept"]
    assert told["pacer"]["saving_share"] == pytest.approx(
        1 - pacer["relative_to_native"]["power_w_mean"], rel=1e-9
    )


PEAK_MEMORY = """
import sys
from wattio import cli
try:
    cli.main(sys.argv[1:])
finally:
    with open("/proc/self/status") as told:
        print(next(line for line in told if line.startswith("VmHWM:")), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_oracle_needs_little_memory_for_a_file_of_nearly_equal_times(tmp_path: Path) -> None:
    """Such a file took 2.5 GB."""
    trace = tmp_path / "flood.csv"
    rows = [f"{5 if at < 199_990 else 60_000_005},W,{8 * at},4096\n" for at in range(200_000)]
    trace.write_text("".join(rows))
    words = ("oracle", "--server", "small", "--trace", str(trace), "--json")
    columns = ("--columns", "time=0:us,op=1,lba=2:sectors,size=3:bytes")
    command = (sys.executable, "-c", PEAK_MEMORY, *words, *columns)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    peak_kib = int(re.findall(r"VmHWM:\s+(\d+) kB", done.stderr)[-1])
    # 109 MB were measured, half of them Python and what it loads.
    assert peak_kib < 256 * 1024


def test_the_oracle_keeps_every_bound_that_it_is_given() -> None:
    words = ("oracle", "--server", "small", "--bound", "mean 20%", "--bound", "p99 15%", *SHORT)
    found = answer(*words)
    assert [bound["bound"] for bound in found["bounds"]] == ["mean 20% run", "p99 15% run"]
    assert all(bound["kept"] for bound in found["bounds"])
    assert (
        found["power_w_mean"]
        < 0.99 * found["power_w_mean"] / (found["relative_to_native"]["power_w_mean"])
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--policy", "pacerr"), 'did you mean "pacer"?'),
        # The one policy that is no law was not among those that there are.
        (("--policy", "Oracle"), 'unknown policy "Oracle"; did you mean "oracle"? allowed: fixed,'),
        # It was 1000000000000.0, beside a limit of 1,000,000,000.
        (("--iops", "1e12"), "--iops 1,000,000,000,000: allowed is 0 to 1,000,000,000"),
        (("--server", "nowhere.toml"), "nowhere.toml"),
        # Only of what was no number was the option told.
        (("--pressure", "2"), "--pressure 2: allowed is above 0 and at most 1"),
        (("--pressure", "0.1", "--iops", "5"), "exclude each other"),
        # Both were taken, and told twice.
        (("--bound", "mean 20%", "--bound", "mean 0.2 run"), 'bound "mean 20% run" is given twice'),
        (("--duration", "10"), "it has no unit"),
        (("--set", "beta"), "allowed is key=value"),
        (("--set", "beta=x"), "allowed is 0 to 1"),
        (("--set", "unstable_threshold=0.01"), "above stable_threshold"),
        (("--policy", "native", "--without", "cores"), "is for the policy pacer"),
        (("--io-size", "8 ms"), "--io-size"),
        # Not of 32 bits: that was told in the words of the JSON between Python and Rust.
        (("--io-size", "900 TiB", "--iops", "10"), '"900 TiB"; allowed is 1 B to 1 GiB'),
        (("--io-size", "2 GiB"), '--io-size: "2 GiB"; allowed is 1 B to 1 GiB'),
        # It ran, in more and more memory, and on for a minute after Ctrl-C.
        (("--clients", "1000000000"), "--clients 1000000000: allowed is 1 to 1000000, as"),
        (("--clients", "0"), "--clients 0: allowed is 1 to 1000000"),
        (("--trace", "README.md"), "README.md"),
        (("--profile", "README.md"), "README.md"),
        (("--seed", "-1"), "--seed"),
        (("--rate-scale", "2"), "cannot be used with a pattern"),
        (("--trace", "x", "--open"), "--open cannot be used with --trace"),
        (("--profile", "x", "--io-size", "8 KiB"), "--io-size cannot be used with --profile"),
        (("--plf", "nan"), "--plf: nan is not a number that can be used; allowed is 0.001 to 10"),
        (("--read-fraction", "2"), "--read-fraction 2: allowed is 0 to 1"),
        (("--duration", "2000 d"), "allowed is 1 ms to 1e8 s"),
        (("--nonsense",), "unknown option --nonsense"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(words: tuple[str, ...], says: str) -> None:
    done = wattio("simulate", *words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(("iops", "shown"), [("5", True), ("20000", False)])
def test_percentiles_of_few_requests_are_told_as_the_slowest(iops: str, shown: bool) -> None:
    """Of 22 requests a p99.9 was shown without a word."""
    done = wattio("simulate", "--server", "small", "--iops", iops, "--duration", "2 s")
    assert done.returncode == 0, done.stderr
    told = re.search(r"^\d+ requests are few: the 99 % and 99.9 % latencies are", done.stdout, re.M)
    assert bool(told) is shown


def outcome(latency_us: list[float]) -> Outcome:
    """An outcome of which only what `relate` reads is there."""
    means = np.array(latency_us)
    mean_us = float(np.nanmean(means)) if np.isfinite(means).any() else None
    summary = {
        "ios": 5 if mean_us else 0,
        "iops_mean": 10.0,
        "iops_per_watt": 0.1,
        "power_w_mean": 100.0,
        "latency_us_mean": mean_us,
        "latency_us_p99": mean_us,
        "background_rate_mean": 0.0,
    }
    windows = {"start_s": np.arange(len(means)) * 0.5, "latency_us_mean": means}
    empty = np.array([], dtype=np.uint64), np.array([]), np.array([], dtype=np.uint64)
    request = Request("small", "native", {"pattern": "Rand_R", "iops": 10.0})
    return Outcome(request, summary, windows, empty, (empty[1], empty[2]))


def test_windows_above_the_bound_are_counted_where_both_answered() -> None:
    nan = float("nan")
    related = simulation.relate(
        outcome([130.0, 110.0, nan, 500.0, 121.0]), outcome([100.0, 100.0, 100.0, nan, 100.0]), 0.2
    )
    assert related["bound"]["violation_share"] == pytest.approx(2 / 3)
    assert related["relative_to_native"]["background_rate"] is None


def test_without_requests_there_is_no_ratio_and_no_verdict() -> None:
    nan = float("nan")
    related = simulation.relate(outcome([nan, nan]), outcome([nan, nan]), 0.2)
    assert related["bound"] == {"plf": 0.2, "latency_us_mean_ok": None, "violation_share": None}


def test_a_bound_on_a_plf_is_told_only_where_one_holds() -> None:
    """It stood there for a plf that nobody had given, and said that it was broken."""
    words = ("simulate", "--server", "small", "--policy", "ondemand", *SHORT)
    assert answer(*words, "--bound", "p99 2 ms")["bound"] is None
    assert answer(*words, "--plf", "0.1")["bound"]["plf"] == 0.1
    done = api.simulate("small", policy="ondemand", duration_s=1.0, bounds=["p99 2 ms"])
    assert done.summary["bound"] is None


@pytest.fixture
def one_moment(tmp_path: Path) -> Path:
    """A trace of 20,000 requests, all but the first of which come at once, after 1 s."""
    path = tmp_path / "moment.csv"
    rows = (f"0,R,{at * 65536 * 7},4096,{min(at, 1) * 1_000_000}" for at in range(20_000))
    path.write_text("\n".join(rows) + "\n")
    return path


def test_what_a_trace_leaves_unanswered_is_no_bound_kept(one_moment: Path) -> None:
    """What was never answered was never judged: a bound that was broken was told as kept."""
    words = (
        *("simulate", "--server", "small", "--trace", str(one_moment), "--policy", "fixed"),
        *("--set", "cores_share=0.5", "--set", "frequency_share=0.3", "--bound", "mean 20%"),
        *("--duration", "1.1 s"),
    )
    told = answer(*words)
    assert told["ios"] + told["ios_waiting_end"] == 20_000
    assert told["ios_waiting_end"] > 200
    (judged,) = told["bounds"]
    assert judged["run_ratio"] < 1, "what was answered was answered in time"
    assert judged["answered_share"] < 0.98
    assert judged["kept"] is False
    shown = " ".join(wattio(*words).stdout.split())
    assert re.search(r"overloaded: under fixed [\d,]+ of 20,000 requests were not answered", shown)
    assert re.search(r"NOT kept, as only \d+\.\d% of the requests that native answers", shown)


def test_a_run_that_leaves_much_unanswered_is_warned_of(one_moment: Path) -> None:
    request = Request("small", "native", {"trace": str(one_moment)}, duration_s=1.02, warmup_s=0.0)
    found = metrics.verdicts(NativeSimulator().simulate(request))
    (warned,) = [each for each in found if each.reason.startswith("OVERLOADED")]
    assert warned.verdict == "WARN"
    assert "of 20,000 requests were not answered at the end" in warned.reason
    # Clients that wait for their answers always have some, and results of old do not say.
    ours = {"ios": 100, "ios_waiting_end": 50}
    closed = Request("small", "native", {"pattern": "Rand_R", "pressure": 1.0})
    assert simulation.overload(closed, ours) is None
    assert simulation.overload(request, {"ios": 100}) is None
    assert simulation.overload(request, {"ios": 10, "ios_waiting_end": 10}) is None


@pytest.mark.parametrize(
    "words",
    [("simulate", "--oracle"), ("simulate", "--policy", "oracle"), ("oracle",)],
)
def test_too_many_bounds_for_the_oracle_are_refused_before_anything_runs(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(*_: object, **__: object) -> Outcome:
        raise AssertionError("nothing is to be simulated")

    monkeypatch.setattr(NativeSimulator, "simulate", simulated)
    bounds = [word for limit in (10, 20, 30, 40) for word in ("--bound", f"p99 {limit}%")]
    done = wattio(*words, *bounds, *SHORT)
    assert done.returncode == 2
    assert "the oracle keeps at most 3 bounds; there are 4" in done.stderr
    with pytest.raises(InputError, match="at most 3 bounds"):
        api.simulate(policy="oracle", bounds=bounds[1::2])


def test_a_hyperparameter_says_what_it_is_and_where_it_comes_from() -> None:
    policies = json.loads(_core.policies())
    assert {"native", "ondemand", "ondemand-document", "schedutil", "pacer"} <= policies.keys()
    for parameter in policies["pacer"]["parameters"]:
        assert parameter["unit"]
        assert parameter["source"]
        assert isinstance(parameter["published"], bool)


def test_the_list_shows_every_server_policy_and_parameter() -> None:
    done = wattio("simulate", "--list")
    assert done.returncode == 0, done.stderr
    for name in ("dorado6000", "small", "schedutil", "background_floor"):
        assert name in done.stdout


def test_a_trace_lasts_as_long_under_every_policy() -> None:
    trace = str(ROOT / "traces" / "pgbench.wtrace")
    words = ("simulate", "--server", "small", "--trace", trace, "--time-scale", "0.01")
    spans = [answer(*words, "--policy", name)["duration_s"] for name in ("native", "ondemand")]
    assert spans[0] == spans[1]


def test_the_oracle_refuses_settings_it_does_not_know() -> None:
    with pytest.raises(InputError, match="unknown parameter"):
        oracle.check({"beta": 0.1})
    with pytest.raises(InputError, match=r'oracle: .*"max" is not a statistic'):
        oracle.check({"statistic": "max"})


UNUSABLE = "is not a number that can be used; allowed is"
TRACE = ("--trace", "traces/pgbench.wtrace")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("words", "option", "allowed"),
    [
        (("simulate", *TRACE, "--rate-scale"), "--rate-scale", "0.000001 to 10,000"),
        (("simulate", *TRACE, "--time-scale"), "--time-scale", "0.000001 to 1,000,000"),
        (
            ("trace", "convert", TRACE[1], "never", "--rate-scale"),
            "--rate-scale",
            "0.000001 to 10,000",
        ),
        (("simulate", "--pressure"), "--pressure", "above 0 and at most 1"),
        (("simulate", "--iops"), "--iops", "0 to 1,000,000,000"),
        (("simulate", "--read-fraction"), "--read-fraction", "0 to 1"),
        (("simulate", "--plf"), "--plf", "0.001 to 10"),
        (("oracle", "--plf"), "--plf", "0.001 to 10"),
    ],
)
def test_what_is_no_number_is_refused_by_name(
    words: tuple[str, ...], option: str, allowed: str, value: str
) -> None:
    """Native parsers of JSON answered: "run: expected value at line 1 column 3065"."""
    done = wattio(*words[:-1], f"{words[-1]}={value}")
    assert done.returncode == 2
    assert f"{option}: {value} {UNUSABLE} {allowed}" in " ".join(done.stderr.split())


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("policy", "setting", "allowed"),
    [
        ("pacer", "plf", "0.001 to 10"),
        ("fixed", "cores_share", "0.0 to 1.0"),
        ("oracle", "slice_s", "a finite number"),
    ],
)
def test_a_setting_that_is_no_number_is_refused_by_name(
    policy: str, setting: str, allowed: str, value: str
) -> None:
    done = wattio("simulate", "--policy", policy, "--set", f"{setting}={value}")
    assert done.returncode == 2
    assert f"--set {setting}: {value} {UNUSABLE} {allowed}" in " ".join(done.stderr.split())


def test_a_request_with_what_is_no_number_is_refused_by_key() -> None:
    load = {"pattern": "Rand_RW", "pressure": 0.1}
    nan = float("nan")
    with pytest.raises(InputError, match=r"^settings\.plf: nan is not a number that can be"):
        NativeSimulator().simulate(Request("small", "pacer", load, {"plf": nan}, duration_s=1.0))
    with pytest.raises(InputError, match="warmup_s: nan is not a number that can be used"):
        NativeSimulator().simulate(Request("small", "pacer", load, duration_s=1.0, warmup_s=nan))
    with pytest.raises(
        InputError, match=r"load\.read_fraction: inf is not a number that can be used"
    ):
        NativeSimulator().simulate(Request("small", "pacer", {**load, "read_fraction": math.inf}))
    with pytest.raises(InputError, match="oracle: plf: nan is not a number that can be used"):
        NativeSimulator().simulate(Request("small", "oracle", load, {"plf": nan}, duration_s=1.0))


QUIET = ("simulate", "--server", "small", "--iops", "2000")


def test_bounds_on_the_command_line_are_judged_and_told_to_the_law() -> None:
    done = wattio(
        *QUIET, "--duration", "20 s", "--json", "--bound", "mean 2%", "--bound", "p99 2 ms"
    )
    assert done.returncode == 0, done.stderr
    tight: dict[str, Any] = json.loads(done.stdout)
    assert [bound["statistic"] for bound in tight["bounds"]] == ["mean", "p99"]
    loose = json.loads(wattio(*QUIET, "--duration", "20 s", "--json").stdout)
    assert tight["power_w_mean"] > loose["power_w_mean"], "the law heard of the tighter bound"
    assert tight["background_delay_s_max"] >= 0.0
    assert tight["energy_per_io_j"] == pytest.approx(tight["energy_j"] / tight["ios"])
    # What the text says of a year was not in the JSON.
    year = loose["saved_in_a_year"]
    native_w = loose["power_w_mean"] / loose["relative_to_native"]["power_w_mean"]
    assert year["kwh"] == pytest.approx((native_w - loose["power_w_mean"]) * 8.766)
    assert year["may_be_called_saved"] is all(bound["kept"] for bound in loose["bounds"])


def test_a_bound_and_a_plf_exclude_each_other() -> None:
    refused = wattio(*QUIET, "--bound", "mean 20%", "--plf", "0.1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "exclude each other" in refused.stderr


@pytest.mark.parametrize("clients", [0, -1, 10**6 + 1, 10**12])
def test_a_program_asks_for_no_more_clients_either(clients: int) -> None:
    with pytest.raises(InputError, match=f"clients {clients}: allowed is 1 to 1000000"):
        api.simulate(clients=clients, pressure=0.1)


def test_phases_have_requests_of_a_size_that_there_is() -> None:
    phase = {"span_s": 1.0, "pattern": "Rand_R", "iops": 10.0, "io_bytes": 2**40}
    with pytest.raises(InputError, match="a request of 1099511627776 bytes: allowed is 1 B to"):
        api.simulate(phases=[phase])


def test_the_rate_of_saturation_can_be_stopped_and_steps_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many clients it takes long, and Ctrl-C was not looked for meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(saturation, "_known", {})
    server = _core.built_in_servers()["small"]
    pattern = PATTERNS["Rand_RW"]
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        saturation.saturated_iops(server, pattern, 300, cancelled)
    assert not list(tmp_path.rglob("*"))
    described = json.dumps({"read_fraction": 0.7, "random_fraction": 1.0, "io_bytes": 8192})
    whole = _core.saturated_iops(server, described, 300, 1)
    assert saturation.saturated_iops(server, pattern, 300) == whole
