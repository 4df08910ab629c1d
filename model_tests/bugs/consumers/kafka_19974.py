"""KAFKA-19974: a partition that one member after another has in the same member epoch."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerMember
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles


class RaisesTheEpoch(ConsumerRules):
    """A member that has given something back, and has more to give back, is in the next epoch."""

    def epoch_while_revoking(self, member: ConsumerMember) -> int:
        return member.epoch + 1 if member.revoking else member.epoch


BUG = CoreBug("kafka_19974", ConsumerRoles(rules=RaisesTheEpoch))
