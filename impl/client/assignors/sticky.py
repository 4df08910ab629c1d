"""The sticky assignors: as even as the subscriptions allow, and within that, each keeps what it had.

Theory of operation
-------------------
Everyone begins with what it had, as far as it still wants it. What is left goes, the partition with the fewest takers
first, to the taker that has least. Then partitions move along *ways*: from a member to another one that wants it, which
gives one of its own to the next, and so on, to a member that has at least two fewer than the first. When there is no
such way the loads are as even as they can be (of semi-matchings this is a theorem), and each step is needed: where all
want the same, no partition moves that did not have to. A way is as short as can be, and what nobody had before moves
first.

Where members say in which racks they are, as many partitions go to a member that is near as evenness lets (`nearness`,
KIP-881): that counts for more than to keep what one had. What is near already stays.

The cooperative one (KIP-429) gives nothing away that somebody else has: that member has to give it back first, and
joins again when it has. So what moves is without an owner for one generation, and everything else goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from tidegauge.impl.client.assignors.claims import claims
from tidegauge.impl.client.assignors.nearness import Kind, Nearness
from tidegauge.impl.client.assignors.subscription import (
    NO_RACKS,
    Assignment,
    Members,
    Partition,
    Racks,
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
        return self.assign_near(partitions, members, NO_RACKS)

    def assign_near(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        return _Sharing(partitions, members, claims(members), racks).shared()


class CooperativeStickyAssignor:
    """For members that go on with what they own while they join."""

    name = "cooperative-sticky"
    is_cooperative = True
    tells_owned = True

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        return self.assign_near(partitions, members, NO_RACKS)

    def assign_near(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        owners = claims(members)
        target = _Sharing(partitions, members, owners, racks).shared()
        return {
            member_id: tuple(each for each in given if owners.get(each, member_id) == member_id)
            for member_id, given in target.items()
        }


class _Sharing:
    """One assignment while it is made."""

    def __init__(
        self, partitions: Mapping[str, int], members: Members, owners: Mapping[Partition, str], racks: Racks
    ) -> None:
        self._order: Final = in_order(members)
        self._takers: Final = {topic: takers(topic, members) for topic in wanted_topics(partitions, members)}
        self._owners: Final = owners
        self._given: Final[dict[str, dict[str, set[int]]]] = {member_id: {} for member_id in self._order}
        """Of each member and topic."""
        self._load: Final = dict.fromkeys(self._order, 0)
        self._nearness: Final = Nearness(self._takers, members, racks)
        self._kinds: Final = {each: self._nearness.kind(each) for each in partitions_of(self._takers, partitions)}
        self._is_near_to_some: Final = self._nearness.counts(set(self._kinds.values()))
        left: list[Partition] = []
        for partition in partitions_of(self._takers, partitions):
            owner = owners.get(partition)
            if owner in self._load and partition[0] in members[owner].topics:
                self._give(owner, partition)
            else:
                left.append(partition)
        left.sort(key=lambda one: len(self._takers[one[0]]))
        for partition in self._given_near(left) if self._is_near_to_some else left:
            self._give(min(self._takers[partition[0]], key=self._load.__getitem__), partition)

    def _given_near(self, left: list[Partition]) -> list[Partition]:
        """Give what is near to a member that has less than its part; what is left of them."""
        part = len(self._kinds) // len(self._order)
        rest = []
        for partition in left:
            kind = self._kinds[partition]
            near = [one for one in kind.takers if self._load[one] < part and self._nearness.is_near(one, kind.racks)]
            if near:
                self._give(min(near, key=self._load.__getitem__), partition)
            else:
                rest.append(partition)
        return rest

    def shared(self) -> Assignment:
        """What each member is given once it is even."""
        while (way := self._first_way()) is not None:
            for giver, (topic, number), taker in way:
                self._given[giver][topic].remove(number)
                self._load[giver] -= 1
                self._give(taker, (topic, number))
        if self._is_near_to_some:
            self._bring_near()
        return {
            member_id: tuple((topic, number) for topic in sorted(given) for number in sorted(given[topic]))
            for member_id, given in self._given.items()
        }

    def _bring_near(self) -> None:
        """Move partitions to members that are near, as long as the loads are as even as before."""
        held: dict[str, dict[Kind, set[Partition]]] = {member_id: {} for member_id in self._order}
        for member_id, topics in self._given.items():
            for topic, numbers in topics.items():
                for each in ((topic, number) for number in numbers):
                    held[member_id].setdefault(self._kinds[each], set()).add(each)
        while moves := self._nearness.first_round(
            {name: {kind: len(each) for kind, each in those.items()} for name, those in held.items()}, self._load
        ):
            chosen = [(giver, self._moved_first(held[giver][kind], giver), taker) for giver, kind, taker in moves]
            for giver, partition, taker in chosen:
                held[giver][self._kinds[partition]].remove(partition)
                held[taker].setdefault(self._kinds[partition], set()).add(partition)
                self._given[giver][partition[0]].remove(partition[1])
                self._load[giver] -= 1
                self._give(taker, partition)

    def _moved_first(self, those: set[Partition], giver: str) -> Partition:
        """Of partitions that are alike, one that the giver did not have before, if there is one."""
        return max(those, key=lambda one: (self._owners.get(one) != giver, one))

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
