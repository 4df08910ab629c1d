"""KAFKA-8715: the next process of a static member is given the id of the one before."""

from __future__ import annotations

import attrs

from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup
from tidegauge.impl.coordinators.groups.classic.state import Token
from tidegauge.impl.coordinators.groups.classic.turn import Turn
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles


class IdOfTheTime(ClassicRules):
    """A member id is made of the instance id and a time that stands still."""

    def join_static(self, turn: Turn, request: JoinGroup, token: Token) -> None:
        known = turn.group.instances.get(request.instance_id or "")
        unique = request.unique if known is None else known.rsplit("-", 1)[1]
        super().join_static(turn, attrs.evolve(request, unique=unique), token)


BUG = CoreBug("kafka_8715", GroupRoles(rules=IdOfTheTime))
