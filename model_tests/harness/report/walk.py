"""A machine and some of its traces as a page to walk through by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.state_space import STATES, Way, state_space
from tidegauge.model_tests.harness.report.walk_page import render_walk
from tidegauge.spec.kernel.constants import settable
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.registry import REGISTRY


def walk_through(
    machine: Machine[Any], ways: Sequence[Way], *, bug: str | None, reproduce: str, states: int = STATES
) -> str:
    """The HTML document. Raises ValueError for fewer than one state."""
    constants = {name: str(value) for name, value in settable(machine).items()}
    space = state_space(machine, ways, draw=HARNESS.of(machine).steps, constants=constants, states=states)
    known = None if bug is None else REGISTRY.bug(bug)
    title = machine.name if known is None else f"{known.title} ({known.reference})"
    return render_walk(space, title=title, reproduce=reproduce)
