"""Groups of members and what they subscribe to, for tests of assignors."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from hypothesis import strategies as st

from tidegauge.impl.client.assignors.subscription import Assignment, Members, Partition, Subscription

TOPICS = ("a", "b", "c", "d")


@attrs.frozen
class Group:
    """Topics with their numbers of partitions, and members."""

    partitions: Mapping[str, int]
    members: Members

    @property
    def wanted(self) -> set[Partition]:
        """The partitions that somebody wants."""
        topics = {topic for one in self.members.values() for topic in one.topics}
        return {(topic, number) for topic in topics for number in range(self.partitions.get(topic, 0))}


def owning(members: Members, given: Assignment, generation: int = 1) -> Members:
    """The members when they join again with what they were given."""
    return {
        member_id: attrs.evolve(one, owned=given.get(member_id, ()), generation=generation)
        for member_id, one in members.items()
    }


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False, most: int = 6) -> Group:
    """A group with claims as they come: some out of date, some doubled, some of partitions that are gone."""
    partitions = {topic: draw(st.integers(0, 5)) for topic in draw(st.sets(st.sampled_from(TOPICS), min_size=1))}
    every = tuple(sorted(partitions))
    subscribed = st.sets(st.sampled_from(TOPICS)).map(lambda topics: tuple(sorted(topics)))
    owned = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 6)), unique=True, max_size=6).map(tuple)
    members = {}
    for number in range(draw(st.integers(1, most))):
        instance_id = draw(st.sampled_from((None, f"i{9 - number}")))
        topics = every if alike else draw(subscribed)
        members[f"m{number}"] = Subscription(topics, draw(owned), draw(st.integers(-1, 2)), instance_id)
    return Group(partitions, members)
