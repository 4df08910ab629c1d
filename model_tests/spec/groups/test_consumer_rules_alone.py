"""Rules of consumer groups asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.groups.consumer import ownership, properties, targets
from tidegauge.spec.groups.consumer.actions import appended, will_acknowledge
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.processes import FetchOffsets, GiveBack, Reconcile, Start
from tidegauge.spec.groups.consumer.requests import DelayCommit, ReceiveHeartbeat
from tidegauge.spec.groups.consumer.state import (
    NONE,
    CommitRequest,
    Entry,
    Error,
    Group,
    HeartbeatRequest,
    Member,
    Offset,
    Phase,
    Process,
    State,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.meaning import meaning, property_meaning

MACHINE = ConsumerGroups(commits=1)


def initial(machine: ConsumerGroups = MACHINE) -> State:
    return next(iter(machine.initial()))


def up(member_id: int = 1, epoch: int = 3, **fields: Any) -> Process:
    """A process that goes on, has told all, and is told nothing new."""
    given = {"full": False, "positions": (NONE, NONE), "topics": (0,), **fields}
    return Process(Phase.UP, member_id, epoch, **given)


def test_a_property_that_is_asked_of_each_group_or_process_says_what_it_means() -> None:
    said = {
        "OneMemberHasIt": properties.one_member_has_it,
        "TargetCovers": properties.target_covers,
        "OwnersAreNotRefused": ownership.owners_are_not_refused,
        "WhoLacksSomethingWaits": targets.who_lacks_something_waits,
        "MembersKnowTheirOffsets": properties.members_know_their_offsets,
    }
    for name, made_by in said.items():
        assert property_meaning(MACHINE, name) == meaning(made_by)


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_loads_tells_no_offsets_and_who_hangs_asks_for_none() -> None:
    state = initial().with_process(0, up(owned=(0,)))
    assert not FetchOffsets(0).guard(MACHINE, state)
    assert FetchOffsets(0).guard(MACHINE, attrs.evolve(state, group=None))
    assert FetchOffsets(0).guard(MACHINE, state.with_process(0, up(owned=(0,), hung=True)))
    assert FetchOffsets(0).guard(MACHINE, state.with_process(0, up()))


@pytest.mark.parametrize(
    ("fields", "will"),
    [
        ({}, False),
        ({"assigned": (0,)}, True),
        ({"owned": (0,), "said": ()}, True),
        ({"full": True}, True),
        ({"waiting": True}, True),
        ({"full": True, "hung": True}, False),
        ({"full": True, "member_id": 2}, False),
    ],
)
def test_who_goes_on_and_knows_or_will_be_told_what_to_give_back_acknowledges_it(
    fields: dict[str, Any], *, will: bool
) -> None:
    process = attrs.evolve(up(said=()), **fields)
    assert will_acknowledge(initial().with_process(0, process), 1) is will


@pytest.mark.parametrize(
    ("fields", "leaves"), [({}, True), ({"epoch": 0}, False), ({"waiting": True}, False), ({"hung": True}, False)]
)
def test_who_is_no_member_or_waits_or_hangs_does_not_leave(fields: dict[str, Any], *, leaves: bool) -> None:
    request = MACHINE.leave_request(initial().with_process(0, attrs.evolve(up(), **fields)), 0)
    assert request == (HeartbeatRequest(0, 1, -1) if leaves else None)


@pytest.mark.parametrize(
    ("fields", "commits"),
    [
        ({}, True),
        ({"hung": True}, False),
        ({"owned": ()}, False),
        ({"epoch": 0}, False),
        ({"positions": (2, 0)}, False),
    ],
)
def test_a_member_commits_what_it_owns_and_has_read(fields: dict[str, Any], *, commits: bool) -> None:
    machine = ConsumerGroups(commits=2)
    process = attrs.evolve(up(owned=(0,), positions=(1, 0)), **fields)
    request = machine.commit_request(initial(machine).with_process(0, process), 0, 0)
    assert request == (CommitRequest(0, 1, 3, 0, 2) if commits else None)
    unknown = attrs.evolve(process, positions=(NONE, NONE))
    assert machine.commit_request(initial(machine).with_process(0, unknown), 0, 0) is None


@pytest.mark.parametrize(
    ("fields", "gives_back", "reconciles"),
    [
        ({"owned": (0, 1), "assigned": (1,)}, True, False),
        ({"owned": (0, 1), "assigned": (1,), "hung": True}, False, False),
        ({"owned": (1,), "assigned": (0, 1)}, False, True),
        ({"owned": (1,), "assigned": (0, 1), "hung": True}, False, False),
        ({"owned": (1,)}, False, False),
    ],
)
def test_a_member_gives_back_before_it_owns_what_is_new_unless_it_hangs(
    fields: dict[str, Any], *, gives_back: bool, reconciles: bool
) -> None:
    state = initial().with_process(0, up(**fields))
    assert bool(GiveBack(0).guard(MACHINE, state)) is not gives_back
    assert bool(Reconcile(0).guard(MACHINE, state)) is not reconciles


def test_a_commit_is_late_once() -> None:
    machine = ConsumerGroups(commits=2, bounds=Bounds(DelayCommit=2))
    state = initial(machine).with_process(0, up(owned=(0,), positions=(0, NONE)))
    assert not DelayCommit(0, 0).guard(machine, state)
    late = machine.step(state, DelayCommit(0, 0))
    assert late.commits == (CommitRequest(0, 1, 3, 0, 1),)
    assert DelayCommit(0, 0).guard(machine, late.with_process(0, state.processes[0]))
    assert not DelayCommit(0, 0).guard(machine, late)


# --- the coordinator -------------------------------------------------------------------------------------------------


def test_a_heartbeat_that_nobody_has_sent_is_not_tried() -> None:
    action = ReceiveHeartbeat(HeartbeatRequest(0, 1, 0, (0,), owned=(), full=True), late=True)
    assert action.tried(MACHINE, attrs.evolve(initial(), heartbeats=(action.request,))) is not None
    assert action.tried(MACHINE, initial()) is None


@pytest.mark.parametrize(
    ("epoch", "owned", "is_behind"),
    [
        (2, (0,), True),
        (2, (), True),
        (2, (0, 1), False),
        (2, None, False),
        (1, (0,), False),
        (3, (0,), False),
    ],
)
def test_who_has_not_got_its_epoch_is_behind_if_it_owns_nothing_that_it_should_not(
    epoch: int, owned: tuple[int, ...] | None, *, is_behind: bool
) -> None:
    member = Member(1, epoch=3, previous_epoch=2, assigned=((0, 2),), revoking=((1, 2),))
    request = HeartbeatRequest(0, 1, epoch, owned=owned)
    assert MACHINE.is_behind(member, request) is is_behind
    assert not MACHINE.is_behind(attrs.evolve(member, epoch=2), request)


def test_who_alone_wants_a_partition_keeps_it_before_others_get_what_is_left() -> None:
    """Of six partitions two are a fair part; member 1 alone wants the three of topic 0, which it was to own."""
    members = (Member(1, topics=(0, 1)), Member(2, topics=(1,)), Member(3))
    group = Group(3, 2, ((1, (0, 2, 4)), (2, (3, 5)), (3, ())), members)
    assert ConsumerGroups(topics=2).target(group, range(6)) == {1: [0, 2, 4], 2: [3, 5, 1], 3: []}


@pytest.mark.parametrize(
    ("epoch", "partition", "error"),
    [
        (3, 0, Error.NONE),
        (2, 0, Error.NONE),
        (1, 0, Error.STALE_MEMBER_EPOCH),
        (4, 0, Error.STALE_MEMBER_EPOCH),
        (2, 1, Error.STALE_MEMBER_EPOCH),
        (3, 1, Error.NONE),
    ],
)
def test_a_commit_of_an_epoch_that_is_over_is_taken_of_what_the_member_had_in_it(
    epoch: int, partition: int, error: Error
) -> None:
    group = Group(3, 3, members=(Member(1, epoch=3, assigned=((0, 2),)),))
    assert MACHINE.commit_error(group, CommitRequest(0, 1, epoch, partition, 1)) is error
    assert MACHINE.commit_error(group, CommitRequest(0, 2, epoch, partition, 1)) is Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("topics", "assigned", "revoking"),
    [((0,), ((0, 3),), ((1, 2),)), ((), (), ((0, 3), (1, 2))), ((1,), (), ((0, 3), (1, 2)))],
)
def test_who_has_to_give_something_back_gives_back_what_it_unsubscribes_from_as_well(
    topics: tuple[int, ...], assigned: tuple[tuple[int, int], ...], revoking: tuple[tuple[int, int], ...]
) -> None:
    member = Member(1, topics=topics, epoch=3, assigned=((0, 3),), revoking=((1, 2),))
    after = ConsumerGroups(topics=2).revoking_more(Group(3, 3, members=(member,), known=(0, 1)), member)
    assert after == attrs.evolve(member, assigned=assigned, revoking=revoking)


@pytest.mark.parametrize(
    ("fields", "is_past"),
    [
        ({}, True),
        ({"epoch": 2}, False),
        ({"epoch": 4}, False),
        ({"waits": True}, False),
        ({"revoking": ((1, 2),)}, False),
    ],
)
def test_who_has_had_all_of_an_old_target_gets_no_more_of_it(fields: dict[str, Any], *, is_past: bool) -> None:
    """It gives back what it wants no more, and waits for the next target with what it wants again."""
    member = Member(1, **{"topics": (0,), "epoch": 3, "previous_epoch": 2, "assigned": ((0, 3),), **fields})
    group = Group(4, 3, ((1, (0, 2)),), members=(member,), known=(0, 1, 2))
    machine = ConsumerGroups(topics=2, partitions=3, spaces_targets=True)
    assert group.is_past_its_target(member) is is_past
    assert not attrs.evolve(group, epoch=3).is_past_its_target(member)
    after = machine.reconciled(group, member, (0,))
    assert (after.assigned == member.assigned) is is_past
    if is_past:
        unsubscribed = attrs.evolve(member, topics=(1,))
        gives = attrs.evolve(unsubscribed, assigned=(), revoking=((0, 3),))
        assert machine.reconciled(group.with_member(unsubscribed), unsubscribed, (0,)) == gives


class RespondsAtOnce(ConsumerGroups):
    """A coordinator that does not wait until its records are committed."""

    def responds_when_committed(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("kind", "bounds", "waits"),
    [
        (ConsumerGroups, Bounds(FailOver=1), True),
        (RespondsAtOnce, Bounds(FailOver=1), False),
        (ConsumerGroups, Bounds(), False),
    ],
)
def test_who_joins_has_its_response_when_the_records_are_committed(
    kind: type[ConsumerGroups], bounds: Bounds, *, waits: bool
) -> None:
    machine = kind(bounds=bounds)
    state = machine.step(initial(machine), Start(0))
    request = machine.heartbeat_request(state, 0)
    assert request is not None
    process = machine.step(state, ReceiveHeartbeat(request)).processes[0]
    assert (process.waiting, process.epoch > 0) == (waits, not waits)


class TellsTooSoon(ConsumerGroups):
    """A coordinator that does not wait until a commit is committed."""

    def acknowledges_when_committed(self) -> bool:
        return False


def test_only_of_offsets_somebody_is_told_too_soon() -> None:
    bounds = Bounds(FailOver=1)
    for machine, told in ((ConsumerGroups(bounds=bounds), (0, 0)), (TellsTooSoon(bounds=bounds), (0, 4))):
        assert appended(machine, initial(machine), Entry(offset=(1, Offset(4)))).told == told
        assert appended(machine, initial(machine), Entry(Group(2, 2))).told == (0, 0)


@pytest.mark.parametrize(
    ("before", "after", "begins"),
    [(NONE, 0, True), (NONE, 1, False), (0, NONE, True), (1, NONE, True), (0, 0, False), (1, 0, True), (0, 1, False)],
)
def test_an_expression_begins_an_epoch_where_somebody_has_had_it_resolved(
    before: int, after: int, *, begins: bool
) -> None:
    group = Group(3, 3, resolved=((0, ()),))
    assert MACHINE.expression_begins_epoch(group, Member(1, expression=before), Member(1, expression=after)) is begins
