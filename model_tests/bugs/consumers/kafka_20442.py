"""KAFKA-20442: an empty group whose target is of an epoch before."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles


class LeavesTheTargetBehind(ConsumerRules):
    """The last member that goes begins an epoch, and no target is made for it."""

    def removed(self, group: ConsumerGroup, member_id: str) -> ConsumerGroup:
        return attrs.evolve(super().removed(group, member_id), target_epoch=group.target_epoch)


BUG = CoreBug("kafka_20442", ConsumerRoles(rules=LeavesTheTargetBehind))
