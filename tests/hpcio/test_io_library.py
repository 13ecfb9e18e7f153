"""libwattio_io and its writer: what ranks hand over is what files hold."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from wattio.hpcio.assembly import assemble
from wattio.hpcio.inspection import inspect

from hpcio import io_library
from hpcio.io_library import (
    DEFERRED,
    INPUT,
    SYNC,
    TIMED_OUT,
    Configure,
    Failed,
    Rank,
    found,
    serve,
)
from hpcio.waiting import HANGS_S, until


def test_a_field_of_uneven_ranks_is_what_was_handed_over(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config, whole = configure(), np.arange(7 * 5, dtype="f4").reshape(7, 5)
    ranks = [Rank(config, meeting, rank, 3) for rank in range(3)]
    parts = [whole[:2], whole[2:3], whole[3:]]
    for rank, (one, part) in enumerate(zip(ranks, parts, strict=True)):
        start = (whole[: sum(len(other) for other in parts[:rank])].shape[0], 0)
        one.declare("u", part.shape, "f4", whole.shape, start)
        one.declare("count", (), "i8")
        one.attribute("u", "units", "m/s")
        one.begin(10)
        one.attribute(None, "time", 2.5)
        one.put("u", np.ascontiguousarray(part))
        one.put("count", np.array(rank))
        one.end()
    for one in ranks:
        one.wait(10)
        assert one.is_durable(10)
    io_library.close_all(ranks)
    output = tmp_path / "dumps"
    assert found(output) == {10: []}
    with h5py.File(output / "dump-00000010" / "fields.h5") as file:
        assert np.array_equal(file["u"][:], whole)
        assert file["u"].dtype == "f4"
        assert (file["u"].attrs["units"], file.attrs["time"]) == ("m/s", 2.5)
        assert [int(file[f"count/{rank:06}"][()]) for rank in range(3)] == [0, 1, 2]
    index = (output / "dumps.xdmf").read_text()
    assert "dump-00000010/fields.h5:/u" in index
    assert '<Time Value="2.5"/>' in index
    manifest = json.loads((output / "dump-00000010" / "manifest.json").read_text())
    assert manifest["attributes"] == {"time": 2.5}
    assert len(manifest["job"]) == 32
    assert sorted(path.name for path in output.iterdir()) == ["dump-00000010", "dumps.xdmf"]


def test_put_deferred_and_in_place_give_the_same(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank, data = Rank(configure(), meeting), np.random.default_rng(1).random((40, 30))
    for name in ("sync", "deferred", "placed"):
        rank.declare(name, data.shape)
    for step in range(5):
        rank.begin(step)
        rank.put("sync", data + step)
        late = data.copy()
        rank.put("deferred", late, DEFERRED)
        late += step
        rank.allocate("placed", data.shape)[...] = data + step
        rank.commit("placed")
        rank.end()
    report = rank.close()["ranks"][0]["compute"]
    assert (report["steps"], report["bytes"], report["failed"]) == (5, 5 * 3 * data.nbytes, [])
    for step in range(5):
        with h5py.File(tmp_path / "dumps" / f"dump-{step:08}" / "part-000001.h5") as file:
            for name in ("sync", "deferred", "placed"):
                assert np.array_equal(file[f"{name}/000000"][:], data + step)
    assert found(tmp_path / "dumps") == {step: [] for step in range(5)}


def test_a_step_larger_than_the_buffer_goes_in_pieces(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank = Rank(configure(buffer="256 KiB"), meeting)
    data = np.random.default_rng(2).random((20, 1000))
    names = [f"v{number}" for number in range(12)]
    for name in names:
        rank.declare(name, data.shape)
    for step in range(3):
        rank.dump(step, **{name: data + step for name in names})
    assert rank.close()["ranks"][0]["compute"]["stalls"] > 0
    assert found(tmp_path / "dumps") == {step: [] for step in range(3)}
    with h5py.File(tmp_path / "dumps" / "dump-00000002" / "fields.h5") as file:
        assert all(np.array_equal(file[f"{name}/000000"][:], data + 2) for name in names)


def test_what_can_never_fit_is_refused_and_the_step_can_go_on(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank = Rank(configure(buffer="256 KiB"), meeting)
    rank.declare("large", (1 << 20,))
    rank.declare("half", (20000,))
    rank.declare("other", (20000,))
    rank.begin(0)
    with pytest.raises(Failed, match="share of the buffer, 262144 B: make buffer larger") as told:
        rank.put("large", np.zeros(1 << 20))
    assert told.value.code == INPUT
    rank.allocate("half", (20000,))[...] = 1.0
    with pytest.raises(Failed, match="not committed leave no room"):
        rank.allocate("other", (20000,))
    rank.commit("half")
    rank.allocate("other", (20000,))[...] = 2.0
    rank.end()
    rank.close()
    assert found(tmp_path / "dumps") == {0: []}


def test_a_step_has_all_that_was_put_deferred_before_it_is_called_whole(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """The end of the step let go of all that was deferred, though a part of it did not fit.

    Called again, it ended a step without those blocks, which was whole.
    """
    rank, data = Rank(configure(buffer="256 KiB"), meeting), np.arange(1 << 20, dtype="f8")
    for name, count in (("a", 100), ("large", 1 << 20), ("held", 20000), ("late", 20000)):
        rank.declare(name, (count,))
    rank.begin(0)
    rank.put("a", data[:100], DEFERRED)
    with pytest.raises(Failed, match="variable large: 8388608 B are more than") as told:
        rank.put("large", data, DEFERRED)
    assert told.value.code == INPUT
    rank.allocate("held", (20000,))[...] = 1.0
    rank.put("late", data[:20000], DEFERRED)
    for _ in range(2):
        with pytest.raises(Failed, match="variable late: the blocks of this step that are alloc"):
            rank.call("end_step", rank.handle)
    rank.commit("held")
    rank.end()
    rank.close()
    assert found(tmp_path / "dumps") == {0: []}
    with h5py.File(tmp_path / "dumps" / "dump-00000000" / "fields.h5") as file:
        assert sorted(file) == ["a", "held", "late"]
        assert np.array_equal(file["late/000000"][:], data[:20000])


def test_attributes_count_whichever_rank_sets_them(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """Those of the lowest rank alone did; the others were gone without a word."""
    config = configure()
    ranks = [Rank(config, meeting, rank, 3) for rank in range(3)]
    for rank, one in enumerate(ranks):
        one.declare("u", (2,), "f8", (6,), (2 * rank,))
        one.declare("own", (1,))
        one.begin(0)
    for rank in (2, 1):
        ranks[rank].attribute("u", "units", f"m/s of rank {rank}")
        ranks[rank].attribute(None, "time", 0.5 * rank)
    ranks[2].attribute(None, "name", "third")
    ranks[2].attribute("own", "units", "K")
    for one in ranks:
        one.put("u", np.ones(2))
        one.put("own", np.ones(1))
        one.end()
    io_library.close_all(ranks)
    assert found(tmp_path / "dumps") == {0: []}
    manifest = json.loads((tmp_path / "dumps" / "dump-00000000" / "manifest.json").read_text())
    assert manifest["attributes"] == {"time": 0.5, "name": "third"}
    with h5py.File(tmp_path / "dumps" / "dump-00000000" / "fields.h5") as file:
        assert (file.attrs["time"], file.attrs["name"]) == (0.5, "third")
        assert dict(file["u"].attrs) == {"units": "m/s of rank 1"}
        assert dict(file["own/000002"].attrs) == {"units": "K"}
    assert '<Time Value="0.5"/>' in (tmp_path / "dumps" / "dumps.xdmf").read_text()
    assemble(tmp_path / "dumps", 0, tmp_path / "one.h5")
    with h5py.File(tmp_path / "one.h5") as file:
        assert dict(file["u"].attrs) == {"units": "m/s of rank 1"}


DAMARIS = """<simulation>
  <architecture><dedicated cores="{cores}" nodes="0"/><buffer size="1048576"/></architecture>
  <storage><store name="s" type="HDF5"><option key="FilesPath">{output}</option></store></storage>
</simulation>
"""


@pytest.mark.parametrize(("cores", "approach"), [(0, "tp"), (1, "dc:1")])
def test_the_approach_of_a_damaris_file_holds_at_a_path_and_is_recorded(
    cores: int, approach: str, meeting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer read TOML alone, and recorded `tp` as `dc:1`."""
    # Such a file names no HDF5 library: that of the machine is taken.
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libhdf5.so").symlink_to(io_library.hdf5())
    config = tmp_path / "d.xml"
    config.write_text(DAMARIS.format(cores=cores, output=tmp_path / "dumps"))
    line = [str(io_library.WRITER), "check", "--config", str(config)]
    told = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    rank = Rank(config, meeting)
    rank.declare("u", (4,))
    rank.dump(3, u=np.ones(4))
    assert rank.close()["approach"] == approach
    dumps = inspect(tmp_path / "dumps")
    assert [(dump.step, dump.problems, dump.approach) for dump in dumps] == [(3, [], approach)]


def test_the_oldest_step_gives_way_where_that_is_wanted(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    config = configure(buffer="256 KiB", when_full="drop_oldest")
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    rank.declare("u", (10000,))
    rank.dump(0, u=np.zeros(10000))
    rank.wait(0)
    writer.send_signal(signal.SIGSTOP)

    begun: list[int] = []

    # Beside three steps that wait there is no room for another one, so that this call sleeps.
    def dump_more() -> None:
        for step in range(1, 6):
            begun.append(step)
            rank.dump(step, u=np.full(10000, step))

    thread = threading.Thread(target=dump_more)
    thread.start()
    until(lambda: len(begun) == 4)
    thread.join(0.5)
    writer.send_signal(signal.SIGCONT)
    thread.join()
    report = rank.close()["ranks"][0]["compute"]
    assert writer.wait(20) == 0
    dropped = report["dropped"]
    assert dropped
    assert report["failed"] == []
    kept = set(range(6)) - set(dropped)
    told = found(tmp_path / "dumps")
    assert {step for step, problems in told.items() if not problems} == kept
    assert all("dropped" in told[step][0] for step in dropped)


def test_dumps_of_before_are_refused_replaced_or_kept_apart(
    configure: Configure, tmp_path: Path
) -> None:
    def job(value: float, **keys: object) -> list[int]:
        rank = Rank(configure(**keys), tmp_path / f"socket-{value}")
        rank.declare("u", (3,))
        rank.dump(4, u=np.full(3, value))
        with contextlib.suppress(Failed):
            rank.wait(4)
        return list(rank.close()["ranks"][0]["compute"]["failed"])

    def value(folder: Path) -> float:
        with h5py.File(folder / "dump-00000004" / "fields.h5") as file:
            return float(file["u/000000"][0])

    output = tmp_path / "dumps"
    assert job(1.0) == []
    assert job(2.0) == [4]
    assert value(output) == 1.0
    assert job(3.0, existing="overwrite") == []
    assert value(output) == 3.0
    assert job(4.0, existing="keep_apart") == []
    assert (value(output), value(output / "before-0001")) == (4.0, 3.0)
    assert found(output) == {4: []}


def test_files_of_other_dumps_and_damaged_attributes_are_found(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank, output = Rank(configure(), meeting), tmp_path / "dumps"
    rank.declare("u", (4,), "f8", (4,), (0,))
    rank.attribute("u", "units", "m/s")
    for step in range(6):
        rank.dump(step, u=np.full(4, step))
    rank.close()
    part = [output / f"dump-{step:08}" / "part-000001.h5" for step in range(6)]
    shutil.copy(part[1], part[0])
    with h5py.File(part[1], "r+") as file:
        file["u/000000"].attrs["offset"] = [1]
    with h5py.File(part[2], "r+") as file:
        file["u/000000"].attrs["units"] = "m"
    with h5py.File(part[3], "r+") as file:
        file.attrs["job"] = "another"
    manifest = part[4].with_name("manifest.json")
    manifest.write_text(manifest.read_text().replace("m/s", "m/h"))
    problems = found(output)
    assert "belongs to another dump: its attribute step is 1, not 0" in problems[0][0]
    assert "its attribute offset is (1,), not (0,)" in problems[1][0].replace("[1]", "(1,)")
    assert "its attribute units is 'm', not 'm/s'" in problems[2][0]
    assert "belongs to another dump: its attribute job" in problems[3][0]
    assert problems[4] == ["manifest: is damaged: its checksum is wrong"]
    assert problems[5] == []


def test_threads_may_share_a_handle(configure: Configure, meeting: Path, tmp_path: Path) -> None:
    rank = Rank(configure(), meeting)
    for number in range(16):
        rank.declare(f"v{number}", (1000,))
    rank.begin(0)
    threads = [
        threading.Thread(target=rank.put, args=(f"v{number}", np.full(1000, number)))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rank.end()
    rank.close()
    assert found(tmp_path / "dumps") == {0: []}


def test_threads_go_on_while_others_wait_for_what_they_handed_over(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """A thread in flush or wait_durable held the handle's lock while it slept."""
    config = configure()
    writer = serve(config, meeting, 1)
    rank = Rank(config, meeting)
    rank.declare("u", (1000,))
    os.kill(writer.pid, signal.SIGSTOP)
    try:
        rank.dump(0, u=np.zeros(1000))
        rank.dump(1, u=np.ones(1000))
        ended: list[str] = []
        waits = (("flush",), ("wait_durable", 1, -1.0), ("wait_durable", 0, HANGS_S))

        def wait(name: str, *arguments: object) -> None:
            rank.call(name, rank.handle, *arguments)
            ended.append(name)

        threads = [threading.Thread(target=wait, args=one) for one in waits]
        going = threading.Thread(target=lambda: rank.dump(2, u=np.ones(1000)))
        for thread in (*threads, going):
            thread.start()
        going.join(HANGS_S)
        assert not going.is_alive()
        assert not rank.is_durable(2)
        with pytest.raises(Failed, match="step 2: is not durable yet") as told:
            rank.wait(2, 0.01)
        assert told.value.code == TIMED_OUT
        assert ended == []
    finally:
        os.kill(writer.pid, signal.SIGCONT)
    for thread in threads:
        thread.join(HANGS_S)
    assert sorted(ended) == sorted(name for name, *_ in waits)
    rank.close()
    assert found(tmp_path / "dumps") == {0: [], 1: [], 2: []}


def test_compressed_and_synced_dumps_are_the_same(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank = Rank(configure(compression="gzip:4", sync=True), meeting)
    data = np.arange(300000.0).reshape(3, 100000)
    rank.declare("u", data.shape)
    rank.dump(0, u=data)
    rank.wait(0)
    rank.close()
    assert found(tmp_path / "dumps") == {0: []}
    with h5py.File(tmp_path / "dumps" / "dump-00000000" / "part-000001.h5") as file:
        assert file["u/000000"].compression == "gzip"
        assert np.array_equal(file["u/000000"][:], data)


def test_a_single_value_has_no_place_and_gaps_are_no_numbers(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank = Rank(configure(), meeting)
    rank.declare("n", (), "i8", (), ())
    rank.declare("u", (2, 2), "f4", (2, 4), (0, 2))
    rank.dump(0, n=np.array(7), u=np.ones((2, 2), "f4"))
    rank.close()
    with h5py.File(tmp_path / "dumps" / "dump-00000000" / "fields.h5") as file:
        assert int(file["n/000000"][()]) == 7
        assert np.isnan(file["u"][:, :2]).all()
        assert np.array_equal(file["u"][:, 2:], np.ones((2, 2)))
    assert found(tmp_path / "dumps") == {0: ["u: 4 of 8 elements are missing"]}


def test_a_dump_that_gets_no_manifest_is_not_in_the_index(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    rank = Rank(configure(), meeting)
    rank.declare("u", (2, 2), "f8", (2, 2), (0, 0))
    # In the way of a manifest.
    (tmp_path / "dumps" / "dump-00000001.partial" / "manifest.json.new").mkdir(parents=True)
    for step in range(3):
        rank.dump(step, u=np.ones((2, 2)))
        with contextlib.suppress(Failed):
            rank.flush()
    assert rank.close()["ranks"][0]["compute"]["failed"] == [1]
    index = (tmp_path / "dumps" / "dumps.xdmf").read_text()
    listed = [step for step in range(3) if f"dump-{step:08}/fields.h5" in index]
    assert listed == [0, 2]


def test_a_start_does_not_wait_until_dumps_of_before_have_been_read(
    configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    def job(step: int, before: Callable[[], None]) -> None:
        rank = Rank(configure(), meeting)
        rank.declare("u", (2, 2), "f8", (2, 2), (0, 0))
        before()
        rank.dump(step, u=np.ones((2, 2)))
        rank.close()

    job(0, lambda: None)
    manifest = tmp_path / "dumps" / "dump-00000000" / "manifest.json"
    text = manifest.read_text()
    manifest.unlink()
    # Whoever reads it waits until somebody has written it.
    os.mkfifo(manifest)
    late = threading.Thread(target=manifest.write_text, args=(text,))
    job(1, late.start)
    late.join()
    index = (tmp_path / "dumps" / "dumps.xdmf").read_text()
    assert all(f"dump-{step:08}/fields.h5" in index for step in range(2))


@pytest.mark.parametrize("mode", [SYNC, DEFERRED])
def test_a_block_without_elements_need_not_lie_anywhere(
    mode: int, configure: Configure, meeting: Path, tmp_path: Path
) -> None:
    """As a vector without elements in C++."""
    config = configure()
    ranks = [Rank(config, meeting, rank, 2) for rank in range(2)]
    for rank, rows in enumerate((0, 4)):
        one = ranks[rank]
        one.declare("u", (rows, 5), "f8", (4, 5), (0, 0))
        one.declare("n", (1,))
        one.begin(0)
        if rows:
            one.put("u", np.ones((rows, 5)))
        else:
            one.call("put", one.handle, one.ids["u"], 0, mode)
        with pytest.raises(Failed, match="variable n: data is NULL") as told:
            one.call("put", one.handle, one.ids["n"], 0, mode)
        assert told.value.code == INPUT
        one.end()
    io_library.close_all(ranks)
    assert found(tmp_path / "dumps") == {0: []}
