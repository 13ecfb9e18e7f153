"""Launchers of MPI ranks: how each is known, what each is told, which one is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from wattio.errors import WorkloadFailed
from wattio.workloads import mpi_find
from wattio.workloads.launchers import Job, Launcher, hydra, openmpi, slurm, standard

HOSTS = {"one": 2, "two": 1}


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("mpirun (Open MPI) 4.1.4", openmpi),
        ("mpiexec (OpenRTE) 4.1.4", openmpi),
        ("prterun (PRRTE) 3.0.8", openmpi),
        ("HYDRA build details: Version: 4.0.2", hydra),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.11", hydra),
        ("slurm 23.02.7", slurm),
        ("slurm-wlm 22.05.8", slurm),
        ("aprun 1.0", standard),
        ("", standard),
    ],
)
def test_each_is_known_by_what_it_says(version: str, kind: Launcher) -> None:
    assert next(one for one in mpi_find.KNOWN if one.knows(version)) is kind


@pytest.mark.parametrize(
    ("kind", "here", "away"),
    [
        (
            openmpi,
            "-np 3 --oversubscribe --bind-to none -v",
            "-np 3 --oversubscribe --bind-to none --host one:2,two:1 -x NAME -v",
        ),
        (hydra, "-n 3 -bind-to none -v", "-n 3 -bind-to none -hosts one:2,two:1 -v"),
        (
            slurm,
            "--ntasks=3 --overcommit --cpu-bind=none --kill-on-bad-exit=1 --nodes=1"
            " --nodelist=node1 -v",
            "--ntasks=3 --overcommit --cpu-bind=none --kill-on-bad-exit=1 --nodes=2"
            " --distribution=arbitrary -v",
        ),
        (standard, "-n 3 -v", "-n 3 -v"),
    ],
)
def test_each_has_its_own_options(tmp_path: Path, kind: Launcher, here: str, away: str) -> None:
    """Open MPI's were hard-coded: MPICH's mpiexec ended at `--oversubscribe`."""
    job = Job(3, tmp_path, given=["-v"], here="node1")
    assert " ".join(kind.arguments(job)) == here
    between = Job(3, tmp_path, hosts=HOSTS, given=["-v"], carried=["NAME"], here="node1")
    assert " ".join(kind.arguments(between)) == away
    assert all(isinstance(value, str) for value in kind.environment(between).values())


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (openmpi, ["--bind-to", "core"]),
        (openmpi, ["--oversubscribe"]),
        (hydra, ["-bind-to", "core"]),
        (slurm, ["--cpu-bind=cores"]),
        (slurm, ["--kill-on-bad-exit=0"]),
    ],
)
def test_what_the_study_sets_is_left_to_it(
    tmp_path: Path, kind: Launcher, given: list[str]
) -> None:
    words = kind.arguments(Job(2, tmp_path, given=given))
    name = given[0].partition("=")[0]
    assert [word for word in words if word.partition("=")[0] == name] == given[:1]
    assert words[-len(given) :] == given


def test_slurm_is_told_each_ranks_host_in_a_file(tmp_path: Path) -> None:
    """It would sort hosts by its own table, and the ranks of a client would be on another's."""
    assert slurm.environment(Job(2, tmp_path)) == {}
    found = slurm.environment(Job(3, tmp_path, hosts={"two": 2, "one": 1}))
    assert Path(found["SLURM_HOSTFILE"]).read_text() == "two\ntwo\none\n"


def test_root_and_waiting_ranks_are_open_mpis_own_matter(tmp_path: Path) -> None:
    assert openmpi.environment(Job(1, tmp_path)) == {}
    assert "OMPI_ALLOW_RUN_AS_ROOT" in openmpi.environment(Job(1, tmp_path, as_root=True))
    one = openmpi.environment(Job(1, tmp_path, yields=True, hosts={"far": 1}))
    two = openmpi.environment(Job(3, tmp_path, yields=True, hosts=HOSTS))
    assert set(one) - set(two) == {"OMPI_MCA_pml", "OMPI_MCA_btl"}


def test_an_unknown_launcher_needs_to_be_told_how_to_get_to_hosts(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailed, match=r"options must say how 3 ranks get to one, two"):
        standard.arguments(Job(3, tmp_path, hosts=HOSTS))


OPEN_MPIS = "libmpi.so.40 => /usr/lib/libmpi.so.40\nlibopen-pal.so.40 => /usr/lib/libopen-pal.so.40"


@pytest.mark.parametrize(
    ("libraries", "taken"),
    [
        ("", "mpirun"),
        (OPEN_MPIS, "mpirun"),
        ("libmpich.so.12 => /usr/lib/libmpich.so.12", "mpiexec.hydra"),
        ("libmpi.so.12 => /opt/lib/libmpi.so.12", "mpiexec.hydra"),
    ],
)
def test_the_launcher_is_that_of_the_programs_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libraries: str, taken: str
) -> None:
    """Where both are installed, `mpirun` is one of them; with it the other's ranks are alone."""
    says = {
        "mpirun": "mpirun (Open MPI) 4.1.4",
        "mpiexec": "mpiexec (OpenRTE) 4.1.4",
        "mpiexec.hydra": "HYDRA build details:",
        "srun": "slurm 23.02.7",
    }
    for name, words in says.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{words}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = mpi_find.named("mpirun", libraries)
    assert found is not None
    assert Path(found.path).name == taken
    by_name = mpi_find.named("srun", libraries)
    assert by_name is not None
    assert by_name.kind is slurm
    (tmp_path / "mpiexec.hydra").unlink()
    other = mpi_find.named("mpirun", "libmpich.so.12 => /usr/lib/libmpich.so.12 libmpi")
    assert other is not None
    assert other.kind is slurm
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert mpi_find.named("mpirun") is None


def test_libraries_of_what_is_no_program_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ior"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "libmpi" not in mpi_find.libraries("ior")
    assert mpi_find.libraries("no-such-program") == ""
