"""What the leader of a group knows of a member, what it gives to each, and what an assignor is.

An assignor is a function without a state: partitions and members in, assignment out. Everything that it decides by is
in its arguments, so any member that leads next decides the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, runtime_checkable

import attrs

Partition = tuple[str, int]
"""A topic, and the number of a partition of it."""
Assignment = dict[str, tuple[Partition, ...]]
"""What each member is given, by its member id; each member is in it."""
NO_GENERATION: Final = -1


@attrs.frozen
class Subscription:
    """What a member says of itself when it joins."""

    topics: tuple[str, ...]
    owned: tuple[Partition, ...] = ()
    """What it had last and, in a cooperative group, goes on with meanwhile (KIP-429)."""
    generation: int = NO_GENERATION
    """The generation of what it says that it owned."""
    instance_id: str | None = None
    """Its group instance id, if it is a static member."""
    rack: str = ""
    """Where it is, `client.rack`; "" if it does not say."""


Members = Mapping[str, Subscription]
"""By member id."""


Racks = Mapping[str, tuple[frozenset[str], ...]]
"""Of topics, of each partition, the racks of its replicas, whether they are in sync or not."""
NO_RACKS: Final[Racks] = {}


class Assignor(Protocol):
    """One way to share partitions out."""

    name: str
    """The protocol's name in JoinGroup: all clients know the way by it."""
    is_cooperative: bool
    """Whether members go on with what they own while they join."""
    tells_owned: bool
    """Whether a member says what it had last, though it has given it back."""

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """Share out so many partitions of each topic; nobody is given a partition of a topic that it does not want."""
        ...


@runtime_checkable
class RackAwareAssignor(Protocol):
    """An assignor that prefers partitions with a replica where the member is (KIP-881)."""

    def assign_near(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
        """As `assign`, with what is known of racks; a topic without them has none."""
        ...


def in_order(members: Members) -> list[str]:
    """Member ids in the order in which they are served: static members first, by names that outlive member ids."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(members, key=key)


def takers(topic: str, members: Members) -> list[str]:
    """Who wants a topic, in order."""
    return [member_id for member_id in in_order(members) if topic in members[member_id].topics]


def wanted_topics(partitions: Mapping[str, int], members: Members) -> list[str]:
    """The topics that there are and that somebody wants, sorted."""
    return sorted({topic for one in members.values() for topic in one.topics} & partitions.keys())


def partitions_of(topics: Iterable[str], partitions: Mapping[str, int]) -> Iterator[Partition]:
    """Each partition of these topics."""
    return ((topic, number) for topic in topics for number in range(partitions[topic]))
