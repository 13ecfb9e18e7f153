"""What `import wattio` offers programs and notebooks; loaded when it is first asked for."""

from wattio.api.figures import Figure
from wattio.api.results import Result, open_result
from wattio.api.simulated import Simulated, simulate
from wattio.api.studies import run
from wattio.api.tables import Table

__all__ = ["Figure", "Result", "Simulated", "Table", "open_result", "run", "simulate"]
