"""Logs that a disk damages, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import damage
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.damage import Damage, DamageLog, RepairLog, damage_of
from tidegauge.spec.replication.extensions.shutdown import CleanStop, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.faults import Crash, Register, Restart
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE

EXTENSIONS = (ControlledShutdown(), Damage())
BOUNDS = Bounds(ExpireSession=9, Crash=9, BeginShutdown=9, DamageLog=9)


@pytest.fixture
def walk() -> Walk:
    return Walk(Replication(brokers=3, max_records=3, min_insync_replicas=2, bounds=BOUNDS, extensions=EXTENSIONS))


def test_damage_voids_the_note_of_a_clean_stop_and_outlives_processes(walk: Walk) -> None:
    walk.do(Append(0), StopUnasked(0))
    assert not walk.enabled(RepairLog(0))
    walk.do(DamageLog(0, 0))
    assert CleanStop.of(walk.state.replicas[0]).broker_epoch == NONE
    walk.do(Restart(0), Crash(0, 1), Restart(0))
    assert damage_of(walk.state.replicas[0]) == 0


def test_a_damaged_replica_is_repaired_when_it_knows_that_it_is_out_of_the_isr(walk: Walk) -> None:
    walk.do(Append(0), Crash(0, 1), DamageLog(0, 0), Restart(0))
    assert not walk.enabled(RepairLog(0)), "it leads, as far as it knows"
    walk.do(Register(0))
    assert walk.state.controller.leader == 1
    assert 0 not in (*walk.state.controller.isr, *walk.state.controller.elr)
    walk.do(RepairLog(0))
    assert (walk.state.replicas[0].log, damage_of(walk.state.replicas[0])) == ((), NONE)
    walk.do(ApplyMetadata(0))
    assert walk.state.replicas[0].leader == 1


def test_a_damaged_replica_follows_nobody_before_it_is_repaired(walk: Walk) -> None:
    walk.do(Append(0), Crash(0, 1), DamageLog(0, 0), Restart(0), Register(0), ApplyMetadata(0))
    assert walk.state.replicas[0].leader == NONE


def test_a_broker_that_runs_or_has_no_records_is_not_damaged(walk: Walk) -> None:
    assert not walk.enabled(DamageLog(0, 0))
    walk.do(Crash(0, 0))
    assert not walk.enabled(DamageLog(0, 0))


@pytest.mark.parametrize(
    "machine",
    [
        MODELS["damage"].machine,
        pytest.param(
            Replication(extensions=EXTENSIONS, brokers=2, max_records=1, bounds=Bounds(Crash=1, DamageLog=1)),
            marks=pytest.mark.deep,
        ),
    ],
    ids=["after a clean stop", "after a crash"],
)
def test_every_reachable_state_satisfies_every_invariant(machine: Replication) -> None:
    found = explore(machine, converges=True)
    assert (found.violations, found.cut, found.unreached) == ((), None, ())


@pytest.mark.parametrize("bug", damage.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates
