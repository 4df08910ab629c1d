"""Failing log directories with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller, Replica


@attrs.frozen
class ElectsTheOffline(Directories):
    """An eligible replica is elected though its directory has failed."""

    def is_active(
        self, machine: ReplicationRules, inner: Callable[[Controller, int], bool], controller: Controller, broker: int
    ) -> bool:
        return inner(controller, broker)


@attrs.frozen
class NotesAllTheSame(Directories):
    """A broker that has lost a directory stops as if it had lost nothing."""

    def stopped(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return with_part(super().stopped(machine, inner, replica), CleanStop(replica.broker_epoch))


def _model(bounds: Bounds) -> Replication:
    extensions = (ControlledShutdown(), Directories())
    return Replication(brokers=2, max_records=1, min_insync_replicas=2, bounds=bounds, extensions=extensions)


BUGS: Final = (
    Bug(
        name="elects_the_offline",
        title="a leader without its log",
        reference="KIP-858",
        mechanism="A replica stays eligible when its directory fails, and is elected though it is offline.",
        violates=("OfflineIsOutOfSync",),
        buggy=ElectsTheOffline,
        model=_model(Bounds(ExpireSession=1, FailDirectory=1)),
    ),
    Bug(
        name="notes_all_the_same",
        title="a stop with a failed directory taken for a clean one",
        reference="KIP-858, KIP-966",
        mechanism="A broker notes a clean stop though a directory had failed, which has lost the log's tail.",
        violates=("LeaderCandidateCompleteness",),
        buggy=NotesAllTheSame,
        model=_model(Bounds(BeginShutdown=1, FailDirectory=1)),
    ),
)
"""Each overrides a rule of `Directories`."""
