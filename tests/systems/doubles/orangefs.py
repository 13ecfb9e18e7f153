"""pvfs2-server, pvfs2-ping and pvfs2fuse, as their manuals and the one of fs.conf have them."""

from __future__ import annotations

import json
import os
import re
import sys
from getopt import GetoptError, gnu_getopt
from itertools import pairwise
from pathlib import Path

from systems.doubles import MOUNTS, is_there, refuse, say, stay

_PROGRAM = Path(sys.argv[1])
_STATE = _PROGRAM.parents[1] / "state"

# Where each setting may stand.
SETTINGS = {
    "Defaults": "UnexpectedRequests EventLogging EnableTracing LogStamp BMIModules FlowModules"
    " TCPBindSpecific ServerJobBMITimeoutSecs ServerJobFlowTimeoutSecs ClientJobBMITimeoutSecs"
    " ClientJobFlowTimeoutSecs ClientRetryLimit ClientRetryDelayMilliSecs",
    "Security": "TurnOffTimeouts",
    "Aliases": "Alias",
    "FileSystem": "Name ID RootHandle FileStuffing FlowBufferSizeBytes FlowBuffersPerFlow"
    " DefaultNumDFiles DistrDirServersInitial DistrDirServersMax DistrDirSplitSize",
    "MetaHandleRanges": "Range",
    "DataHandleRanges": "Range",
    "StorageHints": "TroveSyncMeta TroveSyncData TroveMethod",
    "Distribution": "Name Param Value",
    "ServerOptions": "Server DataStorageSpace MetadataStorageSpace LogFile",
}
INSIDE = {
    "Security": "Defaults",
    "MetaHandleRanges": "FileSystem",
    "DataHandleRanges": "FileSystem",
    "StorageHints": "FileSystem",
    "Distribution": "FileSystem",
}
PARAMETERS = {
    "basic_dist": set(),
    "simple_stripe": {"strip_size"},
    "twod_stripe": {"num_groups", "strip_size", "group_strip_factor"},
}


def read(path: Path) -> dict[str, list[list[str]]]:
    """The settings of each block, in order; refuses what the manual does not have."""
    found: dict[str, list[list[str]]] = {block: [] for block in SETTINGS}
    inside: list[str] = []
    for line in path.read_text().splitlines():
        words = line.split()
        if end := re.fullmatch(r"</(\w+)>", line.strip()):
            if not inside or inside.pop() != end[1]:
                refuse(f"{line}: ends what has not begun")
        elif begin := re.fullmatch(r"<(\w+)>", line.strip()):
            if begin[1] not in SETTINGS or INSIDE.get(begin[1]) != (inside[-1] if inside else None):
                refuse(f"{line}: not here")
            inside.append(begin[1])
        elif words:
            if not inside or words[0] not in SETTINGS[inside[-1]].split() or len(words) < 2:
                refuse(f"{line}: not allowed in {inside}")
            found[inside[-1]].append(words)
    if inside:
        refuse(f"{inside} has no end")
    check_ranges(found)
    check_distribution(found["Distribution"])
    return found


def check_ranges(found: dict[str, list[list[str]]]) -> None:
    aliases = {words[1] for words in found["Aliases"]}
    ranges = []
    for words in found["MetaHandleRanges"] + found["DataHandleRanges"]:
        if words[1] not in aliases:
            refuse(f"{words[1]}: no such alias")
        first, last = map(int, words[2].split("-"))
        ranges.append((first, last))
    ranges.sort()
    if any(two[0] <= one[1] for one, two in pairwise(ranges)):
        refuse("ranges of handles overlap")
    root = int(next(words[1] for words in found["FileSystem"] if words[0] == "RootHandle"))
    if not any(first <= root <= last for first, last in ranges):
        refuse("no server has the root")


def check_distribution(settings: list[list[str]]) -> None:
    name = next((words[1] for words in settings if words[0] == "Name"), "simple_stripe")
    given = {words[1] for words in settings if words[0] == "Param"}
    if not given <= PARAMETERS.get(name, set()):
        refuse(f"{name} has no parameters {given}")
    if not all(words[1].isdigit() for words in settings if words[0] == "Value"):
        refuse("values are whole numbers")


def serve(arguments: list[str]) -> None:
    try:
        options, rest = gnu_getopt(
            arguments, "dfhrvp:a:", ["foreground", "mkfs", "help", "rmfs", "version"]
        )
    except GetoptError as error:
        return refuse(f"Usage: {error}")
    given = dict(options)
    if "-v" in given:
        say("2.9.8 (mode: aio-threaded)")
        return None
    if len(rest) != 1:
        return refuse("Missing config file in command line arguments")
    configuration, alias = read(Path(rest[0])), given.get("-a", os.uname().nodename)
    addresses = {words[1]: words[2] for words in configuration["Aliases"]}
    if alias not in addresses:
        return refuse(f"{alias}: no such alias")
    return begin(given, alias, addresses, own(configuration["ServerOptions"], alias))


def own(settings: list[list[str]], alias: str) -> dict[str, str]:
    """The options of one server: those that follow its name, up to the next one's."""
    found: dict[str, str] = {}
    here = False
    for words in settings:
        if words[0] == "Server":
            here = words[1] == alias
        elif here:
            found[words[0]] = words[1]
    return found


def begin(given: dict[str, str], alias: str, addresses: dict[str, str], it: dict[str, str]) -> None:
    made = Path(it["MetadataStorageSpace"]) / "collections.db"
    if "-f" in given:
        if made.exists():
            return refuse("storage space exists already")
        made.parent.mkdir()
        made.touch()
        (Path(it["DataStorageSpace"]) / "00000001" / "stranded-bstreams").mkdir(parents=True)
        return None
    if not made.exists():
        return refuse("storage is not made: pvfs2-server -f")
    if not given.get("-p", "/").startswith("/"):
        return refuse("Error: pidfile must be specified with an absolute path.")
    Path(it["LogFile"]).write_text(f"PVFS2 Server on node {alias} version 2.9.8 starting...\n")
    pid = stay(sys.argv[1:])
    Path(given["-p"]).write_text(f"{pid}\n")
    state = {"pid": pid, "every": sorted(addresses.values())}
    (_STATE / addresses[alias].replace("/", "_")).write_text(json.dumps(state))
    return None


def asked(address: str) -> dict[str, object] | None:
    """What a server that runs knows; None for one that does not."""
    try:
        state = json.loads((_STATE / address.replace("/", "_")).read_text())
    except OSError:
        return None
    return state if is_there(state["pid"]) else None


def ping(arguments: list[str]) -> None:
    if len(arguments) != 2 or arguments[0] != "-m":
        return refuse("Usage: pvfs2-ping -m file_system_path")
    lines = Path(os.environ["PVFS2TAB_FILE"]).read_text().split("\n")
    words = next((line.split() for line in lines if arguments[1] in line.split()), [])
    if len(words) != 6 or words[2] != "pvfs2":
        return refuse("Failure: could not find file system in pvfstab.")
    state = asked(words[0].rpartition("/")[0])
    if state is None:
        return refuse("Failure: could not initialize")
    every = state["every"]
    assert isinstance(every, list)
    answers = [(address, asked(address) is not None) for address in every]
    for address, answered in answers:
        say(f"   {address} {'Ok' if answered else 'Failure!'}")
    return None if all(answered for _, answered in answers) else refuse("has problems")


def mount(arguments: list[str]) -> None:
    options, rest = gnu_getopt(arguments, "o:hVdfs")
    given = dict(word.partition("=")[::2] for _, word in options)
    spec = given.get("fs_spec", "")
    if spec.count("/") != 3 or not spec.endswith("/orangefs") or len(rest) != 1:
        return refuse(f"Error: invalid FS spec: {spec}")
    if asked(spec.rpartition("/")[0]) is None:
        return refuse("Could not add mnt entry: Connection refused")
    with (_STATE / MOUNTS).open("a") as file:
        file.write(f"{rest[0]}\tfuse\tpvfs2fuse#{spec}\n")
    stay(sys.argv[1:])
    return None


{"pvfs2-server": serve, "pvfs2-ping": ping, "pvfs2fuse": mount}[_PROGRAM.name](sys.argv[2:])
