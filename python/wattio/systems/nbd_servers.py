"""Block servers over NBD: how each makes its disk and is started, in its manual's own words."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattio.files.toml_text import dump

Setting = str | int | float | bool
Words = tuple[str, ...]

_MIB = 1 << 20
_BUILT = Path(__file__).resolve().parents[3] / "target/release"
"""Where wattio's source tree, if this lies in one, has the programs that it built."""


@dataclass(frozen=True)
class Served:
    """What a server is to serve: a disk of a form and size at a socket, set as the study says.

    Files of the server itself lie in `folder`; `make` are options of what makes the disk.
    """

    program: str
    folder: Path
    form: str
    disk: Path
    size_bytes: int
    socket: Path
    settings: Mapping[str, Setting]
    make: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def pid_file(self) -> Path:
        """Where a server that goes into the background leaves its number."""
        return self.folder / "pid"


@dataclass(frozen=True)
class Server:
    """A block server: its program, Debian's package of it, and the forms of disks it serves.

    What has no package there comes with wattio. `serve` is its command; it may write a
    configuration. `make` is the command that makes a disk that is not a plain file. `export` is the
    name that clients ask for. With `to_background` its first process ends as soon as it serves.
    `control` is the socket on which it says how it stands, of one that does.
    """

    program: str
    package: str | None
    forms: Words
    serve: Callable[[Served], Words]
    make: Callable[[Served], Words | None] | None = None
    export: str = ""
    version: str = "--version"
    to_background: bool = False
    control: Callable[[Served], Path] | None = None

    def path(self) -> str:
        """The program as it is started; where wattio's own is not on PATH, as its tree built it."""
        built = _BUILT / self.program
        if self.package or shutil.which(self.program) or not built.is_file():
            return self.program
        return str(built)


def _nbdkit(what: Served) -> Words:
    """Settings are parameters of the plugin; `threads` is its own option (16 by default)."""
    plugin = ("file", str(what.disk)) if what.form == "raw" else ("memory", str(what.size_bytes))
    own = {key: value for key, value in what.settings.items() if key == "threads"}
    rest = {key: value for key, value in what.settings.items() if key not in own}
    head = (what.program, "--foreground", "--unix", str(what.socket))
    return (*head, *_long(own), *plugin, *_pairs(rest))


def _qemu_nbd(what: Served) -> Words:
    """Settings are its long options, such as `cache` and `aio`."""
    always = ("--persistent", "--shared=0", "--socket", str(what.socket), f"--format={what.form}")
    return (what.program, *always, *_long(what.settings), str(what.disk))


def _qemu_storage_daemon(what: Served) -> Words:
    """Settings are properties of the file below the disk: `cache.direct`, `aio`.

    Without an I/O thread: that of 7.2 ends by an assertion when a client of NBD leaves.
    """
    file = ["driver=file", "node-name=file", f"filename={_comma(what.disk)}"]
    disk = [f"driver={what.form}", "node-name=disk", "file=file"]
    return (
        what.program,
        *("--blockdev", ",".join([*file, *_pairs(what.settings)])),
        *("--blockdev", ",".join(disk)),
        *("--nbd-server", f"addr.type=unix,addr.path={_comma(what.socket)}"),
        *("--export", "type=nbd,id=export,node-name=disk,name=,writable=on"),
    )


def _qemu_img(what: Served) -> Words | None:
    if what.form == "raw":
        return None
    # Manual: metadata that are there beforehand make writing faster.
    options = {"preallocation": "metadata", **what.make}
    form = ("-q", "-f", what.form, "-o", ",".join(_pairs(options)))
    return ("qemu-img", "create", *form, str(what.disk), str(what.size_bytes))


def _nbd_server(what: Served) -> Words:
    """Settings are lines of the export's section; `max_threads` stands in the general one."""
    general = {key: value for key, value in what.settings.items() if key == "max_threads"}
    own = {key: value for key, value in what.settings.items() if key not in general}
    sections = {
        "generic": {"unixsock": what.socket, **general},
        "disk": {"exportname": what.disk, "flush": True, **own},
    }
    config = what.folder / "nbd-server.conf"
    lines = []
    for name, keys in sections.items():
        lines += [f"[{name}]", *(f"{key} = {_plain(value)}" for key, value in keys.items())]
    config.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return (what.program, "-C", str(config), "-p", str(what.pid_file))


def _wattio_target(what: Served) -> Words:
    """Settings are keys of its configuration."""
    config = what.folder / "target.toml"
    config.write_text(target_config(what), encoding="utf-8")
    return (what.program, "serve", str(config))


def target_config(what: Served) -> str:
    """The configuration of wattio-target: the one place that knows its keys.

    A setting of a table is written with a dot: `memory.cache`, `policy.settings.plf`.
    """
    content: dict[str, Any] = {
        "listen": [f"unix:{what.socket}"],
        "service": {"listen": "off", "socket": str(_control(what))},
        "export": [{"name": "", "devices": [str(what.disk)]}],
    }
    for key, value in what.settings.items():
        *tables, name = key.split(".")
        place = content
        for table in tables:
            place = place.setdefault(table, {})
        place[name] = value
    return dump(content)


def _control(what: Served) -> Path:
    """Beside the socket of clients, where the study says nothing: a longer name would not fit."""
    return Path(str(what.settings.get("service.socket", what.socket.with_name("c"))))


def _wattio_target_create(what: Served) -> Words:
    """What is said of the making are its long options: `segment-size`, `spare`."""
    size = ("--size", f"{what.size_bytes // _MIB}MiB")
    return (what.program, "create", str(what.disk), *size, *_long(what.make))


SERVERS = {
    "nbdkit": Server("nbdkit", "nbdkit", ("raw", "memory"), _nbdkit),
    "qemu-nbd": Server("qemu-nbd", "qemu-utils", ("raw", "qcow2"), _qemu_nbd, _qemu_img),
    "qemu-storage-daemon": Server(
        "qemu-storage-daemon",
        "qemu-system-common",
        ("raw", "qcow2"),
        _qemu_storage_daemon,
        _qemu_img,
    ),
    # Its form for debugging, which stays in the foreground, ends with the first client.
    "nbd-server": Server(
        "nbd-server",
        "nbd-server",
        ("raw",),
        _nbd_server,
        export="disk",
        version="-V",
        to_background=True,
    ),
    "wattio-target": Server(
        "wattio-target",
        None,
        ("volume",),
        _wattio_target,
        _wattio_target_create,
        control=_control,
    ),
}
"""Servers by the name that a study file gives them; their first form of a disk is the default."""


def _long(settings: Mapping[str, Setting]) -> Words:
    return tuple(f"--{pair}" for pair in _pairs(settings))


def _pairs(settings: Mapping[str, Setting]) -> Words:
    return tuple(
        f"{key}={('on' if value else 'off') if isinstance(value, bool) else value}"
        for key, value in settings.items()
    )


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _comma(path: Path) -> str:
    """A path within an option of QEMU, where a comma separates."""
    return str(path).replace(",", ",,")
