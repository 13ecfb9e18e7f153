"""A small platform and application of round numbers, and random ones."""

from __future__ import annotations

from hypothesis import strategies as st
from wattio.models.parameter import Parameter
from wattio.models.scalability import Form
from wattio.models.scenario import Application, Platform

CENTRAL = {
    "base_s": 8.0,
    "power_max_w": 200.0,
    "idle_share": 0.5,
    "blocked_share": 0.75,
    "client_bytes_s": 50e6,
    "storage_bytes_s": 400e6,
    "contention": 0.05,
    "free_writers": 4.0,
    "copy_s_per_gib": 0.5,
    "send_s_per_gib": 2.0,
}


def known(name: str, value: float, least: float = 0.0) -> Parameter:
    """A parameter without width."""
    return Parameter(name, value, value, value, "measured", least=least)


def platform(
    nodes: int = 8,
    cores: int = 4,
    *,
    sigmas: tuple[float, float] = (0.05, 0.01),
    **numbers: float | Parameter,
) -> Platform:
    """Round numbers, some of them given: a number, or a Parameter."""
    given: dict[str, float | Parameter] = {**CENTRAL, **numbers}
    return Platform(
        "small",
        nodes,
        cores,
        "app",
        Form(known("cores_sigma", sigmas[0], least=-1.0)),
        Form(known("nodes_sigma", sigmas[1], least=-1.0)),
        tuple(
            value if isinstance(value, Parameter) else known(name, value)
            for name, value in given.items()
        ),
    )


APPLICATION = Application("app", 100, 10, 2.0**30)

factors = st.floats(0.01, 100)
shares = st.floats(0, 1)


def _near(name: str) -> st.SearchStrategy[float]:
    return shares if name.endswith("share") else factors.map(lambda f: f * CENTRAL[name])


CENTRAL_STRATEGY = st.fixed_dictionaries({name: _near(name) for name in CENTRAL})
"""Any shares, and the other numbers within a factor of a hundred."""

WHOLE_STRATEGY = st.fixed_dictionaries(
    {name: _near(name) for name in CENTRAL},
    optional={
        "asleep_share": shares,
        "make_s_per_gib": st.floats(0, 10),
        "leave_s": st.floats(0, 10),
    },
)
"""The same, and what a platform's file may leave out."""
