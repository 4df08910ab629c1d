"""KAFKA-3197: a producer counts what is in flight by connection, so the next batch overtakes by way of a new leader."""

from __future__ import annotations

from tidegauge.impl.client.sequencing import AGAIN, Sequencing
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class InFlightByConnection(Sequencing):
    """What was sent to the former leader does not count."""

    def may_send(self, leader: int) -> bool:
        to_leader = sum(batch.sent_to == leader for batch in self.line)
        return to_leader < self.max_in_flight and all(batch.sent_to != AGAIN for batch in self.line)


BUG = CoreBug("kafka_3197", Roles(sequencing=InFlightByConnection))
