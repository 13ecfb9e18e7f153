"""The port of a writer on another node: its clients get in, and strangers do no harm."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace

import pytest
from wattio.hpcio import channels
from wattio.hpcio.channels import Address, Port
from wattio.hpcio.doorbells import PeerDied

from hpcio.waiting import HANGS_S


def framed(message: object) -> bytes:
    text = json.dumps(message).encode()
    return len(text).to_bytes(4, "little") + text


STRANGERS = {
    "a token in other letters": framed({"rank": 0, "token": "é\udc80"}),
    "a wrong token": framed({"rank": 0, "token": "0" * 32}),
    "no token": framed({"rank": 0}),
    "a list": framed([0]),
    "no message": b"GET / HTTP/1.1\r\n\r\n",
    "a message that is too long": framed({"rank": 0, "token": "0" * 300}),
}


def admitted(port: Port) -> tuple[threading.Thread, dict[int, channels.Channel]]:
    """A thread in which the port admits rank 0, and where it puts it."""
    found: dict[int, channels.Channel] = {}
    thread = threading.Thread(target=lambda: found.update(port.admit([0])), daemon=True)
    thread.start()
    return thread, found


def stranger(address: Address, content: bytes) -> socket.socket:
    peer = socket.create_connection((address.host, address.port))
    peer.sendall(content)
    return peer


def is_closed(peer: socket.socket) -> bool:
    """Whether the other end has closed; or broken off, where not all that was sent was read."""
    try:
        return not peer.recv(1)
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("name", STRANGERS)
def test_strangers_are_turned_away(name: str) -> None:
    port = Port("here", only_here=True)
    thread, found = admitted(port)
    with stranger(port.address, STRANGERS[name]) as peer:
        channel = channels.connect(port.address, 0)
        thread.join(HANGS_S)
        assert list(found) == [0]
        assert is_closed(peer)
    found[0].send(step=3)
    assert channel.receive() == {"step": 3}


def test_who_says_nothing_keeps_nobody_out_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_HELLO_S", 0.05)
    port = Port("here", only_here=True)
    with stranger(port.address, b"\0") as silent:
        thread, found = admitted(port)
        assert is_closed(silent)
        channels.connect(port.address, 0)
        thread.join(HANGS_S)
    assert list(found) == [0]


def test_a_rank_of_another_writer_is_turned_away() -> None:
    port = Port("here", only_here=True)
    thread, found = admitted(port)
    other = channels.connect(port.address, 1)
    with pytest.raises(PeerDied):
        other.receive()
    wrong = channels.connect(replace(port.address, token="0"), 0)
    with pytest.raises(PeerDied):
        wrong.receive()
    channels.connect(port.address, 0)
    thread.join(HANGS_S)
    assert list(found) == [0]
