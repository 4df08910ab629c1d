"""Damage that is met by a process, with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller, PartitionMetadata, Replica

MODEL: Final = Replication(
    brokers=2,
    max_records=1,
    min_insync_replicas=2,
    bounds=Bounds(MeetDamage=1),
    extensions=(ControlledShutdown(), Damage(), LostLogs(), RunningDamage()),
)


@attrs.frozen
class RepairsInTheSameEpoch(RunningDamage):
    """The controller takes the replica out of the ISR, and the leader goes on in its epoch."""

    def in_next_epoch(self, controller: Controller) -> Controller:
        return controller

    def is_fenced_off(self, replica: Replica, metadata: PartitionMetadata) -> bool:
        return True


@attrs.frozen
class CutsTheEligible(RunningDamage):
    """A replica that leaves the ISR because of damage stays eligible, and is cut."""

    def counted_out(self, machine: ReplicationRules, controller: Controller, broker: int) -> Controller:
        return machine.without(controller, broker, clean=True)

    def may_return(self, machine: ReplicationRules, replica: Replica, broker: int, metadata: PartitionMetadata) -> bool:
        return self.is_fenced_off(replica, metadata) and broker not in metadata.isr


BUGS: Final = (
    Bug(
        name="repairs_in_the_same_epoch",
        title="a fetch from before a repair counted after it",
        reference="KIP-903",
        mechanism="A log is cut in the epoch in which it fetched: a fetch on its way says that it has what is gone.",
        violates=("RepairedIsCountedOnByNobody",),
        buggy=RepairsInTheSameEpoch,
        model=MODEL,
    ),
    Bug(
        name="cuts_the_eligible",
        title="a replica that may be elected loses what it is trusted with",
        reference="KIP-966",
        mechanism="A damaged replica leaves the ISR and stays eligible. It is cut, and elected later.",
        violates=("RepairedIsCountedOnByNobody",),
        buggy=CutsTheEligible,
        model=MODEL,
    ),
)
