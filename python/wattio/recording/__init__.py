"""Recording of power: meters are sampled in a process of their own, into files that grow.

`Recorder` is the side that measures; `sampler` is the process, `journal` its files, `timing` how
evenly readings came. What is read back are `meters.samples`, what is kept is `meters.parquet`;
where that cannot be written, the files stay (`unwritten`).
"""

from wattio.meters.samples import Samples
from wattio.recording.journal import Event
from wattio.recording.recorder import Recorder, Source

__all__ = ["Event", "Recorder", "Samples", "Source"]
