"""Walks of classic groups in which members come together, and static ones come again, more often than by chance."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import attrs

from tidegauge.model_tests.harness.cores.classic_groups import GROUP_WALKS, large_groups
from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.spec.groups.classic import processes, requests, timing
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

SHARED_SHARE: Final = 0.4
"""Of walks with static members, those in which two processes have the same instance id."""
_TOGETHER: Final[tuple[type[Any], ...]] = (
    timing.Load,
    timing.CommitRecord,
    processes.Start,
    requests.ReceiveJoin,
    requests.ReceiveJoin,
    timing.EndInitialDelay,
    processes.ReceiveResponse,
    requests.ReceiveSync,
    timing.CommitRecord,
    processes.ReceiveResponse,
)


def together_round(lockstep: Lockstep[ClassicGroups], rng: Random) -> Iterator[Action]:
    """All join and have their assignment; then, or before it is in the log, one comes again, by a new process."""
    stops_at = rng.choice((len(_TOGETHER), len(_TOGETHER), len(_TOGETHER) - 2))
    for kind in _TOGETHER[:stops_at]:
        candidates = list(kind.candidates(lockstep.machine, lockstep.state))
        yield from rng.sample(candidates, len(candidates))
    machine = lockstep.machine
    static = [number for number in range(machine.processes) if machine.instance_of(number) != NONE]
    again = rng.choice(static or range(machine.processes))
    yield processes.Crash(again)
    yield processes.Start(again)
    if (request := machine.join_request(lockstep.state, again)) is not None:
        yield requests.ReceiveJoin(request)


def with_static_members(rng: Random) -> ClassicGroups:
    """The machine of a walk; in half of them a process has an instance id, whatever the others have.

    In some of these the next process with that id likes another protocol better, which both know or only one.
    """
    machine = large_groups(rng)
    if rng.choice((False, True)):
        return machine
    if machine.processes > 1 and rng.random() < SHARED_SHARE:
        protocols = rng.choice((((0, 1), (1, 0)), ((0,), (1, 0))))
        return evolve(machine, instances=(0, 0), protocols=protocols)
    return evolve(machine, instances=(0, *machine.instances[1:]))


TOGETHER_WALKS: Final = attrs.evolve(
    GROUP_WALKS, draw=with_static_members, rounds=(together_round,), round_shares=(0.05, 0.15)
)
"""Walks in which groups are stable more often."""
