"""Workloads: one module for each, all of the shape that `workload` describes."""

KINDS = {
    "command": "command",
    "compile": "compile",
    "fio": "fio",
    "hpcio": "hpcio",
    "idle": "idle",
    "ior": "ior",
    "mdtest": "mdtest",
    "mpi_io": "mpi_io",
    "mpi_meta": "mpi_meta",
    "trace": "trace",
    "training": "training",
}
"""Module of each kind of workload, by the name that a study file gives it."""

OF_DEVICES = ("fio", "idle", "training")
"""Kinds that can work on a block device that is served over NBD; all can work in a folder."""
