"""Rules and properties of administration asked alone, in states to which walks and small models seldom come."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.spec.administration import properties
from tidegauge.spec.administration.altering import AlterSettings, CheckSettings
from tidegauge.spec.administration.brokers import AllocateBlock, Restart
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.replicas import ElectUncleanly, JoinIsr
from tidegauge.spec.administration.settings import (
    MIN_INSYNC,
    POLICY,
    RETENTION,
    SESSION,
    THREADS,
    UNCLEAN,
    VALUES,
    Change,
    Kind,
    Operation,
    Resource,
    changed,
    items,
)
from tidegauge.spec.administration.state import NONE, Error, Partition, State, Topic
from tidegauge.spec.administration.topics import Grow

MACHINE = Administration(brokers=3)
LED = Partition((0, 1), 0, frozenset({0, 1}))
LEADERLESS = Partition((0, 1), NONE, frozenset())
MOVES = attrs.evolve(LED, replicas=(0, 1, 2), adding=(2,))
TOPIC, ONE_BROKER, GROUP = Resource(Kind.TOPIC, 0), Resource(Kind.BROKER, 0), Resource(Kind.GROUP, 0)


def state_with(*partitions: Partition, live: tuple[bool, ...] = (True, True, True), **more: Any) -> State:
    """Three brokers, and one topic with these partitions."""
    topic = Topic(1, partitions, more.pop("settings", ()))
    return State((topic,), (True, True, True), live, **{"of_all_brokers": ((MIN_INSYNC, "1"),), "created": 1, **more})


def holds(name: str, before: State, after: State, action: Any = None) -> bool:
    """Whether a step keeps a property."""
    return properties.step_invariants()[name](before, action, after)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "allowed", "refused"),
    [
        (Kind.TOPIC, RETENTION, ("-1", "0", "2147483647"), ("-2", "--1", "2147483648", "x", "", "²")),
        (Kind.TOPIC, MIN_INSYNC, ("1", "2"), ("0", "-1")),
        (Kind.GROUP, SESSION, ("45000", "60000"), ("44999", "60001")),
    ],
)
def test_a_number_has_bounds(kind: Kind, name: str, allowed: tuple[str, ...], refused: tuple[str, ...]) -> None:
    assert [text for text in (*allowed, *refused) if VALUES[kind][name](text)] == [*allowed]


def test_a_list_has_no_empty_items() -> None:
    assert items("a, ,b,") == ("a", "b")


@pytest.mark.parametrize(
    ("operation", "value", "after"),
    [
        (Operation.APPEND, "compact", "delete,compact"),
        (Operation.APPEND, "delete", "delete"),
        (Operation.SUBTRACT, "compact", "delete"),
        (Operation.SUBTRACT, "delete", ""),
    ],
)
def test_an_item_is_added_to_a_list_once_and_taken_from_it(operation: Operation, value: str, after: str) -> None:
    assert changed((), Change(POLICY, operation, value)) == ((POLICY, after),)
    assert changed(((POLICY, "delete"),), Change(POLICY, operation, value)) == ((POLICY, after),)


def test_a_group_has_settings_of_its_own() -> None:
    state = state_with(LED, of_a_group=((SESSION, "45000"),))
    assert MACHINE.settings_of(state, GROUP) == ((SESSION, "45000"),)


def test_one_broker_has_no_number_of_its_own_whatever_else_is_changed() -> None:
    both = (Change(MIN_INSYNC, Operation.SET, "1"), Change(THREADS, Operation.SET, "1"))
    assert MACHINE.change_error(ONE_BROKER, both) is Error.INVALID_CONFIG


def test_only_to_a_list_items_are_added() -> None:
    def error(name: str) -> Error:
        return MACHINE.change_error(TOPIC, (Change(name, Operation.APPEND, "compact"),))

    assert (error(POLICY), error(RETENTION)) == (Error.NONE, Error.INVALID_CONFIG)


@pytest.mark.parametrize(("is_whole", "error"), [(False, Error.INVALID_REQUEST), (True, Error.NONE)])
def test_operations_that_are_only_checked_name_each_setting_once(is_whole: bool, error: Error) -> None:
    request = CheckSettings(TOPIC, ((POLICY, "delete"), (POLICY, "compact")), is_whole)
    assert request.error(MACHINE, state_with(LED)) is error


def test_one_broker_is_asked_for_everything_that_it_may_have() -> None:
    machine = Administration(settings=(THREADS,))
    asked = [one.changes for one in AlterSettings.candidates(machine, state_with(LED)) if one.resource == ONE_BROKER]
    assert (Change(THREADS, Operation.SET, "0"),) in asked


# --- leaders and replicas --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "elected"),
    [
        (attrs.evolve(LED, leader=NONE), (1, False)),
        (attrs.evolve(LEADERLESS, elr=frozenset({1})), (1, False)),
        (attrs.evolve(LEADERLESS, last_known_leader=1), (1, True)),
        (attrs.evolve(LEADERLESS, last_known_leader=1, isr=frozenset({0})), (NONE, False)),
        (attrs.evolve(LEADERLESS, last_known_leader=1, elr=frozenset({0})), (NONE, False)),
        (attrs.evolve(LEADERLESS, replicas=(1,)), (1, True)),
        (attrs.evolve(LEADERLESS, replicas=(1, 2)), (NONE, False)),
    ],
    ids=["in sync", "eligible", "last", "one is in sync", "one is eligible", "alone", "any other"],
)
def test_it_is_said_who_is_elected_and_whether_uncleanly(partition: Partition, elected: tuple[int, bool]) -> None:
    state = state_with(partition, live=(False, True, True))
    assert MACHINE.elect(state, partition, is_unclean_allowed=False) == elected


def test_a_reassignment_that_is_none_does_not_end() -> None:
    partition = attrs.evolve(LED, last_known_leader=2)
    assert MACHINE.completed(partition) is partition


def test_a_reassignment_is_cancelled_though_records_are_lost_where_that_is_accepted() -> None:
    partition = attrs.evolve(MOVES, leader=2, isr=frozenset({2}))
    for settings, may in (((), False), (((UNCLEAN, "true"),), True)):
        state = state_with(partition, settings=settings)
        (topic,) = properties.topics(state)
        assert MACHINE.may_cancel(state, topic, partition) is may


def test_no_topic_grows_of_which_any_replica_moves() -> None:
    assert MACHINE.growth_error(Topic(1, (LED, MOVES)), 3) is Error.REASSIGNMENT_IN_PROGRESS


def test_who_grows_a_topic_names_the_replicas_of_each_new_partition() -> None:
    state = state_with(LED)
    assert Grow(0, 3, ((0, 1),)).error(MACHINE, state) is Error.INVALID_REPLICA_ASSIGNMENT
    assert Grow(0, 3, ((0, 1), (1, 2))).error(MACHINE, state) is Error.NONE


# --- properties ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "of_all_brokers", "is_true"),
    [
        (attrs.evolve(LED, isr=frozenset({0}), elr=frozenset({1})), ((MIN_INSYNC, "2"),), True),
        (attrs.evolve(LED, isr=frozenset({0}), elr=frozenset({0})), ((MIN_INSYNC, "2"),), False),
        (attrs.evolve(LED, isr=frozenset({0}), elr=frozenset({1})), (), False),
    ],
    ids=["too few", "in sync too", "one is enough"],
)
def test_who_is_eligible_is_outside_an_isr_that_is_too_small(
    partition: Partition, of_all_brokers: Any, is_true: bool
) -> None:
    invariant = properties.invariants()["EligibleBelowMinIsr"]
    assert invariant(state_with(partition, of_all_brokers=of_all_brokers)) is is_true


def test_a_setting_that_there_is_not_is_no_valid_one() -> None:
    assert not properties.are_settings_valid(state_with(LED, settings=(("no.setting", "1"),)))


@pytest.mark.parametrize(
    "changes",
    [{"replicas": ()}, {"replicas": (0, 0, 1)}, {"elr": frozenset({2})}, {"adding": (2,)}, {"removing": (0, 1)}],
)
def test_replicas_are_not_legal(changes: dict[str, Any]) -> None:
    assert properties.is_legal(LED)
    partition = attrs.evolve(LED, **{"isr": frozenset(), **changes})
    assert not properties.is_legal(partition)


@pytest.mark.parametrize(
    ("action", "left", "holds_so"),
    [
        (AllocateBlock(0, is_last_process=True), 1, True),
        (AllocateBlock(0, is_last_process=False), 1, False),
        (AllocateBlock(7, is_last_process=True), 1, False),
        (AllocateBlock(0, is_last_process=True), 0, False),
        (Restart(0), 1, False),
    ],
)
def test_a_block_is_given_to_the_registered_process_of_a_broker(action: Any, left: int, holds_so: bool) -> None:
    assert holds("BlocksAreGivenOnce", state_with(LED, blocks=2), state_with(LED, blocks=left), action) is holds_so


@pytest.mark.parametrize("place", ["of_all_brokers", "of_a_broker", "of_a_group"])
def test_no_other_setting_changes_anywhere(place: str) -> None:
    action = AlterSettings(TOPIC, (Change(POLICY, Operation.SET, "compact"),))
    before = state_with(LED)
    assert holds("OtherSettingsStay", before, before, action)
    more: dict[str, Any] = {place: ((THREADS, "2"),)}
    assert not holds("OtherSettingsStay", before, attrs.evolve(before, **more), action)


def test_a_topic_grows_while_none_of_its_replicas_moves_and_as_wide_as_it_is() -> None:
    narrow = Partition((0,), 0, frozenset({0}))
    assert holds("NothingGrowsOnItsWay", state_with(LED), state_with(LED, LED, LED))
    assert not holds("NothingGrowsOnItsWay", state_with(LED), state_with(LED, LED, narrow))
    assert not holds("NothingGrowsOnItsWay", state_with(LED, MOVES), state_with(LED, MOVES, LED))


def test_a_topic_that_is_created_has_a_new_id() -> None:
    before = attrs.evolve(state_with(LED), topics=(None,))
    assert not holds("NamesAreNoIds", before, state_with(LED))
    assert holds("NamesAreNoIds", attrs.evolve(before, created=0), state_with(LED))
    assert holds("NamesAreNoIds", state_with(LED), state_with(MOVES)), "it is the same topic"


def test_another_topic_of_a_name_has_epochs_of_its_own() -> None:
    before = state_with(LED, settings=((MIN_INSYNC, "2"),))
    (topic,) = properties.topics(before)
    other = attrs.evolve(before, topics=(attrs.evolve(topic, number=2, settings=()),))
    assert holds("NumbersAreFenced", before, attrs.evolve(other, of_all_brokers=((MIN_INSYNC, "3"),)))
    same = state_with(LED)
    assert not holds("NumbersAreFenced", before, same)


def test_candidates_are_forgotten_where_loss_is_accepted() -> None:
    gone = attrs.evolve(LED, leader=NONE, isr=frozenset())
    assert not holds("CandidatesRemain", state_with(LED), state_with(gone), Restart(2))
    assert holds("CandidatesRemain", state_with(LED), state_with(gone, settings=((UNCLEAN, "true"),)), Restart(2))


@pytest.mark.parametrize(
    ("before", "after", "action", "may"),
    [
        (LED, attrs.evolve(LED, leader=2), JoinIsr(0, 0, 2), True),
        (LED, attrs.evolve(LED, leader=2), JoinIsr(0, 0, 1), False),
        (LED, attrs.evolve(LED, leader=2), Restart(2), False),
        (LEADERLESS, attrs.evolve(LED, leader=1), Restart(2), False),
        (attrs.evolve(LEADERLESS, last_known_leader=1), attrs.evolve(LED, leader=1), Restart(2), True),
        (LEADERLESS, attrs.evolve(LED, replicas=(1,), leader=1), Restart(2), True),
        (LED, attrs.evolve(LED, leader=2), ElectUncleanly(0, 0), True),
    ],
    ids=["joins", "another one joins", "no candidate", "not the last one", "the last one", "alone", "by an operator"],
)
def test_who_may_come_to_lead(before: Partition, after: Partition, action: Any, may: bool) -> None:
    assert holds("OnlyCandidatesLead", state_with(before), state_with(after), action) is may


def test_a_reassignment_without_a_leader_need_not_end() -> None:
    ends = properties.converging()["a reassignment with a leader ends"]
    assert not ends(state_with(MOVES))
    assert ends(state_with(attrs.evolve(MOVES, leader=NONE)))
