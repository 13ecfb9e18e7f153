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


@given(st.sets(st.integers(0, 300), min_size=1))
def test_folding_and_writing_out_are_inverse(numbers: set[int]) -> None:
    given_names = [f"n{number}" for number in numbers]
    assert sorted(names.expand(names.fold(given_names))) == sorted(given_names)
