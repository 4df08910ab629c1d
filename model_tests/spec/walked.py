"""Walks of every machine: states of all kinds, for tests that try all machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from typing import Any, Final

import attrs

from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.lag.machine import Lag
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.recovery.machine import of_all_kinds
from tidegauge.spec.registry import REGISTRY
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.reading import CommittedReads

WALKS: Final = 6
LENGTH: Final = 50
OFTEN: Final = 2
"""How often each perturbation may happen: so that it is refused in the end."""
LARGE: Final[Mapping[str, Machine[Any]]] = {
    "replication-3.5": Replication35(
        brokers=4,
        values=3,
        min_isr=1,
        max_clean_shutdowns=OFTEN,
        max_unclean_shutdowns=OFTEN,
        max_fences=OFTEN,
        max_shrinks=OFTEN,
        max_reassignments=OFTEN,
    ),
    "replication": Replication(brokers=3, max_records=3, min_insync_replicas=2, acks=tuple(Acks), long_polls=True),
    "idempotence": Idempotence(
        producers=2,
        max_records=4,
        segments=True,
        bounds=Bounds(dict.fromkeys(Idempotence().perturbations, OFTEN)),
    ),
    "classic-groups": ClassicGroups(
        processes=3,
        instances=(0, 0),
        protocols=((0,), (0, 1), (1, 0)),
        cooperative=True,
        topics=2,
        commits=2,
        bounds=Bounds(dict.fromkeys(ClassicGroups().perturbations, OFTEN)),
    ),
    "consumer-groups": ConsumerGroups(
        processes=3,
        instances=(0, 0),
        topics=3,
        matches=((0, 2),),
        expressions=(0,),
        commits=2,
        bounds=Bounds(dict.fromkeys(ConsumerGroups().perturbations, OFTEN)),
    ),
    "group-migration": GroupMigration(
        processes=3,
        classic=(True, False, True),
        instances=(0, 0),
        commits=2,
        bounds=Bounds(dict.fromkeys(GroupMigration().perturbations, OFTEN)),
    ),
    "kip853": Kip853(max_servers=3, max_restarts=OFTEN, max_added=OFTEN, max_removed=OFTEN, min_voters=1, max_voters=3),
    "kip996": Kip996(
        max_servers=3,
        max_restarts=OFTEN,
        max_added=OFTEN,
        max_removed=OFTEN,
        min_voters=1,
        max_voters=3,
        max_disruptions=OFTEN,
    ),
    "lag": Lag(count=2, max_time=20, max_records=4, max_fetches=20, max_epochs=OFTEN, max_restarts=OFTEN),
    "offsets": Offsets(producers=1, max_entries=4, max_rebalances=2, applies_later=True),
    "transactions": Transactions(
        transactional_ids=2,
        incarnations=2,
        transactions=2,
        partitions=2,
        inputs=2,
        max_epoch=3,
        bounds=Bounds(dict.fromkeys(sorted({*Transactions().perturbations} - {"DelayAdd", "Upgrade"}), OFTEN)),
    ),
    "committed-reads": CommittedReads(
        transactional_ids=2, incarnations=1, transactions=4, partitions=1, expiring=False
    ),
    "idempotence of one producer": Idempotence(
        max_records=6, segments=True, batch_sizes=(2, 1), bounds=Bounds(Elect=OFTEN, DuplicateProduce=OFTEN)
    ),
    "idempotence of deleted records": Idempotence(
        max_records=6,
        segments=True,
        batch_sizes=(2, 1),
        reordering=False,
        bounds=Bounds(Crash=4 * OFTEN, DeleteRecords=2 * OFTEN),
    ),
    "classic groups that commit": ClassicGroups(processes=2, topics=2, commits=4, bounds=Bounds(Resubscribe=1)),
    "group migration of static members": GroupMigration(
        processes=2, classic=(True, True), instances=(0, 0), commits=2, bounds=Bounds(StartOver=2 * OFTEN)
    ),
    "transactions of version 1": Transactions(version=1, max_epoch=3, bounds=Bounds(GiveUp=OFTEN, DelayEnd=OFTEN)),
    "recovery of logs of all kinds": of_all_kinds(max_appends=12, max_crashes=6, max_damages=12),
    "transactions that a database decides": Transactions(
        incarnations=3, partitions=1, two_phase=True, bounds=Bounds(CrashProducer=OFTEN, FailOver=1)
    ),
}
QUIET: Final = frozenset(
    {"idempotence of deleted records", "classic groups that commit", "group migration of static members"}
)
"""Of those the ones with few perturbations: walks come further in them, and every state is looked at."""
_REGISTERED: Final = tuple(registration.name for registration in REGISTRY)
NAMES: Final = (*_REGISTERED, *(name for name in LARGE if name not in _REGISTERED))
"""Every machine, and those of them that some constants make another one."""


def new(machine: Machine[Any]) -> Machine[Any]:
    """The same machine, which remembers nothing of what its constants allow."""
    same: Any = machine
    return attrs.evolve(same)


def machine_of(name: str) -> Machine[Any]:
    """The machine with constants that let everything happen, as new."""
    machine = new(LARGE.get(name) or REGISTRY.machine(name))
    if not isinstance(machine, Replication):
        return machine
    return attrs.evolve(machine, max_records=2, bounds=Bounds(dict.fromkeys(machine.perturbations, OFTEN)))


def on_walks(name: str) -> Iterator[tuple[Any, list[tuple[Action, Any]]]]:
    """The states on walks that take every class of action equally often, each with all that may follow."""
    machine = machine_of(name)
    for number in range(WALKS):
        yield from walk(machine, Random(f"{name}/{number}"), LENGTH)


def walk(machine: Machine[Any], rng: Random, length: int) -> Iterator[tuple[Any, list[tuple[Action, Any]]]]:
    """The states on one walk of at most so many steps, each with all that may follow."""
    state = next(iter(machine.initial()))
    for _ in range(length):
        by_kind = defaultdict(list)
        for action, after in machine.successors(state):
            by_kind[type(action)].append((action, after))
        yield state, [step for steps in by_kind.values() for step in steps]
        if not by_kind:
            break
        _, state = rng.choice(by_kind[rng.choice(list(by_kind))])


@cache
def walked(name: str) -> dict[Any, tuple[Action, ...]]:
    """The states on the walks, each with what may happen in it."""
    return {state: tuple(action for action, _ in steps) for state, steps in on_walks(name)}


def every_so_many(name: str, each: int) -> list[Any]:
    """One in so many states of the walks; all, of a machine with few perturbations."""
    return list(walked(name))[:: 1 if name in QUIET else each]
