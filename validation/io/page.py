"""The page of the document on I/O approaches: published, both models, deviation; and its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Template
from wattio.analysis.statistics import Interval
from wattio.models import parameter, validate
from wattio.models.advice import Advice
from wattio.report import output, phrases
from wattio.report.plots import Drawn, Table

from validation.common import pages
from validation.common.pages import MET, MISSED, OPEN, Line, Ours
from validation.common.printed import Checked, number
from validation.io import entries, models, own
from validation.io.claims import Claim, claims
from validation.io.figures import of_study
from validation.io.models import DocumentFit, LeftOut, Site
from validation.io.own import Own
from validation.io.simgrid import section

DRAWS = 20_000
FIGURES = (
    ("2", "energy, time and power by approach, Nancy", "energies in Table 2; time and power not"),
    ("3", "energy by frequency of output, Nancy", "every 10 steps in Table 2; the rest not"),
    ("4", "energy and run time by amount of data, Nancy", "not in the text"),
    ("5", "energy, time and power by approach, Rennes", "not in the text"),
    ("6", "energy on both clusters", "not in the text, but for Table 2"),
    ("7", "power and throughput on both clusters", "not in the text"),
    ("8", "speedup by cores and by nodes, Rennes", "T_base = 18.1 s; speedups not in the text"),
    ("9", "power of eight nodes, idle and computing, Rennes", "not in the text; axes 160 to 300 W"),
    ("10", "energy measured and modelled, Rennes", "deviations in Table 3; energies not"),
    ("11", "energy measured and modelled, Nancy", "deviations in Table 3; energies not"),
)
"""The document's figures with values, and how much of each its text gives as numbers."""


@dataclass(frozen=True)
class Row:
    """An approach of Table 2 by both models, in kJ."""

    title: str
    published_kj: float
    document_kj: float | None
    extended_kj: Interval
    left_out: LeftOut

    def deviation(self, ours: float | None) -> float | None:
        """Of ours from the published total, relative."""
        return None if ours is None else ours / self.published_kj - 1


@dataclass(frozen=True)
class Study:
    """Everything that the page shows."""

    rows: list[Checked]
    energies: dict[str, float]
    bound: float
    needed: float
    least_error: float
    fit: DocumentFit
    nancy: Site
    rennes: Site
    nearest: dict[str, float]
    left_out: list[LeftOut]
    claims: list[Claim]
    own: list[Own]

    @property
    def nearest_mean_error(self) -> float:
        """Of the extended model's nearest draw, over the totals that the document's model has."""
        errors = [abs(self.nearest[t] / kj - 1) for t, kj in self.energies.items() if t != "TP"]
        return sum(errors) / len(errors)

    @property
    def median_mean_error(self) -> float:
        """Of the extended model's medians over all draws, over the same totals."""
        errors = [
            abs(row.extended_kj.estimate / row.published_kj - 1)
            for row in self.table_2
            if row.document_kj is not None
        ]
        return sum(errors) / len(errors)

    @property
    def table_1(self) -> list[tuple[str, str, dict[str, Checked]]]:
        """Table 1's rows: cluster, approach, and each count by its name."""
        found: dict[tuple[str, str], dict[str, Checked]] = {}
        for row in self.rows:
            if ".resources." in row.entry.key:
                _, _, site, title, part = row.entry.key.split(".")
                found.setdefault((site, title), {})[part] = row
        return [(site, title, parts) for (site, title), parts in found.items()]

    @property
    def table_2(self) -> list[Row]:
        """Table 2 by both models."""
        return [
            Row(
                one.title,
                one.published_kj,
                self.fit.energies_kj.get(one.title),
                parameter.interval(self.nancy.predict(one.title, every=10).energy_j / 1e3),
                one,
            )
            for one in self.left_out
        ]

    @property
    def table_3(self) -> list[tuple[str, float, list[float | None]]]:
        """Nancy's accuracies: published, and those of both models against Table 2, in per cent.

        The models': the document's at best, the extended one fitted to all, and to the others.
        """
        values = entries.published()
        head = f"{entries.SECTION}.model_accuracy_percent.nancy"
        found = []
        for row in self.table_2:
            if f"{head}.{row.title}" in values:
                ours = [
                    None if off is None else 100 * (1 - abs(off))
                    for off in (
                        row.deviation(row.document_kj),
                        row.deviation(row.extended_kj.estimate),
                        row.deviation(row.left_out.predicted_kj.estimate),
                    )
                ]
                accuracy = number(values, f"{head}.{row.title}")
                found.append((row.title, accuracy, ours))
        return found

    @property
    def coverage(self) -> tuple[int, int]:
        """Held-out runs within their 95 % intervals, and all: ours, and Table 2's one by one."""
        within, every = own.inside(self.own)
        told = [one.is_inside(one.predicted_kj) for one in self.left_out]
        return within + sum(told), every + len(told)

    @property
    def coverage_said(self) -> str:
        """The coverage in words, beside what is aimed at."""
        within, every = self.coverage
        low, high = validate.COVERAGE
        said = f"{within} of {every} ({100 * within / every:.0f} %"
        if within / every > high:
            said += ", so they are too wide"
        elif within / every < low:
            said += ", so they are too narrow"
        return f"{said}; aimed at: {100 * low:.0f} to {100 * high:.0f} %)"

    def rankings(self) -> list[tuple[str, int, Advice]]:
        """What the extended model advises, by cluster and frequency of output."""
        return [
            (site.file.platform.name, every, site.advise(list(self.energies), every))
            for site in (self.nancy, self.rennes)
            for every in (10, 30)
        ]


def evaluate(draws: int = DRAWS) -> Study:
    """Compute everything; takes seconds. Raises InputError and ResultError for bad files."""
    values = entries.published()
    energies = entries.energies_kj(values)
    nancy, rennes = models.site("nancy", draws), models.site("rennes", draws)
    pair = (entries.approach_of("DN(15:1)"), entries.approach_of("DN(7:1)"))
    bound = models.ratio_bound(nancy.platform.nodes, *pair)
    return Study(
        rows=entries.rows(),
        energies=energies,
        bound=bound,
        needed=energies["DN(15:1)"] / energies["DN(7:1)"],
        least_error=models.least_mean_error(bound, energies),
        fit=models.best_fit(nancy.platform, energies),
        nancy=nancy,
        rennes=rennes,
        nearest=models.nearest_draw(nancy, energies),
        left_out=models.leave_one_out(energies, draws),
        claims=claims(nancy, rennes, min(entries.given(values, "bytes_per_output"))),
        own=own.evaluate() if own.PATH.exists() else [],
    )


def make(study: Study, target: Path) -> Path:
    """Write the page, its figures and tables into a folder. Raises OSError."""
    target.mkdir(parents=True, exist_ok=True)
    drawn = of_study(study.energies, study.fit, study.left_out, study.nancy, study.rennes)
    for figure in drawn:
        output.write_figure(target, figure.name, figure)
    output.write_table(target / "table-2.csv", energies_table(study))
    output.write_table(target / "claims.csv", claims_table(study))
    simulated = section.section()
    section.write(simulated, target)
    page = target / "io-approaches.html"
    page.write_text(_render(study, drawn, simulated), encoding="utf-8")
    return page


def summary(study: Study) -> list[Line]:
    """What the page begins with: each energy without itself, and the statements by figure."""
    lines = []
    for row in study.table_2:
        found = row.left_out.predicted_kj
        outcome = MET if row.left_out.is_inside(found) else MISSED
        said = f"{outcome}, {_deviation(row.deviation(found.estimate))}"
        ours = Ours(f"{found.estimate:.0f} kJ ({found.low:.0f} to {found.high:.0f})", outcome, said)
        claim = f"energy of {row.title} on Nancy, from the others"
        lines.append(Line(claim, f"{row.published_kj:.0f} kJ", [ours], "table-2"))
    for figure in dict.fromkeys(one.figure.split()[0] for one in study.claims):
        counts = Counter(one.outcome for one in study.claims if one.figure.split()[0] == figure)
        outcome = MET if {*counts} == {"agrees"} else MISSED if {*counts} == {"disagrees"} else OPEN
        text = ", ".join(f"{count} {word}" for word, count in counts.items())
        said = "in part" if outcome == OPEN and counts["agrees"] else outcome
        ours = Ours(text, outcome, said)
        lines.append(Line(f"statements on figure {figure}", "in words", [ours], "claims"))
    return lines


def energies_table(study: Study) -> Table:
    """Table 2: published, the document's model, the extended one, the approach left out."""
    head = ["approach", "published_kj", "document_model_kj"]
    for name in ("extended", "left_out", "left_out_with_words"):
        head += [f"{name}_kj", f"{name}_low_kj", f"{name}_high_kj"]
    rows: Table = [head]
    for row in study.table_2:
        rest = (row.extended_kj, row.left_out.predicted_kj, row.left_out.with_words_kj)
        ends = [end for one in rest for end in (one.estimate, one.low, one.high)]
        document = "" if row.document_kj is None else row.document_kj
        rows.append([row.title, row.published_kj, document, *ends])
    return rows


def claims_table(study: Study) -> Table:
    """What the text says of figures, and the share of draws that agree."""
    rows: Table = [["figure", "where", "text", "outcome", "share_of_draws", "why"]]
    for one in study.claims:
        share = "" if one.share is None else one.share
        rows.append([one.figure, one.where, one.text, one.outcome, share, one.why])
    return rows


def as_object(study: Study) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "numbers": [row.as_dict() for row in study.rows],
        "energies": pages.records(energies_table(study)),
        "ratio_bound": study.bound,
        "ratio_published": study.needed,
        "least_mean_error": study.least_error,
        "document_model_mean_error": study.fit.mean_error,
        "extended_model_mean_error_best_draw": study.nearest_mean_error,
        "extended_model_mean_error_medians": study.median_mean_error,
        "own_runs": [
            {"held_out_by": str(one.by), "cells": one.cells} | one.validation.as_object()
            for one in study.own
        ],
        "held_out": {
            str(by): [score.as_object() for score in own.scores(study.own, by)]
            for by in own.HeldOut
        },
        "coverage": {"inside_95_percent": study.coverage[0], "runs": study.coverage[1]},
        "claims": pages.records(claims_table(study)),
    }


def template() -> Template:
    """The page, with the filters that it needs."""
    environment = pages.environment(Path(__file__).parent)
    environment.filters |= {
        "number": phrases.number,
        "kj": lambda value: f"{value:.0f}",
        "percent": lambda share: phrases.percent(share, 1),
        "deviation": _deviation,
        "span": lambda one: f"{one.low:.0f} to {one.high:.0f}",
    }
    return environment.get_template("page.html.j2")


def _render(study: Study, drawn: Sequence[Drawn], simulated: section.Section) -> str:
    return template().render(
        lines=summary(study),
        study=study,
        slots=output.embedded(drawn),
        figures=FIGURES,
        means=[row for row in study.rows if row.entry.key.endswith("node_mean_kj")],
        others=[row for row in study.rows if ".text." in row.entry.key and row.ours is not None],
        sites=(study.nancy, study.rennes),
        rankings=study.rankings(),
        own=study.own,
        own_told=_told(study.own),
        simgrid=simulated,
        rennes_accuracies=[row for row in study.rows if "percent.rennes." in row.entry.key],
    )


def _told(measured: Sequence[Own]) -> dict[str, Any]:
    """What the page's sentence on our own runs says; nothing without runs."""
    if not measured:
        return {}
    held_out = [
        (str(by), found, validate.told(found))
        for by in own.HeldOut
        if (found := own.scores(measured, by))
    ]
    return {"held_out": held_out, "how": own.conditions(measured)}


def _deviation(value: float | None) -> str:
    """A relative deviation with its sign, or a dash."""
    return "\N{EN DASH}" if value is None else f"{100 * value:+.1f}\N{NO-BREAK SPACE}%"
