from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from wattio.api.results import IN_SUMMARY
from wattio.cli import output, run_measurement
from wattio.kinds.measurement import compare
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.kinds.measurement.summary import normalised_edp
from wattio.results import summary
from wattio.results.compare import method, sentence
from wattio.results.runs import Metrics, Recorded, Run, Verdict

from . import made_folder

VALID, WARN, INVALID = Verdict("VALID", ""), Verdict("WARN", "LOW_N"), Verdict("INVALID", "GAP")


def run(label: str = "local, 1 client") -> Run:
    return Run("posix", "local", label, {"clients": 1})


def recorded(
    of: Run,
    repetition: int,
    energy_j: float,
    verdict: Verdict = VALID,
    attempt: int = 0,
    size: float = 100.0,
    seconds: float = 10.0,
) -> Recorded:
    metrics: Metrics = {
        "energy_j": (energy_j, "J"),
        "seconds": (seconds, "s"),
        "bytes": (size, "B"),
        "edp_w1": (energy_j * seconds, "J s"),
    }
    identity = f"{of.name} {repetition} {attempt}"
    return Recorded(identity, of, 1, repetition, 1, (verdict,), {"write": metrics}, attempt)


def test_invalid_iterations_are_counted_and_never_averaged() -> None:
    found = summary.rows(
        [
            recorded(run(), 0, 100.0),
            recorded(run(), 1, 110.0, WARN),
            recorded(run(), 2, 9999.0, INVALID),
        ]
    )
    row = found[0]
    assert (row.valid, row.warned, row.invalid, row.used) == (1, 1, 1, 2)
    energy = row.get("energy_j")
    assert energy is not None
    assert energy.mean == 105.0
    assert energy.deviation == pytest.approx(50**0.5)
    assert energy.interval is not None
    # Student's t of one degree of freedom: 12.7 standard errors of 5 J.
    assert (energy.interval.low, energy.interval.high) == pytest.approx((41.469, 168.531))


def test_the_last_attempt_counts() -> None:
    found = summary.rows(
        [
            recorded(run(), 0, 50.0, INVALID),
            recorded(run(), 0, 60.0, VALID, attempt=1),
        ]
    )
    assert (found[0].valid, found[0].invalid) == (1, 0)
    assert found[0].metrics["energy_j"].values == (60.0,)


def test_a_run_whose_iterations_are_all_invalid_is_still_told_of() -> None:
    found = summary.rows([recorded(run(), 0, 50.0, INVALID)])
    assert (found[0].used, found[0].invalid, found[0].metrics) == (0, 1, {})


def test_products_are_normalised_over_equal_work_only() -> None:
    one, other = run(), run("local, 2 clients")
    equal = summary.rows([recorded(one, 0, 30.0), recorded(other, 0, 90.0)])
    found = normalised_edp(equal, 1)
    assert found == {one.name: 1.0, other.name: 3.0}
    unequal = summary.rows([recorded(one, 0, 30.0), recorded(other, 0, 90.0, size=200.0)])
    assert normalised_edp(unequal, 1) == {}
    assert normalised_edp([], 1) == {}


@pytest.mark.parametrize(("files", "equal"), [((40, 40), True), ((40, 41), False)])
def test_equal_files_are_equal_work_whatever_is_in_them(
    files: tuple[int, int], equal: bool
) -> None:
    """A tree that was deleted has no bytes that moved, and objects may hold when they were made."""
    made = [recorded(run(f"local, {number}"), 0, 30.0, size=100.0 + number) for number in range(2)]
    for one, count in zip(made, files, strict=True):
        one.by_phase["write"]["files"] = (float(count), "1")
    assert summary.equal_work(summary.rows(made)) is equal


def rows_of(
    values: list[float], label: str = "local, 1 client", size: float = 100.0
) -> summary.Row:
    made = [recorded(run(label), n, value, size=size) for n, value in enumerate(values)]
    return summary.rows(made)[0]


def rates_of(subject: str, rate: float, **amounts: float) -> summary.Row:
    """Two repetitions of a phase that takes 10 s."""
    of = Run(subject, "local", "local, 1 client", {"clients": 1})
    found = []
    for n, spread in enumerate((1.0, 1.001)):
        one = recorded(of, n, 100.0 * spread)
        metrics: Metrics = {name: (value, "1") for name, value in amounts.items()}
        metrics["throughput_mib_s"] = (rate * spread, "MiB/s")
        del one.by_phase["write"]["bytes"]
        one.by_phase["write"].update(metrics)
        found.append(one)
    return summary.rows(found)[0]


OF_WORK = {"seconds", "energy_j", "edp_w1"}


@pytest.mark.parametrize(
    ("subject", "first", "second", "left_out", "said"),
    [
        ("posix", {"bytes": 600.0}, {"bytes": 1.0}, OF_WORK, True),
        ("posix", {"bytes": 600.0}, {"bytes": 600.0}, set(), False),
        ("posix", {"bytes": 600.0}, {"operations": 600.0}, OF_WORK, True),
        ("posix", {}, {}, {"edp_w1"}, False),
        ("idle", {}, {}, OF_WORK, False),
    ],
)
def test_time_and_energy_are_compared_of_equal_work_only(
    subject: str, first: dict[str, float], second: dict[str, float], left_out: set[str], said: bool
) -> None:
    """A trial of a hundredth of the work was called 99 % better."""
    found = compare.of_rows(rates_of(subject, 50.0, **first), rates_of(subject, 80.0, **second))
    assert {one.metric for one in found} == OF_WORK - left_out | {"throughput_mib_s"}
    assert {bool(one.unequal) for one in found} == {said}
    told = sentence(found)
    assert "throughput 60.0 % higher (better)" in told
    assert (
        told.endswith(" Unequal work: time, energy and energy-delay product are left out.") == said
    )


def test_work_that_is_known_by_files_alone_is_compared() -> None:
    """Its rate and its files per joule were in tables and reports only."""
    left, right = (
        rates_of("tree", 50.0, files=600.0, files_per_s=rate, files_per_joule=rate / 100)
        for rate in (60.0, 90.0)
    )
    found = {one.metric: one.ratio for one in compare.of_rows(left, right)}
    assert (found["files_per_s"], found["files_per_joule"]) == (1.5, 1.5)


def test_the_table_of_a_summary_has_what_is_compared() -> None:
    """Files per second and per joule were not in it."""
    apart = {"seconds", "latency_us_p999", "latency_us_p9999", "edp_w1"}
    assert set(compare.METRICS) - apart <= set(IN_SUMMARY)


def test_a_difference_beyond_noise_is_said_in_words() -> None:
    left, right = rows_of([100.0, 101, 99]), rows_of([200.0, 202, 198])
    found = compare.of_rows(left, right)
    energy = next(ratio for ratio in found if ratio.metric == "energy_j")
    assert energy.ratio == pytest.approx(2.0)
    assert energy.beyond_noise
    assert sentence([energy]) == "Beyond noise: energy 100.0 % higher (worse)."
    same = [one for one in compare.of_rows(left, rows_of([100.5, 99.5, 100]))]
    told = "Nothing differs beyond noise. With 3 runs each, a difference of"
    assert sentence(same).startswith(told)
    assert sentence(same).endswith(" would have been seen in 80 % of cases.")
    assert method(same).startswith("Welch's t test of the logarithm of the ratio of means, over")
    assert f"corrected for {len(same)} metrics by Holm's method, beyond noise below 0.05" in method(
        same
    )
    single = compare.of_rows(rows_of([100.0]), right)
    assert sentence(single).startswith("One repetition on a side says nothing")


def test_a_mean_over_fewer_repetitions_than_ran_says_over_how_many() -> None:
    """A repetition whose energy is not known counted in the table all the same."""
    made = [recorded(run(), n, value) for n, value in enumerate([100.0, 101.0, 99.0])]
    del made[1].by_phase["write"]["energy_j"]
    console = Console(width=250)
    with console.capture() as shown:
        console.print(run_measurement.summary_table(summary.rows(made), estimated=False))
    line = shown.get().splitlines()[-1]
    assert " 3 " in line
    assert "99.5 ±0.71% (n = 2)" in line


def test_the_console_tells_the_latency_of_what_has_one(tmp_path: Path) -> None:
    """It had a rate and no latency."""
    study = made_folder.smaller(made_folder.STUDY, repetitions=2, clients="[1]")
    folder = MeasurementFolder(made_folder.write(tmp_path, study))
    found = summary.rows(folder.iterations())
    console = Console(width=250)
    with console.capture() as shown:
        console.print(run_measurement.summary_table(found, estimated=False))
    told = shown.get()
    assert "iterations, ± sample deviation; power measured" in told
    assert "latency p99 " in told
    assert "latency p99.9" not in told, "this tool does not tell it"
    row = next(row for row in found if row.get("latency_us_p99"))
    assert output.quantity(row.mean("latency_us_p99"), "us") in told
    without = [row for row in found if not row.get("latency_us_p99")]
    assert without
    with console.capture() as shown:
        console.print(run_measurement.summary_table(without, estimated=False))
    assert "latency" not in shown.get()
