"""Everything that may happen to a partition, at once: one list of all extensions.

Each extension is explored by itself, where small constants visit every state. In a cluster they meet: replicas move
while brokers leave, logs lose their oldest records while directories fail, and settings change in between. This list is
for walking beside a cluster, and for small models in which two extensions meet.

What the extensions leave open is decided by the order of the list, the last being the outermost, and in `Together`:

* An ISR change that completes a reassignment is followed by the hand-over of brokers that shut down, and only then does
  the partition get a leader: `Reassignment` wraps `with_isr`, and `settled` around `ControlledShutdown`.
* A replica that leaves the replica list is no longer offline: a part of the controller's says what is left of it
  (`ControllerPart.only_on`).
* A broker without a replica ignores that its directory has failed: `Reassignment` is outside of `Directories`.
* min.insync.replicas is never more than the replica list is long: `Settings` asks `replica_count`.
* A leader refuses the fetch of a broker that is no replica, whether or not it could serve the offset: `Retention` is
  outside of `Reassignment`.
* A log start is written down by the clock, too (`WriteLogStart`): nothing new is told by that.
* What a leader knows of a follower's log start, and that log starts do not fall, holds of replicas that are not
  deleted: `Together`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.extension import Extension
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import LoseEnd
from tidegauge.spec.replication.extensions.deletion import is_deleted
from tidegauge.spec.replication.extensions.directories import Directories, has_failed, log_that_failed
from tidegauge.spec.replication.extensions.lost_logs import LoseLog
from tidegauge.spec.replication.extensions.reassignment import Reassignment, assigned, listed
from tidegauge.spec.replication.extensions.retention import (
    LogStart,
    Retention,
    log_start_of,
    low_watermark_known,
    starts_over,
)
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.properties import is_true_leader, leaders
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import NONE, State


@attrs.frozen
class Together(ReplicationExtension):
    """Invariants of one extension, where another has to be taken into account."""

    requires: ClassVar[tuple[type[Extension], ...]] = (Reassignment, Retention)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {"LowWatermarkIsTrue": low_watermark_is_true}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        if not (machine.bounds["FailDirectory"] and machine.bounds["StartReassignment"]):
            return {}
        return {
            "a failed directory still has the log of a replica that was taken away": lambda s: any(
                log_that_failed(replica) and not has_failed(replica) for replica in s.replicas
            )
        }

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"LogStartMonotone": log_start_monotone}


def everything(
    initial_replicas: tuple[int, ...] = (0, 1), targets: tuple[tuple[int, ...], ...] = ()
) -> tuple[ReplicationExtension, ...]:
    """All extensions: reassignments, log starts, controlled shutdowns, log directories and settings that change."""
    return (
        ControlledShutdown(),
        Directories(),
        Reassignment(initial_replicas, targets),
        Retention(written_by_clock=True),
        Settings(),
        Together(),
    )


def low_watermark_is_true(state: State) -> bool:
    """As in `Retention`, of the controller's leader: followers of an earlier one may have been deleted since."""
    if state.history.superseded_epoch != NONE:
        return True
    return all(
        log_start <= log_start_of(state.replicas[follower])
        for broker, leader in leaders(state)
        if is_true_leader(state, broker, leader)
        for follower, log_start in low_watermark_known(leader).items()
        if follower in assigned(state.controller)
    )


def log_start_monotone(before: State, action: Action, after: State) -> bool:
    """As in `Retention`, of replicas that are not deleted; a broker that stops keeps at least what was written.

    A log of which the disk takes what lies below its start begins where it ends; one that knows no epoch starts over.
    """
    if after.history.superseded_epoch != NONE:
        return True
    return all(
        log_start_of(new) >= (log_start_of(old) if new.running else LogStart.of(old).checkpoint)
        for broker, (old, new) in enumerate(zip(before.replicas, after.replicas, strict=True))
        if new is not old and not is_deleted(new) and (not (known := listed(new)) or broker in known)
        if not (starts_over(action, old) or (isinstance(action, LoseEnd | LoseLog) and action.broker == broker))
    )
