"""Brokers that an operator removes, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import PLENTY, Walk
from tidegauge.spec.bugs import unregistering
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata, ShrinkIsr
from tidegauge.spec.replication.extensions.shutdown import BeginShutdown, CleanStop, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.extensions.unregistering import (
    LearnBrokerEpoch,
    Rejoin,
    Unregister,
    Unregistering,
    is_unregistered,
)
from tidegauge.spec.replication.faults import Register, Restart, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import Error

BOUNDS = Bounds({**PLENTY, "Unregister": 9, "BeginShutdown": 9})


@pytest.fixture
def walk() -> Walk:
    extensions = (ControlledShutdown(), Unregistering())
    return Walk(Replication(brokers=3, max_records=3, min_insync_replicas=2, bounds=BOUNDS, extensions=extensions))


def test_a_leader_that_is_removed_leads_on_as_far_as_it_knows_and_its_proposals_are_refused(walk: Walk) -> None:
    walk.do(Unregister(0))
    assert (walk.state.controller.leader, walk.state.controller.isr) == (1, (1, 2))
    walk.do(Append(0), ShrinkIsr(0, (2,))).decide()
    assert walk.decisions() == [Error.STALE_BROKER_EPOCH]


def test_the_process_goes_on_under_its_old_epoch_until_it_learns_the_new_one(walk: Walk) -> None:
    walk.do(Unregister(0))
    assert not walk.enabled(Register(0)), "it has registered"
    heartbeat = Unfence(0).guard(walk.machine, walk.state)
    assert isinstance(heartbeat, Refusal)
    assert heartbeat.error is Error.BROKER_ID_NOT_REGISTERED
    walk.do(Rejoin(0))
    assert walk.state.replicas[0].broker_epoch == 0
    assert not walk.enabled(Unfence(0))
    walk.do(LearnBrokerEpoch(0, 2), ApplyMetadata(0), Unfence(0), ApplyMetadata(1)).fetch(0).decide().learn()
    assert walk.state.controller.isr == (0, 1, 2)


def test_it_may_learn_of_a_registration_that_is_forgotten_again(walk: Walk) -> None:
    walk.do(Unregister(0), Rejoin(0), Unregister(0), LearnBrokerEpoch(0, 2))
    assert is_unregistered(walk.state.controller, 0)
    assert not walk.enabled(LearnBrokerEpoch(0, 3)), "no process has that epoch"
    walk.do(Rejoin(0), LearnBrokerEpoch(0, 4))


def test_a_clean_stop_counts_for_nothing_once_the_broker_was_removed(walk: Walk) -> None:
    walk.do(BeginShutdown(1), StopUnasked(1))
    assert CleanStop.of(walk.state.replicas[1]).broker_epoch == 0
    walk.do(Unregister(1), Unregister(2), Restart(1), Register(1))
    assert 1 not in (*walk.state.controller.isr, *walk.state.controller.elr)


@pytest.mark.parametrize("name", ["unregistering", pytest.param("unregistering-shrink", marks=pytest.mark.deep)])
def test_explored_to_the_end_every_invariant_holds(name: str) -> None:
    found = explore(MODELS[name].machine, converges=True)
    assert found.holds, found.violations
    assert (found.cut, found.unreached) == (None, ())
    assert name not in COUNTS or counted(found) == COUNTS[name]


@pytest.mark.parametrize("bug", unregistering.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates
