"""The daemon's status page in a real browser: numbers appear, nothing is refused, text stays text.

Needs cargo and Debian's chromium; run by `make test-system`. The pictures that
`test_nothing_overlaps` takes stay in pytest's folders of the last runs, to be looked at.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from page.chromium import Chromium, executable
from page.examples import example

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(executable() is None, reason="needs the Debian package chromium"),
]

Serve = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Path:
    """The example that serves a made-up, changing status."""
    return example("page")


@pytest.fixture
def serve(server: Path) -> Iterator[Serve]:
    """Serves a scene and gives its address."""
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> str:
            process = stack.enter_context(
                subprocess.Popen(
                    [server, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            return process.stdout.readline().strip()

        yield start


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    """A browser with one page."""
    with Chromium(tmp_path) as chromium:
        yield chromium


def test_the_page_of_the_target_is_the_same_with_other_contents(browser: Chromium) -> None:
    target = subprocess.Popen(
        [example("governed"), "step_ms=5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert target.stdout is not None
        browser.open(target.stdout.readline().strip())
        browser.wait("document.getElementById('latency').textContent.endsWith('µs')")
        head = browser.evaluate("document.querySelector('h1').innerText").lower()
        assert head.split() == ["wattio-target", "mode:", "run"]
        assert browser.evaluate("document.querySelectorAll('canvas').length") == 5
        rows = "[...document.querySelectorAll('#groups tr td:first-child')]"
        assert browser.evaluate(f"{rows}.map((one) => one.textContent)") == ["reactors"]
        browser.wait("document.getElementById('reactors').textContent.endsWith(' of 8')")
        browser.wait("document.getElementById('events').innerText.includes('stable')")
        cells = "[...document.querySelectorAll('#volumes td')].map((one) => one.textContent)"
        shown = browser.evaluate(cells)
        assert shown[3] == "3 of 40; ⚠ clients have waited 4 s, 2 empty, flushing the map"
        assert shown[4] == "in sync; flush for 5 s"
        recovery = (
            "would replay 3.00 MiB, checkpoint 20.0 ms; at the start replayed 1.00 MiB in 500 ms"
        )
        assert shown[6] == recovery
        assert browser.console == []
    finally:
        target.kill()
        target.wait()


def test_the_page_of_a_target_in_shadow_mode_says_so(browser: Chromium) -> None:
    words = ["mode=observe", "step_ms=5"]
    target = subprocess.Popen(
        [example("governed"), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert target.stdout is not None
        browser.open(target.stdout.readline().strip())
        browser.wait("!document.getElementById('shadow-banner').hidden")
        assert "acts on nothing" in text(browser, "mode").lower()
        assert text(browser, "saved-title") == "Would have saved"
        assert text(browser, "reactors-title") == "Reactors that would be on"
        browser.wait("document.getElementById('headroom').textContent.includes('would be')")
        assert "would be (estimate)" in text(browser, "chart-latency")
        assert "good enough to estimate with" in text(browser, "model-facts")
        assert browser.console == []
    finally:
        target.kill()
        target.wait()


def text(browser: Chromium, id: str) -> str:
    found = browser.evaluate(f"document.getElementById({id!r}).innerText")
    assert isinstance(found, str)
    return found


def test_numbers_appear_and_change_without_complaint(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20", "meter"))
    browser.wait("document.getElementById('latency').textContent.endsWith('µs')")
    assert text(browser, "mode").lower() == "mode: run"
    assert text(browser, "state") == "stable"
    assert "headroom" in text(browser, "headroom")
    assert text(browser, "power-kind").lower() == "measured"
    assert text(browser, "saved").endswith("Wh")
    assert browser.evaluate("document.querySelectorAll('#groups tr').length") == 3
    assert browser.evaluate("document.querySelectorAll('canvas').length") == 4
    assert browser.evaluate("document.getElementById('lost').hidden")
    browser.evaluate("window.before = document.getElementById('latency').textContent")
    browser.wait("document.getElementById('latency').textContent !== window.before")
    assert browser.console == []


def test_each_of_several_applications_is_shown(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20", "meter", "several"))
    browser.wait("document.getElementById('latency-1').textContent.endsWith('µs')")
    assert browser.evaluate("document.title") == "2 applications · etcd on storage7"
    assert text(browser, "latency-title") == "etcd: Latency, mean"
    assert text(browser, "latency-1-title") == "redis: Latency, mean"
    assert "headroom" in text(browser, "headroom-1")
    rows = "[...document.querySelectorAll('#groups tr td:first-child')]"
    groups = browser.evaluate(f"{rows}.map((one) => one.textContent)")
    assert groups[-1] == "redis: commands"
    assert len(groups) == 4
    assert browser.evaluate("document.querySelectorAll('canvas').length") == 6
    # Of the host there is one meter.
    assert "measured" in text(browser, "chart-power")
    assert "measured" not in text(browser, "chart-power-1")
    assert browser.console == []


def test_text_of_an_event_is_shown_and_not_run(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20"))
    browser.wait("document.querySelectorAll('#events li').length === 6")
    assert "<script>document.title = 'broken'</script>" in text(browser, "events")
    assert browser.evaluate("document.querySelectorAll('#events script').length") == 0
    assert browser.evaluate("document.title") == "stable · etcd on storage7"
    assert "storage <i>" in text(browser, "groups")
    legend = browser.evaluate("document.getElementById('chart-cores').innerText")
    assert "storage <i>" in legend
    severities = browser.evaluate(
        "[...document.querySelectorAll('.severity')].map(s => s.innerText)"
    )
    first, *others = severities
    assert first == "ℹ info"  # noqa: RUF001
    assert others == ["▲ warning", "▲ warning", "▲ warning", "✖ error", "ℹ info"]  # noqa: RUF001
    # An error that was seen four times stood there four times.
    assert text(browser, "events").count("timed out") == 1
    assert "timed out (2 times)" in text(browser, "events")


def test_shadow_mode_is_marked_and_says_why_there_is_no_estimate(
    serve: Serve, browser: Chromium
) -> None:
    browser.open(serve("step_ms=20", "shadow", "no-estimate"))
    browser.wait("!document.getElementById('shadow-banner').hidden")
    assert "acts on nothing" in text(browser, "mode").lower()
    assert text(browser, "saved-title") == "Would have saved"
    assert text(browser, "saved") == "–"  # noqa: RUF001
    assert "no power model is given" in text(browser, "saved-share")
    nothing = "document.querySelector('#chart-power + .nothing').innerText"
    assert browser.evaluate(nothing) == "Neither a meter nor an estimate tells power."
    # The reason stands once on the page.
    assert browser.evaluate("document.body.innerText").count("no power model is given") == 1
    assert "only 12 of 120 windows" in text(browser, "model-facts")


SHOWN_TIME = "document.querySelector('#chart-latency .u-legend .u-value').textContent"


def test_a_page_that_is_opened_now_shows_what_was_before(
    serve: Serve, browser: Chromium, server: Path
) -> None:
    """History was lost on reload: the daemon keeps it."""
    url = serve("step_ms=5")
    browser.open(url)
    moments = "fetch('/v1/history').then((answer) => answer.json()).then((h) => h.moments.length)"
    while browser.evaluate(moments) < 200:
        browser.evaluate("new Promise((resolve) => setTimeout(resolve, 20))")
    browser.open(url)
    browser.wait("document.querySelectorAll('canvas').length === 4")
    # Beneath the mouse at the left is the first moment: 100 s and more before the newest.
    corner = "(({left, top}) => [left, top])"
    over = "document.querySelector('#chart-latency .u-over').getBoundingClientRect()"
    left, top = browser.evaluate(f"{corner}({over})")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + 4, y=top + 20)
    browser.wait(f"{SHOWN_TIME} !== document.querySelector('#events time').textContent")
    first, last = (
        sum(int(part) * unit for part, unit in zip(shown.split(":"), (3600, 60, 1), strict=True))
        for shown in (
            browser.evaluate(SHOWN_TIME),
            browser.evaluate("document.querySelector('#events time').textContent"),
        )
    )
    # The newest event is 20 s old.
    assert (last - first) % 86400 >= 75
    assert browser.console == []


def test_shadow_mode_warns_of_the_bound_that_it_would_break(
    serve: Serve, browser: Chromium
) -> None:
    """It said stable, with headroom, above "would be +26 %" and 57 % of windows broken."""
    browser.open(serve("step_ms=20", "shadow"))
    browser.wait("document.getElementById('headroom').textContent.includes('would be')")
    assert browser.evaluate("document.getElementById('would-break').hidden")
    legend = browser.evaluate("document.getElementById('chart-latency').innerText")
    assert "would be (estimate)" in legend
    assert "bound" in legend
    browser.open(serve("step_ms=20", "shadow", "over"))
    browser.wait("!document.getElementById('would-break').hidden")
    assert "above its bound" in text(browser, "would-break")
    assert "above the bound of" in text(browser, "headroom")
    assert browser.evaluate("document.getElementById('latency-card').classList.contains('over')")
    browser.open(serve("step_ms=20", "shadow", "broken"))
    browser.wait("!document.getElementById('would-break').hidden")
    assert "would have been broken in 57 % of 120" in text(browser, "would-break")
    assert browser.evaluate("document.getElementById('state-card').classList.contains('over')")


def test_of_several_bounds_each_is_told(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20", "tail"))
    browser.wait("document.getElementById('tail-0')?.textContent.includes('at most')")
    assert text(browser, "tail-0") == "p99 2 ms run: at most 2.00 ms, 1.3 % of requests above it"
    assert "to the bound of" in text(browser, "headroom")
    counts = " ".join(text(browser, "counts-facts").split())
    assert "windows above mean 20% run 84 (0.1 % of 120" in counts
    assert "windows above p99 2 ms run 2" in counts
    assert "not kept over the run" in counts
    assert browser.console == []


def test_an_estimate_is_called_one(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20"))
    browser.wait("document.getElementById('power').textContent.endsWith(' W')")
    assert text(browser, "power-kind").lower() == "estimate"
    assert "there is no meter" in text(browser, "power-from")
    assert "measured" not in browser.evaluate("document.getElementById('chart-power').innerText")


def test_why_full_speed_is_forced_or_paused(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20", "forced", "over"))
    browser.wait("!document.getElementById('forced').hidden")
    assert "3.2 s old" in text(browser, "forced")
    assert "above the bound" in text(browser, "headroom")
    browser.open(serve("step_ms=20", "paused"))
    browser.wait("!document.getElementById('paused').hidden")


def test_what_governing_by_turns_has_shown(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20", "meter", "by-turns"))
    browser.wait("document.getElementById('alternation-facts') !== null")
    shown = " ".join(text(browser, "alternation-facts").split())
    assert "29.1 W ± 1.80 W" in shown
    assert "6.0 % ± 2.0 %" in shown
    knobs = " ".join(text(browser, "knobs-facts").split())
    assert "saves 8.00 W ± 0.50 W for 20.0 µs ± 4.00 µs, measured over 32 pairs" in knobs
    assert "cpu.epp used; as configured, pairs so far: 3" in knobs
    # It is as it was asked for: no warning.
    assert browser.evaluate("document.getElementById('forced').hidden")
    assert browser.console == []


def test_a_lost_connection_is_said_and_comes_back(
    server: Path, serve: Serve, browser: Chromium
) -> None:
    first = subprocess.Popen(
        [server, "step_ms=20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    url = first.stdout.readline().strip()
    browser.open(url)
    browser.wait("document.getElementById('latency').textContent.endsWith('µs')")
    first.kill()
    first.wait()
    browser.wait("document.getElementById('lost').textContent.startsWith('connection lost')")
    assert "last update" in text(browser, "lost")
    # What stands there is of then: it is grey and pale.
    look = "getComputedStyle(document.querySelector('.cards')).opacity"
    assert float(browser.evaluate(look)) < 0.6
    serve("step_ms=20", f"listen={url.removeprefix('http://').removesuffix('/')}")
    browser.wait("document.getElementById('lost').hidden")
    assert float(browser.evaluate(look)) == 1


OVERLAPPING = """(() => {
    const kinds = 'header, .banner, .card, figure, .wide, #events, dl, footer';
    const parts = [...document.querySelectorAll(kinds)]
        .filter((part) => part.getClientRects().length > 0)
        .map((part) => [part.id || part.className || part.tagName, part.getBoundingClientRect()]);
    const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
        && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    return parts.flatMap(([name, a], at) => parts.slice(at + 1)
        .filter(([, b]) => over(a, b)).map(([other]) => `${name} over ${other}`));
})()"""

SCENES = {
    "run": ("meter",),
    "shadow": ("shadow",),
    "bare": ("bare",),
    "trouble": ("shadow", "no-estimate", "forced", "over"),
    "broken": ("shadow", "broken", "over", "meter"),
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 700, 1000, 1600])
@pytest.mark.parametrize("scene", SCENES)
def test_nothing_overlaps(
    serve: Serve, browser: Chromium, tmp_path: Path, scene: str, width: int, dark: bool
) -> None:
    browser.open(serve("step_ms=1", *SCENES[scene]), width=width, dark=dark)
    browser.wait("document.querySelectorAll('#chart-power canvas').length === 1")
    browser.wait("document.querySelector('footer').textContent.length > 0")
    browser.wait(f"innerWidth === {width}")
    # No line or number is wider than the page, and no card, figure or section lies over another.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    overlapping = browser.evaluate(OVERLAPPING)
    assert overlapping == []
    assert browser.console == []
    browser.picture(tmp_path / "page.png")


def test_print_is_dark_on_white(serve: Serve, browser: Chromium) -> None:
    browser.open(serve("step_ms=20"), dark=True)
    browser.wait("document.querySelectorAll('canvas').length === 4")
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    back = "getComputedStyle(document.body).backgroundColor"
    assert browser.evaluate(back) == "rgb(255, 255, 255)"
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate(back) != "rgb(255, 255, 255)"


def test_no_page_of_another_origin_reads_it(serve: Serve, browser: Chromium) -> None:
    """Another port is another origin: its scripts get nothing."""
    watched, other = serve("step_ms=20"), serve("step_ms=20")
    with urllib.request.urlopen(f"{watched}v1/status") as answer:
        assert json.load(answer)["mode"] == "run"
    browser.open(other)
    browser.wait("document.getElementById('latency').textContent.endsWith('µs')")
    refused = f"fetch('{watched}v1/status').then(() => 'read', () => 'refused')"
    assert browser.evaluate(refused) == "refused"
