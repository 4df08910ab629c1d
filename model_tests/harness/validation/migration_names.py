"""A classic group in the numbers of `spec.groups.migration`, and the machine that follows a coordinator there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from tidegauge.impl.coordinators.groups.migration.embedded import NamedPlace, read_assignment, read_subscription
from tidegauge.impl.server.trace import groups
from tidegauge.model_tests.harness.cores.migration_abstraction import STANDINGS
from tidegauge.model_tests.harness.validation.consumer_names import MOST_TOPICS, ConsumerNames, FollowedTopics
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, ClassicMember
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import Entry, Group
from tidegauge.spec.groups.migration.machine import GroupMigration

OF_NOBODY: Final = -1
"""The leader of a group that nobody has led yet."""


@attrs.frozen
class FollowedMigration(FollowedTopics, GroupMigration):
    """The machine of groups that go over, with one process; that a group goes back is a decision of its own here."""

    sizes: Mapping[int, int] = attrs.field(factory=dict, eq=False)
    rack_numbers: Mapping[int, int] = attrs.field(factory=dict, eq=False)
    matched: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict, eq=False)
    made: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict, eq=False)
    begins: bool = attrs.field(default=False, eq=False)

    def written(self, before: Group, after: Group) -> Entry:
        return ConsumerRules.written(self, before, after)

    def removal(self, group: Group, member_id: int) -> Entry:
        return ConsumerRules.removal(self, group, member_id)


@attrs.define
class MigrationNames(ConsumerNames):
    """What of one group has which number, whatever it is."""

    kind: ClassVar[type[ConsumerGroups]] = FollowedMigration

    def followed(self, instance_id: str | None = None) -> FollowedMigration:
        """The machine, where it is not about topics."""
        machine = self.machine(self.instance(instance_id))
        assert isinstance(machine, FollowedMigration)
        return machine

    def request(self, said: Any, group: Group) -> Any:
        """A JoinGroup of one that the group does not know is that of a new member: of what it says nothing is known."""
        request = super().request(said, group)
        is_new = request.classic and group.member(request.member_id) is None
        return attrs.evolve(request, full=request.full or is_new)

    def places(self, named: frozenset[NamedPlace]) -> tuple[int, ...]:
        return tuple(sorted(index * MOST_TOPICS + self.topic(topic) for topic, index in named))

    def classic_group(self, seen: groups.GroupSeen) -> ClassicGroup:
        """A classic group as the coordinator knows it; each of its members has a number from now on."""
        for member in seen.members:
            self.members.setdefault(member.member_id, len(self.members))
        members = sorted(map(self.classic_member, seen.members), key=lambda one: one.member_id)
        leader = OF_NOBODY if seen.leader is None else self.member(seen.leader)
        return ClassicGroup(STANDINGS[seen.state], seen.generation, tuple(members), leader)

    def classic_member(self, seen: groups.MemberSeen) -> ClassicMember:
        says = read_subscription(seen.protocols[0].metadata)
        return ClassicMember(
            self.member(seen.member_id),
            self.named(says.topics),
            self.places(read_assignment(seen.assignment)),
            joined=seen.is_joining,
            syncing=seen.is_syncing,
            claims=self.places(says.owned),
            instance=self.instance(seen.instance_id),
        )
