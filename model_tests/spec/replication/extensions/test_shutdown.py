"""Controlled shutdown, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import controlled_shutdown
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.shutdown import (
    BeginShutdown,
    ControlledShutdown,
    GiveUpWaiting,
    GrantShutdown,
    Stop,
)
from tidegauge.spec.replication.faults import ExpireSession, Register, Restart, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, Error

BOUNDS = Bounds(ExpireSession=9, Crash=9, BeginShutdown=9)


def walking(brokers: int = 3) -> Walk:
    return Walk(Replication(brokers=brokers, max_records=3, bounds=BOUNDS, extensions=(ControlledShutdown(),)))


def test_leadership_moves_first_and_the_broker_leaves_the_isr() -> None:
    walk = walking().do(BeginShutdown(0))
    controller = walk.state.controller
    assert (controller.leader, controller.isr, controller.leader_epoch) == (1, (1, 2), 1)
    assert not controller.sessions[0].fenced
    walk.do(GrantShutdown(0), Stop(0))
    assert not walk.state.replicas[0].running


def test_a_broker_that_is_shutting_down_is_passed_over() -> None:
    walk = walking().do(BeginShutdown(1), ExpireSession(0))
    assert walk.state.controller.leader == 2


def test_a_broker_that_is_shutting_down_joins_no_isr() -> None:
    walk = walking().do(BeginShutdown(2), ApplyMetadata(0)).fetch(2).decide()
    (refusal,) = walk.state.network.alter_responses
    assert refusal.error is Error.INELIGIBLE_REPLICA


def test_the_last_of_the_isr_waits_for_somebody_to_join_and_then_hands_over() -> None:
    walk = walking(brokers=2).do(Append(0), ExpireSession(1), ApplyMetadata(1), Unfence(1))
    walk.do(ApplyMetadata(0), BeginShutdown(0))
    assert (walk.state.controller.leader, walk.state.controller.isr) == (0, (0,))
    assert "others may join" in GrantShutdown(0).guard(walk.machine, walk.state)
    walk.fetch(1).fetch(1).decide()
    assert (walk.state.controller.leader, walk.state.controller.isr) == (1, (1,))
    walk.do(GrantShutdown(0))


def test_the_last_of_the_isr_leaves_last_and_is_eligible_when_it_is_back() -> None:
    walk = walking(brokers=2).do(Append(0), ExpireSession(1), BeginShutdown(0), GrantShutdown(0), Stop(0))
    assert (walk.state.controller.leader, walk.state.controller.elr) == (NONE, (0,))
    walk.do(Restart(0), Register(0))
    assert walk.state.controller.elr == (0,)
    walk.do(ApplyMetadata(0), Unfence(0))
    assert walk.state.controller.leader == 0
    assert not walk.state.history.unsettled
    assert len(walk.state.replicas[0].log) == 1


def test_a_broker_that_has_waited_long_enough_leaves_last() -> None:
    walk = walking(brokers=2).do(ExpireSession(1), ApplyMetadata(1), Unfence(1), BeginShutdown(0))
    walk.do(GiveUpWaiting(0), Stop(0))
    assert (walk.state.controller.leader, walk.state.controller.elr) == (NONE, (0,))


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(MODELS["controlled-shutdown"].machine, marks=pytest.mark.deep),  # in each `verify`
        Replication(
            extensions=(ControlledShutdown(),),
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(BeginShutdown=1),
        ),
    ],
    ids=["while the ISR changes", "with eligible leaders"],
)
def test_every_reachable_state_satisfies_every_invariant(machine: Replication) -> None:
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached


@pytest.mark.deep
@pytest.mark.parametrize("min_insync_replicas", [1, 2])
def test_a_crash_before_during_or_after_a_shutdown_loses_nothing(min_insync_replicas: int) -> None:
    """330,929 states in 50 seconds of CPU, and 1,351,851 in 240."""
    machine = Replication(
        extensions=(ControlledShutdown(),),
        brokers=2,
        max_records=1,
        min_insync_replicas=min_insync_replicas,
        bounds=Bounds(Crash=1, BeginShutdown=1),
    )
    exploration = explore(machine, converges=True)
    assert exploration.complete
    assert exploration.holds, exploration.violations[0]
    assert not exploration.unreached


@pytest.mark.parametrize("bug", controlled_shutdown.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates
