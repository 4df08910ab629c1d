"""Workers: one consumer has many, and the records of each partition are processed one after the other.

Theory of operation
-------------------
A consumer that processes what it polls in other tasks has three things to keep: the order of each partition, no commit
of what is not finished, and that nothing is processed of a partition that has gone to another consumer. RocketMQ's
consumer does it with a lock on each queue, a flag that drops a queue, and a lock at the broker. Kafka has no such lock:
a group's coordinator gives partitions away, whatever a consumer is at.

Here a worker *locks* a partition for one record, and only the worker that has the lock moves the position on. The lock
has an end, which the application puts off as long as it is alive (it *renews*): who hangs loses the lock, and another
worker begins the same record again. What the former finishes later counts for nothing.

When the coordinator asks for a partition, no record of it begins any more; the consumer lets the one under way end,
commits, and gives the partition back. If it was expelled, it learns of that later, and until then two consumers may
process the same records; the commits of the owner are taken alone. A partition that comes back begins anew, from what
is committed, with no lock: a lock that outlived its partition would move the new position on.

The machine has one partition, since partitions share nothing but the workers, of which each consumer has some to spare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tidegauge.spec.kernel.guarded import EnumeratedAction
from tidegauge.spec.kernel.machine import Invariant, StepInvariant, check_processes
from tidegauge.spec.workers import actions, properties
from tidegauge.spec.workers.rules import WorkerRules
from tidegauge.spec.workers.state import Consumer, State


@attrs.frozen
class Workers(WorkerRules):
    """The machine; the fields of its rules are the constants of the model."""

    action_base = EnumeratedAction
    action_types = (
        actions.Assign,
        actions.AskBack,
        actions.GiveBack,
        actions.Expel,
        actions.Learn,
        actions.Commit,
        actions.Fetch,
        actions.Begin,
        actions.Finish,
        actions.Hang,
        actions.GoOn,
        actions.Expire,
        actions.Cancel,
    )

    def __attrs_post_init__(self) -> None:
        check_processes("consumers", self.consumers)
        check_processes("workers", self.workers)
        self.bounds.check(self.name, self.perturbations)

    def initial(self) -> Iterable[State]:
        return (State(tuple(Consumer((None,) * self.workers) for _ in range(self.consumers))),)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return properties.invariants()

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return properties.step_invariants()

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return properties.converging(self)

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return properties.goals(self)

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return {
            "owner": (state.owner, state.generation),
            "committed": state.committed,
            "processed to the end": sorted(state.finished),
            **{f"consumer {number}": consumer for number, consumer in enumerate(state.consumers)},
        }
