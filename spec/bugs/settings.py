"""Settings that change, with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.replication.extensions.settings import Settings, TopicSettings
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller


@attrs.frozen
class RaisesNoEpoch(Settings):
    """A leader that has not applied a larger min.insync.replicas goes on changing the ISR."""

    def with_min_insync(self, machine: ReplicationRules, controller: Controller) -> Controller:
        changed = super().with_min_insync(machine, controller)
        return evolve(changed, partition_epoch=controller.partition_epoch)


@attrs.frozen
class KeepsTheEligible(Settings):
    """A replica that was eligible stays so when fewer must be in sync."""

    def with_min_insync(self, machine: ReplicationRules, controller: Controller) -> Controller:
        return evolve(super().with_min_insync(machine, controller), elr=controller.elr)


@attrs.frozen
class ReadsBrokersFiles(Settings):
    """A number that nobody has set is the controller's for the controller, and 1, of its own file, for each broker."""

    def min_insync_told(self, machine: ReplicationRules, settings: TopicSettings) -> int:
        return 1 if settings.min_insync == machine.min_insync_replicas else settings.min_insync


BUGS: Final = (
    Bug(
        name="raises_no_epoch",
        title="min.insync.replicas rises behind a leader's back",
        reference="KIP-966",
        mechanism="The controller keeps as eligible a replica that the leader, by the old number, commits without.",
        violates=("LeaderCandidateCompleteness",),
        buggy=RaisesNoEpoch,
        model=Replication(
            brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, ChangeSettings=1), extensions=(Settings(),)
        ),
    ),
    Bug(
        name="keeps_the_eligible",
        title="eligible leaders kept when min.insync.replicas is lowered",
        reference="KIP-966",
        mechanism="A leader commits without a replica that is still eligible, and that is then elected.",
        violates=("ElrBelowMinInsync", "LeaderCandidateCompleteness"),
        buggy=KeepsTheEligible,
        model=Replication(
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(ExpireSession=1, ChangeSettings=1),
            extensions=(Settings(),),
        ),
    ),
    Bug(
        name="reads_brokers_files",
        title="min.insync.replicas as a broker's file has it",
        reference="KIP-966",
        mechanism="The controller keeps a replica eligible by its own number; the leader commits without, by another.",
        violates=("LeaderCandidateCompleteness",),
        buggy=ReadsBrokersFiles,
        model=Replication(
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(ExpireSession=1),
            extensions=(Settings(),),
        ),
    ),
)
"""Each overrides a rule of `Settings`."""
