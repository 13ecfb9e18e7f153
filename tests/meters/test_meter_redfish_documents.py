"""What Redfish resources say, whatever a server sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.meters.redfish_documents import (
    Kind,
    accuracy_of,
    interval_s_of,
    link_of,
    members_of,
    power_w_of,
    sensor_of,
    stamp_s_of,
)

KEYS = st.sampled_from(
    [
        *("PowerWatts", "Reading", "PowerControl", "PowerConsumedWatts", "Members", "@odata.id"),
        *("ReadingTime", "SensingInterval", "Accuracy", "ReadingUnits", "DataSourceUri", "Power"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
KINDS: tuple[Kind, ...] = ("Sensor", "EnvironmentMetrics", "Power")


@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_no_document_breaks_them(document: dict[str, object]) -> None:
    for kind in KINDS:
        power_w = power_w_of(kind, document)
        assert power_w is None or isinstance(power_w, float)
    for path in (link_of(document, "Power"), sensor_of(document), *members_of(document)):
        assert path is None or path.startswith("/redfish/")
    stamp_s_of(document)
    accuracy_of(document)
    interval_s = interval_s_of(document)
    assert interval_s is None or interval_s > 0


@given(st.text())
def test_no_time_or_duration_breaks_them(text: str) -> None:
    stamp_s_of({"ReadingTime": text})
    interval_s_of({"SensingInterval": f"P{text}"})


def test_links_to_other_servers_are_not_followed() -> None:
    for path in ("https://elsewhere/redfish/v1", "//elsewhere/redfish", "/redfish/v1 x", 7, None):
        assert link_of({"Power": {"@odata.id": path}}, "Power") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT1S", 1.0), ("PT0.5S", 0.5), ("P1DT1H1M1S", 90061.0), ("PT0S", None), ("1 s", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert interval_s_of({"SensingInterval": text}) == seconds


def test_a_sensor_of_another_unit_tells_no_power() -> None:
    assert power_w_of("Sensor", {"Reading": 5, "ReadingUnits": "V"}) is None
    assert power_w_of("Sensor", {"Reading": 5, "ReadingUnits": "W"}) == 5.0
    assert power_w_of("Sensor", {"Reading": True, "ReadingUnits": "W"}) is None
    assert power_w_of("Sensor", {"Reading": 10**400, "ReadingUnits": "W"}) is None


def test_accuracy_is_stated_in_watts_or_per_cent() -> None:
    assert accuracy_of({"ReadingAccuracy": 2, "Accuracy": 1}) == "+- 2 W"
    assert accuracy_of({"Accuracy": 1.5}) == "+- 1.5 %"
