"""What of a consumer group has which number in `spec.groups.consumer`, and the machine that follows a coordinator.

Member ids, instance ids, regular expressions and topics have numbers in the order in which they come. Partition p of
the specification is of topic p modulo `MOST_TOPICS`, and there the one with the index p divided by that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs

from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat, Place
from tidegauge.impl.server.trace import consumer_groups as groups
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import NONE
from tidegauge.spec.kernel.bounds import Bounds

MOST_TOPICS: Final = 32
"""That a group may be about in one run."""
UNKNOWN: Final = -2
"""A member id, or a partition, that nobody has told of."""


class FollowedTopics:
    """What a machine knows of topics, of which it has the fields: what the coordinator does."""

    __slots__ = ()
    topics: int
    sizes: Mapping[int, int]
    rack_numbers: Mapping[int, int]
    matched: Mapping[int, tuple[int, ...]]
    made: Mapping[int, tuple[int, ...]]
    begins: bool

    def has_topic(self, state: spec.State, topic: int) -> bool:
        return topic in self.sizes

    def is_there(self, state: spec.State, partition: int) -> bool:
        return partition // self.topics < self.sizes.get(partition % self.topics, 0)

    def needs_resolution(self, group: spec.Group, state: spec.State) -> bool:
        return self.begins

    def resolved(self, group: spec.Group, state: spec.State, expressions: tuple[int, ...]) -> spec.Group:
        found = {one: self.matched.get(one, ()) for one in expressions if one in group.expressions}
        return attrs.evolve(group, resolved=tuple(sorted({**dict(group.resolved), **found}.items())))

    def racks_of(self, state: spec.State, partitions: Collection[int]) -> int:
        topics = sorted({one % self.topics for one in partitions})
        return hash(tuple((one, self.rack_numbers.get(one, 0)) for one in topics)) if topics else 0

    def target(self, group: spec.Group, partitions: Collection[int]) -> Mapping[int, Collection[int]]:
        return self.made


@attrs.frozen
class FollowedConsumers(FollowedTopics, ConsumerGroups):
    """The machine with one process, who is the one that asks; what it knows of topics is what the coordinator does."""

    sizes: Mapping[int, int] = attrs.field(factory=dict, eq=False)
    """The partitions of each topic that there is."""
    rack_numbers: Mapping[int, int] = attrs.field(factory=dict, eq=False)
    """Of each topic: another number, other racks of its replicas."""
    matched: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict, eq=False)
    """What each regular expression matches."""
    made: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict, eq=False)
    """The target that the coordinator has made."""
    begins: bool = attrs.field(default=False, eq=False)
    """Whether it begins to resolve expressions: what time it is, and which topics are new, it knows."""


@attrs.define
class ConsumerNames:
    """What of one group has which number."""

    kind: ClassVar[type[ConsumerGroups]] = FollowedConsumers
    """The machine that follows it."""

    members: dict[str, int] = attrs.field(factory=dict)
    instances: dict[str, int] = attrs.field(factory=dict)
    expressions: dict[str, int] = attrs.field(factory=dict)
    topics: dict[str, int] = attrs.field(factory=dict)
    ids: dict[str, int] = attrs.field(factory=dict)
    """The numbers of topics by their ids."""
    hashes: dict[tuple[tuple[int, ...], int], int] = attrs.field(factory=dict)
    """The hash of what the group knows of its topics."""
    made_at: dict[spec.Group, set[int]] = attrs.field(factory=dict)
    """When the target of a group was made, in ms since 1970; another coordinator may have made the same one again."""
    width: int = 0
    """As many partitions as there are, of all topics."""

    # --- numbers -----------------------------------------------------------------------------------------------------

    def member(self, member_id: str) -> int:
        return self.members.get(member_id, UNKNOWN)

    def instance(self, instance_id: str | None) -> int:
        return NONE if instance_id is None else self.instances.setdefault(instance_id, len(self.instances))

    def expression(self, expression: str) -> int:
        return NONE if not expression else self.expressions.setdefault(expression, len(self.expressions))

    def topic(self, name: str) -> int:
        number = self.topics.setdefault(name, len(self.topics))
        if number >= MOST_TOPICS:
            raise Wrong(
                f"the group is about more than {MOST_TOPICS} topics, and the validation has numbers for no more"
            )
        return number

    def named(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(sorted(map(self.topic, names)))

    def partition(self, place: Place) -> int:
        topic_id, index = place
        return index * MOST_TOPICS + self.ids[topic_id] if topic_id in self.ids else UNKNOWN

    def partitions(self, places: Iterable[Place]) -> tuple[int, ...]:
        return tuple(sorted(map(self.partition, places)))

    def held(self, held: Iterable[tuple[Place, int]]) -> spec.Held:
        return tuple(sorted((self.partition(place), since) for place, since in held))

    # --- the machine -------------------------------------------------------------------------------------------------

    def machine(self, instance: int = NONE) -> ConsumerGroups:
        """The machine, where it is not about topics."""
        bounds = Bounds(FailOver=1)
        return self.kind(processes=1, instances=(instance,), topics=MOST_TOPICS, bounds=bounds, spaces_targets=True)

    def machine_at(self, beat: groups.ReceiveHeartbeat) -> ConsumerGroups:
        """The machine when a heartbeat comes."""
        if beat.error.value == 0 and beat.request.epoch >= spec.JOINING_EPOCH:
            self.members.setdefault(beat.request.member_id, len(self.members))
        machine: Any = self._machine_of(beat.topics, self.instance(beat.request.instance_id))
        target = () if beat.after is None else beat.after.target
        made = {self.member(one): self.partitions(has) for one, has in target}
        followed: ConsumerGroups = attrs.evolve(machine, made=made, begins=beat.resolves is not None)
        return followed

    def machine_resolving(self, end: groups.EndResolution) -> ConsumerGroups:
        """The machine when expressions were held against topics."""
        machine: Any = self._machine_of(end.topics)
        matched = {self.expression(one): self.named(found) for one, found in end.matches}
        followed: ConsumerGroups = attrs.evolve(machine, matched=matched)
        return followed

    def _machine_of(self, topics: Iterable[groups.TopicSeen], instance: int = NONE) -> Any:
        """The machine with topics as they are."""
        sizes, racks = dict[int, int](), dict[int, int]()
        for topic in topics:
            number = self.ids[topic.topic_id] = self.topic(topic.name)
            self.width = max(self.width, topic.partitions * MOST_TOPICS)
            sizes[number], racks[number] = topic.partitions, topic.topic_hash
        machine: Any = self.machine(instance)
        return attrs.evolve(machine, sizes=sizes, rack_numbers=racks)

    # --- as the specification has it ---------------------------------------------------------------------------------

    def request(self, said: ConsumerHeartbeat, group: spec.Group) -> spec.HeartbeatRequest:
        """A heartbeat; what it does not say is as the coordinator knows it."""
        number = self.member(said.member_id)
        known = group.member(number)
        if known is None and said.instance_id is not None:
            known = group.of_instance(self.instance(said.instance_id))
        known = known or spec.Member(number)
        return spec.HeartbeatRequest(
            0,
            number,
            said.epoch,
            known.topics if said.topics is None else self.named(said.topics),
            known.expression if said.expression is None else self.expression(said.expression),
            None if said.owned is None else self.partitions(said.owned),
            said.is_full,
            said.classic is not None,
        )

    def group(self, seen: groups.GroupSeen | None, expected: spec.Group) -> spec.Group:
        """A group; of the topics of its epoch it knows a hash only. One that is not there has never had members."""
        return spec.Group() if seen is None else self.seen(seen, expected)

    def seen(self, seen: groups.GroupSeen, expected: spec.Group) -> spec.Group:
        members = sorted(map(self._member, seen.members), key=lambda one: one.member_id)
        target = ((self.member(one), self.partitions(has)) for one, has in seen.target)
        resolved = ((self.expression(one), self.named(found)) for one, found in seen.resolved)
        return spec.Group(
            epoch=seen.epoch,
            target_epoch=seen.target_epoch,
            target=tuple(sorted(target)),
            members=tuple(members),
            known=expected.known,
            racks=expected.racks,
            resolved=tuple(sorted(resolved)),
            resolved_of=expected.resolved_of,
            resolved_age=expected.resolved_age,
        )

    def _member(self, seen: groups.MemberSeen) -> spec.Member:
        return spec.Member(
            self.member(seen.member_id),
            self.instance(seen.instance_id),
            self.named(seen.topics),
            self.expression(seen.expression),
            seen.epoch,
            seen.previous_epoch,
            self.held(seen.assigned),
            self.held(seen.revoking),
            seen.is_classic,
            seen.is_waiting,
        )
