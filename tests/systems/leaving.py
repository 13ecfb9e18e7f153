"""A run that is killed: brings a file system up, says so, and waits for its end.

Arguments: the module of the system, its options as JSON, the scratch folder.
"""

from __future__ import annotations

import json
import signal
import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    module = import_module(f"wattio.systems.{sys.argv[1]}")
    storage = module.Storage(
        module.Options.model_validate(json.loads(sys.argv[2])), Path(sys.argv[3])
    )
    storage.deploy()
    storage.start()
    storage.mount(2)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
