"""KAFKA-19233: a fenced member that joins again is fenced."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerHeartbeat
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles


class FencesWhoJoinsAgain(ConsumerRules):
    """Epoch 0 is held against the member's epoch as any other."""

    def joining_error(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> ErrorCode:
        is_member = request.member_id in group.members
        return ErrorCode.fenced_member_epoch if is_member else super().joining_error(group, request)


BUG = CoreBug("kafka_19233", ConsumerRoles(rules=FencesWhoJoinsAgain))
