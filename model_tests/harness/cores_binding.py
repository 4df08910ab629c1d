"""The deterministic cores as one side of a lockstep: no trio, no disk, no sockets."""

from __future__ import annotations

from collections.abc import Callable

from model_tests.lockstep.cores import CORRECT, Cores, Roles
from model_tests.lockstep.steps import perform
from spec.machine import Action
from spec.replication import Replication
from spec.replication_state import State


class CoresBinding:
    """Cores that perform the specification's actions."""

    def __init__(self, machine: Replication, roles: Roles = CORRECT) -> None:
        self.cores = Cores(machine, roles)

    def perform(self, action: Action, before: State) -> None:
        perform(self.cores, action)

    def abstraction(self, state: State) -> State:
        return self.cores.abstraction(state)

    def close(self) -> None:
        """Cores hold nothing that must be given back."""


def bind_cores(roles: Roles = CORRECT) -> Callable[[Replication], CoresBinding]:
    """What makes the binding for a machine, with the classes that play replica and controller."""
    return lambda machine: CoresBinding(machine, roles)
