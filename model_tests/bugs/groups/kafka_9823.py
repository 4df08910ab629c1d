"""KAFKA-9823: a late response that resets a member."""

from __future__ import annotations

from tidegauge.impl.client.membership import PRESENT, Identity, Membership
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.cores.group_clients import ClientRoles


class TakesLateResponses(Membership):
    """A member takes the error of a heartbeat for its own, whatever it was when it sent it."""

    def is_about_now(self, asked: Identity) -> bool:
        return self.state in PRESENT


BUG = CoreBug("kafka_9823", GroupRoles(clients=ClientRoles(membership=TakesLateResponses)), of_client=True)
