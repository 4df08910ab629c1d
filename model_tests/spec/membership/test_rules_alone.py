"""Rules of a replica that moves between directories, asked alone, in states that the small models do not reach."""

from __future__ import annotations

from typing import Any

import pytest

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.membership.moves import Moves, acknowledged_is_there
from tidegauge.spec.membership.moving import As, Disks, Fail, NamedLog, Names, Stage, Start

MACHINE = Moves(failures=2)
OWN = NamedLog(As.OWN, life=1)
FUTURE, LEFT = (NamedLog(kind, life=1, move=1) for kind in (As.FUTURE, As.LEFT))


def disks(*names: Names, **more: Any) -> Disks:
    """A replica in its first life whose logs have these names in the two directories, on stable storage too."""
    return Disks(names, names, **{"hosted": None, **more})


def test_what_was_acknowledged_is_gone_where_no_log_has_the_replicas_name() -> None:
    state = disks((), (FUTURE,), hosted=0, acknowledged=1)
    assert not acknowledged_is_there(state)


def test_a_second_directory_may_fail_though_the_controller_was_not_told_of_the_replica() -> None:
    state = disks((OWN,), (), hosted=0, made=True, known=None)
    assert MACHINE.guard(state, Fail(0)) == "no directory fails"
    assert MACHINE.guard(evolve(state, offline=frozenset({1}), failures=1), Fail(0)) == ""


def test_a_future_log_takes_no_name_that_another_log_of_its_directory_has() -> None:
    state = disks((LEFT,), (OWN, FUTURE), running=False, known=1)
    after = MACHINE.step(state, Start(None))
    assert after.hosted == 1
    assert after.names == ((LEFT,), (OWN,))


def test_a_replica_may_be_made_anew_where_no_directory_is_offline_whatever_was_left() -> None:
    state = disks((LEFT,), (), known=None)
    assert MACHINE.may_make(state)
    assert not MACHINE.may_make(evolve(state, offline=frozenset({1})))


@pytest.mark.parametrize("directory", [0, 1], ids=["the source", "the target"])
def test_a_move_whose_source_was_left_loses_the_replica_with_either_directory(directory: int) -> None:
    state = disks((LEFT,), (FUTURE,), hosted=0, known=0, source=0, moves=1, stage=Stage.LEAVING)
    after = MACHINE.step(state, Fail(directory))
    assert (after.hosted, after.is_lost, after.stage) == (None, True, Stage.NONE)


def test_only_a_broker_that_runs_keeps_a_replica_offline() -> None:
    kept = MACHINE.sometimes["a replica is kept offline, since it may have moved"]
    state = disks((LEFT,), (), known=0, offline=frozenset({1}))
    assert kept(state)
    assert not kept(evolve(state, running=False))
