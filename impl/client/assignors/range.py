"""The range assignor: of each topic every member gets a run of partitions; the first ones get one more."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.impl.client.assignors.subscription import Assignment, Members, Partition, takers, wanted_topics


class RangeAssignor:
    """Partitions of equal numbers of several topics go to the same member, if the same members want the topics."""

    name = "range"
    is_cooperative = False
    tells_owned = False

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        given: dict[str, list[Partition]] = {member_id: [] for member_id in members}
        for topic in wanted_topics(partitions, members):
            those = takers(topic, members)
            share, more = divmod(partitions[topic], len(those))
            at = 0
            for place, member_id in enumerate(those):
                end = at + share + (place < more)
                given[member_id] += [(topic, number) for number in range(at, end)]
                at = end
        return {member_id: tuple(each) for member_id, each in given.items()}
