"""Names of hosts, as people write them, and as nobody should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.hosts import names


def test_ranges_are_written_out_in_order() -> None:
    assert names.expand("node[1-3]") == ["node1", "node2", "node3"]
    assert set(names.expand("node[01-02,10],gw.site")) == {"node01", "node02", "node10", "gw.site"}
    assert names.expand("a,a") == ["a"]


@pytest.mark.parametrize(
    "text",
    ["", "node[1-", "node[2-1]", "-oProxyCommand=x", "a b", "a;b", "@all", "n\x1b[1]", "[-]x",
     "node[1-9999999]", "n[1-999][1-999]", "node[1-5000]", "n[1-9][1-9][1-9]"],
)  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"names|name|allowed|write them"):
        names.expand(text)


@given(st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    try:
        found = names.expand(text)
    except ValueError:
        return
    assert 0 < len(found) <= names.NAMES_MAX
    assert all(not name.startswith("-") for name in found)


def test_a_range_within_a_text_is_written_out() -> None:
    name = "snmp://public@[::1]/apc-rpdu2?outlet=[1-2,10]"
    found = [f"snmp://public@[::1]/apc-rpdu2?outlet={number}" for number in (1, 2, 10)]
    assert names.expand_within(name) == found
    assert names.expand_within("x[08-10]y") == ["x08y", "x09y", "x10y"]


@pytest.mark.parametrize("text", ["outlet=3", "a[1-2]b[1-2]", "a[2-1]", "a[1-99999999]", "a[]"])
def test_a_text_without_one_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|hosts|write them|names"):
        names.expand_within(text)


@given(st.text(alphabet="[]0123456789-,/ab", max_size=30))
def test_no_text_with_ranges_breaks_it(text: str) -> None:
    try:
        found = names.expand_within(text)
    except ValueError:
        return
    assert 0 < len(found) <= names.NAMES_MAX


@given(st.sets(st.integers(0, 300), min_size=1))
def test_folding_and_writing_out_are_inverse(numbers: set[int]) -> None:
    given_names = [f"n{number}" for number in numbers]
    assert sorted(names.expand(names.fold(given_names))) == sorted(given_names)
