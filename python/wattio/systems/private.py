"""Folders that a daemon has for itself where its package's folders are: in its own mount namespace.

Daemons write to places that no option of theirs moves (GlusterFS's `/run/gluster` and
`/var/log/glusterfs`, Ceph's `/run/ceph`). Where they run they find folders of the run instead, and
nobody else sees those: nothing is written to the host's, and nothing has to be taken away again,
for the mounts go with the last process. Paths of sockets stay short, too, however deep the scratch
folder lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_SCRIPT = """
own=$1 count=$2
shift 2
while [ "$count" -gt 0 ]; do
    if [ -d "$1" ]; then mkdir -p "$own$1"; fi
    if [ -e "$1" ]; then mount --bind "$own$1" "$1"; fi
    shift
    count=$((count - 1))
done
exec "$@"
"""


def privately(own: Path, places: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """A command that has folders below `own` in place of those of its machine (`/run`, ...).

    Of a place that is a file, such as `/etc/hosts`, the one to be seen has to be there. What is
    unmounted outside goes away inside, too: a server that knows nothing of it would hold it.
    Programs needed: unshare and mount, of util-linux and mount.
    """
    space = ("unshare", "--mount", "--propagation", "slave")
    shell = ("sh", "-ec", _SCRIPT, "sh", str(own), str(len(places)))
    return (*space, *shell, *places, *command)
