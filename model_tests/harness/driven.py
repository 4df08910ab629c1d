"""What drives each machine, read from the registries: the table in docs/architecture.md, and why a binding is missing.

A machine is explored in its models, or with the constants that it is registered with, and its convergence is checked
there. In lockstep it goes beside what it is bound to, and what its guards refuse is sent there too. Campaigns are
validated against the extensions of replication together, against the machines in `OF_CLIENTS`, and, where clients are
members of groups, against those with a follower.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import attrs

from tidegauge.model_tests.harness.lockstep.lockstep import Refusing
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.model_tests.harness.validation.observed import observed_machine
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.composed import Together

OF_CLIENTS: Final = ("idempotence", "transactions")
"""Machines that lines of producers, and markers, are validated against."""
OF_LOADS: Final = ("group-loading",)
"""Machines whose properties are asked of every load: it goes on (`unread_logs`), and is what was written."""
YES: Final = "yes"
NO: Final = "–"


@attrs.frozen
class Driven:
    """One machine."""

    machine: str
    explored: int
    """How many models, or 1 for the machine as it is registered."""
    goals: int
    """What has to hold in the end (`converges`)."""
    sides: tuple[Side, ...]
    """Where it goes in lockstep."""
    is_validated: bool
    """Whether simulated campaigns are validated against it."""
    missing: str
    """Why a binding is missing; "" where none is."""

    @property
    def line(self) -> str:
        """A line of the table."""
        lockstep = (YES if side in self.sides else NO for side in Side)
        shown = (f"`{self.machine}`", self.explored, self.goals, *lockstep, YES if self.is_validated else NO)
        return f"| {' | '.join(map(str, shown))} | {self.missing} |"


def driven() -> Iterator[Driven]:
    """Every machine, in the order of the harness's registry."""
    observed = set(observed_machine(3, 1, unclean_leader_election=False).kinds) | {Together}
    for registration in HARNESS:
        known = REGISTRY.registration(registration.machine)
        machine: Machine[Any] = known.machine
        yield Driven(
            known.name,
            max(1, len(known.models)),
            len(machine.converges),
            registration.sides,
            known.name in (*OF_CLIENTS, *OF_LOADS)
            or registration.follower is not None
            or set(machine.kinds) <= observed,
            "; ".join(dict.fromkeys(registration.unbound.values())),
        )


def unsent(registration: Registration, side: Side, seed: int, length: int) -> set[str]:
    """The classes of action that the specification refuses in a walk, and that the implementation cannot be sent."""
    machine = registration.walk_plan().draw(Random(seed))
    binding = registration.bind(side)(machine)
    try:
        sends = binding.can_send if isinstance(binding, Refusing) else _nothing
        return {kind.__name__ for kind in refused_kinds(machine, seed, length) if not sends(kind)}
    finally:
        binding.close()


def refused_kinds(machine: Machine[Any], seed: int, length: int) -> set[type[Action]]:
    """The classes of action of which something is refused in the states of a walk."""
    if not isinstance(machine, GuardedMachine):
        return set()
    states = walk(machine, seed, length=length).trace.states
    return {kind for kind in machine.attempted_types for state in states if machine.refused(state, kind)}


def _nothing(kind: type[Action]) -> bool:
    return False
