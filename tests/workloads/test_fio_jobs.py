"""fio's job files: cut into groups, written for a client, refused where they lead elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio.errors import InputError
from wattio.workloads.fio_job import groups

FILE = """\
; sequential
[global]
bs=4M
[write]
rw=write
[global]
ioengine = libaio
[read]
stonewall
rw=read
[reread]
rw=read
# the rest waits
[random]
wait_for=read
rw=randread
"""


def test_groups_keep_the_globals_before_them() -> None:
    found = groups(FILE, "x.fio")
    assert [one.name for one in found] == ["write", "read", "random"]
    text = found[1].text(Path("/mnt/a:b"), {"lat_percentiles": "1"})
    assert text == (
        "[global]\ndirectory=/mnt/a\\:b\nlat_percentiles=1\n\n[global]\nbs=4M\n\n"
        "[global]\nioengine = libaio\n\n[read]\nrw=read\n\n[reread]\nrw=read\n"
    )
    assert "libaio" not in found[0].text(Path("/mnt"), {})
    assert "wait_for" not in found[2].text(Path("/mnt"), {})


def test_a_barrier_may_be_global_and_taken_back() -> None:
    text = "[global]\nstonewall\n[a]\nrw=read\n[b]\nrw=read\n[c]\nstonewall=0\n"
    assert [one.name for one in groups(text, "x")] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no job"),
        ("[global]\nbs=1", "holds no job"),
        ("rw=read", "x.fio:1: 'rw=read' is before the first"),
        ("[a]\ndirectory=/tmp", r"\[a\]: directory is set by wattio"),
        ("[a]\nfilename=/dev/sda", "filename '/dev/sda' leads out"),
        ("[a]\nfilename=b:../c", "leads out"),
        ("[a]\ninclude other", "include is not supported"),
        ("[a]\nrw=read\n[a]\nstonewall", r"\[a\] begins two groups"),
        ("[a]\nb=\0", "is not a text file: it contains a NUL byte"),
        ("[a\0]\nrw=read", "is not a text file: it contains a NUL byte"),
        ("[4k/randread]\nrw=read", r"x.fio: \[4k/randread\]: .* cannot name a folder"),
        ("[a]\nrw=read\n[..]\nstonewall", r"\[\.\.\]: .* cannot name a folder"),
        ("[.]\nrw=read", r"\[\.\]: .* cannot name a folder"),
        ("[]\nrw=read", r"\[\]: .* cannot name a folder"),
        (f"[{'ä' * 65}]\nrw=read", "longer than 128 bytes"),
    ],
)
def test_what_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        groups(text, "x.fio")


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["[a]", "[b]", "[global]", "stonewall", "rw=read", "filename=", "=", "include"]
        )
    ).map("\n".join)
)
def test_no_text_breaks_it(text: str) -> None:
    try:
        found = groups(text, "x.fio")
    except InputError:
        return
    for one in found:
        assert groups(one.text(Path("d"), {})[len("[global]\ndirectory=d\n") :], "again")
