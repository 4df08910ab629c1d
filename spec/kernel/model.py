"""What a model is: a machine with constants for a search, and what it shows."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from tidegauge.spec.kernel.machine import Machine

M_co = TypeVar("M_co", bound=Machine[Any], covariant=True)


@attrs.frozen
class Model(Generic[M_co]):
    """A machine with constants small enough to visit every state, and why these."""

    name: str
    machine: M_co
    shows: str
