"""The machine of a counterexample as JSON: its name in `spec.registry`, and its constants but for the defaults."""

from __future__ import annotations

from typing import Any

from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY


def machine_data(machine: Machine[Any]) -> dict[str, Any]:
    """The machine as JSON. Raises NotRegisteredError for one that has no name."""
    return REGISTRY.described(machine)


def machine_of(data: Any) -> Machine[Any]:
    """The machine that JSON names, with its constants. Raises ValueError, saying what is wrong with which of them."""
    return REGISTRY.read(data)
