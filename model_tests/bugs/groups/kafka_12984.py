"""KAFKA-12984: a claim that is out of date."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.impl.client.assignors.subscription import Members, Partition
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.classic_groups import GroupRoles
from tidegauge.model_tests.harness.cores.group_clients import ClientRoles


def every_claim(members: Members) -> Mapping[Partition, str]:
    """The member that says first that it owns a partition is taken for its owner, of whatever generation that is."""
    return {partition: member_id for member_id, said in reversed(list(members.items())) for partition in said.owned}


BUG = CoreBug("kafka_12984", GroupRoles(clients=ClientRoles(claims=every_claim)), of_client=True)
