"""wattio measures, models and cuts the energy that storage uses."""

from importlib.metadata import version

__version__ = version("wattio")
