"""Recording of block traces through the kernel's tracepoints.

`events` reads the kernel's text (pure), `tracefs` owns the place in tracefs, `recorder` runs one
recording and writes the trace.
"""

from wattio.tracing.recorder import Recording, RecordingError, record

__all__ = ["Recording", "RecordingError", "record"]
