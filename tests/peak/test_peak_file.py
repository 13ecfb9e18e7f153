"""peak.toml: read, written, refused with a message that names the place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.analysis.peak import Quantity
from wattio.errors import InputError
from wattio.files import document
from wattio.peak import folders, hosts, servers
from wattio.peak.file import Head, PartEntry, PeakFile, RateEntry, from_document, read_peak, write
from wattio.simulator.native import NativeSimulator
from wattio.user_files import check_file

THESIS = Path(__file__).parents[2] / "studies" / "arm-cluster" / "thesis-peak.toml"


def test_the_thesis_s_file_gives_its_peaks() -> None:
    peak = read_peak(THESIS)
    expected = {
        Quantity("throughput_mib_s", "read"): 448.704,
        Quantity("throughput_mib_s", "write"): 445.36,
        Quantity("iops", "read"): 9484.4,
        Quantity("iops", "write"): 10058.72,
    }
    for quantity, value in expected.items():
        found = peak.limit(quantity)
        assert found is not None
        assert found.mean == pytest.approx(value)
    assert peak.share("write", throughput_mib_s=445.36 / 2) == pytest.approx(0.5)
    assert "5 parts" in check_file(THESIS, NativeSimulator())


# No name or text may hold a NUL.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
RATES = st.none() | st.builds(
    RateEntry,
    mean=st.floats(1e-6, 1e12),
    deviation=st.none() | st.floats(0, 1e12),
    n=st.none() | st.integers(1, 10**9),
)
ENTRIES = st.builds(
    PartEntry,
    kind=st.sampled_from(("memory", "network", "disk")),
    node=TEXTS,
    nodes=st.just(3),
    per_node=st.integers(1, 100),
    where=TEXTS,
    origin=st.sampled_from(("measured", "published", "datasheet", "assumed")),
    how=TEXTS,
    read_throughput_mib_s=st.builds(RateEntry, mean=st.floats(1e-6, 1e12)),
    write_iops=RATES,
)


@given(st.lists(ENTRIES, min_size=1, max_size=4), TEXTS.filter(bool))
def test_what_is_written_is_read_again(parts: list[PartEntry], name: str) -> None:
    content = PeakFile(peak=Head(name=name, rule="nodes"), part=parts)
    assert from_document(document.parse(Path("peak.toml"), content.text())) == content


GOOD = """\
[peak]
name = "a"

[[part]]
kind = "disk"
origin = "measured"
read_iops = { mean = 10.0 }
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('kind = "disk"', 'kind = "disc"', 'did you mean "disk"'),
        ("mean = 10.0", "mean = 0.0", "greater than 0"),
        ("mean = 10.0", "mean = nan", "part"),
        ("mean = 10.0", 'mean = "10"', "number"),
        ("read_iops = { mean = 10.0 }", "", "has no rate"),
        ("read_iops", "read_iop", "read_iops"),
        ('origin = "measured"', "", "origin"),
        ('name = "a"', 'name = "a"\nrule = "sum"', "thesis"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, said: str) -> None:
    file = tmp_path / "peak.toml"
    file.write_text(GOOD.replace(before, after))
    with pytest.raises(InputError, match=said) as caught:
        read_peak(file)
    assert str(file) in str(caught.value)


def test_nodes_of_one_name_must_agree(tmp_path: Path) -> None:
    file = tmp_path / "peak.toml"
    file.write_text(GOOD + GOOD.split("\n\n")[1] + "nodes = 2\n")
    with pytest.raises(InputError, match="disagree"):
        read_peak(file)


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    content = from_document(document.parse(Path("peak.toml"), GOOD))
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "none" / "peak.toml", content)


def test_a_full_disk_leaves_the_peak_that_was_there(tmp_path: Path, full_disk: None) -> None:
    """It was emptied first, and an hour of measuring before was lost with it."""
    content = from_document(document.parse(Path("peak.toml"), GOOD))
    path = tmp_path / "peak.toml"
    path.write_bytes(b"the one of before")
    with pytest.raises(InputError, match=r"peak\.toml: cannot be written: No space left"):
        write(path, content)
    assert path.read_bytes() == b"the one of before"
    assert list(tmp_path.iterdir()) == [path]


def test_places_of_programs() -> None:
    assert hosts.parse("localhost").arguments(("fio", "-v")) == ("fio", "-v")
    assert hosts.parse("netns:a").arguments(("ping",))[1] == "--net=/run/netns/a"
    words = hosts.parse("root@s1").arguments(("rm", "-rf", "--", "/a b; c"))
    assert words[-2:] == ("root@s1", "rm -rf -- '/a b; c'")


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "netns:", "netns:-x", "a b", "a/b"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a host"):
        hosts.parse(text)


def test_servers_and_folders_by_their_names() -> None:
    assert (servers.parse("loopback").own, servers.parse("loopback").port) == (True, 5201)
    assert servers.parse("s1:5300").port == 5300
    assert servers.parse("s1:5300").host.name == "s1"
    assert servers.parse("netns:a:5300").host.name == "netns:a"
    assert servers.parse("netns:a").own
    assert servers.parse("fe80::1").host.name == "fe80::1"
    assert folders.parse("s1:/mnt/a") == folders.Folder(hosts.Host("s1"), "/mnt/a")
    assert str(folders.parse("s1:/mnt/a")) == "s1:/mnt/a"
    assert folders.parse("/mnt/a:/b").path == "/mnt/a:/b"
    with pytest.raises(InputError, match='"99999" is not a port'):
        servers.parse("s1:99999")


@given(st.text(max_size=30))
def test_no_name_breaks_the_readers(text: str) -> None:
    for parse in (servers.parse, hosts.parse, folders.parse):
        try:
            parse(text)
        except InputError:
            continue
