"""A run that is killed: brings a MooseFS up, says so, and waits for its end.

Arguments: the options as JSON, the scratch folder.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from wattio.systems.moosefs import Options, Storage


def main() -> None:
    storage = Storage(Options.model_validate(json.loads(sys.argv[1])), Path(sys.argv[2]))
    storage.deploy()
    storage.start()
    storage.mount(2)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
