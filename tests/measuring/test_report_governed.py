"""What a report says of targets that a law governs."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from wattio.report import make, plots
from wattio.report.measurement import background, gather, governed
from wattio.report.measurement.gather import Measured
from wattio.results.summary import Estimate

from . import made_folder
from .made import instant
from .made_folder import SERVED, Work
from .test_target_status import answered, status

PLAIN = str.maketrans(
    {"\N{NO-BREAK SPACE}": " ", "\N{MULTIPLICATION SIGN}": "x", "\N{EN DASH}": "-"}
)
WORKS = {"random": [Work("randread", "read", 4096, 0, 9000.0, 78.0, timed=80.0, server_us=30.0)]}
TARGET = """\
[[system]]
name = "{name}"
kind = "nbd"
role = "{role}"
options = {{ server = "wattio-target", size = "{size}", settings = {{ reactors = 3, {law} }} }}
"""
LAWS = {
    "t-polling": ("beside", "64 MiB", '"policy.name" = "native"'),
    "t-pacer": ("own", "64 MiB", '"policy.name" = "pacer", "policy.settings.plf" = 0.2'),
    # Of another size: what it is compared with is not there.
    "other-pacer": ("own", "32 MiB", '"policy.name" = "pacer"'),
}


def study(*names: str) -> str:
    added = "".join(
        TARGET.format(name=name, role=LAWS[name][0], size=LAWS[name][1], law=LAWS[name][2])
        for name in names
    )
    return SERVED.replace("[[workload]]", added + "[[workload]]", 1)


def gathered(path: Path) -> Measured:
    """What is there, with what targets would have told: pacer 1 of 3 on, 40 % of the time."""
    found = gather.gather(path)
    for row in found.workloads[0].phases[0].rows:
        if "-" not in row.run.system:
            continue
        law = row.run.system != "t-polling"
        told = {
            "reactors_on_mean": 1.2 if law else 3.0,
            "bound_windows": 20.0 if law else 0.0,
            "bound_windows_over": 1.0 if law else 0.0,
            "server_cpu_share": 1.2 if law else 3.0,
            "server_cpu_s": 96.0 if law else 240.0,
            "power_estimated_w_mean": 40.0 if law else 60.0,
            "power_estimated_full_speed_w_mean": 60.0,
            "write_amplification": 2.5,
        }
        for name, value in told.items():
            row.metrics[name] = Estimate("1", (value,) * 3, value, 0.0, None)
        if law:
            own = row.metrics["latency_us_mean"]
            slow = tuple(1.1 * value for value in own.values)
            row.metrics["latency_us_mean"] = Estimate("us", slow, 1.1 * own.mean, None, None)
    return found


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)).translate(PLAIN)


def test_a_law_stands_beside_its_full_speed_and_the_best_peer(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, study(*LAWS), WORKS)
    found = gathered(path)
    (one,) = governed.compared(found)
    assert [row.run.system for row in one.rows] == ["t-polling", "t-pacer", "other-pacer", "left"]
    assert {law: row.run.system for law, row in one.twins.items()} == {"t-pacer": "t-polling"}
    with (
        patch.object(plots, "svg", return_value=b"<svg/>"),
        patch("wattio.report.measurement.page.gather", return_value=found),
    ):
        page = text_of(make(path).read_text(encoding="utf-8"))
    told = "t-pacer: of 60 windows that its bound was held against, 3 were over it. On average over"
    assert f"{told} one phase, 1.20 reactors were on where full speed has 3.00, and it took" in page
    assert "it took 0.40x the processor time of t-polling." in page
    numbers = (
        r"t-pacer 3 of 60 1\.20 of 3 96\.0 s 1\.20 cores 0\.40x .* 1\.10x 1\.\d\dx to 1\.\d\dx"
    )
    assert re.search(numbers + r" 40\.0 66\.7 % of full speed", page)
    # Full speed is held against no bound; nothing is known of that of the other size.
    assert re.search(r"t-polling full speed - 3\.00 of 3 240 s 3\.00 cores 1\.00x", page)
    assert re.search(r"other-pacer 3 of 60 1\.20 of 3 96\.0 s 1\.20 cores - ", page)
    assert "left the best peer" in page
    rows = list(csv.DictReader((path / "report" / "governed.csv").open()))
    assert [row["role"] for row in rows] == ["full speed", "law", "law", "peer"]
    assert [row["reactors_on_mean"] for row in rows] == ["3.0", "1.2", "1.2", ""]


def test_a_law_that_was_held_to_nothing_kept_nothing(tmp_path: Path) -> None:
    """ "Of 0 windows 0 were over" reads as if a promise had been kept."""
    found = gathered(made_folder.write(tmp_path, study("t-polling", "t-pacer"), WORKS))
    (one,) = governed.compared(found)
    for name in ("bound_windows", "bound_windows_over"):
        one.laws[0].metrics[name] = Estimate("1", (0.0, 0.0), 0.0, 0.0, None)
    (text,) = governed.sentences([one])
    assert text.startswith("t-pacer: its bound was held against no window")
    assert " 0 were over" not in text


def test_what_a_law_keeps_of_training_stands_beside_the_published_saving(tmp_path: Path) -> None:
    found = gathered(made_folder.write(tmp_path, study("t-polling", "t-pacer"), WORKS))
    (one,) = governed.compared(found)
    (workload,) = [entry for entry in found.study.workload if entry.name == one.subject]
    for row, used in [(one.laws[0], 0.95), (one.twins["t-pacer"], 0.96)]:
        row.metrics["accelerator_utilisation"] = Estimate("1", (used,) * 3, used, 0.0, None)

    def told() -> list[str]:
        blocks = [block for section in governed.section(found) for block in section.blocks]
        texts = [str(getattr(block, "content", "")).translate(PLAIN) for block in blocks]
        return [text for text in texts if "accelerators" in text]

    assert told() == []
    for model, published in [("unet3d-v0.5", "13 %"), ("bert-v0.5", "22 %")]:
        workload.options["model"] = model
        assert told() == [
            "t-pacer kept 99.0 % of the use of accelerators that t-polling had, with 33.3 % less"
            f" power of its processors (ESTIMATE). The PACER paper (Fig. 19) has {published} less"
            " power of the whole system under PACER for this load, at the same throughput."
        ]


def test_full_speed_is_not_shown_alone(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, study("t-polling"), WORKS)
    found = gathered(path)
    assert list(governed.compared(found)) == []
    assert governed.section(found) == []
    assert len(governed.table(found)) == 1


def test_latencies_of_two_operations_are_weighted_by_their_numbers(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, SERVED, WORKS)
    row = gather.gather(path).workloads[0].phases[0].rows[0]
    row.metrics.pop("latency_us_mean")
    both = {"read": ((100.0, 200.0), (30.0, 10.0)), "write": ((400.0, 800.0), (10.0, 30.0))}
    for part, (means, done) in both.items():
        row.metrics[f"{part}.latency_us_mean"] = Estimate("us", means, 0.0, None, None)
        row.metrics[f"{part}.operations"] = Estimate("1", done, 0.0, None, None)
    assert governed.latencies_us(row) == pytest.approx((175.0, 650.0))
    row.metrics.pop("write.operations")
    assert governed.latencies_us(row) == ()


def test_the_course_is_of_what_was_written_in_the_seconds_before() -> None:
    """Answers a second apart, two windows each: 3 blocks for each of clients, whatever the span."""
    told = answered(*(status(float(at), 2 * at, backlog_core_s=0.1 * at) for at in range(20)))
    one = background.course("x", told, span_s=5.0)
    assert one.time_s.tolist() == list(range(20))
    assert one.backlog_core_s.tolist() == pytest.approx([0.5 + 0.1 * at for at in range(20)])
    assert np.isnan(one.amplification[:5]).all()
    assert one.amplification[5:].tolist() == pytest.approx([3.0] * 15)


def test_the_course_is_drawn_where_it_is_kept(tmp_path: Path) -> None:
    path = made_folder.write(tmp_path, study(*LAWS), WORKS)
    found = gathered(path)
    groups = [["t-polling", "t-pacer"], ["other-pacer"]]
    assert background.drawn("random", "randread", groups, found) is None
    for item in found.iterations:
        if item.run.system in ("t-polling", "t-pacer"):
            lines = [
                json.dumps({"at": list(instant(float(at))), "status": status(float(at), 2 * at)})
                for at in range(9)
            ]
            file = found.folder.raw(item.identity) / "randread.status.jsonl"
            file.write_text("\n".join(lines) + "\n")
    drawn = background.drawn("random", "randread", groups, found)
    assert drawn is not None
    assert {row[0] for row in drawn.table[1:]} == {"t-polling", "t-pacer"}
    assert len(drawn.table) == 1 + 2 * 9
    assert drawn.narrow is not None


def test_a_law_is_called_the_same_in_every_group_whatever_has_ended() -> None:
    """Of a study that was stopped, one group had one curve, called "0.1" under "full-92-pacer"."""
    names = [[f"full-{full}-{law}" for law in ("polling", "pacer-0.1")] for full in (70, 92)]
    told = answered(*(status(float(at), 2 * at) for at in range(9)))
    ended = ["full-70-polling", "full-92-pacer-0.1"]
    groups = background.grouped(names, {name: background.course(name, told) for name in ended})
    found = [(one.title, list(one.courses)) for one in groups]
    assert found == [("full-70", ["polling"]), ("full-92", ["pacer-0.1"])]
