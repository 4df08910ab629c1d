"""What becomes of a group that could go back, of what classic members say that they own, and of their protocols."""

from __future__ import annotations

from typing import Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Leaving, SyncGroup
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState, Protocol
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    ConsumerDeadline,
    ConsumerTimer,
    Decided,
    Synced,
)
from tidegauge.impl.coordinators.groups.consumer.state import ClassicSide, ConsumerGroup, ConsumerMember
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.migration.embedded import without_owned
from tidegauge.model_tests.coordinators.groups.test_migration import (
    GROUP,
    KNOWN,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    Coordinator,
    at,
)
from tidegauge.model_tests.harness.cores.migration_abstraction import subscription

NONE: Final = ErrorCode.none
OWNED: Final = subscription(["t"], [("t", 0)], 0)
BARE: Final = subscription(["t"], [], 0)
OTHER: Final = subscription(["t", "u"], [], 0)


def side(*protocols: tuple[str, bytes]) -> ClassicSide:
    return ClassicSide(SESSION_MS, tuple(Protocol(*one) for one in protocols))


# --- a group that could go back --------------------------------------------------------------------------------------


def test_a_group_of_classic_members_alone_goes_back_when_one_leaves_and_not_before() -> None:
    """It was loaded: its former coordinator's policy was another one."""
    one = Coordinator()
    members = {name: ConsumerMember(name, classic=side(("p", BARE)), rebalance_timeout_ms=9) for name in "ab"}
    one.core.consumers.committed[GROUP] = ConsumerGroup(GROUP, epoch=3, members=members)
    one.core.consumers.load(GROUP, SESSION_MS, 0)
    for name in "bc":  # one joins again, and one for the first time
        one.join(name)
    assert {*one.group.members} == {*"abc"}
    _, decision = one.core.migration.leave(GROUP, Leaving("a"), KNOWN.topics, at())
    one.decided(decision)
    assert one.core.classic.groups[GROUP].members.keys() == {*"bc"}


def test_a_group_goes_back_when_its_last_member_of_kip_848_joins_as_a_classic_one() -> None:
    one = Coordinator()
    one.beat()
    one.join("c")
    assert one.core.classic.groups[GROUP].members.keys() == {"c"}


def test_only_what_a_classic_group_hides_lies_beneath_it() -> None:
    one = Coordinator()
    one.beat()
    one.beat(epoch=-1)
    assert one.core.migration.beneath(GROUP) is None, "it is a group in its own right"
    one.join("", version=3, unique="x")
    assert one.core.migration.beneath(GROUP) is one.group


def test_a_member_that_goes_back_has_all_its_protocols_and_says_of_none_that_it_owns_anything() -> None:
    one = Coordinator()
    one.beat()
    protocols = (Protocol("q", OWNED), Protocol("p", OWNED))
    one.core.consumers.groups[GROUP] = one.group.with_member(
        ConsumerMember("a", classic=ClassicSide(SESSION_MS, protocols), rebalance_timeout_ms=REBALANCE_MS)
    )
    one.beat(epoch=-1)
    member = one.core.classic.groups[GROUP].members["a"]
    assert member.protocols == tuple(Protocol(name, without_owned(OWNED)) for name in "qp")


def test_the_record_of_a_group_that_goes_back_has_what_is_told_for_the_first_protocol_that_all_know() -> None:
    rules = GroupCoordinator(Limits()).migration.rules
    sides = {"a": side(("q", OTHER), ("p", BARE)), "b": side(("p", BARE))}
    group = ConsumerGroup(GROUP, members={name: ConsumerMember(name, classic=one) for name, one in sides.items()})
    written = rules.downgraded(group, KNOWN.topics, 0)
    assert (written.protocol, [one.subscription for one in written.members]) == ("p", [BARE, BARE])


def test_what_is_behind_a_subscription_of_version_0_is_not_what_its_member_owns() -> None:
    metadata = b"\0\0" + OWNED[2:]
    assert without_owned(metadata) == metadata


# --- classic members -------------------------------------------------------------------------------------------------


def test_what_two_members_say_that_they_own_is_given_back_by_one_of_them() -> None:
    rules = GroupCoordinator(Limits()).migration.rules
    members = {
        name: ClassicMember(name, None, "", "", REBALANCE_MS, SESSION_MS, (Protocol("p", OWNED),)) for name in "ab"
    }
    group = ClassicGroup(GROUP, ClassicState.STABLE, 1, "consumer", "p", "a", members=members)
    after = rules.upgraded(group, None, KNOWN.topics)
    assert [{*after.members[name].revoking} for name in "ab"] == [{(TOPIC, 0)}, set()]


def test_a_classic_member_that_has_to_give_back_joins_again_though_its_epoch_is_the_groups() -> None:
    rules = GroupCoordinator(Limits()).migration.rules
    member = ConsumerMember("a", epoch=5, revoking={(TOPIC, 0): 4}, classic=side(("p", BARE)))
    group = ConsumerGroup(GROUP, epoch=5, target_epoch=5, members={"a": member})
    assert rules.must_rejoin(group, member)
    assert not rules.must_rejoin(group, attrs.evolve(member, revoking={}))


def test_a_member_that_speaks_the_classic_protocol_from_now_on_has_the_time_to_give_back_of_that_alone() -> None:
    one = Coordinator()
    one.beat()
    one.beat("d")
    due = ConsumerDeadline(GROUP, ConsumerTimer.REBALANCE, "c")
    one.beat(epoch=2, owned=frozenset({(TOPIC, 0), (TOPIC, 1)}))
    assert one.core.consumers.deadlines.get(due) == REBALANCE_MS
    one.join("c", 0, 1)
    assert one.group.members["c"].revoking
    assert one.core.consumers.deadlines.get(due) is None


@pytest.mark.parametrize(("generation", "error"), [(0, NONE), (1, ErrorCode.illegal_generation)])
def test_who_follows_a_coordinator_is_told_what_a_classic_member_gets(generation: int, error: ErrorCode) -> None:
    one = Coordinator()
    one.beat()
    one.join("b")
    told: list[Decided] = []
    one.core.consumers.watching = lambda group, decided: told.append(decided)
    asked = SyncGroup(GROUP, one.group.members["b"].epoch + generation, "b")
    one.core.migration.sync(asked, KNOWN.topics, at())
    assert told == [Synced(asked, error)]
