"""KAFKA-14422: the coordinator cannot tell an old leader of static members."""

from __future__ import annotations

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class CannotTellOfInstances(ClassicRules):
    """A dynamic leader has no response if one of the others is static."""

    def tell_generation(self, turn: Turn) -> None:
        leader = turn.group.members[turn.group.leader or ""]
        token = leader.joining
        super().tell_generation(turn)
        if leader.instance_id is None and turn.group.instances:
            turn.responses = [told for told in turn.responses if told[0] is not token]
            turn.group.wait_to_join(leader, token)


BUG = CoreBug("kafka_14422", GroupRoles(rules=CannotTellOfInstances))
