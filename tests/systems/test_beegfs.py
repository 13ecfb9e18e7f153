"""BeeGFS, which none of us has: what is read of its tools, by texts of its documents and users."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import HostError
from wattio.hosts.host import Host
from wattio.systems import beegfs, beegfs_status, mounts

MOUNTINFO = (
    "36 27 0:40 / /mnt/beegfs rw,relatime - beegfs beegfs_nodev"
    " rw,cfgFile=/etc/beegfs/own.conf,_netdev\n"
)

# Of BeeGFS 7, by users; 8 prints the same with --retro, with a node instead of its number.
ENTRY = """\
Entry type: directory
EntryID: root
Metadata node: node1 [ID: 1]
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512K
+ Number of storage targets: desired: 4
+ Storage Pool: 1 (Default)
"""

STATES_7 = """\
TargetID     Reachability  Consistency   NodeID
========     ============  ===========   ======
     101           Online         Good        1
     201 Probably-offline         Good        2
"""
STATES_8 = """\
ID   ALIAS         ON NODE         POOL     REACHABILITY  LAST CONTACT  CONSISTENCY
101  target_101    node_storage_1  default  Online        3s ago        Good
201  target_201    node_storage_2  default  Offline       99s ago       Good
"""

CONFIGURATION = """\
# This is a config file for the BeeGFS client.
sysMgmtdHost                  = node1
connAuthFile                  = /etc/beegfs/connauthfile
connMaxInternodeNum           = 12
tuneFileCacheType             = buffered
tuneRemoteFSync               =
# tuneNumWorkers              = 7
"""


@dataclass
class Ran:
    out: bytes
    code: int = 0


class Machine:
    """A host with the tools of one version, which take what their documents have."""

    name = "node1"

    def __init__(self, answers: dict[tuple[str, ...], str]) -> None:
        self.answers = answers

    def ask(self, what: str, *, names: Sequence[str]) -> dict[str, str | None]:
        assert what == "which"
        there = {words[0] for words in self.answers}
        return {name: f"/usr/bin/{name}" if name in there else None for name in names}

    def read(self, path: Path) -> bytes | None:
        files = {"/sys/module/beegfs/version": "7.4.3\n", "/etc/beegfs/own.conf": CONFIGURATION}
        return files[str(path)].encode() if str(path) in files else None

    def run(self, words: Sequence[str], *, timeout_s: float) -> Ran:
        told = self.answers.get(tuple(words))
        return Ran(b"", 1) if told is None else Ran(told.encode())


SEVEN = {
    ("beegfs-ctl", "--getentryinfo", "/mnt/beegfs/work"): ENTRY,
    (
        "beegfs-ctl",
        "--listtargets",
        "--nodetype=storage",
        "--state",
        "--mount=/mnt/beegfs",
    ): STATES_7,
}
EIGHT = {
    ("beegfs", "entry", "info", "--retro", "/mnt/beegfs/work"): ENTRY,
    ("beegfs", "target", "list", "--node-type", "storage", "--state"): STATES_8,
}


def facts(answers: dict[tuple[str, ...], str]) -> dict[str, Any]:
    [mount] = mounts.parse(MOUNTINFO)
    return beegfs.facts(cast(Host, Machine(answers)), "/mnt/beegfs/work", mount)


@pytest.mark.parametrize("answers", [SEVEN, EIGHT], ids=["7", "8"])
def test_stripes_targets_and_settings_are_told(answers: dict[tuple[str, ...], str]) -> None:
    found = facts(answers)
    json.dumps(found)
    assert found == {
        "version": "7.4.3",
        "configuration": {
            "sysMgmtdHost": "node1",
            "tuneFileCacheType": "buffered",
            "connMaxInternodeNum": "12",
        },
        "pattern": "RAID0",
        "chunk_bytes": 512 << 10,
        "targets_per_file": 4,
        "storage_pool": "1 (Default)",
        "targets": ["101", "201"],
        "targets_away": ["201"],
    }


def test_what_no_tool_says_is_left_out() -> None:
    assert set(facts({})) == {"version", "configuration"}
    # A tool that is there, and refuses: it is root's.
    assert set(facts({("beegfs-ctl", "--help"): ""})) == {"version", "configuration"}


@pytest.mark.parametrize(
    ("text", "chunk_bytes"),
    [("512K", 512 << 10), ("512k", 512 << 10), ("1M", 1 << 20), ("65536", 65536)],
)
def test_chunks_are_read_of_every_version(text: str, chunk_bytes: int) -> None:
    assert beegfs_status.stripe(f"+ Chunksize: {text}\n") == {"chunk_bytes": chunk_bytes}


def test_it_has_to_be_mounted(tmp_path: Path) -> None:
    options = beegfs.Options()
    assert (options.path, options.fs) == ("/mnt/beegfs", "beegfs")
    with pytest.raises(ValidationError, match="must be absolute"):
        beegfs.Options(path="beegfs")
    with pytest.raises(HostError, match="is for hosts: name them"):
        beegfs.Storage(options, tmp_path).probe()


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    beegfs_status.stripe(text)
    beegfs_status.stripe(f"+ Chunksize: {text}\n+ Number of storage targets: {text}")
    beegfs_status.targets(text)
    beegfs_status.configuration(text)
