"""julea-config, julea-server, julea-statistics, julea-fuse, as JULEA's help and documents say."""

from __future__ import annotations

import argparse
import configparser
import os
import sys
from pathlib import Path

from systems.doubles import MOUNTS, is_there, refuse, say, stay

_PROGRAM = Path(sys.argv[1])
_STATE = _PROGRAM.parents[1] / "state"

KEYS = {
    "core": ("max-operation-size", "max-inject-size", "port"),
    "clients": ("max-connections", "stripe-size"),
    "servers": ("object", "kv", "db"),
    "object": ("backend", "path"),
    "kv": ("backend", "path"),
    "db": ("backend", "path"),
}
BACKENDS = {
    "object": {"gio", "null", "posix"},
    "kv": {"gdbm", "leveldb", "lmdb", "null", "rocksdb", "sqlite"},
    "db": {"null", "sqlite"},
}


def option(section: str, key: str) -> str:
    """The option of `julea-config` that says what a key is."""
    if section == "servers":
        return f"{key}-servers"
    return f"{section}-{key}" if section in BACKENDS else key


def write(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    for section, keys in KEYS.items():
        for key in keys:
            number = section in ("core", "clients")
            default = 0 if number else None
            parser.add_argument(
                f"--{option(section, key)}", type=int if number else str, default=default
            )
    given = vars(parser.parse_args(arguments))
    if None in given.values():
        return refuse("servers, backends and paths have to be named")
    for section, keys in KEYS.items():
        say(f"[{section}]")
        for key in keys:
            value = str(given[option(section, key).replace("-", "_")])
            say(f"{key}={value.replace(',', ';') + ';' if section == 'servers' else value}")
        say("")
    return None


def read() -> configparser.ConfigParser:
    path = os.environ.get("JULEA_CONFIG", "")
    found = configparser.ConfigParser(interpolation=None)
    if not path.startswith("/") or not found.read(path):
        refuse("Could not read configuration.")
    return found


def addresses(found: configparser.ConfigParser, kind: str) -> list[str]:
    return [word for word in found["servers"][kind].split(";") if word]


def serve(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--host", default=os.uname().nodename)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args(arguments)
    found = read()
    address = f"{given.host}:{given.port or found.getint('core', 'port')}"
    for kind, known in BACKENDS.items():
        if address not in addresses(found, kind):
            continue
        if found[kind]["backend"] not in known:
            return refuse(f"Could not initialize {kind} backend.")
        path = Path(found[kind]["path"].replace("{PORT}", str(given.port)))
        folder = path.parent if found[kind]["backend"] in ("sqlite", "gdbm") else path
        if not folder.is_dir():
            return refuse(f"Could not initialize {kind} backend: {folder}.")
        (path / "double" if folder == path else path).touch()
    # In the foreground, as without --daemon: whoever started it leaves it behind.
    (_STATE / address).write_text(str(os.getpid()))
    read_end, write_end = os.pipe()
    os.dup2(read_end, 0)
    os.set_inheritable(write_end, True)
    os.execv("/bin/sh", [sys.argv[1], "-c", "read -r _", *arguments])


def tell(arguments: list[str]) -> None:
    for number, address in enumerate(addresses(read(), "object")):
        file = _STATE / address
        if not file.exists() or not is_there(int(file.read_text())):
            return refuse(f"Can not connect to {address}.")
        say(f"Data server {number}\n  0 files created\n")
    return None


def mount(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("point", type=Path)
    parser.add_argument("-o", action="append")
    given = parser.parse_args(arguments)
    read()
    if not given.point.is_dir():
        return refuse("fuse: bad mount point")
    with (_STATE / MOUNTS).open("a") as file:
        file.write(f"{given.point}\tfuse.julea-fuse\tjulea-fuse\n")
    stay(sys.argv[1:])
    return None


{"julea-config": write, "julea-server": serve, "julea-statistics": tell, "julea-fuse": mount}[
    _PROGRAM.name
](sys.argv[2:])
