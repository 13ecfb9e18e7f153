"""The client of NBD: what it reads, and that no server's bytes break it."""

from __future__ import annotations

import contextlib
import random
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import clock
from wattio.clock import Instant
from wattio.workloads.nbd_client import Connection, NbdError, Watch, parse

from .nbd_fake import listening, serving

DISK = random.Random(1).randbytes(70_000)


@pytest.mark.parametrize("piece", [1, 4096, 1 << 20])
def test_it_reads_what_is_there(tmp_path: Path, piece: int) -> None:
    with listening(tmp_path / "s", serving(DISK, piece=piece)) as uri, Connection(uri) as client:
        assert client.size_bytes == len(DISK)
        for offset, size in ((0, 10), (69_990, 10), (4096, 8192)):
            target = bytearray(size)
            client.read_into(offset, memoryview(target))
            assert target == DISK[offset : offset + size]
        with pytest.raises(NbdError, match="read of 11 B at 69990: error 22"):
            client.read_into(69_990, memoryview(bytearray(11)))


def test_an_export_that_is_not_there(tmp_path: Path) -> None:
    with (
        listening(tmp_path / "s", serving(DISK, export="disk")) as uri,
        pytest.raises(NbdError, match='export "" is refused: none'),
    ):
        Connection(uri)
    with pytest.raises(NbdError, match="No such file"):
        Connection(f"nbd+unix:///?socket={tmp_path}/nobody")


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("nbd+unix:///?socket=/run/s", ("/run/s", "")),
        ("nbd+unix:///a%20b?socket=/run/s", ("/run/s", "a b")),
        ("nbd://host/disk", (("host", 10809), "disk")),
        ("nbd://[::1]:9/", (("::1", 9), "")),
    ],
)
def test_addresses(uri: str, found: object) -> None:
    assert parse(uri) == found


def test_a_watch_tells_of_a_server_that_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the kernel, once a second, and not the server, whose time is measured."""
    at_s = [0.0]
    monkeypatch.setattr(clock, "now", lambda: Instant(0, round(at_s[0] * 1e9)))
    seen: list[socket.socket] = []
    with listening(tmp_path / "s", seen.append) as uri:
        watch = Watch(uri)
        assert watch(1) is None
        at_s[0] = 5.0
        assert watch(1) is None
    assert seen == []
    at_s[0] = 5.9
    assert watch(1) is None
    at_s[0] = 6.1
    assert watch(1) == f"waits for a server that is gone ({tmp_path}/s)"
    assert Watch("nbd://host/disk")(1) is None


@given(st.text())
def test_no_address_breaks_it(text: str) -> None:
    for uri in (text, f"nbd://{text}", f"nbd+unix:///{text}"):
        with contextlib.suppress(NbdError):
            parse(uri)


@given(st.binary(max_size=80), st.booleans())
def test_no_server_breaks_it(said: bytes, greeted: bool) -> None:
    def handle(connection: socket.socket) -> None:
        connection.sendall(b"NBDMAGICIHAVEOPT\0\3" * greeted + said)

    with (
        tempfile.TemporaryDirectory() as folder,
        listening(Path(folder) / "s", handle) as uri,
        pytest.raises(NbdError),
    ):
        Connection(uri)
