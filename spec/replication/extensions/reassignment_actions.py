"""What an operator may do to a partition's replica list: move it, and change one's mind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import attrs

from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.control import committed
from tidegauge.spec.replication.state import BrokerId, Perturbation, State

if TYPE_CHECKING:
    from tidegauge.spec.replication.extensions.reassignment import Reassignment
    from tidegauge.spec.replication.machine import Replication as Machine


@attrs.frozen
class StartReassignment(ReplicationAction):
    """The partition is to move to these replicas, the preferred leader first; it replaces a move that is under way."""

    target: tuple[BrokerId, ...]

    @classmethod
    def candidates(cls, machine: Machine, state: State) -> Iterable[StartReassignment]:
        return [cls(target) for target in cast("Reassignment", machine).target_lists()]

    def guard(self, machine: Machine, state: State) -> str:
        if not machine.may_perturb(state, Perturbation.REASSIGNMENT):
            return "no more reassignments in this model"
        if not self.target or len(set(self.target)) < len(self.target):
            return f"{self.target} does not name brokers, each once"
        controller = state.controller
        if self.target == controller.replicas and not controller.adding and not controller.removing:
            return f"the partition is on {self.target}"
        return ""

    def effect(self, machine: Machine, state: State) -> State:
        machine = cast("Reassignment", machine)
        controller = machine.completed(machine.reassigned(state.controller, self.target))
        controller, unclean = machine.settled(state.controller, controller)
        return committed(state.spend(Perturbation.REASSIGNMENT), controller, unclean=unclean)


@attrs.frozen
class CancelReassignment(ReplicationAction):
    """The replicas that were being added go again."""

    @classmethod
    def candidates(cls, machine: Machine, state: State) -> Iterable[CancelReassignment]:
        return (cls(),)

    def guard(self, machine: Machine, state: State) -> str:
        controller = state.controller
        if not controller.adding and not controller.removing:
            return "no reassignment is under way"
        if not cast("Reassignment", machine).may_cancel(controller):
            return "only added replicas are known to hold every committed record"
        return ""

    def effect(self, machine: Machine, state: State) -> State:
        machine = cast("Reassignment", machine)
        controller, unclean = machine.settled(state.controller, machine.cancelled(state.controller))
        return committed(state, controller, unclean=unclean)
