"""Storage systems under test: one module for each, all of the shape that `system` describes."""

KINDS = {
    "beegfs": "beegfs",
    "cephfs": "cephfs",
    "glusterfs": "glusterfs",
    "julea": "julea",
    "local": "local",
    "moosefs": "moosefs",
    "mounted": "mounted",
    "nbd": "nbd",
    "nfs_ganesha": "nfs_ganesha",
    "orangefs": "orangefs",
}
"""Module of each kind of system, by the name that a study file gives it."""

DEVICES = ("nbd",)
"""Kinds that serve a block device, and no folder."""
