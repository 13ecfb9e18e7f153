"""The `<architecture>` of Damaris files: written as its schema asks, read as users write it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import cli
from wattio.errors import InputError
from wattio.hpcio import Config, damaris, parse_approach, topology
from wattio.models import approach

# Elements, and the attributes that have no default: of the schema that Damaris 1 is built with.
NEEDED = {
    "domains": set(),
    "dedicated": set(),
    "buffer": {"name", "size"},
    "queue": {"name", "size"},
    "placement": set(),
}
KNOWN = {
    "domains": {"count"},
    "dedicated": {"cores", "nodes"},
    "buffer": {"name", "size", "type", "blocks", "enabled"},
    "queue": {"name", "size"},
    "placement": {"start", "step", "blocksize", "mask", "comment"},
}

WILD = """<?xml version="1.0" encoding="UTF-8"?>
<simulation name="climate" language="fortran" xmlns="http://damaris.gforge.inria.fr/damaris/model">
  <!-- <dedicated cores="9"/> -->
  <architecture name="cluster">
    <placement start="0" step="4" blocksize="1" mask=""/>
    <queue  name="q" size="100" />
    <buffer size=" 200000 " name="b" enabled="false" type="sysv" blocks="1"/>
    <dedicated nodes="0" cores="+2"></dedicated>
    <domains/>
  </architecture>
  <data><parameter name="N" type="int" value="64"/>
    <dedicated cores="7"/></data>
  <actions/>
  <log FileName="log/a" RotationSize="5" LogFormat="[%TimeStamp%]: %Message%" LogLevel="info"/>
</simulation>
"""


def config(text: str, **more: object) -> Config:
    return Config.model_validate({**parse_approach(text), **more})


def parsed(text: str, nodes: int) -> Config:
    return Config.model_validate(damaris.parse(text, nodes))


@given(
    st.sampled_from(["tp", "dc:1", "dc:7", "dn:1", "dn:3", "dn:15"]),
    st.integers(1, 8),
    st.integers(65536, damaris.BUFFER_MAX),
)
def test_what_is_written_is_whole_and_reads_the_same(text: str, groups: int, buffer: int) -> None:
    made = config(text, buffer=f"{buffer} B")
    nodes = groups * (made.ratio + 1)
    written = damaris.write(made, nodes)
    root = ElementTree.fromstring(written)
    assert {one.tag for one in root} == set(NEEDED)
    assert root[-1].tag == "placement", "older versions stop there"
    for one in root:
        assert NEEDED[one.tag] <= set(one.keys()) <= KNOWN[one.tag]
    read = parsed(f'<simulation xmlns="http://x">{written}</simulation>', nodes)
    assert (read.approach_text, read.buffer) == (made.approach_text, made.buffer)


def test_what_is_advised_can_be_read() -> None:
    text = approach.damaris_xml(approach.parse("dn:7"), 32)
    assert parsed(text, 32).approach_text == "dn:7"


def test_names_are_quoted() -> None:
    root = ElementTree.fromstring(damaris.write(config("tp"), 1, name='a"<&'))
    assert [one.get("name") for one in root if one.get("name")] == ['a"<&', 'a"<&-queue']


def test_a_buffer_that_damaris_cannot_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"^buffer: 4294967296 B; allowed .* 4294967295 B"):
        damaris.write(config("dc:1", buffer="4 GiB"), 1)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_files_as_users_write_them(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "climate.xml"
    path.write_bytes(start + WILD.encode())
    read = Config.read(path)
    assert (read.approach_text, read.buffer) == ("dc:2", 200000)
    path.write_bytes(WILD.replace("UTF-8", "ISO-8859-1").replace("cluster", "été").encode("latin1"))
    assert Config.read(path).approach_text == "dc:2"


def test_where_there_are_both_nodes_are_taken() -> None:
    """As Damaris does, which looks for dedicated nodes first."""
    text = '<architecture><dedicated cores="1" nodes="2"/></architecture>'
    assert parsed(text, 8).approach_text == "dn:3"


def test_as_many_nodes_write_as_are_dedicated() -> None:
    """With 4 dedicated nodes of 9, 3 wrote."""
    for nodes in range(2, 31):
        made = {-(-nodes // (ratio + 1)) for ratio in range(1, nodes)}
        for dedicated in range(1, nodes):
            text = f'<architecture><dedicated nodes="{dedicated}"/></architecture>'
            if dedicated in made:
                roles = topology.plan(parsed(text, nodes), topology.emulated(2 * nodes, 2))
                assert len({roles.nodes[rank] for rank in roles.writing}) == dedicated
                continue
            assert nodes % dedicated, "Damaris allows no such number either"
            beside = [max(one for one in made if one < dedicated)]
            beside += sorted(one for one in made if one > dedicated)[:1]
            told = " or ".join(map(str, beside))
            with pytest.raises(InputError, match=f"{dedicated} of {nodes} .* to it: {told}$"):
                parsed(text, nodes)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<simulation/>", "has no <architecture>"),
        ("<simulation><data><architecture/></data></simulation>", "has no <architecture>"),
        ('<architecture><cores count="4"/></architecture>', "has no <dedicated>"),
        (
            '<architecture><dedicated cores="_DC_"/></architecture>',
            'cores="_DC_".*is not a whole number',
        ),
        ('<architecture><dedicated cores="-1"/></architecture>', "is not a whole number"),
        ('<architecture><dedicated cores="99999"/></architecture>', "writers: .*4096"),
        (
            '<architecture><dedicated/><buffer name="b" size="10"/></architecture>',
            "buffer: '10 B': must be greater than or equal to 65536",
        ),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "document types and entities"),
        ("<architecture>", "is not XML"),
        ('<?xml version="1.0" encoding="nothing"?><a/>', "unknown encoding"),
        ('<?xml version="1.0" encoding="rot13"?><a/>', "not a text encoding"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "a.xml"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"a\.xml: .*{told}"):
        Config.read(path)


@given(st.binary() | st.binary().map(lambda rest: WILD.encode()[:400] + rest))
def test_no_bytes_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.xml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        Config.read(path)


@given(st.text(max_size=30), st.text(max_size=30), st.integers(-3, 10) | st.none())
def test_no_numbers_break_the_reader(cores: str, size: str, nodes: int | None) -> None:
    architecture = ElementTree.Element("architecture")
    ElementTree.SubElement(architecture, "dedicated", {"cores": cores, "nodes": cores})
    ElementTree.SubElement(architecture, "buffer", {"size": size})
    try:
        damaris.parse(ElementTree.tostring(architecture, encoding="unicode"), nodes)
    except InputError as error:
        assert str(error)  # noqa: PT017 (either way is right)


def test_wattio_check_reads_a_file_as_programs_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was told that it is no TOML."""
    path = tmp_path / "climate.xml"
    for text, code, told in (
        (WILD, 0, "description for Damaris"),
        (WILD.replace('value="64"', 'value="64.5"'), 2, 'value="64.5">: is not a whole number'),
        (WILD.replace('size=" 200000 "', 'size="9"'), 2, 'buffer = "9 B"; allowed: 64 KiB to'),
    ):
        path.write_text(text)
        with pytest.raises(SystemExit) as ended:
            cli.main(["check", str(path)])
        said = "".join(capsys.readouterr())
        assert (ended.value.code, said.count("\n")) == (code, 1)
        assert f"{path}: " in said
        assert told in said
