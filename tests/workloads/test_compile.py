"""Source trees that are copied, built with the real make and compiler, and deleted."""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import tarfile
import threading
import uuid
import zlib
from importlib import resources
from pathlib import Path

import pytest
from hosts.conftest import local_ssh as local_ssh
from hypothesis import given, settings
from hypothesis import strategies as st
from wattio.errors import Cancelled, HostError, InputError, ResultError, WorkloadFailed
from wattio.hosts.host import Access
from wattio.hosts.hosts import Hosts
from wattio.workloads import compile as compiling
from wattio.workloads import source_tree, sources
from wattio.workloads.compile import Options, Work, results
from wattio.workloads.source_tree import MEAN_BYTES
from wattio.workloads.workload import Context, Operation, Place

GOOD = {
    "Makefile": b"all: a.o\n",
    "a.c": b'#include "deep/a.h"\nint f(void) { return N; }\n',
    "deep/a.h": b"#define N 7\n",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "wattio" / "sources"


def archived(path: Path, files: dict[str, bytes], top: str = "project-1.0/") -> Path:
    kind = path.suffix.removeprefix(".")
    with tarfile.open(path, f"w:{kind}" if kind != "tar" else "w") as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def context(base: Path, clients: int = 1, hosts: Hosts | None = None, host: str = "") -> Context:
    places = []
    for number in range(clients):
        (base / f"mount-{number}").mkdir(exist_ok=True)
        place = Place(base / f"mount-{number}")
        places.append(Place(place.folder, host) if host else place)
    (base / "raw").mkdir(exist_ok=True)
    return Context(tuple(places), base / "raw", hosts=hosts)


def of_step(where: Context, step: str) -> Context:
    (where.raw / step).mkdir(exist_ok=True)
    return Context(where.places, where.raw / step, where.cancelled, where.hosts)


def all_steps(subject: Work, where: Context) -> dict[str, Operation]:
    """Everything from preparing to cleaning; the result of each step."""
    subject.prepare(of_step(where, "prepare"))
    found = {}
    for step in subject.steps():
        own = of_step(where, step)
        (span,) = subject.run(step, own)
        (found[step],) = results(own.raw)
        assert span.name == found[step].phase == step
        # On a busy machine both lines of a phase may be read at once; it has no length then.
        assert (found[step].seconds or 0.0) == pytest.approx(span.seconds)
    subject.clean(where)
    return found


def work(base: Path, **options: object) -> Work:
    return Work(Options.model_validate(options), base)


def test_a_generated_tree_is_copied_built_and_deleted(tmp_path: Path, cache: Path) -> None:
    where = context(tmp_path, clients=2)
    subject = work(tmp_path, files=20, jobs=2)
    subject.probe()
    found = all_steps(subject, where)
    made = source_tree.plan(20, 1)
    objects = sum(item.kind == "c" for item in made.items)
    assert objects == 8
    assert (found["copy"].files, found["copy"].bytes) == (2 * 20, 2 * made.bytes)
    # An object and what it depends on.
    assert found["build"].files == 2 * 2 * objects
    assert found["build"].bytes
    assert found["build"].throughput_mib_s is None
    assert found["delete"].files == 2 * (20 + 2 * objects)
    assert found["delete"].bytes is None
    for one in found.values():
        assert one.files
        if one.seconds is not None:
            assert one.files_per_s == pytest.approx(one.files / one.seconds)
        assert one.doubts == ()
        assert one.iops is None
    assert "cc" in (tmp_path / "raw" / "build" / "build-0.out").read_text()
    assert list((tmp_path / "raw" / "prepare").iterdir()) == []
    assert [list(place.folder.iterdir()) for place in where.places] == [[], []]
    (kept,) = cache.iterdir()
    assert sorted(path.name for path in kept.iterdir()) == ["lock", "tree", "whole.json"]


def test_the_tree_is_made_once(tmp_path: Path, cache: Path) -> None:
    where = context(tmp_path)
    work(tmp_path, files=10).prepare(where)
    (kept,) = cache.iterdir()
    before = (kept / "tree").stat().st_ino
    work(tmp_path, files=10).prepare(where)
    assert (kept / "tree").stat().st_ino == before
    work(tmp_path, files=10, seed=2).prepare(where)
    assert len(list(cache.iterdir())) == 2


def test_a_history_is_copied_and_deleted_with_the_tree(tmp_path: Path, cache: Path) -> None:
    found = all_steps(work(tmp_path, files=10, history="2 MiB"), context(tmp_path))
    made = source_tree.plan(10, 1)
    assert found["copy"].files == 10 + 26
    assert found["copy"].bytes == made.bytes + (2 << 20)
    (kept,) = cache.iterdir()
    told = json.loads((kept / "whole.json").read_text())
    assert told["directories"] == len(made.directories) + 16
    data = b"".join(
        path.read_bytes() for path in (kept / "tree" / ".git").rglob("*") if path.is_file()
    )
    assert len(zlib.compress(data)) > 0.99 * len(data)


@pytest.mark.parametrize("suffix", ["tar", "gz", "bz2", "xz"])
@pytest.mark.parametrize("top", ["", "project-1.0/"])
def test_an_archive_is_built_as_it_says(tmp_path: Path, suffix: str, top: str) -> None:
    archived(tmp_path / f"source.{suffix}", GOOD, top)
    subject = work(
        tmp_path,
        archive=f"source.{suffix}",
        configure=["sh", "-c", "echo set > .config"],
        targets=["all", "CFLAGS=-O1"],
        sync=False,
    )
    found = all_steps(subject, context(tmp_path))
    assert [found[step].files for step in subject.steps()] == [3, 2, 5]
    assert "-O1" in (tmp_path / "raw" / "build" / "build-0.out").read_text()
    assert all("without sync" in one.doubts[0] for one in found.values())
    facts = subject.describe()
    assert facts["files"] == 3
    assert facts["archive"] == f"source.{suffix}"
    json.dumps(facts)


def test_a_build_that_fails_says_what_the_compiler_said(tmp_path: Path) -> None:
    bad = {**GOOD, "a.c": b'int f(void) { return "\x1b[31m" 1; }\n'}
    archived(tmp_path / "bad.gz", bad)
    subject, where = work(tmp_path, archive="bad.gz"), context(tmp_path)
    subject.prepare(where)
    subject.run("copy", where)
    with pytest.raises(
        WorkloadFailed,
        match=r"^build failed \(exit code 2\): .*a\.c:1:\d+: error: .*make: \*\*\* .*a\.o",
    ) as failed:
        subject.run("build", where)
    assert str(failed.value).isprintable()
    subject.clean(where)
    assert list(where.places[0].folder.iterdir()) == []


def test_what_a_make_above_asks_for_is_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFLAGS", "n -j99 --jobserver-auth=98,99")
    archived(tmp_path / "source.gz", GOOD)
    found = all_steps(work(tmp_path, archive="source.gz"), context(tmp_path))
    assert found["build"].files == 1


def test_a_copy_that_lacks_something_fails(tmp_path: Path, cache: Path) -> None:
    subject, where = work(tmp_path, files=10), context(tmp_path)
    subject.prepare(where)
    (kept,) = cache.iterdir()
    next((kept / "tree").rglob("*.c")).unlink()
    with pytest.raises(WorkloadFailed, match=r"the copy has 9 files in 1 directories, \d+ B, its"):
        subject.run("copy", where)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found.tobuf()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (member("../out"), "cannot be unpacked: .*outside"),
        (member("here/link", tarfile.SYMTYPE, "/etc/passwd"), "cannot be unpacked: .*absolute"),
        (member("here/node", tarfile.CHRTYPE), "cannot be unpacked: .*special"),
        (member("here", tarfile.DIRTYPE), "holds no files"),
        (b"no archive at all", "is not a readable tar file"),
        (b"\x1f\x8b\x08\x00cut off", "is not a readable tar file"),
        (None, "cannot be read: No such file"),
    ],
)
def test_an_archive_is_looked_at_before_anything_runs(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        end = bytes(2 * tarfile.BLOCKSIZE) if len(content) == tarfile.BLOCKSIZE else b""
        (tmp_path / "source").write_bytes(content + end)
    with pytest.raises(InputError, match=said):
        work(tmp_path, archive="source")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"archive": "a.tar", "files": 10}, "either archive, or files"),
        ({"archive": "a.tar", "history": "1 GiB"}, "either archive, or files"),
        ({"history": "1 KiB"}, "at least 1048576 B"),
        ({"source_folder": "here"}, "source_folder must be absolute"),
        ({"files": 9}, "greater than or equal to 10"),
        ({"configure": []}, "at least 1 item"),
        ({"jobs": 0}, "greater than or equal to 1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options.model_validate(options)


def test_a_missing_make_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match=r"make is not installed.*apt install make"):
        work(tmp_path).probe()


def test_who_is_stopped_leaves_no_part_of_a_tree(tmp_path: Path, cache: Path) -> None:
    cancelled = threading.Event()
    where = context(tmp_path)
    stopping = Context(where.places, where.raw, cancelled)
    subject = work(tmp_path, files=20_000)

    def stop() -> None:
        while not list(cache.glob("*/part/d0000")):
            threading.Event().wait(0.01)
        cancelled.set()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(Cancelled):
        subject.prepare(stopping)
    thread.join()
    (kept,) = cache.iterdir()
    assert [path.name for path in kept.iterdir()] == ["lock"]


def test_what_an_earlier_one_left_is_made_anew(tmp_path: Path, cache: Path) -> None:
    subject, where = work(tmp_path, files=10), context(tmp_path)
    subject.prepare(where)
    (kept,) = cache.iterdir()
    (kept / "whole.json").unlink()
    (kept / "part").mkdir()
    (kept / "tree" / "more").write_text("left")
    subject.prepare(where)
    assert not (kept / "part").exists()
    assert not (kept / "tree" / "more").exists()


@pytest.mark.parametrize("archive", [True, False])
def test_clients_on_hosts_keep_the_tree_for_the_time_of_a_run(
    tmp_path: Path, local_ssh: Path, monkeypatch: pytest.MonkeyPatch, archive: bool
) -> None:
    monkeypatch.setattr(sources, "PART_BYTES", 100)
    archived(tmp_path / "source.gz", GOOD)
    options = {"archive": "source.gz"} if archive else {"files": 10}
    folder = tmp_path / "disk"
    folder.mkdir()
    name = f"t{uuid.uuid4().hex[:12]}"
    with Hosts([name], Access()) as hosts:
        where = context(tmp_path, clients=2, hosts=hosts, host=name)
        found = all_steps(work(tmp_path, **options, source_folder=str(folder)), where)
        assert found["copy"].files == 2 * (3 if archive else 10)
        assert found["build"].files
        (kept,) = folder.iterdir()
        assert sorted(path.name for path in kept.iterdir()) == ["lock", "tree", "whole.json"]
    assert list(folder.iterdir()) == []


def test_clients_count_over_the_time_of_all_of_them(tmp_path: Path) -> None:
    where = context(tmp_path, clients=2)
    subject = work(tmp_path, files=10)
    subject.prepare(where)
    subject.run("copy", where)
    spans_s = ((100, 110), (104, 125))
    for number, (begin_s, end_s) in enumerate(spans_s):
        lines = [
            *((begin_s, "begin copy"), (end_s, "end copy")),
            (end_s + 50, f"result copy files=30 bytes={5 << 20}"),
        ]
        rows = [
            {"utc_ns": at * 10**9, "monotonic_ns": at * 10**9, "line": line} for at, line in lines
        ]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (where.raw / f"copy-{number}.phases").write_text(text)
    (found,) = results(where.raw)
    seconds = max(end for _, end in spans_s) - min(begin for begin, _ in spans_s)
    assert found.seconds == seconds == 25
    assert found.files_per_s == pytest.approx(60 / seconds)
    assert found.throughput_mib_s == pytest.approx(10 / seconds)
    (where.raw / "copy-1.phases").write_text("")
    with pytest.raises(ResultError, match="one phase with one result"):
        results(where.raw)


@settings(max_examples=30, deadline=None)
@given(files=st.integers(10, 400), seed=st.integers(0, 2**40))
def test_a_tree_has_the_size_that_was_asked_for(files: int, seed: int) -> None:
    made = source_tree.plan(files, seed)
    assert made == source_tree.plan(files, seed)
    assert made.files == files
    assert made.bytes == round(files * MEAN_BYTES)
    folders = ["", *made.directories]
    assert len(set(folders)) == len(folders) == 1 + max(1, round(files * 4886 / 74265))
    for place, path in enumerate(folders[1:], 1):
        assert path.rpartition("/")[0] in folders[:place]
    paths = [item.path for item in made.items]
    assert len(set(paths)) == len(paths)
    assert {path.rpartition("/")[0] for path in paths} <= set(folders)


@settings(max_examples=10, deadline=None)
@given(files=st.integers(10, 100), seed=st.integers(0, 2**40))
def test_files_are_as_long_as_planned_and_include_what_is_there(files: int, seed: int) -> None:
    made = source_tree.plan(files, seed)
    numbers = {item.path: item.number for item in made.items if item.kind == "h"}
    for item in made.items:
        content = source_tree.content(item, made, seed)
        assert len(content) == item.size
        for included in re.findall(rb'#include "([^"]+)"', content):
            assert included.decode() in numbers
            # Headers include those before them only, so there is no circle.
            assert item.kind == "c" or numbers[included.decode()] < item.number


def test_headers_are_found_as_by_looking_through_all() -> None:
    """The place of a header is computed; a list of those before is what that stands for."""
    made = source_tree.plan(150, 1)
    for item in made.items:
        before = made.items if item.kind == "c" else made.items[: item.number]
        headers = [one for one in before if one.kind == "h"]

        class Draw:
            def __init__(self, value: float) -> None:
                self.random = lambda: value

        found = [
            source_tree._header(made.items, item, Draw((place + 0.5) / len(headers)))  # type: ignore[arg-type]
            for place in range(len(headers))
        ]
        assert found == headers


def test_sizes_spread_as_those_of_a_log_normal_distribution() -> None:
    found = source_tree.sizes(10_000, round(10_000 * MEAN_BYTES))
    assert sum(found) == round(10_000 * MEAN_BYTES)
    assert all(one <= other for one, other in itertools.pairwise(found))
    # Its median is the mean times exp(-s^2 / 2); that of the thesis's tree is not known.
    assert found[5000] == pytest.approx(MEAN_BYTES * 2.718281828 ** (-(1.5**2) / 2), rel=0.05)


@pytest.mark.parametrize("name", [sources.CLIENT, sources.GENERATOR])
def test_what_is_sent_over_needs_python_3_8_only(name: str) -> None:
    text = resources.files("wattio.workloads").joinpath(name).read_text()
    ast.parse(text, feature_version=(3, 8))
    lines = [line for line in text.splitlines() if line.startswith(("import", "from"))]
    assert not any("wattio" in line for line in lines)


def test_room_and_time_grow_with_files_and_clients(tmp_path: Path) -> None:
    small, large = work(tmp_path, files=100), work(tmp_path, files=1000)
    assert small.bytes_needed(2) == 2 * small.bytes_needed(1)
    assert large.bytes_needed(1) == pytest.approx(10 * small.bytes_needed(1))
    assert large.bytes_needed(1) > 1000 * MEAN_BYTES
    assert large.seconds_guess(1) == pytest.approx(10 * small.seconds_guess(4))
    assert compiling.AT_HOSTS.keys() == {"make", "cc"}
    archived(tmp_path / "source.gz", GOOD)
    assert work(tmp_path, archive="source.gz").bytes_needed(1) >= 3 * 4096
    kept = work(tmp_path, files=100, history="1 GiB")
    assert kept.bytes_needed(2) - small.bytes_needed(2) > 2 << 30
