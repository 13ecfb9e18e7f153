"""The study of two clusters: that it is whole, and the whole way of its small scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wattio import shipped
from wattio.analysis.peak import Quantity
from wattio.errors import InputError
from wattio.files import document
from wattio.kinds.measurement import comparable, plan
from wattio.kinds.measurement.overrides import Asked
from wattio.peak import file as peak_file

from measuring.test_moosefs_study import lacking
from measuring.test_running import ended, wattio

STUDY = shipped.STUDIES / "two-clusters"
SIDES = ("arm", "x86")
LEGS_BIT_S = {"arm": 100e6, "x86": 300e6}


def planned(side: str, scale: str | None) -> plan.MeasurementPlan:
    return plan.make(document.read(STUDY / f"{side}.toml"), Asked(scale))


@pytest.mark.parametrize("scale", [None, "small"])
def test_both_ask_the_same_of_the_same_systems(scale: str | None) -> None:
    arm, x86 = (planned(side, scale) for side in SIDES)
    assert [run.name for run in arm.runs] == [run.name for run in x86.runs]
    asked = [comparable.of_study(one.resolved)["posix"] for one in (arm, x86)]
    assert comparable.differences(*asked) == comparable.Differences((), (), ())
    for one in (arm, x86):
        assert one.is_estimated
        assert one.study.platform is not None
        assert one.study.platform.price_eur


def test_peaks_are_those_of_the_document_s_table() -> None:
    """Erxleben et al., Table I: 496.4 MB/s, and 47.3 GB/s of both kinds of nodes."""
    for side, published in (("arm", "496.4 MB/s"), ("x86", "47.3 GB/s")):
        limit = peak_file.read_peak(STUDY / f"{side}-peak.toml").limit(
            Quantity("throughput_mib_s", "write")
        )
        assert limit is not None
        number, unit = published.split()
        scale = {"MB/s": 1e6, "GB/s": 1e9}[unit]
        assert f"{limit.mean * 2**20 / scale:.1f}" == number


def test_a_folder_of_several_studies_says_which(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": two-clusters/arm.toml, two-clusters/x86.toml$"):
        shipped.study_file("two-clusters")
    # A folder without any is told by its reader, as ever.
    assert shipped.study_file(tmp_path) == tmp_path / "study.toml"


@pytest.mark.system
@pytest.mark.skipif(lacking() is not None, reason=lacking() or "")
def test_two_sets_of_namespaces_are_run_and_joined(tmp_path: Path) -> None:
    """The legs differ threefold, and so do the rates; the shares of the legs' peak do not."""
    folders = []
    for side in SIDES:
        run = ("run", f"two-clusters/{side}.toml", "--scale", "small", "--no-report", "--json")
        code, out, err = ended(wattio(*run, folder=tmp_path))
        assert code == 0, err
        folders.append(f"{side}={json.loads(out)['result']}")
    words = ("compare", "--platforms", *folders, "--html", "page.html", "--json")
    code, out, err = ended(wattio(*words, folder=tmp_path))
    assert code == 0, err
    assert (tmp_path / "page.html").is_file()
    told = json.loads(out)
    assert told["not_joined"] == []
    wanted = LEGS_BIT_S["x86"] / LEGS_BIT_S["arm"]
    written = [one for one in told["joined"] if one["phase"] == "write"]
    assert len(written) == 2
    for one in written:
        by_name = {metric["metric"]: metric for metric in one["metrics"]}
        ratio = by_name["throughput_mib_s"]["ratios"][0]["ratio"]
        assert wanted / 2 < ratio < wanted * 1.2
        by_euro = by_name["mib_s_per_eur"]["ratios"][0]["ratio"]
        assert by_euro == pytest.approx(ratio * 1350 / 40000)
        assert 0.2 < by_name["peak_share"]["values"][0]["mean"] < 1.1
        # The model of one is of 41 W, that of the other of 699 W.
        assert by_name["power_w_mean"]["estimated"]
        assert by_name["power_w_mean"]["ratios"][0]["ratio"] > 10
        assert by_name["edp_w1"]["estimated"]
    # One client has one link, and there are two servers: its own link is what it comes nearer to.
    code, out, err = ended(
        wattio(
            "advise", "cluster", "--runs", folders[0].partition("=")[2], "--json", folder=tmp_path
        )
    )
    assert code == 0, err
    phases = [one for one in json.loads(out)["phases"] if one["clients"] == 1]
    assert len(phases) == 2
    for one in phases:
        assert one["used"][0]["part"] == "clients' links"
        links, servers = (used["share"]["estimate"] for used in one["used"])
        assert links == pytest.approx(2 * servers)
        assert one["bound"] in ("network", "software")
        assert one["power_is_estimate"]
    # The other cluster is this one with legs three times as fast: what is estimated for them from
    # here is nearer to what was measured there than that nothing changes.
    (tmp_path / "p.toml").write_text(
        '[[purchase]]\nname = "legs"\npart = "network"\nfaster = 3.0\n', encoding="utf-8"
    )
    arm = folders[0].partition("=")[2]
    words = ("advise", "cluster", "--runs", arm, "--purchases", "p.toml", "--json")
    code, out, err = ended(wattio(*words, folder=tmp_path))
    assert code == 0, err
    estimated = next(
        one["estimates"][1]
        for one in json.loads(out)["phases"]
        if one["clients"] == 2 and one["phase"] == "write"
    )
    metrics = next(one["metrics"] for one in written if "2 clients" in one["run"])
    rates = next(one["values"] for one in metrics if one["metric"] == "throughput_mib_s")
    measured = next(one["mean"] for one in rates if one["platform"] == "x86")
    off, linear_off = (abs(estimated[key]["estimate"] - measured) for key in ("rate", "linear"))
    assert off < linear_off / 2
