"""The sticky assignors: as even as the subscriptions allow, and within that, each keeps what it had.

Theory of operation
-------------------
Everyone begins with what it had, as far as it still wants it. What is left goes, the partition with the fewest takers
first, to the taker that has least. Then partitions move along *ways*: from a member to another one that wants it, which
gives one of its own to the next, and so on, to a member that has at least two fewer than the first. When there is no
such way the loads are as even as they can be (of semi-matchings this is a theorem), and each step is needed: where all
want the same, no partition moves that did not have to. A way is as short as can be, and what nobody had before moves
first.

The cooperative one (KIP-429) gives nothing away that somebody else has: that member has to give it back first, and
joins again when it has. So what moves is without an owner for one generation, and everything else goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from tidegauge.impl.client.assignors.claims import claims
from tidegauge.impl.client.assignors.subscription import (
    Assignment,
    Members,
    Partition,
    in_order,
    partitions_of,
    takers,
    wanted_topics,
)

_Way = list[tuple[str, Partition, str]]
"""(giver, partition, taker), one behind the other."""


class StickyAssignor:
    """For members that give everything back before they join; they say what they had."""

    name = "sticky"
    is_cooperative = False
    tells_owned = True

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        return _Sharing(partitions, members, claims(members)).shared()


class CooperativeStickyAssignor:
    """For members that go on with what they own while they join."""

    name = "cooperative-sticky"
    is_cooperative = True
    tells_owned = True

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        owners = claims(members)
        target = _Sharing(partitions, members, owners).shared()
        return {
            member_id: tuple(each for each in given if owners.get(each, member_id) == member_id)
            for member_id, given in target.items()
        }


class _Sharing:
    """One assignment while it is made."""

    def __init__(self, partitions: Mapping[str, int], members: Members, owners: Mapping[Partition, str]) -> None:
        self._order: Final = in_order(members)
        self._takers: Final = {topic: takers(topic, members) for topic in wanted_topics(partitions, members)}
        self._owners: Final = owners
        self._given: Final[dict[str, dict[str, set[int]]]] = {member_id: {} for member_id in self._order}
        """Of each member and topic."""
        self._load: Final = dict.fromkeys(self._order, 0)
        left: list[Partition] = []
        for partition in partitions_of(self._takers, partitions):
            owner = owners.get(partition)
            if owner in self._load and partition[0] in members[owner].topics:
                self._give(owner, partition)
            else:
                left.append(partition)
        for partition in sorted(left, key=lambda one: len(self._takers[one[0]])):
            self._give(min(self._takers[partition[0]], key=self._load.__getitem__), partition)

    def shared(self) -> Assignment:
        """What each member is given once it is even."""
        while (way := self._first_way()) is not None:
            for giver, (topic, number), taker in way:
                self._given[giver][topic].remove(number)
                self._load[giver] -= 1
                self._give(taker, (topic, number))
        return {
            member_id: tuple((topic, number) for topic in sorted(given) for number in sorted(given[topic]))
            for member_id, given in self._given.items()
        }

    def _give(self, member_id: str, partition: Partition) -> None:
        topic, number = partition
        self._given[member_id].setdefault(topic, set()).add(number)
        self._load[member_id] += 1

    def _first_way(self) -> _Way | None:
        """A way that makes loads more even; None where there is none."""
        least = min(self._load.values(), default=0)
        for giver in sorted(self._order, key=lambda one: -self._load[one]):
            if self._load[giver] < least + 2:
                return None
            way = self._way_from(giver)
            if way is not None:
                return way
        return None

    def _way_from(self, first: str) -> _Way | None:
        """The shortest way from a member to one that has at least two fewer; among those, to who has least."""
        came: dict[str, tuple[str, str]] = {first: ("", "")}
        """By whom, and by which topic, a member is reached."""
        seen: set[str] = set()
        line = deque([[first]])
        while line:
            reached: list[str] = []
            for giver in line.popleft():
                for topic in sorted(topic for topic, numbers in self._given[giver].items() if numbers):
                    if topic not in seen:
                        seen.add(topic)
                        new = [one for one in self._takers[topic] if one not in came]
                        came.update((one, (giver, topic)) for one in new)
                        reached += new
            if reached:
                last = min(reached, key=self._load.__getitem__)
                if self._load[last] <= self._load[first] - 2:
                    return self._along(came, last)
                line.append(reached)
        return None

    def _along(self, came: Mapping[str, tuple[str, str]], last: str) -> _Way:
        way: _Way = []
        while (step := came[last])[0]:
            giver, topic = step
            way.insert(0, (giver, (topic, self._spared(giver, topic)), last))
            last = giver
        return way

    def _spared(self, giver: str, topic: str) -> int:
        """The partition that a member gives away: one that it did not have before, if it can."""
        return max(self._given[giver][topic], key=lambda number: (self._owners.get((topic, number)) != giver, number))
