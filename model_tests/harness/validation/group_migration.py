"""What coordinators decide of groups that go over, held against `spec.groups.migration`, decision by decision.

Theory of operation
-------------------
While it is a classic group, a group is followed as others are (`groups`), and so it is while it is a consumer group
(`consumer_groups`); but there by the rules that members of both protocols have: a JoinGroup is a heartbeat, and
SyncGroup and Heartbeat are asked of the rules. Between the two are those of this machine:

- A heartbeat of one that joins a classic group makes a consumer group of that, if the policy lets it (`upgraded`). The
  classic group has to end with it.
- A decision by which only classic members are left has to be followed by the group's going back, at once: the classic
  group is what the rules make of it (`downgraded`, `taken_over`), and so is its record.
- Nothing of one type is decided while a group is of the other.

The log has both, in one order: a coordinator that loads the group knows it as it was committed last, or written later,
of whatever type that was.

What a coordinator makes of an append that failed is taken as it is, as for the other machines. Groups that never have
to do with both protocols are left to the others; of the others all that came before is followed once they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, Final, TypeVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.state import ClassicState
from tidegauge.impl.server.trace import consumer_groups, events, groups
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.consumer_groups import (
    ConsumerCoordinators,
    ConsumerStep,
    Known,
    Written,
    is_mixed,
)
from tidegauge.model_tests.harness.validation.coordinated import Committed, GroupAt, Logged
from tidegauge.model_tests.harness.validation.groups import GroupCoordinators, GroupKey
from tidegauge.model_tests.harness.validation.groups import Known as ClassicKnown
from tidegauge.model_tests.harness.validation.migration_names import MigrationNames
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.groups.classic import state as classic_spec
from tidegauge.spec.groups.classic.state import NONE, Status
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer import timing
from tidegauge.spec.groups.consumer.classic_group import ClassicGroup, Standing
from tidegauge.spec.groups.consumer.state import partitions_of
from tidegauge.spec.groups.migration.timing import ExpireRejoin
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.evolving import evolve

T = TypeVar("T")
Entry = classic_spec.GroupRecord | spec.Group
OF_THE_REQUEST: Final = (
    ErrorCode.invalid_request,
    ErrorCode.invalid_group_id,
    ErrorCode.invalid_session_timeout,
    ErrorCode.inconsistent_group_protocol,
    ErrorCode.member_id_required,
    ErrorCode.group_max_size_reached,
)
"""Errors of what a JoinGroup says by itself, and of the size of the group: the machine has neither."""


class LogOfBoth(Logged[Entry]):
    """What the log has of a group, of either type."""


class OfOneType(Logged[T]):
    """The entries of one type in such a log."""

    def __init__(self, log: LogOfBoth, kind: type[T]) -> None:
        super().__init__()
        self._log = log
        self._kind = kind

    @property
    def committed(self) -> T | None:
        found = self._log.committed
        return found if isinstance(found, self._kind) else None

    @property
    def later(self) -> list[T | None]:
        return [one for one in self._log.later if one is None or isinstance(one, self._kind)]

    def write(self, *entries: Any) -> None:
        self._log.write(*entries)

    def commit(self, entry: Any) -> None:
        self._log.commit(entry)


class MigrationStep(ConsumerStep):
    """A decision of a consumer group that may have classic members, as an action in a state."""

    judged: ClassVar[tuple[str, ...]] = ("OneMemberHasIt", "TargetCovers", "EpochsAreOfTheGroup")

    names: MigrationNames

    def taken(self) -> spec.Group:
        """The group after it. Raises Wrong."""
        group = self.state.loaded
        match self.decision:
            case consumer_groups.ExpireRejoin(member_id=member_id):
                action = ExpireRejoin(self.names.member(member_id))
                return self.times_out(action)
            case consumer_groups.ReceiveSync() as sync:
                self.is_written = False
                self.agree(self._sync_error(sync), sync.error)
                return group
            case consumer_groups.ReceiveClassicHeartbeat() as beat:
                self.is_written = False
                self.agree(self._beat_error(beat), beat.error)
                return group
            case consumer_groups.RefuseJoin() as join:
                self.is_written = False
                self._refused(join)
                return group
        return super().taken()

    def agree(self, error: spec.Error, said: ErrorCode) -> None:
        """An error that only what the request says by itself can have is none of the machine's."""
        if said is not ErrorCode.inconsistent_group_protocol:
            super().agree(error, said)

    def times_out(self, action: timing.MemberTimeout) -> spec.Group:
        """Who is in the group, and is waited for, is removed."""
        return super().times_out(action)

    def check_told(self, told: spec.Response, beat: consumer_groups.ReceiveHeartbeat) -> None:
        """A JoinGroup is told its epoch; what its member has, with the SyncGroup."""
        if beat.request.classic is None:
            super().check_told(told, beat)
        elif beat.epoch != told.epoch:
            raise Wrong(f"a JoinGroup is told epoch {beat.epoch}, in the specification {told.epoch}")

    def _sync_error(self, sync: consumer_groups.ReceiveSync) -> spec.Error:
        asked, machine = sync.request, self.names.followed(sync.request.instance_id)
        member_id, group = self.names.member(asked.member_id), self.state.loaded
        instance = machine.instance_of(0)
        if error := machine.generation_error(group, instance, member_id, asked.generation):
            return error
        member = group.member(member_id)
        assert member is not None, "it is known"
        if not machine.may_sync(group, member):
            return spec.Error.REBALANCE_IN_PROGRESS
        assigned = self.names.partitions(sync.assigned)
        if sync.error is ErrorCode.none and assigned != partitions_of(member.assigned):
            raise Wrong(f"{asked.member_id} is told that it has {assigned}, and has {partitions_of(member.assigned)}")
        return spec.Error.NONE

    def _beat_error(self, beat: consumer_groups.ReceiveClassicHeartbeat) -> spec.Error:
        asked, machine = beat.request, self.names.followed(beat.request.instance_id)
        member_id, group = self.names.member(asked.member_id), self.state.loaded
        if error := machine.generation_error(group, machine.instance_of(0), member_id, asked.generation):
            return error
        member = group.member(member_id)
        assert member is not None, "it is known"
        return spec.Error.REBALANCE_IN_PROGRESS if machine.must_rejoin(group, member) else spec.Error.NONE

    def _refused(self, join: consumer_groups.RefuseJoin) -> None:
        if join.error in OF_THE_REQUEST:
            return
        asked, machine = join.request, self.names.followed(join.request.instance_id)
        member_id, group, instance = self.names.member(asked.member_id), self.state.loaded, machine.instance_of(0)
        member = group.member(member_id)
        is_static = instance != NONE and not join.owned
        error = machine.side_error(group, instance, member_id, classic=True) if is_static else spec.Error.NONE
        if not error:
            owned = self.names.partitions(join.owned)
            error = machine.claims_error(member, spec.HeartbeatRequest(0, member_id, 0, owned=owned, classic=True))
        self.agree(error, join.error)


class BothConsumers(ConsumerCoordinators):
    """The coordinators of one group, while it is a consumer group."""

    names = MigrationNames

    def __init__(self, key: GroupKey, log: LogOfBoth) -> None:
        super().__init__()
        self.log: Logged[spec.Group] = OfOneType(log, spec.Group)
        self.numbers = MigrationNames()
        self._logs[key] = self.log
        self._names[key] = self.numbers

    def is_left_out(self, key: GroupKey, decision: consumer_groups.OfConsumerGroup) -> bool:
        return False

    def step(self, names: Any, group: spec.Group, decision: consumer_groups.OfConsumerGroup) -> ConsumerStep:
        return MigrationStep(names, group, decision)

    def is_as_written(self, names: Any, seen: consumer_groups.GroupSeen | None, written: Written) -> bool:
        """A group that goes back is none any more."""
        if isinstance(written.after, classic_spec.GroupRecord):
            return seen is None
        return super().is_as_written(names, seen, written)

    def check_timers(self, seen: consumer_groups.GroupSeen) -> None:
        """A classic member joins again to give back, and has its time for that when it is told so."""
        natives = tuple(one for one in seen.members if not one.is_classic)
        super().check_timers(seen._replace(members=natives))
        for member in seen.members:
            if member.is_classic and member.has_to_give_back_in_time:
                raise Wrong(f"{member.member_id} has the time of a member of KIP-848 to give back")

    def known_at(self, node: int, decision: groups.OfGroups, group: str) -> Known:
        """The group at a coordinator."""
        return self.coordinator(node, decision).known.setdefault(group, Known())


class BothClassics(GroupCoordinators):
    """The coordinators of one group, while it is a classic one."""

    def __init__(self, key: GroupKey, log: LogOfBoth) -> None:
        super().__init__()
        self.log: Logged[classic_spec.GroupRecord] = OfOneType(log, classic_spec.GroupRecord)
        self._logs[key] = self.log

    def loaded(self, record: classic_spec.GroupRecord) -> classic_spec.Group:
        """One that nobody has led was a consumer group, and rebalances."""
        group = super().loaded(record)
        if record.leader != NONE or not group.members:
            return group
        return evolve(group, status=Status.PREPARING_REBALANCE, leader=group.members[0].member_id)


@attrs.define
class Here:
    """A group at one coordinator, in one leader epoch."""

    leader_epoch: int
    classic: groups.GroupSeen | None = None
    """The classic group, as it was seen last; None while it is a consumer group."""
    has_gone_over: bool = False
    """It has become a consumer group, and the classic one has to end next."""
    goes_back: tuple[spec.Group, spec.Group] | None = None
    """The consumer group before and after the decision by which only classic members are left."""
    adopts: ClassicGroup | None = None
    """The classic group that there has to be next."""
    ended: tuple[groups.GroupSeen, ClassicKnown] | None = None
    """The classic group that has ended last."""
    left: list[classic_spec.Entry] = attrs.field(factory=list)
    """Records of classic groups that have ended, which may be committed all the same."""


class MigratingGroup:
    """One group, at all its coordinators."""

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.log = LogOfBoth()
        self.classics = BothClassics(key, self.log)
        self.consumers = BothConsumers(key, self.log)
        self._here: dict[int, Here] = {}

    @property
    def names(self) -> MigrationNames:
        return self.consumers.numbers

    def take(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""
        match event.decision:
            case events.Crash() | events.Stop():
                self._here.pop(event.node, None)
                self.classics.follow(event)
                self.consumers.follow(event)
            case groups.OfGroup() as decision:
                self._classic(event, decision, self._at(event.node, decision))
            case consumer_groups.OfConsumerGroup() as decision:
                self._consumer(event, decision, self._at(event.node, decision))
            case groups.Loaded() | groups.Resign():
                self.classics.follow(event)
                self.consumers.follow(event)

    def at_coordinators(self) -> Iterator[GroupAt]:
        """The group at every coordinator that has it, of the type that it is of."""
        for follower, is_classic in ((self.classics, True), (self.consumers, False)):
            for one in follower.at_coordinators(self.key[1]):
                here = self._here.get(one.node)
                if here is None or here.leader_epoch != one.leader_epoch:
                    continue
                if is_classic == (here.classic is not None):
                    yield one

    @property
    def committed(self) -> Committed:
        """What of it is committed."""
        found = self.log.committed
        is_classic = isinstance(found, classic_spec.GroupRecord)
        return Committed(found, self.classics.names_of(self.key) if is_classic else self.names)

    def _at(self, node: int, decision: groups.OfGroups) -> Here:
        here = self._here.get(node)
        if here is None or here.leader_epoch != decision.leader_epoch:
            here = self._here[node] = Here(decision.leader_epoch)
        return here

    def _has_to(self, here: Here, decision: groups.OfGroups) -> None:
        """What has to come next, comes next."""
        if here.goes_back is not None and not isinstance(decision, consumer_groups.GoOver):
            raise Wrong("only classic members are left, and the group does not go back")
        if here.adopts is not None and not isinstance(decision, groups.GoOver):
            raise Wrong("the group goes back, and there is no classic group")
        if here.has_gone_over and not isinstance(decision, groups.Dissolve):
            raise Wrong("the group has gone over, and the classic group does not end")

    # --- a classic group ---------------------------------------------------------------------------------------------

    def _classic(self, event: TraceEvent, decision: groups.OfGroup, here: Here) -> None:
        self._has_to(here, decision)
        known = self.classics.known_at(event.node, decision)
        match decision:
            case groups.GoOver():
                self._adopted(event, decision, here, known)
                return
            case groups.Dissolve():
                here.ended = decision.after, attrs.evolve(known)
                here.left += (one.entry for one in known.written)
                here.classic, here.has_gone_over = None, False
                known.group, known.written = classic_spec.Group(), []
                return
            case groups.CommitRecord(record=record) if here.left:
                entry = here.left[0]
                if entry.record == self.classics.names_of(self.key).record(record) and not known.written:
                    here.left.pop(0)
                    return
        consumer = self.consumers.known_at(event.node, decision, self.key[1])
        if consumer.group.members:
            raise Wrong("it is a consumer group with members, and is taken for a classic one")
        self.classics.follow(event)
        if isinstance(decision, groups.CommitDeletion):
            here.classic = None
            return
        is_there = decision.after.state is not ClassicState.DEAD and (
            decision.after.members or decision.after.generation
        )
        here.classic = decision.after if is_there else None

    def _adopted(self, event: TraceEvent, decision: groups.GoOver, here: Here, known: ClassicKnown) -> None:
        """The group is a classic one, as the rules make it of the consumer group; or again, as it was."""
        names, seen = self.classics.names_of(self.key), decision.after
        found = self.names.classic_group(seen)
        for member in seen.members:
            if member.member_id not in names.members:
                names.members[member.member_id] = names.given
                names.given += 1
        if here.adopts is not None:
            check_adopted(here.adopts, found)
            here.adopts = None
        elif here.ended is None or {one.member_id for one in here.ended[0].members} != {
            one.member_id for one in seen.members
        }:
            raise Wrong("there is a classic group, and nothing has made one")
        if decision.written:
            (metadata, *others) = decision.written
            record = names.record(metadata)
            if others or record.leader != NONE or record.generation != found.generation:
                raise Wrong(f"it writes {plain(record)} of a group that goes back")
            consumer = self.consumers.known_at(event.node, decision, self.key[1])
            consumer.written[-1] = consumer.written[-1]._replace(after=record)
            self.log.replace_last(record)
        known.group, known.written = names.seen(seen), []
        here.classic = seen

    # --- a consumer group --------------------------------------------------------------------------------------------

    def _consumer(self, event: TraceEvent, decision: consumer_groups.OfConsumerGroup, here: Here) -> None:
        self._has_to(here, decision)
        known = self.consumers.known_at(event.node, decision, self.key[1])
        match decision:
            case consumer_groups.GoOver():
                self._goes_back(decision, here, known)
            case consumer_groups.RefuseHeartbeat():
                self._refuses(decision, here, known)
            case consumer_groups.ReceiveHeartbeat() if here.classic is not None:
                self._goes_over(event, decision, here, known)
            case consumer_groups.CommitRecord() | consumer_groups.FailRecord() | consumer_groups.RespondToHeartbeat():
                self.consumers.follow(event)
                is_put_back = isinstance(decision, consumer_groups.FailRecord) and known.group.members
                if is_put_back and here.classic is not None:
                    raise Wrong("it is a consumer group again, and the classic one has not ended")
            case _:
                if here.classic is not None and known.group.members:
                    raise Wrong("it is a classic group, and is taken for a consumer group")
                before = known.group
                self.consumers.follow(event)
                self._is_left(here, before, self.consumers.known_at(event.node, decision, self.key[1]).group)

    def _is_left(self, here: Here, before: spec.Group, after: spec.Group) -> None:
        """If only classic members are left, the group goes back next."""
        machine = self.names.followed()
        if machine.downgrades(after) and before.members and not machine.downgrades(before):
            is_removal = len(after.members) < len(before.members)
            here.goes_back = before, evolve(after, epoch=before.epoch) if is_removal else after

    def _goes_back(self, decision: consumer_groups.GoOver, here: Here, known: Known) -> None:
        if here.goes_back is None:
            if known.group.members:
                raise Wrong("the group goes back, and has members of KIP-848")
            known.group, known.target_ms = spec.Group(), 0
            return
        known.resolving = None
        machine, (_, after) = self.names.followed(), here.goes_back
        here.goes_back, here.adopts = None, machine.taken_over(machine.downgraded(after))
        known.group, known.target_ms = spec.Group(), 0

    def _refuses(self, decision: consumer_groups.RefuseHeartbeat, here: Here, known: Known) -> None:
        """A heartbeat in a classic group is refused for want of a member, or of the permission to go over.

        A group without members is a classic one as soon as somebody is told a member id to join it with.
        """
        asked = decision.request
        if here.classic is None and known.group.members:
            raise Wrong("there is no classic group, and a heartbeat is refused for one")
        machine = self.names.followed(asked.instance_id)
        classic = ClassicGroup() if here.classic is None else self.names.classic_group(here.classic)
        if asked.epoch == spec.JOINING_EPOCH:
            expected = spec.Error.NONE if machine.upgrades(classic) else spec.Error.GROUP_ID_NOT_FOUND
        else:
            member_id, instance = self.names.member(asked.member_id), machine.instance_of(0)
            expected = machine.heartbeat_in_classic_error(classic, instance, member_id)
        if expected.value != decision.error.value:
            raise Wrong(f"the response is {decision.error.name.upper()}, in the specification {expected.name}")

    def _goes_over(
        self, event: TraceEvent, decision: consumer_groups.ReceiveHeartbeat, here: Here, known: Known
    ) -> None:
        """The heartbeat comes to the consumer group that the rules make of the classic one."""
        assert here.classic is not None, "it is a classic group"
        machine, classic = self.names.followed(), self.names.classic_group(here.classic)
        if not machine.upgrades(classic):
            raise Wrong("the group goes over, and the policy does not let it")
        before, before_ms = known.group, known.target_ms
        known.group, known.target_ms = machine.upgraded(classic, before), 0
        if decision.error is not ErrorCode.none:
            self.consumers.step(self.names, known.group, decision).taken()
            known.group, known.target_ms = before, before_ms
            return
        self.consumers.follow(event)
        if known.written:
            known.written[-1] = known.written[-1]._replace(before=before)
        here.has_gone_over = bool(classic.members)


def check_adopted(expected: ClassicGroup, found: ClassicGroup) -> None:
    """A classic group that was a consumer group: who is in it, with what. Raises Wrong."""
    if (found.standing, found.generation) != (Standing.PREPARING, expected.generation):
        raise Wrong(
            f"the classic group is {found.standing.name}, in generation {found.generation}; in the specification it is "
            f"PREPARING, in {expected.generation}"
        )
    had = {one.member_id: (one.topics, one.assigned, one.instance) for one in found.members}
    wanted = {one.member_id: (one.topics, one.assigned, one.instance) for one in expected.members}
    if had != wanted:
        raise Wrong(f"the classic group has the members {had}, in the specification {wanted}")
    if any(one.joined or one.syncing or one.claims for one in found.members):
        raise Wrong("a member of a group that goes back has joined already")


class MigrationCoordinators:
    """The coordinators of one cluster; of groups that have to do with one protocol only nothing is followed."""

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        self._all: list[TraceEvent] = []
        self._classic: set[GroupKey] = set()
        """Groups that were seen as classic ones."""
        self._followed: dict[GroupKey, MigratingGroup] = {}

    def follow(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""
        decision = event.decision
        if isinstance(decision, groups.OfGroup | consumer_groups.OfConsumerGroup):
            key = decision.log_partition, decision.group
            if key in self._followed:
                self._take(key, event)
            elif self._goes_over(key, decision):
                self._followed[key] = MigratingGroup(key)
                for former in self._all:
                    if not isinstance(former.decision, OF_A_GROUP) or key_of(former.decision) == key:
                        self._take(key, former)
                self._take(key, event)
        elif isinstance(decision, events.Crash | events.Stop | groups.Loaded | groups.Resign):
            for key in self._followed:
                self._take(key, event)
        self._all.append(event)

    def at_coordinators(self, group: str) -> Iterator[GroupAt]:
        """The group at every coordinator that has it."""
        for key, followed in self._followed.items():
            if key[1] == group:
                yield from followed.at_coordinators()

    def committed(self, group: str) -> Committed | None:
        """What of the group is committed, of either type."""
        for (_, name), followed in self._followed.items():
            if name == group and followed.log.committed is not None:
                return followed.committed
        return None

    def _take(self, key: GroupKey, event: TraceEvent) -> None:
        if isinstance(event.decision, OF_A_GROUP):
            module = type(event.decision).__module__.rpartition(".")[2]
            self.actions[f"{module}.{type(event.decision).__name__}"] += 1
        self._followed[key].take(event)

    def _goes_over(self, key: GroupKey, decision: groups.OfGroup | consumer_groups.OfConsumerGroup) -> bool:
        """Whether the group has had to do with both protocols by now."""
        if isinstance(decision, groups.OfGroup):
            self._classic.add(key)
            return isinstance(decision, groups.GoOver)
        return key in self._classic or is_mixed(decision)


OF_A_GROUP: Final = (groups.OfGroup, consumer_groups.OfConsumerGroup)


def key_of(decision: groups.OfGroup | consumer_groups.OfConsumerGroup) -> GroupKey:
    return decision.log_partition, decision.group
