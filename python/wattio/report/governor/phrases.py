"""What the report of a governor says in sentences. Whatever rests on a model is called so."""

from __future__ import annotations

from wattio.kinds.governor.journal import Bound
from wattio.report.governor.gather import Governed
from wattio.report.phrases import bracketed, number, percent

_SPACE = "\N{NO-BREAK SPACE}"

ESTIMATE = "(estimate)"


def duration(span_s: float) -> str:
    """A stretch of time in its two largest units."""
    if span_s < 90:
        return f"{number(span_s) if span_s < 10 else round(span_s)}{_SPACE}s"
    if span_s < 3600:
        minutes, seconds = divmod(round(span_s), 60)
        rest = f"{_SPACE}{seconds}{_SPACE}s" if seconds else ""
        return f"{minutes}{_SPACE}min{rest}"
    minutes = round(span_s / 60)
    units = (("d", minutes // 1440), ("h", minutes // 60 % 24), ("min", minutes % 60))
    first = next(at for at, (_, amount) in enumerate(units) if amount)
    shown = [f"{amount}{_SPACE}{unit}" for unit, amount in units[first : first + 2] if amount]
    return _SPACE.join(shown)


def count(value: float | None) -> str:
    """A whole number, thousands apart; empty where there is none."""
    return "" if value is None else f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def headline(found: Governed) -> str:
    """What was saved, or would have been, in one or two sentences."""
    windows, span_s = found.get("windows"), found.get("span_s") or 0.0
    if not windows:
        machine = found.machine
        text = f"{machine.program} on {machine.name} recorded no window"
        return f"{text}: there is nothing to tell yet."
    policy, over = found.machine.policy, f"Over {duration(span_s)}"
    measured = _measured(found)
    saving = saved_w(found)
    if saving is None:
        verb = "would have saved" if found.shadow else "saved"
        text = f"{over}: no estimate of what {policy} {verb}, because {why_no_estimate(found)}."
        return f"{text} {measured}".rstrip()
    if abs(saving) < 0.005:
        nothing = "would have saved nothing" if found.shadow else "saved nothing"
        return f"{over}, {policy} {nothing} {ESTIMATE}. {measured}".rstrip()
    share, full_w = found.get("saving_share_estimated"), _full_w(found)
    better, worse = ("have saved", "have cost") if found.shadow else ("saved", "cost")
    verb = f"{'would ' if found.shadow else ''}{better if saving >= 0 else worse}"
    more = "" if saving >= 0 else " more"
    sound = found.sound or saving < 0
    watts = f"{bracketed(f'{number(abs(saving))}{_SPACE}W', sound)}{more} on average {ESTIMATE}"
    part = f"{bracketed(percent(abs(share or 0.0), 1), sound)} of the {number(full_w)}{_SPACE}W"
    text = f"{over}, {policy} {verb} {watts}, {part} that full speed draws by the same estimate."
    covered_s = found.get("span_s_estimated") or 0.0
    if covered_s < 0.99 * span_s:
        text += f" There is an estimate for {duration(covered_s)} of that time."
    return f"{text} {measured}".rstrip()


def by_turns(found: Governed) -> str:
    """What governing by turns with full speed has shown; empty where it has shown nothing yet."""
    shown = found.summary.alternation if found.summary else None
    if shown is None or found.summary is None or shown.power_w_saved is None:
        return ""
    saved, full_w, latency = shown.power_w_saved, shown.power_w_full_speed, shown.latency_change
    interval = f"{abs(saved.mean):.1f} ± {saved.half_width:.1f}{_SPACE}W"
    of = f", {percent(abs(saved.mean) / full_w, 1)} of {number(full_w)}{_SPACE}W" if full_w else ""
    policy = found.machine.policy
    if abs(saved.mean) <= saved.half_width:
        signed = f"{saved.mean:.1f} ± {saved.half_width:.1f}{_SPACE}W"
        text = f"no saving by {policy} can be told from chance yet ({signed}{of})"
    else:
        sound = latency is None or found.keeps(latency.mean) or saved.mean < 0
        told = bracketed(f"{interval}{of}", sound)
        text = f"{policy} {'saved' if saved.mean > 0 else 'cost'} {told}"
    if latency is not None:
        change = f"{100 * latency.mean:+.1f} ± {100 * latency.half_width:.1f}{_SPACE}%"
        text += f"; mean latency {change}"
    requests = shown.requests_per_s_change
    if requests is not None:
        change = f"{100 * requests.mean:+.1f} ± {100 * requests.half_width:.1f}{_SPACE}%"
        text += f"; requests per second {change}"
        if -requests.mean > requests.half_width:
            text += ": less was served, and part of the saving may be that"
    meter = found.summary.power.meter or "the meter"
    by = "an estimate by the power model" if shown.power_is_estimate else f"measured by {meter}"
    return f"By turns with full speed, {text} ({count(shown.pairs)} pairs, 95 % intervals, {by})."


def details(found: Governed) -> list[str]:
    """How the bound fared, what was turned, how good the model is: one sentence each."""
    if not found.get("windows"):
        return []
    return [
        sentence
        for sentence in (_bound(found), _changes(found), _loss(found), _model(found))
        if sentence
    ]


def saved_w(found: Governed) -> float | None:
    """Mean power that was saved, or would have been, by the estimate; None without one."""
    here_w, full_w = found.get("power_w_mean_estimated"), _full_w(found)
    return None if here_w is None or full_w is None else full_w - here_w


def why_no_estimate(found: Governed) -> str:
    """Why there is none, as the daemon says."""
    summary = found.summary
    if summary is None:
        return "the daemon ended before it wrote a summary"
    shadow = summary.shadow
    unfitted = shadow.why if shadow is not None and not shadow.fitted else None
    why = summary.power.no_estimate or unfitted
    return why.rstrip(". ") if why else "no window has one"


def tolerance(found: Governed) -> str:
    """The bound in words."""
    plf = found.recorded.run.plf
    return f"its bound, {percent(plf)} above the baseline," if plf else "its bound"


def _full_w(found: Governed) -> float | None:
    return found.get("power_w_mean_full_speed_estimated")


def _measured(found: Governed) -> str:
    power_w = found.get("power_w_mean_measured")
    if power_w is None:
        return ""
    meter = found.summary.power.meter if found.summary else None
    speed = ", at full speed" if found.shadow else ""
    return f"The meter{f' {meter}' if meter else ''} read {number(power_w)}{_SPACE}W{speed}."


def named_bounds(found: Governed) -> list[Bound]:
    """The bounds where they are told by name: several, or one on a percentile."""
    bounds = found.summary.bounds if found.summary else []
    alone = len(bounds) == 1 and bounds[0].statistic == "mean"
    return [] if alone else bounds


def _of_bound(bound: Bound, shadow: bool) -> str:
    broke = "would have broken" if shadow else "broke"
    text = f"It {broke} its bound {bound.bound} in {count(bound.windows_over)}"
    text += f" of {count(bound.windows)} windows"
    if bound.requests_over_share is not None and bound.statistic != "mean":
        text += f", with {percent(bound.requests_over_share, 2)} of their requests above it"
    if bound.kept is False and bound.bound.endswith(" run"):
        text += ", and would not have kept" if shadow else ", and did not keep"
        text += " it over the run"
    return f"{text} {ESTIMATE}." if shadow else f"{text}."


def _bound(found: Governed) -> str:
    if named := named_bounds(found):
        return " ".join(_of_bound(bound, found.shadow) for bound in named)
    counted, broken = found.get("windows_bounded"), found.get("violations")
    if not counted:
        never = "would never have saved" if found.shadow else "never saved"
        return f"It {never} with a known bound, so that the bound could not be broken."
    many = f"{count(broken)} of {count(counted)} windows"
    if found.shadow:
        return f"It would have broken {tolerance(found)} in {many} {ESTIMATE}."
    return f"It broke {tolerance(found)} in {many}."


def _changes(found: Governed) -> str:
    changes = found.get("setting_changes") or 0
    if not changes:
        never = "would never have changed" if found.shadow else "never changed"
        return f"It {never} the setting{f' {ESTIMATE}' if found.shadow else ''}."
    many = "once" if changes == 1 else f"{count(changes)} times"
    if found.shadow:
        return f"It would have changed the setting {many} {ESTIMATE}."
    return f"It changed the setting {many}."


def _loss(found: Governed) -> str:
    loss = found.get("loss_mean")
    if loss is None:
        return ""
    side = "longer" if loss >= 0 else "less long"
    took = "would have taken" if found.shadow else "took"
    kind = f" {ESTIMATE}" if found.shadow else ", by the baseline learned there"
    return (
        f"While it saved, requests {took} {percent(abs(loss), 1)} {side} than at full speed{kind}."
    )


def _model(found: Governed) -> str:
    shadow = found.summary.shadow if found.summary else None
    if shadow is None:
        return ""
    if not shadow.fitted:
        if saved_w(found) is None:
            return ""  # The headline says why.
        why = (shadow.why or "no reason given").rstrip(". ")
        return f"Latency could not be predicted at the end: {why}."
    if shadow.error_median is None:
        return ""
    kept = f"{count(shadow.windows_kept_out)} windows kept out of the fit"
    worst = f", {percent(shadow.error_p90, 1)} at the 90th percentile" if shadow.error_p90 else ""
    return f"The model's median error is {percent(shadow.error_median, 1)}{worst}, on {kept}."
