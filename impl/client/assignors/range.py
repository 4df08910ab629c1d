"""The range assignor: of each topic every member gets a run of partitions; the first ones get one more.

Theory of operation
-------------------
Where members say in which racks they are, each gets first what has a replica in its rack, in the order of numbers and
up to its share; then the rest is given as ever (KIP-881). How many a member gets is not changed by that. Topics with
the same takers and as many partitions stay together: a partition number is given near a member only if that is near it
in all of them. Who is in no rack is near to everything. Nothing is to be gained, and nothing done, where no replica is
in a rack of a taker, or where every partition is in all the same racks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tidegauge.impl.client.assignors.subscription import (
    Assignment,
    Members,
    Partition,
    Racks,
    takers,
    wanted_topics,
)


class RangeAssignor:
    """Partitions of equal numbers of several topics go to the same member, if the same members want the topics."""

    name = "range"
    is_cooperative = False
    tells_owned = False

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        return self.assign_near(partitions, members, {})

    def assign_near(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        topics = [_Topic(name, partitions[name], members, racks) for name in wanted_topics(partitions, members)]
        if any(topic.gains for topic in topics):
            alike: dict[tuple[object, ...], list[_Topic]] = defaultdict(list)
            for topic in topics:
                alike[topic.count, *topic.takers].append(topic)
            for those in alike.values():
                _give_near(those)
        given: dict[str, list[Partition]] = {member_id: [] for member_id in members}
        for topic in topics:
            topic.give_runs(lambda member_id, number: True)
            for number, member_id in sorted(topic.given.items()):
                given[member_id].append((topic.name, number))
        return {member_id: tuple(each) for member_id, each in given.items()}


def _give_near(topics: Sequence[_Topic]) -> None:
    """Give what is near, of topics that have the same takers and as many partitions."""
    first = topics[0]
    if len(topics) == 1:
        if first.gains:
            first.give_runs(first.is_near)
        return
    for number in range(first.count):
        for member_id in first.takers:
            if all(topic.room(member_id) and topic.is_near(member_id, number) for topic in topics):
                for topic in topics:
                    topic.give(member_id, number)
                break


class _Topic:
    """A topic while it is shared out."""

    def __init__(self, name: str, count: int, members: Members, racks: Racks) -> None:
        self.name, self.count = name, count
        self.takers = takers(name, members)
        self.given: dict[int, str] = {}
        """To whom, by number."""
        self._share, self._more = divmod(count, len(self.takers))
        """What each gets, and how many get one more."""
        self._loads = dict.fromkeys(self.takers, 0)
        self._rack_of = {member_id: members[member_id].rack for member_id in self.takers}
        known = racks.get(name, ())
        self._racks = [known[number] if number < len(known) else frozenset[str]() for number in range(count)]

    @property
    def gains(self) -> bool:
        """Whether it matters who gets what."""
        everywhere = frozenset[str]().union(*self._racks)
        is_served = any(rack in everywhere for rack in self._rack_of.values() if rack)
        return is_served and any(each != everywhere for each in self._racks)

    def is_near(self, member_id: str, number: int) -> bool:
        rack = self._rack_of[member_id]
        return not rack or rack in self._racks[number]

    def room(self, member_id: str) -> int:
        """How many more a member may get."""
        return max(0, self._share + (self._more > 0) - self._loads[member_id])

    def give(self, member_id: str, number: int) -> None:
        self.given[number] = member_id
        self._loads[member_id] += 1
        self._more -= self._loads[member_id] > self._share

    def give_runs(self, may: Callable[[str, int], bool]) -> None:
        """Each member in turn gets the first ones that are left and that it may get, as many as it has room for."""
        for member_id in self.takers:
            left = (n for n in range(self.count) if n not in self.given and may(member_id, n))
            for number in [n for n, _ in zip(left, range(self.room(member_id)), strict=False)]:
                self.give(member_id, number)
