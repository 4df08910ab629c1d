"""What no field of a consumer group's state shows, asked of its coordinator beside the specification's state.

Whose commits are taken and who is told offsets, member by member and epoch by epoch; what nobody may take away; which
assignor counts; and what a deletion writes, which never is in the log here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final, TypeVar
from typing import Protocol as Interface

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup, JoinResponse, Moment
from tidegauge.impl.coordinators.groups.classic.state import Protocol
from tidegauge.impl.coordinators.groups.consumer.assignor_names import RANGE, UNIFORM
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    ConsumerDeadline,
    ConsumerTimer,
    ConsumerWrite,
    Decided,
    Deleted,
    Landed,
)
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat, HeartbeatResponse, KnownTopics
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, OffsetKey, decode_key
from tidegauge.impl.coordinators.groups.requests import GROUP_NOT_FOUND_FROM, Commit, NewOffset, Ruling
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP, error_as_specified, topic_name
from tidegauge.spec.groups.consumer import requests
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.groups.consumer.state import State
from tidegauge.spec.kernel.changes import Change

R = TypeVar("R")
ASSIGNORS: Final = (None, RANGE, UNIFORM, RANGE)
"""That members name, by the number of their member id."""
FAR: Final = 100
"""The number of a partition that there is not."""
TOO_LARGE: Final = NewOffset("topic", FAR, 0, metadata="x" * 5_000)
"""What goes with each commit, and is refused by itself."""
BEFORE_KIP_848: Final = 8
"""A version of OffsetCommit that knows nothing of members' epochs."""


class Beside(Interface):
    """A coordinator beside the machine."""

    asked: int
    """How many states have been asked about."""

    @property
    def machine(self) -> Machine: ...

    @property
    def core(self) -> GroupCoordinator:
        """The coordinator, which has loaded its log."""

    @property
    def appended(self) -> Sequence[object]:
        """What is on its way into the log."""

    @property
    def decided(self) -> list[Decided]:
        """What it has told who follows its decisions."""

    def commit(self, request: spec.CommitRequest, /) -> Ruling:
        """What it makes of a commit."""

    def name_of(self, member_id: int, /) -> str:
        """A member id."""

    def last_records(self) -> Mapping[bytes, bytes | None]:
        """The last value of each key, once all that is on its way is in the log."""

    def told_of(self, kind: type[Decided], ask: Callable[[], R], /) -> R:
        """Ask for a decision; who follows the coordinator is told of it."""


def without_too_large(ruling: Ruling) -> Ruling:
    """A ruling on a commit beside which one offset was too large: that alone is refused."""
    if ruling.error is not ErrorCode.none:
        assert not ruling.refused, "all is refused, and a partition once more"
        return ruling
    place = TOO_LARGE.topic, TOO_LARGE.partition
    assert ruling.refused[place] is ErrorCode.offset_metadata_too_large, "what is too large is taken"
    assert all((key.topic, key.partition) != place for key in ruling.keys), "what is refused is written"
    return attrs.evolve(ruling, refused={one: error for one, error in ruling.refused.items() if one != place})


def commits(cores: Beside, state: State) -> Iterator[Change]:
    """Another member and epoch in each state: all of them would take too long."""
    of = list(product(range(state.member_ids + 1), requests.near(state)))
    member_id, epoch = of[cores.asked % len(of)]
    cores.asked += 1
    member = state.loaded.member(member_id)
    yield from _told(cores, state, member_id, epoch)
    yield from _of_former_version(cores, state, member_id, epoch)
    processes = [number for number, one in enumerate(state.processes) if one.member_id == member_id]
    if (member is not None and member.classic) or not processes:
        return
    for partition in range(state.partitions):
        request = spec.CommitRequest(processes[0], member_id, epoch, partition, 0)
        expected = cores.machine.committing_error(state, request)
        ruling = cores.commit(request)
        found = error_as_specified(next(iter(ruling.refused.values()), ruling.error))
        if found.value != expected.value:
            yield Change(f"{request}", expected.name, found.name.upper())


def _of_former_version(cores: Beside, state: State, member_id: int, epoch: int) -> Iterator[Change]:
    """A member cannot commit in a version that knows nothing of its epoch: only one of the classic protocol may.

    TxnOffsetCommit has its own versions, and while a group is empty who is no member commits in any.
    """
    group, member = cores.core.consumers.get(GROUP), state.loaded.member(member_id)
    if group is None:
        return
    new = Commit(GROUP, (NewOffset("topic", FAR, 0),), epoch, cores.name_of(member_id))
    wanted = told = cores.core.commit(new, 0).error
    if wanted is ErrorCode.none and state.loaded.members and not (member is not None and member.classic):
        wanted = ErrorCode.unsupported_version
    former = attrs.evolve(new, version=BEFORE_KIP_848)
    for commit, expected in ((former, wanted), (attrs.evolve(former, is_transactional=True), told)):
        if (found := cores.core.commit(commit, 0).error) is not expected:
            yield Change(f"{commit} of {member_id} in epoch {epoch}", expected.name, found.name)


def of_nobody(cores: Beside, state: State) -> Iterator[Change]:
    """A client that is no member commits while a group is empty, and in a transaction at any time (before KIP-447)."""
    if cores.core.consumers.get(GROUP) is None:
        return
    wanted = ErrorCode.unknown_member_id if state.loaded.members else ErrorCode.none
    of_nobody = Commit(GROUP, (NewOffset("topic", FAR, 0),), 0, "nobody")
    if (error := cores.core.commit(of_nobody, 0).error) is not ErrorCode.unknown_member_id:
        yield Change("a commit of a member that is none, in epoch 0", ErrorCode.unknown_member_id.name, error.name)
    for version in (GROUP_NOT_FOUND_FROM, BEFORE_KIP_848):
        found = cores.core.commit(Commit(GROUP, (NewOffset("topic", FAR, 0),), version=version), 0)
        if (found.error, dict(found.refused)) != (wanted, {}):
            yield Change(f"a commit of who is no member, of version {version}", wanted.name, found)
    for says, expected in (
        ({}, ErrorCode.none),
        ({"generation": 0}, ErrorCode.unknown_member_id),
        ({"member_id": "nobody"}, wanted),
        ({"instance_id": "nobody"}, wanted),
    ):
        of_transaction = Commit(GROUP, (NewOffset("topic", FAR, 0),), is_transactional=True, **says)
        found = cores.core.commit(of_transaction, 0)
        if (found.error, dict(found.refused)) != (expected, {}):
            yield Change(f"a commit in a transaction of who says {says}", expected.name, found)


def refuses_long_texts(core: GroupCoordinator, known: KnownTopics) -> None:
    """A text of a heartbeat has room in a record, or is refused, whichever it is."""
    for field in ("group", "member_id", "instance_id", "client_id", "client_host", "expression"):
        for length, error in (
            (LONGEST_STRING, ErrorCode.group_id_not_found),
            (LONGEST_STRING + 1, ErrorCode.invalid_request),
        ):
            said: dict[str, Any] = {"group": "another group", "member_id": "member", field: "x" * length}
            request = ConsumerHeartbeat(epoch=5, **said)
            made = core.consumers.heartbeat(request, known, 0, 0)
            assert error_of(made) is error, f"{made} is told of {length} bytes as {field}"


def _told(cores: Beside, state: State, member_id: int, epoch: int) -> Iterator[Change]:
    """A member in its epoch is told offsets, and who is no member and does not say that it is one."""
    group, member = cores.core.consumers.get(GROUP), state.loaded.member(member_id)
    if group is None:
        return
    rules = cores.core.consumers.rules
    wanted = ErrorCode.unknown_member_id
    if member is not None:
        wanted = ErrorCode.none if member.epoch == epoch else ErrorCode.stale_member_epoch
    for name, at, expected in (
        (cores.name_of(member_id), epoch, wanted),
        (None, -1, ErrorCode.none),
        (None, 0, ErrorCode.unknown_member_id),
        ("", -1, ErrorCode.unknown_member_id),
    ):
        if (found := rules.fetch_error(group, name, at)) is not expected:
            yield Change(f"{name!r} asks for offsets in epoch {at}", expected.name, found.name)


def with_one_more(cores: Beside, member_id: str, instance_id: str | None, ask: Callable[[], R]) -> R:
    """What comes of a request where the group may have no more members than are in it and who asks.

    Who is one too many is refused, and nothing changes (`group.consumer.max.size`).
    """
    consumers = cores.core.consumers
    group, limits = consumers.get(GROUP), consumers.limits
    is_new = group is not None and member_id not in group.members and instance_id not in group.instances
    size = 0 if group is None else len(group.members)
    refused = ErrorCode.none
    if is_new:
        consumers.limits = attrs.evolve(limits, max_size=size)
        refused = error_of(ask())
        assert consumers.get(GROUP) is group, "who is refused changes the group"
        cores.decided.clear()
    consumers.limits = attrs.evolve(limits, max_size=size + is_new)
    made = ask()
    consumers.limits = limits
    wanted = error_of(made) or ErrorCode.group_max_size_reached
    assert not is_new or refused is wanted, f"{member_id} is one too many, and is told {refused.name}"
    return made


def while_time_runs(cores: Beside, member_id: str, ask: Callable[[], R]) -> R:
    """What comes of a heartbeat, of who has to give back when some of the time for that is over.

    It has no more time for the same partitions, however often it asks, and all of it for others.
    """
    consumers = cores.core.consumers
    due, group = ConsumerDeadline(GROUP, ConsumerTimer.REBALANCE, member_id), consumers.get(GROUP)
    runs = consumers.deadlines.get(due)
    if runs is None or group is None:
        return ask()
    consumers.deadlines.set(due, runs - 1)
    made = ask()
    after = consumers.get(GROUP)
    if after is not None and (member := after.members.get(member_id)) is not None:
        is_as_before = member.revoking == group.members[member_id].revoking
        left = consumers.deadlines.get(due)
        assert (left == runs - 1) is is_as_before, (
            f"{member_id} has until {left} to give back, and had until {runs - 1}"
        )
        if is_as_before:
            consumers.deadlines.set(due, runs)
    return made


def error_of(made: object) -> ErrorCode:
    """The error of a response; none of what is to be written."""
    return made.error if isinstance(made, HeartbeatResponse | JoinResponse) else ErrorCode.none


def assignors(cores: Beside) -> Iterator[Change]:
    """That of the most members counts, as far as the brokers know it; of as many votes the first of the brokers'."""
    group = cores.core.consumers.get(GROUP)
    if group is None:
        return
    for known in ((UNIFORM, RANGE), (RANGE, UNIFORM), (UNIFORM,)):
        votes = Counter(member.assignor for member in group.members.values() if member.assignor in known)
        most = max(votes.values(), default=0)
        wanted = next(name for name in known if votes[name] == most)
        if (found := cores.core.consumers.rules.assignor(group, known)) != wanted:
            yield Change(f"the assignor of {sorted(group.members)}, of {known}", wanted, found)


def deletions(cores: Beside, state: State) -> Iterator[Change]:
    """A group that has members stays, and so do offsets of what one of them subscribes to; others may go."""
    group, core = state.loaded, cores.core
    has_offsets = bool(core.offsets.keys_of(GROUP))
    is_there = group.epoch > spec.FIRST_EPOCH or has_offsets
    is_known = is_there or core.consumers.get(GROUP) is not None
    if (found_known := (core.is_known(GROUP), GROUP in core.groups)) != (is_known, is_known):
        yield Change("the group is known", is_known, found_known)
    nobody = ErrorCode.none if is_there else ErrorCode.group_id_not_found
    expected = ErrorCode.non_empty_group if group.members else nobody
    if (found := core.delete_group(GROUP).error) is not expected:
        yield Change("deletion of the group", expected.name, found.name)
    is_idle = group.epoch > spec.FIRST_EPOCH and not group.members and not has_offsets
    if (found_idle := core.idle_consumers()) != [GROUP] * is_idle:
        yield Change("idle groups", [GROUP] * is_idle, found_idle)
    for topic in range(cores.machine.topics):
        is_wanted = any(topic in group.wants(member) for member in group.members)
        place = topic_name(topic), 0
        refused = core.delete_offsets(GROUP, [place]).refused.get(place, ErrorCode.none)
        if (refused is ErrorCode.group_subscribed_to_topic) is not is_wanted:
            yield Change(f"deletion of the offsets of topic {topic}", f"refused: {is_wanted}", refused.name)
        if (is_kept := core.is_kept_for_members(OffsetKey(GROUP, *place))) is not is_wanted:
            yield Change(f"expiry of the offsets of topic {topic}", f"kept: {is_wanted}", f"kept: {is_kept}")
    yield from _deletion(cores, group)


def _deletion(cores: Beside, group: spec.Group) -> Iterator[Change]:
    """The tombstones of a deletion take all that the log has of a group; here they never are in it."""
    consumers = cores.core.consumers
    is_there = consumers.get(GROUP) is not None
    if group.members or not is_there:
        wanted = ErrorCode.non_empty_group if group.members else ErrorCode.group_id_not_found
        if (error := consumers.delete(GROUP)) is not wanted:
            yield Change("deletion of the consumer group", wanted.name, error)
        return
    before, resolving = consumers.get(GROUP), dict(consumers.resolving)
    write = cores.told_of(Deleted, partial(consumers.delete, GROUP))
    assert isinstance(write, ConsumerWrite), f"{write} comes of the deletion of a group without members"
    last = {**cores.last_records()} | {record.key: record.value for record in write.records}
    left = [decode_key(key) for key, value in last.items() if value is not None]
    if kept := [key for key in left if isinstance(key, ConsumerKey)]:
        yield Change("what is left of a group that is deleted", [], kept)
    if consumers.get(GROUP) is not None or GROUP in consumers.resolving or consumers.has_looked(GROUP, 0):
        yield Change("a group that is deleted", None, consumers.get(GROUP))
    if not consumers.is_committed(write):
        yield Change("a group that is gone is in the log as it is to be", True, False)
    for one in cores.appended if GROUP in consumers.committed else ():
        if isinstance(one, ConsumerWrite) and consumers.is_committed(one):
            yield Change("what is on its way is in the log, since the group is deleted", False, True)
    classic, now = cores.core.classic, Moment(0, 0)
    classic.join(JoinGroup(GROUP, "consumer", (Protocol("range", b""),), client_id="client", version=3), object(), now)
    joined = classic.get(GROUP)
    outcome = cores.told_of(Landed, lambda: cores.core.consumers_failed(write, now))
    if outcome.responses or joined is None or classic.get(GROUP) is not joined:
        yield Change("a classic group that has begun since", joined, classic.get(GROUP))
    classic.unload()
    if consumers.get(GROUP) is not before:
        yield Change("a group whose deletion was not written", before, consumers.get(GROUP))
    consumers.resolving.update(resolving)
