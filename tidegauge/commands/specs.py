"""The specifications that can be named on the command line, with their constants as NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegauge.exits import Unusable
from tidegauge.spec.kernel.constants import with_constants
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY


def model(spec: str, bug: str | None, constants: Iterable[str]) -> Machine[Any]:
    """The machine that the words name. Raises Unusable with what there is to choose from."""
    try:
        return with_constants(REGISTRY.machine(spec, bug), constants)
    except ValueError as error:
        raise Unusable(str(error)) from None
