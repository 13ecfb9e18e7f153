"""A run that is killed: brings a local system up under a claim, says so, and waits for its end.

Arguments: the folder of claims, the scratch folder. A process that it starts leaves its session, as
the servers of a workload may.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from wattio.systems import claims


def main() -> None:
    folder, scratch = map(Path, sys.argv[1:])
    claims.place = lambda: folder
    with claims.held(Path("result"), "local", {}, scratch):
        system = claims.storage("local", {}, scratch)
        system.deploy()
        (system.mount(1)[0].folder / "file").write_text("much data")
        server = subprocess.Popen(["sleep", "600"], start_new_session=True)
        sys.stdout.write(f"{server.pid}\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
