"""Logs that are gone, with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller, Replica


@attrs.frozen
class SaysNothing(LostLogs):
    """A broker whose replica's log is gone is unfenced without a word on it."""

    def must_report(self, replica: Replica) -> bool:
        return False


@attrs.frozen
class ElectsTheLost(LostLogs):
    """The controller does not care who is lost."""

    def elect(
        self,
        machine: ReplicationRules,
        inner: Callable[..., tuple[int, bool]],
        controller: Controller,
        *,
        unclean: bool,
    ) -> tuple[int, bool]:
        return inner(controller, unclean=unclean)


@attrs.frozen
class InSyncAndLost(LostLogs):
    """A replica is lost until its broker reports a directory, be it in sync."""

    def in_sync_found(self, controller: Controller) -> Controller:
        return controller


_MODEL: Final = Replication(
    brokers=2,
    max_records=1,
    initial_isr=(0,),
    bounds=Bounds(BeginShutdown=1, LoseLog=1),
    extensions=(ControlledShutdown(), Damage(), LostLogs()),
)

BUGS: Final = (
    Bug(
        name="says_nothing",
        title="an empty log leads over one with records",
        reference="KIP-966, KIP-858",
        mechanism="The last known leader comes back without its log, and the controller is not told.",
        violates=("LostLogLeadsLast",),
        buggy=SaysNothing,
        model=_MODEL,
    ),
    Bug(
        name="elects_the_lost",
        title="a replica that is known to have nothing leads over one with records",
        reference="KIP-966, KIP-858",
        mechanism="The last known leader is elected though its broker has reported it lost.",
        violates=("LossIsAccepted", "LostLogLeadsLast"),
        buggy=ElectsTheLost,
        model=_MODEL,
    ),
    Bug(
        name="in_sync_and_lost",
        title="a replica in sync is the last to be elected",
        reference="KIP-966, KIP-858",
        mechanism="A replica is in the ISR again, and counts as lost until its broker reports its directory.",
        violates=("InSyncIsNotLost",),
        buggy=InSyncAndLost,
        model=_MODEL,
    ),
)
"""Each overrides a rule of `LostLogs`."""
