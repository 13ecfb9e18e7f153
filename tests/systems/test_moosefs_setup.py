"""MooseFS and networks without root: options, configuration, and what tools tell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.systems import moosefs_setup, networks, servers
from wattio.systems.moosefs_status import ChunkServer, chunk_servers, master
from wattio.systems.networks import Namespaces


def sample(name: str) -> str:
    folder = os.environ.get("WATTIO_SAMPLES")
    if folder is None:
        pytest.skip("WATTIO_SAMPLES is not set")
    return (Path(folder) / name).read_text()


def test_recorded_chunk_servers_are_read() -> None:
    found = chunk_servers(sample("mfscli_SCS_pipe.txt"))
    assert [server.port for server in found] == [19501, 19502]
    assert found[0] == ChunkServer(
        "10.77.0.1", 19501, "3.0.117", 6316, 26_722_242_560, 97_793_294_336
    )


def test_a_recorded_master_is_read() -> None:
    told = master(sample("mfscli_SIN_pipe.txt"))
    assert told["master version"] == "3.0.117"
    assert told["chunks"] == "8863"
    assert "last save status" not in told


def test_other_layouts_lose_what_is_unknown_and_nothing_else() -> None:
    text = "noise\nchunk servers:|10.0.0.1|9422\nchunk servers:|host|9422\nchunk servers: no data"
    assert chunk_servers(text) == [ChunkServer("10.0.0.1", 9422)]
    assert chunk_servers("Chunk servers:|10.0.0.1|9422|x|-|4.56.6|0|off|7|8|?") == [
        ChunkServer("10.0.0.1", 9422, "4.56.6", 7, 8, None)
    ]


fields = st.text(alphabet="chunk servermasterinfo:|0123456789.-\n ", max_size=200)


@given(st.one_of(st.text(), fields))
def test_no_text_breaks_the_readers(text: str) -> None:
    chunk_servers(f"chunk servers:|{text}")
    chunk_servers(text)
    master(f"master info:|{text}")
    networks.parse_addresses(text)


@given(st.recursive(st.one_of(st.none(), st.text(), st.integers()), st.lists))
def test_no_list_of_addresses_breaks_the_reader(value: object) -> None:
    networks.parse_addresses(json.dumps([{"addr_info": value}, {"addr_info": [{"local": value}]}]))


def test_addresses_carry_their_labels() -> None:
    info = {"family": "inet", "local": "10.77.0.1", "prefixlen": 24, "label": "lo:wabc"}
    assert networks.parse_addresses(json.dumps([{"ifname": "lo", "addr_info": [info]}])) == [
        ("10.77.0.1/24", "lo:wabc")
    ]


INTERRUPTED = """#!/bin/sh
# As ip does while links come and go: once with a warning and half of what there is.
if mkdir {folder}/asked 2>/dev/null; then
    echo "Dump was interrupted and may be inconsistent." >&2
    echo '[]'
else
    echo '[{{"addr_info": [{{"local": "10.77.0.1", "prefixlen": 24, "label": "lo:wabc"}}]}}]'
fi
"""


def test_addresses_are_looked_at_again_where_ip_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ip").write_text(INTERRUPTED.format(folder=tmp_path))
    (tmp_path / "ip").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert networks.Loopback("abc", None).address(1) == "10.77.0.1"


@pytest.mark.parametrize(
    ("text", "bits"), [("1 Gbit/s", 1e9), ("100Mbit/s", 1e8), ("2.5 Gbit/s", 2.5e9)]
)
def test_rates_are_read(text: str, bits: float) -> None:
    assert networks.parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "1", "0 Gbit/s", "1 GB/s", "-1 Gbit/s", "fast"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match='write it as "1 Gbit/s"'):
        networks.parse_rate(text)


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"goal": 3}, "goal 3 needs 3 chunk_servers or more"),
        ({"data": ["/a"]}, "data: 1 folders for 2 servers"),
        ({"data": ["/a", "b"]}, "must be absolute"),
        ({"data": ["/a", "/a"]}, "a folder of its own"),
        ({"subnet": "10.77.0.1"}, "must have 256 addresses"),
        ({"subnet": "here"}, "is not a network such as"),
        ({"leg": "fast"}, 'write it as "1 Gbit/s"'),
        ({"chunk_servers": 0}, "greater than or equal to 1"),
        ({"trash_time": 0}, "has no unit"),
    ],
)
def test_options_that_do_not_agree_are_refused(
    given_options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        moosefs_setup.Options.model_validate(given_options)


def test_nodes_have_addresses_and_names_of_their_own() -> None:
    network = Namespaces("abcdef", None, 1e9)
    nodes = range(1, networks.NODES_MAX + 1)
    assert len({network.address(node) for node in nodes}) == len(nodes)
    assert max(len(network.name(node)) for node in nodes) <= 15  # the kernel's limit for a link


def test_configuration_says_where_servers_find_each_other(tmp_path: Path) -> None:
    network = Namespaces("abcdef", "10.5.6.0/24", 1e9)
    moosefs_setup.write_master(tmp_path / "master", network)
    moosefs_setup.write_chunk_server(tmp_path / "chunk1", 1, tmp_path / "data", network)
    of_master = (tmp_path / "master" / "server.cfg").read_text().splitlines()
    of_chunks = (tmp_path / "chunk1" / "server.cfg").read_text().splitlines()
    assert "MATOCS_LISTEN_HOST = 10.5.6.1" in of_master
    assert "ATIME_MODE = 4" in of_master
    assert "MASTER_HOST = 10.5.6.1" in of_chunks
    assert "MASTER_PORT = 19420" in of_chunks
    assert "CSSERV_LISTEN_HOST = 10.5.6.2" in of_chunks
    assert (tmp_path / "data").is_dir()


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (b"mfsmaster\0-c\0/x/run/m/server.cfg\0start\0", True),
        (b"mfsmount (mounted on: /x/run)", True),
        (b"mfsmaster\0-c\0/x/runs/m.cfg\0", False),
        (b"mfsmaster\0-c\0/deep/x/run/m.cfg\0", False),
        (b"", False),
    ],
)
def test_servers_are_known_by_their_folder(command: bytes, found: bool) -> None:
    assert servers.mentions(command, Path("/x/run")) is found


@given(st.binary())
def test_no_command_line_breaks_the_search(command: bytes) -> None:
    servers.mentions(command, Path("/x/run"))
