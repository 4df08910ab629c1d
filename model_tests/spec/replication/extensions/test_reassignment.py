"""Reassignment, by hand and exhaustively; and what happens when one of its rules is wrong."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import reassignment
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.reassignment import (
    Assignment,
    CancelReassignment,
    Reassignment,
    StartReassignment,
    assigned,
)
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown, ShuttingDown
from tidegauge.spec.replication.faults import ExpireSession, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE

BOUNDS = Bounds(ShrinkIsr=1, ExpireSession=9, StartReassignment=9)


def walking(initial_replicas: tuple[int, ...], max_records: int) -> Walk:
    extensions = (Reassignment(initial_replicas),)
    return Walk(Replication(brokers=3, max_records=max_records, bounds=BOUNDS, extensions=extensions))


@pytest.fixture
def moving() -> Walk:
    """A partition on broker 0 with one committed record, on its way to brokers 1 and 2."""
    walk = walking((0,), max_records=3)
    return walk.do(Append(0), StartReassignment((1, 2)), *map(ApplyMetadata, range(3)))


def test_by_the_decision_that_ends_a_reassignment_one_that_is_to_stop_may_leave_and_no_other() -> None:
    machine = Replication(brokers=3, extensions=(ControlledShutdown(), Reassignment((0, 1, 2))))
    (ended,) = machine.initial()
    moving = attrs.evolve(ended, controller=with_part(ended.controller, Assignment((0, 1, 2), (2,), ())))
    holds = machine.step_invariants["CompletesInSync"]
    left = attrs.evolve(ended, controller=attrs.evolve(ended.controller, isr=(0, 1)))
    assert holds(moving, Append(0), ended)
    assert not holds(moving, Append(0), left)
    stopping = with_part(left.controller.sessions[2], ShuttingDown(asked=True))
    sessions = (*left.controller.sessions[:2], stopping)
    assert holds(moving, Append(0), attrs.evolve(left, controller=attrs.evolve(left.controller, sessions=sessions)))


def test_the_list_grows_first_and_the_old_replica_leads_on(moving: Walk) -> None:
    controller = moving.state.controller
    assert Assignment.of(controller) == Assignment((1, 2, 0), (1, 2), (0,))
    assert (controller.leader, controller.isr, controller.leader_epoch) == (0, (0,), 0)


def test_it_completes_with_the_last_of_the_target_in_sync_and_the_leader_moves(moving: Walk) -> None:
    moving.fetch(1).fetch(1).decide()
    assert moving.state.controller.isr == (0, 1)
    assert Assignment.of(moving.state.controller).adding == (1, 2)
    moving.do(ApplyMetadata(0)).fetch(2).fetch(2).decide()
    controller = moving.state.controller
    assert Assignment.of(controller) == Assignment((1, 2), (), ())
    assert (controller.leader, controller.isr) == (1, (1, 2))
    moving.do(ApplyMetadata(0), ApplyMetadata(1))
    assert moving.state.replicas[0].log == ()
    assert moving.state.replicas[0].leader == NONE
    assert len(moving.state.replicas[1].log) == 1


def test_a_cancelled_reassignment_deletes_what_was_copied(moving: Walk) -> None:
    moving.fetch(1).fetch(1).decide().do(CancelReassignment(), *map(ApplyMetadata, range(3)))
    controller = moving.state.controller
    assert (assigned(controller), controller.isr, controller.leader, controller.leader_epoch) == ((0,), (0,), 0, 1)
    assert moving.state.replicas[1].log == ()


def test_it_cannot_be_cancelled_once_only_added_replicas_are_in_sync(moving: Walk) -> None:
    moving.fetch(1).fetch(1).decide().do(ExpireSession(0))
    guard = CancelReassignment().guard(moving.machine, moving.state)
    assert guard == "only added replicas are known to have every committed record"
    moving.do(ApplyMetadata(1), ApplyMetadata(0), Unfence(0)).fetch(0).fetch(0).decide()
    moving.do(CancelReassignment())
    assert moving.state.controller.leader == 0


def test_a_list_that_only_shrinks_is_there_at_once_and_begins_a_leader_epoch() -> None:
    walk = walking((0, 1, 2), max_records=1)
    walk.do(StartReassignment((0, 1)))
    controller = walk.state.controller
    assert (Assignment.of(controller), controller.isr) == (Assignment((0, 1)), (0, 1))
    assert (controller.leader, controller.leader_epoch) == (0, 1)


def test_a_second_target_replaces_the_first() -> None:
    walk = walking((0,), max_records=1)
    walk.do(StartReassignment((0, 1)), StartReassignment((0, 2)))
    controller = walk.state.controller
    assert Assignment.of(controller) == Assignment((0, 2, 1), (2,), (1,))


def test_initial_replicas_that_no_partition_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"initial_replicas=\(0, 0\)"):
        explore(Replication(brokers=2, extensions=(Reassignment((0, 0)),)))


@pytest.mark.parametrize("name", ("reassignment-crash", "reassignment-back")[: amount(1, deep=2)])
def test_every_reachable_state_satisfies_every_invariant(name: str) -> None:
    exploration = explore(MODELS[name].machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached
    assert counted(exploration) == COUNTS[name]


@pytest.mark.parametrize("bug", reassignment.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates


def test_the_model_in_which_a_wrong_rule_shows_holds_with_the_right_one() -> None:
    bug = next(bug for bug in reassignment.BUGS if bug.name == "swaps_at_once")
    exploration = explore(bug.correct_machine())
    assert exploration.complete
    assert exploration.holds
