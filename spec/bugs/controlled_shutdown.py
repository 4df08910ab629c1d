"""Controlled shutdowns with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller, Replica


@attrs.frozen
class EmptiesTheIsr(ControlledShutdown):
    """A broker that is shutting down leaves the ISR though no other is in it."""

    def may_leave(self, controller: Controller, leaving: set[int]) -> bool:
        return True


@attrs.frozen
class TrustsEveryRestart(ControlledShutdown):
    """Every process that starts is believed to have stopped cleanly."""

    def with_registration(
        self,
        machine: ReplicationRules,
        inner: Callable[[Controller, Replica, int], Controller],
        controller: Controller,
        replica: Replica,
        broker: int,
    ) -> Controller:
        return self.back_from_a_clean_stop(machine, controller, broker)


BUGS: Final = (
    Bug(
        name="empties_the_isr",
        title="a shutdown that leaves nobody in sync",
        reference="KIP-841",
        mechanism="The last of the ISR leaves it, and no replica is left that is known to have every record.",
        violates=("ShutdownNeverEmptiesTheIsr",),
        buggy=EmptiesTheIsr,
        model=Replication(
            brokers=2,
            max_records=3,
            bounds=Bounds(ExpireSession=1, BeginShutdown=2),
            extensions=(ControlledShutdown(),),
        ),
    ),
    Bug(
        name="trusts_every_restart",
        title="a crash taken for a clean stop",
        reference="KIP-966",
        mechanism="A process that has lost its log's tail stays eligible to lead, as if nothing were lost.",
        violates=("LeaderCandidateCompleteness",),
        buggy=TrustsEveryRestart,
        model=Replication(
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(Crash=1, BeginShutdown=1),
            extensions=(ControlledShutdown(),),
        ),
    ),
)
"""Each overrides a rule of `ControlledShutdown`."""
