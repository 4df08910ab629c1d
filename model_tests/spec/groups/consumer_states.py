"""States of consumer groups in which tests ask rules and properties alone."""

from __future__ import annotations

from typing import Any

import attrs

from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.processes import Start
from tidegauge.spec.groups.consumer.requests import ReceiveHeartbeat
from tidegauge.spec.groups.consumer.state import (
    NONE,
    Group,
    HeartbeatRequest,
    Member,
    Phase,
    Process,
    State,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

MACHINE = ConsumerGroups(partitions=2, commits=1, bounds=Bounds(FailOver=1))
SPACED = attrs.evolve(MACHINE, spaces_targets=True)
MATCHING = ConsumerGroups(topics=2, matches=((0,), (1,)), expressions=(0, 1))
SOMETHING: Action = Start(0)


def initial(machine: ConsumerGroups = MACHINE) -> State:
    return next(iter(machine.initial()))


def in_group(group: Group | None, *processes: Process, machine: ConsumerGroups = MACHINE) -> State:
    before = initial(machine)
    return attrs.evolve(before, group=group, processes=(*processes, *before.processes)[: machine.processes])


def up(member_id: int, epoch: int = 3, **fields: Any) -> Process:
    """A process that goes on, has told all, and is told nothing new."""
    given = {"full": False, "positions": (NONE, NONE), "topics": (0,), **fields}
    return Process(Phase.UP, member_id, epoch, **given)


def member(member_id: int, epoch: int = 3, **fields: Any) -> Member:
    return Member(member_id, epoch=epoch, previous_epoch=epoch, **{"topics": (0,), **fields})


def holds_of_step(name: str, before: State, action: Action, after: State, machine: ConsumerGroups = MACHINE) -> bool:
    return machine.step_invariants[name](before, action, after)


def heartbeat(member_id: int = 1, epoch: int = 3, **fields: Any) -> ReceiveHeartbeat:
    return ReceiveHeartbeat(HeartbeatRequest(0, member_id, epoch, **{"topics": (0,), **fields}))
