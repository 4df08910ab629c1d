"""Everything that may happen to a partition, at once: one machine of all the parts of this room.

Each part is explored by itself, where small constants visit every state. A cluster knows no parts: its replicas move
while brokers leave, logs lose their heads while directories fail, and settings change in between. This machine is for
walking beside one, and for small models in which two parts meet.

What the parts leave open is decided here:

* An ISR change that completes a reassignment also relieves whoever waits to stop, and then the partition has a leader.
* Whoever leaves the replica list is no longer offline or anything else.
* min.insync.replicas is never more than the replica list is long, and the list is what a reassignment makes it.
* A leader refuses the fetch of a broker that is no replica, whether or not it could serve the offset.
* A log start is written down by the clock, too (`WriteLogStart`): nothing new is told by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention, low_watermark_known
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.properties import is_true_leader, leaders
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Controller,
    Error,
    FetchRequest,
    PartitionWord,
    Perturbation,
    Replica,
    State,
)


@attrs.frozen
class WriteLogStart(ReplicationAction):
    """A broker has written down where the log started; it matters where a crash may follow."""

    broker: BrokerId
    offset: int

    @classmethod
    def candidates(cls, machine: Replication, state: State) -> Iterable[WriteLogStart]:
        for broker, replica in enumerate(state.replicas):
            yield from (cls(broker, start) for start in range(replica.log_start_checkpoint + 1, replica.log_start + 1))

    def guard(self, machine: Replication, state: State) -> str:
        replica = state.replicas[self.broker]
        if not machine.may_perturb(state, Perturbation.CRASH):
            return "no more crashes in this model"
        if not replica.log_start_checkpoint < self.offset <= replica.log_start:
            return f"broker {self.broker} can write down {replica.log_start_checkpoint} to {replica.log_start}"
        return "" if replica.running else f"broker {self.broker} is down"

    def effect(self, machine: Replication, state: State) -> State:
        return state.with_replica(self.broker, started_at(state.replicas[self.broker], self.offset))


def started_at(replica: Replica, offset: int) -> Replica:
    """The replica with a log start written down, and what is below it flushed."""
    return attrs.evolve(replica, log_start_checkpoint=offset, flushed=max(replica.flushed, offset))


@attrs.frozen
class ComposedReplication(Settings, Reassignment, Retention, Directories):
    """Replication with reassignments, log starts, controlled shutdowns, log directories and settings that change."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = tuple(
        dict.fromkeys(
            (
                *Directories.action_types,
                *Reassignment.action_types,
                *Retention.action_types,
                *Settings.action_types,
                WriteLogStart,
            )
        )
    )

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, "LowWatermarkIsTrue": low_watermark_is_true}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {**super().step_invariants, "LogStartMonotone": log_start_monotone}

    # --- rules of the broker -----------------------------------------------------------------------------------------

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        """Whether the follower is a replica is asked before its offset is looked at."""
        error = super().fetch_error(leader, broker, request)
        if error is Error.OFFSET_OUT_OF_RANGE and request.follower not in leader.replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        return error

    def with_log_start_written(self, replica: Replica) -> Replica:
        """It may have been written for some time: nothing above it need be flushed."""
        return started_at(replica, replica.log_start)

    def deleted(self, replica: Replica, word: PartitionWord) -> Replica:
        return attrs.evolve(super().deleted(replica, word), min_insync=word.min_insync)

    def stopped(self, replica: Replica) -> Replica:
        """A clean stop writes the log start down as well."""
        stopped = super().stopped(replica)
        if replica.offline:
            return stopped
        return attrs.evolve(stopped, log_start=replica.log_start, log_start_checkpoint=replica.log_start)

    # --- rules of the controller -------------------------------------------------------------------------------------

    def only_on(self, controller: Controller, replicas: tuple[int, ...]) -> Controller:
        remaining = super().only_on(controller, replicas)
        return attrs.evolve(remaining, offline=tuple(b for b in controller.offline if b in replicas))

    def with_isr(self, controller: Controller, isr: tuple[int, ...]) -> tuple[Controller, bool]:
        proposed, _ = Replication.with_isr(self, controller, isr)
        return self.settled(controller, self.completed(proposed))

    def settled(self, old: Controller, new: Controller) -> tuple[Controller, bool]:
        return super().settled(old, self.without_leaving(new))

    def relieved(self, controller: Controller) -> tuple[Controller, bool]:
        return self.with_leader(self.without_leaving(controller))


def low_watermark_is_true(state: State) -> bool:
    """As in `retention`, of the leader that the controller means: another's followers may have been deleted since."""
    if state.history.superseded_epoch != NONE:
        return True
    return all(
        log_start <= state.replicas[follower].log_start
        for broker, leader in leaders(state)
        if is_true_leader(state, broker, leader)
        for follower, log_start in low_watermark_known(leader).items()
        if follower in state.controller.replicas
    )


def log_start_monotone(before: State, action: Action, after: State) -> bool:
    """As in `retention`, of replicas that are not deleted; a broker that stops keeps at least what was written."""
    if after.history.superseded_epoch != NONE:
        return True
    return all(
        new.log_start >= (old.log_start if new.running else old.log_start_checkpoint)
        for broker, (old, new) in enumerate(zip(before.replicas, after.replicas, strict=True))
        if not new.replicas or broker in new.replicas
    )
