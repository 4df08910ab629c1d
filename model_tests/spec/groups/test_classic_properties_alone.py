"""Properties of classic groups asked alone: of states that no right rule leads to, and of those beside them."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.processes import Start
from tidegauge.spec.groups.classic.properties import (
    generations_rise,
    is_covered,
    members_know_their_offsets,
    nobody_waits_in_vain,
    one_assignment_of_a_generation,
    one_owner_of_a_generation,
    only_the_late_are_removed,
    only_the_replaced_are_fenced,
    only_the_stale_are_reset,
    owners_commit,
    revoked_before_given,
    shared_out_once,
    stable_is_logged,
)
from tidegauge.spec.groups.classic.requests import ReceiveCommit
from tidegauge.spec.groups.classic.state import (
    NONE,
    CommitRequest,
    Entry,
    Group,
    GroupRecord,
    Log,
    Member,
    Offset,
    OffsetRecord,
    Owner,
    Phase,
    Process,
    State,
    Status,
    Subscription,
    Waiting,
)
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.machine import Action

MACHINE = ClassicGroups(partitions=1)
SOMETHING: Action = Start(0)
TOPICS = Subscription((0,))


def initial(machine: ClassicGroups = MACHINE) -> State:
    return next(iter(machine.initial()))


def processes(*given: Process) -> State:
    return attrs.evolve(initial(), processes=given)


# --- who owns what ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instances", "generation", "owned", "holds"),
    [
        ((), 3, (0,), False),
        ((0, 0), 3, (0,), True),
        ((0, 1), 3, (0,), False),
        ((), 2, (0,), True),
        ((), 3, (), True),
    ],
)
def test_two_own_a_partition_by_one_generation_only_if_one_has_replaced_the_other(
    instances: tuple[int, ...], generation: int, owned: tuple[int, ...], *, holds: bool
) -> None:
    first = Process(Phase.STABLE, generation=3, owned=(0,))
    second = Process(Phase.STABLE, generation=generation, owned=owned)
    machine = attrs.evolve(MACHINE, instances=instances)
    assert one_owner_of_a_generation(machine)(processes(first, second)) is holds


def test_while_the_coordinator_loads_no_commit_would_be_taken() -> None:
    """Two processes that own a partition are those of a rebalance that it has yet to find in the log."""
    both = (Process(Phase.STABLE, 1, 3, owned=(0,)), Process(Phase.STABLE, 2, 4, owned=(0,)))
    one_committer = MACHINE.invariants["OneCommitter"]
    assert one_committer(attrs.evolve(processes(*both), group=None))
    assert one_committer(attrs.evolve(processes(*both), group=Group(Status.STABLE, 4, 0, 2, (Member(1), Member(2)))))
    group = Group(Status.STABLE, 4, 0, 2, (Member(2),))
    same = (attrs.evolve(both[1]), both[1])
    assert not one_committer(attrs.evolve(processes(*same), group=group))


def test_a_commit_that_is_taken_is_the_owners() -> None:
    before = attrs.evolve(initial(), owners=(Owner(1, 3),))
    taken = attrs.evolve(before, appended=(Entry(OffsetRecord(0, Offset(1))),))
    in_log = attrs.evolve(before, log=Log((), (Offset(1),)))
    for member_id, generation, holds in ((1, 3, True), (2, 3, False), (1, 4, False)):
        commit = ReceiveCommit(CommitRequest(0, member_id, generation, 0, 1))
        assert owners_commit(before, commit, taken) is holds
        assert owners_commit(before, commit, in_log) is holds
        assert owners_commit(before, commit, before)
        assert owners_commit(before, SOMETHING, taken)


GIVEN = GroupRecord(
    5,
    0,
    2,
    (
        Member(1, subscription=Subscription((0,), (0,), 4)),
        Member(2, subscription=Subscription((0,), (), 4), partitions=(0,)),
    ),
)
KEEPS = Process(Phase.JOINED, 1, 5, owned=(0,))
"""Member 1, which is in generation 5 and goes on with partition 0."""


def goes_over(former: Owner, owner: Owner, process: Process, *given: GroupRecord) -> bool:
    before = attrs.evolve(initial(), owners=(former,))
    after = attrs.evolve(before, owners=(owner,), processes=(process, Process()), log=Log(given, (Offset(),)))
    return revoked_before_given(before, SOMETHING, after)


def test_what_a_member_of_the_new_generation_has_is_not_given_to_another_one() -> None:
    assert not goes_over(Owner(1, 4), Owner(2, 5), KEEPS, GIVEN)
    assert not goes_over(Owner(1, 4), Owner(2, 5), attrs.evolve(KEEPS, phase=Phase.SYNCING), GIVEN)
    assert not goes_over(Owner(1, 4), Owner(2, 5), KEEPS, GroupRecord(4), GIVEN)


@pytest.mark.parametrize(
    "changes", [{"phase": Phase.STABLE}, {"generation": 4}, {"owned": ()}, {"member_id": 3}, {"member_id": 2}]
)
def test_who_is_not_in_the_new_generation_or_has_given_it_back_holds_nothing_up(changes: dict[str, object]) -> None:
    assert goes_over(Owner(1, 4), Owner(2, 5), attrs.evolve(KEEPS, **changes), GIVEN)  # type: ignore[arg-type]


def test_what_somebody_says_of_an_earlier_generation_than_others_nobody_counts_on() -> None:
    former, latest = GIVEN.members
    says = attrs.evolve(latest, subscription=Subscription((0,), (), 6))
    assert goes_over(Owner(1, 4), Owner(2, 5), KEEPS, attrs.evolve(GIVEN, members=(former, says)))


@pytest.mark.parametrize(
    ("former", "owner"),
    [(Owner(2, 4), Owner(2, 5)), (Owner(), Owner(2, 5)), (Owner(1, 5), Owner(2, 5)), (Owner(1, 4), Owner(1, 4))],
)
def test_what_stays_or_is_given_for_the_first_time_or_to_a_next_process_does_not_go_over(
    former: Owner, owner: Owner
) -> None:
    assert goes_over(former, owner, KEEPS, GIVEN)


@pytest.mark.parametrize(("generation", "holds"), [(4, True), (5, True), (6, False)])
def test_the_assignment_of_a_generation_whose_number_comes_again_may_leave_something_out(
    generation: int, *, holds: bool
) -> None:
    for partitions, expected in (((), holds), ((0,), True)):
        record = GroupRecord(generation, 0, 1, (Member(1, subscription=TOPICS, partitions=partitions),))
        assert shared_out_once(MACHINE)(attrs.evolve(initial(), log=Log((record,), (Offset(),)), lost=5)) is expected


@pytest.mark.parametrize(
    ("cooperative", "generation", "covered"), [(True, NONE, True), (True, 3, False), (False, NONE, False)]
)
def test_what_a_static_member_has_yet_to_give_back_nobody_knows_when_its_next_process_joins(
    generation: int, *, cooperative: bool, covered: bool
) -> None:
    machine = attrs.evolve(MACHINE, instances=(0,), cooperative=cooperative)
    record = GroupRecord(4, 0, 1, (Member(1, instance=0, subscription=Subscription((0,), (), generation)),))
    assert is_covered(machine, record, []) is covered
    assert is_covered(machine, record, [0])


# --- the group -------------------------------------------------------------------------------------------------------


def test_a_stable_group_is_the_last_that_the_log_has() -> None:
    stable = Group(Status.STABLE, 3, 0, 1, (Member(1, partitions=(0,)),))
    logged, other = GroupRecord(3, 0, 1, (Member(1, partitions=(0,)),)), GroupRecord(3, 0, 1, (Member(1),))
    for records, holds in (((), False), ((logged,), True), ((logged, other), False), ((GroupRecord(2),), False)):
        assert stable_is_logged(attrs.evolve(initial(), group=stable, log=Log(records, (Offset(),)))) is holds
    assert stable_is_logged(attrs.evolve(initial(), group=attrs.evolve(stable, status=Status.PREPARING_REBALANCE)))


@pytest.mark.parametrize(
    ("status", "replacing", "holds"),
    [
        (Status.PREPARING_REBALANCE, NONE, True),
        (Status.STABLE, NONE, False),
        (Status.STABLE, 1, True),
        (Status.STABLE, 2, False),
    ],
)
def test_who_joins_a_group_that_has_begun_waits_for_a_record_that_tells_of_it(
    status: Status, replacing: int, *, holds: bool
) -> None:
    group = Group(status, 3, 0, 1, (Member(1, waiting=Waiting.JOIN),))
    state = attrs.evolve(initial(), group=group, appended=(Entry(GroupRecord(3), replacing),))
    assert nobody_waits_in_vain(state) is holds


def assignments(*members: tuple[Member, ...]) -> State:
    return attrs.evolve(initial(), log=Log(tuple(GroupRecord(3, 0, 1, each) for each in members), (Offset(),)))


def test_records_of_a_generation_differ_in_the_ids_of_static_members_alone() -> None:
    first, second = Member(0, partitions=(0,)), Member(1, partitions=(1,))
    static = Member(2, instance=2, partitions=(2,))
    given = (first, second, static)
    assert one_assignment_of_a_generation(assignments(given, (first, second, attrs.evolve(static, member_id=9))))
    for changed in (
        (attrs.evolve(first, partitions=(1,)), attrs.evolve(second, partitions=(0,)), static),
        (attrs.evolve(first, partitions=()), second, static),
        (first, second, attrs.evolve(static, partitions=())),
        (attrs.evolve(first, member_id=9), second, static),
        (first, second, attrs.evolve(static, instance=1)),
    ):
        assert not one_assignment_of_a_generation(assignments(given, changed))


@pytest.mark.parametrize(
    ("before", "after", "logged", "holds"),
    [
        (Group(generation=3), Group(generation=3), 1, True),
        (Group(generation=3), Group(generation=4), 1, True),
        (Group(generation=3), Group(generation=2), 1, False),
        (Group(generation=3), None, 1, True),
        (None, None, 1, True),
        (None, Group(generation=3), 3, True),
        (None, Group(generation=2), 3, False),
        (None, Group(), NONE, True),
    ],
)
def test_a_generation_goes_back_by_a_fail_over_alone_and_not_behind_the_log(
    before: Group | None, after: Group | None, logged: int, *, holds: bool
) -> None:
    log = Log(() if logged == NONE else (GroupRecord(logged),), (Offset(),))
    state = attrs.evolve(initial(), group=before, log=log)
    assert generations_rise(state, SOMETHING, attrs.evolve(state, group=after)) is holds


# --- members ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hung", [True, False])
def test_who_hangs_may_be_removed_by_what_others_do(*, hung: bool) -> None:
    process = Process(Phase.STABLE, 1, 3, hung=hung)
    before = attrs.evolve(processes(process, Process()), group=Group(Status.STABLE, 3, 0, 1, (Member(1),)))
    assert only_the_late_are_removed(before, SOMETHING, attrs.evolve(before, group=Group())) is hung
    static = attrs.evolve(before, group=Group(members=(Member(1, instance=0),)))
    replaced = attrs.evolve(static, group=Group(members=(Member(2, instance=0),)))
    assert only_the_late_are_removed(static, SOMETHING, replaced)


@pytest.mark.parametrize(
    ("instances", "perturbation", "holds"),
    [
        ((0, 0), "", True),
        ((0,), "", False),
        ((0, 1), "", False),
        ((0,), "FailOver", True),
        ((0,), "DelayJoin", True),
        ((), "FailOver", False),
        ((), "", False),
    ],
)
def test_the_only_process_of_a_static_member_is_fenced_by_mistake_alone(
    instances: tuple[int, ...], perturbation: str, *, holds: bool
) -> None:
    state = processes(Process(Phase.FENCED), Process())
    if perturbation:
        state = state.spend(perturbation)
    assert only_the_replaced_are_fenced(attrs.evolve(MACHINE, instances=instances))(state) is holds


@pytest.mark.parametrize(
    ("changes", "known", "of_group", "holds"),
    [
        ({"member_id": NONE, "generation": NONE}, True, 3, False),
        ({"member_id": NONE, "generation": NONE}, True, 4, False),
        ({"member_id": NONE, "generation": NONE}, False, 3, True),
        ({"generation": NONE}, True, 3, False),
        ({"generation": NONE}, True, 4, True),
        ({"generation": NONE}, False, 3, True),
        ({"phase": Phase.UNJOINED}, True, 3, True),
        ({"phase": Phase.FENCED, "member_id": NONE, "generation": NONE}, True, 3, True),
    ],
)
def test_who_is_known_gives_its_generation_up_for_another_one_alone(
    changes: dict[str, object], of_group: int, *, known: bool, holds: bool
) -> None:
    old = Process(Phase.STABLE, 1, 3)
    group = Group(Status.STABLE, of_group, 0, 1, (Member(1),) if known else (Member(2),))
    before = attrs.evolve(processes(old, Process()), group=group)
    after = before.with_process(0, attrs.evolve(old, **changes))  # type: ignore[arg-type]
    property_of = only_the_stale_are_reset(MACHINE)
    assert property_of(before, SOMETHING, after) is holds
    assert property_of(attrs.evolve(before, group=None), SOMETHING, after)


def test_who_begins_to_join_without_a_member_id_loses_none() -> None:
    before = attrs.evolve(processes(Process(Phase.UNJOINED), Process()), group=Group())
    joining = before.with_process(0, Process(Phase.JOINING))
    for after in (joining, before.with_process(0, Process(Phase.UNJOINED))):
        assert only_the_stale_are_reset(MACHINE)(before, SOMETHING, after)


def test_an_assignment_that_is_not_committed_says_nothing_of_offsets() -> None:
    process = Process(Phase.STABLE, 1, 3, owned=(0,), positions=(1,))
    state = attrs.evolve(processes(process, Process()), owners=(Owner(1, 3),))
    for record, holds in (
        (GroupRecord(4), True),
        (OffsetRecord(0, Offset(1)), True),
        (OffsetRecord(0, Offset(2)), False),
        (OffsetRecord(1, Offset(2)), True),
    ):
        assert members_know_their_offsets(0, attrs.evolve(state, appended=(Entry(record),))) is holds


def test_of_a_group_that_is_loaded_nobody_is_known_to_be_gone() -> None:
    goal = MACHINE.converges["who is gone is in no group"]
    present = processes(Process(Phase.STABLE, 1), Process())
    assert not goal(attrs.evolve(present, group=None))
    for group, holds in (
        (Group(members=(Member(1),)), True),
        (Group(members=(Member(1), Member(2))), False),
        (Group(pending=(1,)), True),
        (Group(pending=(2,)), False),
    ):
        assert goal(attrs.evolve(present, group=group)) is holds


# --- goals -----------------------------------------------------------------------------------------------------------


def test_a_stable_group_is_taken_over_when_it_is_loaded_and_nothing_is_under_way() -> None:
    machine = ClassicGroups(bounds=Bounds(FailOver=1))
    goal = machine.sometimes["a new coordinator takes a stable group over"]
    before = attrs.evolve(initial(machine), group=Group(Status.STABLE))
    taken_over = before.spend("FailOver")
    assert goal(taken_over)
    for other in (before, attrs.evolve(taken_over, group=None), attrs.evolve(taken_over, group=Group())):
        assert not goal(other)
    assert not goal(attrs.evolve(taken_over, appended=(Entry(GroupRecord(1)),)))


@pytest.mark.parametrize(
    ("phase", "position", "committer", "is_reached"),
    [
        (Phase.STABLE, 2, 1, True),
        (Phase.STABLE, 2, 0, False),
        (Phase.STABLE, 1, 1, False),
        (Phase.JOINING, 2, 1, False),
    ],
)
def test_a_member_goes_on_where_another_one_was_when_it_has_its_assignment(
    phase: Phase, position: int, committer: int, *, is_reached: bool
) -> None:
    machine = ClassicGroups(partitions=1, commits=2, bounds=Bounds(Leave=1))
    process = Process(phase, 0, 3, owned=(0,), positions=(position,))
    state = attrs.evolve(processes(process, Process(positions=(NONE,))), log=Log((), (Offset(2, committer, 2),)))
    assert machine.sometimes["a member goes on where another one was"](state) is is_reached


def test_members_share_something_only_where_two_of_them_know_one_protocol() -> None:
    for protocols, wanted in ((((0,), (1,)), False), (((0,), (1, 0)), True)):
        machine = ClassicGroups(protocols=protocols, commits=1, cooperative=True, bounds=Bounds(Leave=1))
        goals = {
            "two members share the partitions",
            "a member goes on where another one was",
            "a partition is with nobody until it is given back",
        }
        assert goals & {*machine.sometimes} == (goals if wanted else set())
