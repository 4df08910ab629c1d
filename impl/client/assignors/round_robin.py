"""The round robin assignor: partitions of all topics go round in turn, past those who do not want them."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.impl.client.assignors.subscription import (
    Assignment,
    Members,
    Partition,
    in_order,
    partitions_of,
    wanted_topics,
)


class RoundRobinAssignor:
    """Members that want the same topics differ by one partition at most."""

    name = "roundrobin"
    is_cooperative = False
    tells_owned = False

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        given: dict[str, list[Partition]] = {member_id: [] for member_id in members}
        circle, turn = in_order(members), 0
        for partition in partitions_of(wanted_topics(partitions, members), partitions):
            while partition[0] not in members[circle[turn]].topics:
                turn = (turn + 1) % len(circle)
            given[circle[turn]].append(partition)
            turn = (turn + 1) % len(circle)
        return {member_id: tuple(each) for member_id, each in given.items()}
