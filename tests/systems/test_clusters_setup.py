"""GlusterFS and CephFS without root: options, configuration, and what their tools tell."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from wattio.errors import HostError
from wattio.systems import (
    cephfs_setup,
    cephfs_status,
    cluster,
    glusterfs_setup,
    glusterfs_status,
    moosefs_status,
    nfs_ganesha,
    private,
)
from wattio.systems.cephfs import Storage as CephFS


def sample(name: str) -> str:
    folder = os.environ.get("WATTIO_SAMPLES")
    if folder is None:
        pytest.skip("WATTIO_SAMPLES is not set")
    return (Path(folder) / name).read_text()


def test_recorded_bricks_are_read() -> None:
    online = glusterfs_status.online(sample("gluster_volume_status.xml"))
    assert len([name for name in online if ":/" in name]) == 5
    assert "Self-heal Daemon" in online


def test_recorded_chunks_that_wait_for_their_deletion_are_counted() -> None:
    assert moosefs_status.deletes_left(sample("mfscli_SIN_pipe.txt")) == 939
    assert moosefs_status.deletes_left("") is None


def test_servers_of_a_pool_count_where_they_are_connected() -> None:
    text = (
        "UUID\t\t\tHostname\tState\n"
        "1b\t10.79.0.2\tConnected \n"
        "2c\t10.79.0.3\tDisconnected \n"
        "3d\tlocalhost\tConnected \n"
    )
    assert glusterfs_status.connected(text) == 2
    assert glusterfs_status.version("glusterfs 10.3\nRepository") == "10.3"


def test_entries_that_others_are_links_to_stand_for_no_work() -> None:
    text = "/b/.glusterfs/indices/xattrop/xattrop-1f\n/b/.glusterfs/unlink/77\n"
    assert glusterfs_status.unsettled(text) == 1
    assert glusterfs_status.unsettled("") == 0


def test_ceph_is_up_when_it_says_so() -> None:
    assert cephfs_status.osds_up('warning: x\n{"num_osds": 3, "num_up_osds": 2}') == 2
    server = {"state": "up:active"}
    told = {"fsmap": {"filesystems": [{"mdsmap": {"info": {"gid_1": server}}}]}}
    assert cephfs_status.metadata_active(json.dumps(told))
    server["state"] = "up:replay"
    assert not cephfs_status.metadata_active(json.dumps(told))
    assert cephfs_status.version("ceph version 16.2.15 (618f) pacific") == "16.2.15"


def test_placement_groups_are_clean_when_all_are() -> None:
    states = [{"name": "active+clean", "num": 60}, {"name": "peering", "num": 4}]
    told = {"pg_summary": {"num_pgs": 64, "num_pg_by_state": states}}
    assert not cephfs_status.groups_clean(json.dumps(told), 64)
    states[1]["name"] = "active+clean+scrubbing"
    assert cephfs_status.groups_clean(json.dumps(told), 64)
    assert not cephfs_status.groups_clean(json.dumps(told), 65)


def test_what_ceph_has_to_purge_is_the_sum_of_its_stations() -> None:
    told = {
        "mds_cache": {"num_strays": 5},
        "purge_queue": {"pq_item_in_journal": 2, "pq_executing": 1},
    }
    assert cephfs_status.deletes_left(json.dumps(told)) == 8
    assert cephfs_status.deletes_left("{}") is None


json_values = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["fsmap", "filesystems", "mdsmap", "info", "pg_summary", "num_pg_by_state", "name"]
            ),
            inner,
            max_size=3,
        ),
    ),
)


@given(st.one_of(st.text(), json_values.map(json.dumps)))
def test_no_text_breaks_the_readers(text: str) -> None:
    glusterfs_status.online(text)
    glusterfs_status.online(f"<cliOutput><node><path>{text}</path></node></cliOutput>")
    glusterfs_status.connected(text)
    glusterfs_status.unsettled(text)
    moosefs_status.deletes_left(text)
    moosefs_status.deletes_left(f"all chunks matrix:|{text}")
    cephfs_status.osds_up(text)
    cephfs_status.metadata_active(text)
    cephfs_status.groups_clean(text, 1)
    cephfs_status.deletes_left(text)


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"bricks": 2}, "redundancy 1 needs more than 2 bricks"),
        ({"bricks": 5, "redundancy": 3}, "redundancy 3 needs more than 6 bricks"),
        ({"volume": "replica"}, "5 bricks are not a multiple of 2"),
        ({"volume": "striped"}, "Input should be 'disperse', 'replica' or 'distribute'"),
        ({"data": ["/a"]}, "data: 1 folders for 5 servers"),
        ({"deletes": "ignored"}, "Input should be 'charged', 'waited' or 'left'"),
    ],
)
def test_volumes_that_cannot_be_are_refused(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        glusterfs_setup.Options.model_validate(given_options)


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"copies": 3}, "copies: 3 need 3 osds or more"),
        ({"copies_min": 3, "osds": 4}, "copies_min 3 is above copies, 2"),
        ({"osd_memory": "512 MiB"}, "an OSD needs at least 896 MiB"),
        ({"size": "1 MiB"}, "at least 1 GiB"),
        ({"placement_groups": 0}, "greater than or equal to 1"),
    ],
)
def test_clusters_that_cannot_be_are_refused(given_options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        cephfs_setup.Options.model_validate(given_options)


@pytest.mark.parametrize(
    ("options", "shape", "stripe_bytes", "share"),
    [
        ({}, ("disperse", "5", "redundancy", "1"), 2048, 1.25),
        ({"bricks": 6, "redundancy": 2}, ("disperse", "6", "redundancy", "2"), 2048, 1.5),
        ({"bricks": 4, "volume": "replica"}, ("replica", "2"), None, 2.0),
        ({"volume": "distribute"}, (), None, 1.0),
    ],
)
def test_a_volume_has_the_shape_that_is_asked_for(
    options: dict[str, Any], shape: tuple[str, ...], stripe_bytes: int | None, share: float
) -> None:
    """The thesis's stripe of five bricks, one of them redundant, is 2 KiB (section 5.3)."""
    model = glusterfs_setup.Options.model_validate(options)
    words = glusterfs_setup.volume(model, ["a:/b"])
    assert words == ("volume", "create", "wattio", *shape, "transport", "tcp", "a:/b", "force")
    assert model.stripe_bytes == stripe_bytes
    assert model.stored_share == share


def test_ceph_is_configured_as_in_the_thesis() -> None:
    """Section 5.1: two copies, one of which has to be there, 64 groups, 1.5 GiB and 2 GiB."""
    options = cephfs_setup.Options()
    assert (options.placement_groups, options.metadata_placement_groups) == (64, 64)
    text = cephfs_setup.configuration(options, uuid.UUID(int=7), "10.5.6.1", {"osd data": "/d"})
    lines = text.splitlines()
    assert "osd pool default size = 2" in lines
    assert "osd pool default min size = 1" in lines
    assert f"osd memory target = {3 << 29}" in lines
    assert f"mon memory target = {2 << 30}" in lines
    assert "mon host = [v2:10.5.6.1:3300,v1:10.5.6.1:6789]" in lines
    assert "osd data = /d" in lines


@pytest.mark.parametrize("name", ["with blank", "a;b", "it's", "$HOME"])
def test_cephfs_is_not_mounted_where_a_shell_reads_another_folder(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ceph-fuse` ended itself in the middle of an iteration: its remount had failed."""
    monkeypatch.setattr(cluster.Cluster, "probe", lambda self: None)
    CephFS(cephfs_setup.Options(), tmp_path / "plain_name-1").probe()
    with pytest.raises(HostError, match="through a shell"):
        CephFS(cephfs_setup.Options(), tmp_path / name).probe()


def test_osds_of_one_host_are_nodes_of_their_own(tmp_path: Path) -> None:
    """Copies go to different nodes; by the host's name there would be one."""
    storage = CephFS(cephfs_setup.Options(network="namespaces"), tmp_path)
    storage._configure()
    places = {
        line
        for path in tmp_path.glob("cephfs/osd*/ceph.conf")
        for line in path.read_text().splitlines()
        if line.startswith("crush location")
    }
    assert places == {f"crush location = root=default host=node{number}" for number in (3, 4)}


def test_a_command_sees_its_own_folders_and_nobody_else_does(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    own, place = tmp_path / "own", tmp_path / "place"
    place.mkdir()
    (place / "of the host").write_text("")
    words = private.privately(
        own, (str(place),), ("sh", "-c", 'touch "$0/mine"; ls "$0"', str(place))
    )
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "mine\n"
    assert [path.name for path in place.iterdir()] == ["of the host"]
    assert (own / str(place)[1:] / "mine").exists()
    missing = private.privately(own, (str(tmp_path / "none"),), ("echo", "goes on"))
    assert subprocess.run(missing, capture_output=True, text=True, check=True).stdout == "goes on\n"


def test_a_server_of_nfs_is_told_whom_it_serves() -> None:
    text = nfs_ganesha.configuration("10.5.6.1", Path("/disk 1"), Path("/scratch/recovery"))
    assert "Bind_addr = 10.5.6.1;" in text
    assert 'Path = "/disk 1";' in text
    assert text.count("{") == text.count("}") == 4
    with pytest.raises(ValidationError, match="data: 2 folders for 1 servers"):
        nfs_ganesha.Options(data=["/a", "/b"])


def test_nfs_is_not_mounted_by_a_kernel_that_has_none(tmp_path: Path) -> None:
    """What is missing is said before anything is started, not as a mount that failed."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    storage = nfs_ganesha.Storage(nfs_ganesha.Options(), tmp_path)
    if "nfs4" in Path("/proc/filesystems").read_text().split():
        pytest.skip("this kernel has a client for NFS 4")
    with pytest.raises(HostError, match=r"missing: |no client for NFS 4 \(modprobe nfsv4\)"):
        storage.probe()
