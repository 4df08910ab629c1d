"""KAFKA-13419: a member that forgets its id with its generation."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.client.membership import Membership
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.cores.group_clients import ClientRoles


class ForgetsItsId(Membership):
    """A member that is told that its generation is over forgets its member id too."""

    def failed(self, error: ErrorCode) -> None:
        forgets = error is ErrorCode.illegal_generation
        super().failed(ErrorCode.unknown_member_id if forgets else error)


BUG = CoreBug("kafka_13419", GroupRoles(clients=ClientRoles(membership=ForgetsItsId)), of_client=True)
