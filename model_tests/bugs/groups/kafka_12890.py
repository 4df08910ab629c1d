"""KAFKA-12890: the coordinator waits for ever for members to ask for their assignment."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class WaitsForSyncs(ClassicRules):
    """The time for SyncGroup never ends."""

    def syncing_timed_out(self, turn: Turn) -> None:
        """A member that sends heartbeats has time."""


BUG = CoreBug("kafka_12890", GroupRoles(rules=WaitsForSyncs))
