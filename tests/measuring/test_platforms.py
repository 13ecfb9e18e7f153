"""Two campaigns, each on a platform of its own, joined: what is told, and what is not."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats
from wattio.cli import main
from wattio.errors import InputError
from wattio.kinds.measurement import comparable, platforms
from wattio.kinds.measurement.comparable import Asked
from wattio.kinds.measurement.platform import platform
from wattio.kinds.measurement.platforms import Comparison, Value

from . import made_folder

SMALL = made_folder.smaller(made_folder.STUDY, repetitions=3, clients="[1, 2]")
ARM = (
    SMALL
    + '\n[platform]\nname = "arm"\nprice_eur = 1350.0\npriced = "nodes, <b>disks</b> \\u001b[31m"\n'
)
X86 = made_folder.only_estimate(SMALL).split("[[subtract]]")[0] + '\n[platform]\nname = "x86"\n'
FASTER = {
    name: [replace(work, rate=5 * work.rate, power_w=6 * work.power_w) for work in works]
    for name, works in made_folder.WORKS.items()
}
WRITE = ("sequential/left, 1 client", "write")


def called(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("arm"), ARM)


@pytest.fixture(scope="module")
def x86(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_folder.write(tmp_path_factory.mktemp("x86"), X86, FASTER, estimate_only=True)


@pytest.fixture(scope="module")
def found(arm: Path, x86: Path) -> Comparison:
    return platforms.compare([platform(None, arm), platform(None, x86)])


def value(found: Comparison, metric: str, which: int, of: tuple[str, str] = WRITE) -> Value:
    joined = next(one for one in found.joined if (one.run, one.phase) == of)
    line = joined.line(metric)
    assert line is not None
    told = line.values[which]
    assert told is not None
    return told


def told_of(text: str) -> str:
    """Printed text on one line: it is broken where a terminal ends."""
    return " ".join(text.split())


def test_every_figure_is_what_the_catalogs_hold_divided_by_what_it_is_told_by(
    found: Comparison, arm: Path, x86: Path
) -> None:
    for which, (path, price_eur) in enumerate(((arm, 1350.0), (x86, None))):
        folder = platform(None, path).folder
        own = [item.by_phase[WRITE[1]] for item in folder.iterations() if item.run.name == WRITE[0]]
        prefix = "" if which == 0 else "estimated_"
        rates = [part["throughput_mib_s"][0] for part in own]
        powers = [part[f"{prefix}power_w_mean"][0] for part in own]
        each = [rate / power for rate, power in zip(rates, powers, strict=True)]
        per_watt = value(found, "mib_per_joule", which)
        assert per_watt.estimate.mean == pytest.approx(statistics.fmean(each))
        assert per_watt.estimated == bool(prefix)
        assert value(found, "throughput_mib_s", which).estimate.mean == pytest.approx(
            statistics.fmean(rates)
        )
        assert value(found, "peak_share", which).estimate.mean == pytest.approx(
            statistics.fmean(rates) / 800
        )
        if price_eur is not None:
            by_euro = value(found, "mib_s_per_eur", which).estimate
            assert by_euro.mean == pytest.approx(statistics.fmean(rates) / price_eur)
            assert by_euro.deviation == pytest.approx(statistics.stdev(rates) / price_eur)
            assert by_euro.unit == "MiB/s/EUR"


def test_intervals_and_p_values_are_welch_s_and_holm_s(found: Comparison) -> None:
    joined = next(one for one in found.joined if (one.run, one.phase) == WRITE)
    (family,) = joined.families
    rate = next(one for one in family if one.metric == "throughput_mib_s")
    first, second = (value(found, "throughput_mib_s", at).estimate.values for at in (0, 1))
    scaled = [[one / statistics.fmean(side) for one in side] for side in (first, second)]
    errors = [statistics.variance(side) / len(side) for side in scaled]
    freedom = sum(errors) ** 2 / sum(
        e**2 / (len(s) - 1) for e, s in zip(errors, scaled, strict=True)
    )
    import math

    log = math.log(statistics.fmean(second) / statistics.fmean(first))
    assert rate.interval is not None
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(sum(errors))
    assert math.log(rate.interval.high) == pytest.approx(log + reach)
    assert rate.p_alone == pytest.approx(2 * stats.t.sf(abs(log) / math.sqrt(sum(errors)), freedom))
    alone = sorted(one.p_alone for one in family if one.p_alone is not None)
    corrected = sorted(one.p for one in family if one.p is not None)
    assert corrected[0] == pytest.approx(len(alone) * alone[0])
    assert {one.tests for one in family} == {len(alone)}


def test_power_that_is_an_estimate_on_one_side_is_called_so_in_every_row(
    found: Comparison, arm: Path, x86: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_power = {"power_w_mean", "energy_j", "mib_per_joule", "iops_per_watt", "edp_w1"}
    for one in found.joined:
        for line in one.lines:
            assert line.estimated == (line.metric in of_power or "watt" in line.metric), line.metric
    assert called("compare", "--platforms", arm, x86) == 0
    for text in capsys.readouterr().out.splitlines():
        if text.split()[:1] and text.split()[0] in of_power:
            assert "(estimated)" in text
            assert "est.)" in text
    assert any("power of x86 is an estimate by a model" in doubt for doubt in found.doubts)


def test_an_estimate_is_called_so_on_whichever_side_it_is(arm: Path, x86: Path) -> None:
    for order in ((arm, x86), (x86, arm)):
        found = platforms.compare([platform(None, path) for path in order])
        joined = next(one for one in found.joined if (one.run, one.phase) == WRITE)
        (family,) = joined.families
        told = {one.metric: one.estimated for one in family}
        assert (told["mib_per_joule"], told["throughput_mib_s"]) == (True, False)


def test_a_product_is_told_of_equal_work_only_and_over_the_least(found: Comparison) -> None:
    joined = next(one for one in found.joined if (one.run, one.phase) == WRITE)
    product = joined.line("edp_w1")
    assert product is not None
    assert min(one for one in product.over_least if one is not None) == 1
    means = [one.estimate.mean for one in product.values if one is not None]
    assert max(one or 0 for one in product.over_least) == pytest.approx(max(means) / min(means))
    # A load of so many seconds does more where it is faster.
    timed = next(one for one in found.joined if one.of.subject == "random")
    assert timed.line("edp_w1") is None
    assert timed.line("energy_j") is None
    assert timed.line("mib_per_joule") is not None
    assert any("unequal work" in doubt for doubt in timed.doubts)


def test_work_of_which_nothing_is_known_is_not_called_unequal(
    arm: Path, x86: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platforms, "AMOUNTS", ())
    monkeypatch.setattr(platforms, "equal_work", lambda _: False)
    found = platforms.compare([platform(None, arm), platform(None, x86)])
    joined = next(one for one in found.joined if (one.run, one.phase) == WRITE)
    assert joined.line("energy_j") is None
    told = "nothing tells how much work was done: time, energy and energy-delay product are"
    assert any(doubt.startswith(told) for doubt in joined.doubts)
    assert not any("unequal" in doubt for doubt in joined.doubts)


def test_a_missing_price_is_said_and_is_no_zero(found: Comparison) -> None:
    line = next(one for one in found.joined if (one.run, one.phase) == WRITE).line("mib_s_per_eur")
    assert line is not None
    assert line.values[1] is None
    assert line.ratios == (None,)
    assert "x86: no price_eur is known, so there are no figures by euro" in found.doubts


def test_a_file_of_prices_goes_before_what_studies_say(
    arm: Path, x86: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[platform]]\nname = "x86"\nprice_eur = 40000.0\n'
        '[[platform]]\nname = "a"\nprice_eur = 1.0\n'
    )
    words = ("compare", "--platforms", f"a={arm}", x86, "--platform-file", prices, "--json")
    assert called(*words) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["price_eur"] for one in told["platforms"]] == [1.0, 40000.0]
    assert told["platforms"][0]["priced"].startswith("nodes")
    write = next(one for one in told["joined"] if (one["run"], one["phase"]) == WRITE)
    by_name = {one["metric"]: one for one in write["metrics"]}
    raw, by_euro = (
        by_name[name]["ratios"][0]["ratio"] for name in ("throughput_mib_s", "mib_s_per_eur")
    )
    assert by_euro == pytest.approx(raw / 40000)
    prices.write_text('[[platform]]\nname = "arn"\nprice_eur = 1.0\n')
    assert called("compare", "--platforms", arm, x86, "--platform-file", prices) == 2
    assert '"arn" is not one of the platforms' in told_of(capsys.readouterr().err)
    prices.write_text('[[platform]]\nname = "arm"\n[[platform]]\nname = "arm"\n')
    assert called("compare", "--platforms", arm, x86, "--platform-file", prices) == 2
    assert '"arm" is named twice' in told_of(capsys.readouterr().err)
    assert called("check", prices) == 2
    capsys.readouterr()
    prices.write_text('[[platform]]\nname = "arm"\n')
    assert called("check", prices) == 0
    assert "platforms to be compared: arm" in told_of(capsys.readouterr().out)
    prices.write_text('[[platform]]\nname = "arm"\nprice_eur = 0.0\n')
    assert called("compare", "--platforms", arm, x86, "--platform-file", prices) == 2
    assert "price_eur" in capsys.readouterr().err


def test_net_figures_stand_beside_a_platform_that_has_no_such_device(
    tmp_path: Path, arm: Path
) -> None:
    """Erxleben et al. take the switch off one cluster; the other's meter had none."""
    bare = SMALL.split("[[subtract]]")[0].replace('["server", "switch"]', '["server"]')
    other = made_folder.write(tmp_path, bare)
    found = platforms.compare([platform("a", arm), platform("b", other)])
    net, gross = (value(found, name, 1) for name in ("mib_per_joule_net", "mib_per_joule"))
    assert net == gross
    assert (
        value(found, "mib_per_joule_net", 0).estimate.mean
        > value(found, "mib_per_joule", 0).estimate.mean
    )
    assert "net figures: a less switch; b as metered" in found.doubts
    assert any(doubt.startswith("power covers different devices") for doubt in found.doubts)


def test_a_platform_that_covers_the_device_and_takes_nothing_off_has_no_net_figure(
    found: Comparison,
) -> None:
    """Its gross power holds the switch: beside a net one it would look worse than it is."""
    for one in found.joined:
        assert one.line("mib_per_joule_net") is None
    told = "net figures: arm less switch; none of x86, which takes nothing off for switch"
    assert told in found.doubts


def test_what_one_platform_alone_has_is_said(tmp_path: Path, arm: Path) -> None:
    fewer = made_folder.smaller(SMALL, clients="[1]").replace('name = "right"', 'name = "other"')
    failed = [("random/left, 1 client", n, a) for n in range(3) for a in (0, 1)]
    other = made_folder.write(tmp_path, fewer, failures=failed)
    found = platforms.compare([platform("a", arm), platform("b", other)])
    assert "sequential/left, 2 clients: write: b has none" in found.unjoined
    assert "sequential/other, 1 client: write: a has none" in found.unjoined
    assert "random/left, 1 client: randread: b has no usable iteration" in found.unjoined
    assert {one.of.system for one in found.joined} == {"left"}


AMOUNT = ('size = "4 GiB" }] }\n[[workload]]', 'size = "2 GiB" }] }\n[[workload]]')
BLOCK = ('bs = "4 MiB"', 'bs = "1 MiB"')


def test_another_amount_is_a_doubt_and_another_transfer_another_workload(
    tmp_path: Path, arm: Path
) -> None:
    halves = {
        name: [replace(work, operations=work.operations // 2) for work in works]
        for name, works in made_folder.WORKS.items()
    }
    half = made_folder.write(tmp_path / "half", SMALL.replace(*AMOUNT), halves)
    first = platform("a", arm)
    found = platforms.compare([first, platform("b", half)])
    write = next(one for one in found.joined if (one.run, one.phase) == WRITE)
    assert any("jobs[0].size (4 GiB, 2 GiB)" in doubt for doubt in write.doubts)
    assert write.line("edp_w1") is None
    assert write.line("throughput_mib_s") is not None
    small = platform("b", made_folder.write(tmp_path / "small", SMALL.replace(*BLOCK)))
    found = platforms.compare([first, small])
    assert {one.of.subject for one in found.joined} == {"idle", "random"}
    (why,) = found.unjoined
    assert why.startswith("sequential: a and b differ in jobs[0].bs (4 MiB, 1 MiB)")
    despite = platforms.compare([first, small], despite_options=True)
    write = next(one for one in despite.joined if (one.run, one.phase) == WRITE)
    assert any("joined as requested" in doubt for doubt in write.doubts)


def test_options_that_are_not_given_are_what_they_are_by_default() -> None:
    def asked(options: dict[str, object]) -> Asked:
        study = {"workload": [{"name": "w", "kind": "mpi_io", "options": options}]}
        return comparable.of_study(study)["w"]

    plain = asked({"total": "1 GiB"})
    assert comparable.differences(plain, asked({"total": "1024 MiB", "transfer": "4 MiB"})) == (
        comparable.Differences((), (), ())
    )
    other = comparable.differences(plain, asked({"total": "2 GiB", "api": "mpiio", "seed": 5}))
    assert other.work == ("api (posix, mpiio)",)
    assert other.amounts == ("total (1 GiB, 2 GiB)",)


def test_three_platforms_are_each_set_over_the_first(arm: Path, x86: Path, tmp_path: Path) -> None:
    third = made_folder.write(tmp_path, SMALL)
    named = [("a", arm), ("b", x86), ("c", third)]
    found = platforms.compare([platform(name, path) for name, path in named])
    write = next(one for one in found.joined if (one.run, one.phase) == WRITE)
    assert [(family[0].first_run, family[0].second_run) for family in write.families] == [
        ("a", "b"),
        ("a", "c"),
    ]
    same = next(one for one in write.families[1] if one.metric == "throughput_mib_s")
    assert same.ratio == 1


Words = Callable[[Path, Path], tuple[str | Path, ...]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (lambda a, _: ("--platforms", a), "two or more NAME=FOLDER"),
        (lambda a, _: ("--platforms", a, f"b={a}"), "one campaign each"),
        (lambda a, b: ("--platforms", f"a={a}", f"a={b}"), 'two are named "a"'),
        (lambda a, _: ("--platforms", a, "=x"), "is not NAME=FOLDER"),
        (lambda a, _: ("--platforms", a, "b=/nowhere"), "not found"),
        (lambda a, b: (a, b, "--platforms", a, b), "cannot be combined with another result"),
        (lambda a, b: (a, b, "--despite-options"), "are for --platforms"),
        (lambda a, _: (a,), "two results are compared"),
        (lambda a, b: ("--platforms", a, b, "--html", a), "is a folder; name a file"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_line(
    words: Words, message: str, arm: Path, x86: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("compare", *words(arm, x86)) == 2
    captured = capsys.readouterr()
    assert message in told_of(captured.err)
    assert captured.out == ""


def test_campaigns_without_anything_in_common_are_refused(tmp_path: Path, arm: Path) -> None:
    lone = SMALL.replace('name = "left"', 'name = "l"').replace('name = "right"', 'name = "r"')
    other = platform("b", made_folder.write(tmp_path, lone))
    with pytest.raises(InputError, match=r"nothing to join: .*: b has none"):
        platforms.compare([platform("a", arm), other])


def test_a_page_shows_all_of_it_and_escapes_what_it_is_given(
    arm: Path, x86: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "platforms.html"
    assert called("compare", "--platforms", arm, x86, "--html", page) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert f"page: {page}" in out
    text = page.read_text(encoding="utf-8")
    assert "nodes, &lt;b&gt;disks" in text
    assert "By euro".lower() in text.lower()
    assert text.count("<figure") >= 5
    with (tmp_path / "platforms-values.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["platform"] for row in rows} == {"arm", "x86"}
    estimated = {row["platform"] for row in rows if row["estimated"] == "true"}
    assert estimated == {"x86"}
    assert (tmp_path / "platforms-sequential-watt.svg").exists()
