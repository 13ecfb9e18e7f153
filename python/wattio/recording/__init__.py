"""Recording of power: meters are sampled in a process of their own, into files that grow.

`Recorder` is the side that measures; `sampler` is the process, `journal` its files, `samples` what
is read back from them, `parquet` what is kept of them, `timing` how evenly they came.
"""

from wattio.recording.journal import Event
from wattio.recording.recorder import Recorder, Source
from wattio.recording.samples import Samples

__all__ = ["Event", "Recorder", "Samples", "Source"]
