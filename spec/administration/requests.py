"""What is common to requests that clients and operators send the controller."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import ClassVar

import attrs

from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.state import Error, State
from tidegauge.spec.kernel.guarded import EnumeratedAction, Refusal

OUT_OF_BOUNDS = "no more of that in this model"


@attrs.frozen
class AdministrationAction(EnumeratedAction[AdministrationRules, State]):
    """An action of this machine."""


@attrs.frozen
class Request(AdministrationAction):
    """What somebody asks for; nobody has to."""

    fair: ClassVar[bool] = False

    def error(self, machine: AdministrationRules, state: State) -> Error:
        """The error of the response."""
        raise NotImplementedError

    def guard(self, machine: AdministrationRules, state: State) -> str:
        if error := self.error(machine, state):
            return Refusal(f"refused with {error.name}", error)
        if self.bounded_as and not machine.may_perturb(state, self.bounded_as):
            return OUT_OF_BOUNDS
        return ""


def replica_lists(machine: AdministrationRules) -> Iterator[tuple[int, ...]]:
    """Those that are worth asking for, and after them what is wrong: nobody, a broker twice, one that is unknown."""
    for count in range(1, machine.factor + 1):
        yield from permutations(range(machine.brokers), count)
    yield from ((), (0, 0), (machine.brokers,))


def indices(machine: AdministrationRules) -> list[int]:
    """Of partitions, and one more than there can be."""
    return list(range(machine.max_partitions + 1))
