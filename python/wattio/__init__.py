"""wattio measures, models and cuts the energy that storage uses, within a stated latency bound."""
