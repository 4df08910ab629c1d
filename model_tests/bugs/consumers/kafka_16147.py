"""KAFKA-16147: a partition that has yet to be given back is another member's."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, Place
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.consumer_abstraction import ConsumerRoles


class GivesWhatIsNotGivenBack(ConsumerRules):
    """What a member has yet to give back is nobody's."""

    def is_free(self, group: ConsumerGroup, place: Place, member_id: str) -> bool:
        return not any(place in one.assigned for one in group.members.values() if one.member_id != member_id)


BUG = CoreBug("kafka_16147", ConsumerRoles(rules=GivesWhatIsNotGivenBack))
