"""Logs that a disk damages, by hand and exhaustively."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.replication.walk import Walk
from tidegauge.spec.bugs import damage
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.parts import with_part
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata
from tidegauge.spec.replication.extensions.damage import Damage, Damaged, DamageLog, LoseEnd, RepairLog, damage_of
from tidegauge.spec.replication.extensions.shutdown import BeginShutdown, CleanStop, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.faults import Crash, Flush, Register, Restart, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import NONE, PartitionMetadata

EXTENSIONS = (ControlledShutdown(), Damage())
BOUNDS = Bounds(ExpireSession=9, Crash=9, BeginShutdown=9, DamageLog=9, LoseEnd=9)


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


def test_of_the_live_each_one_that_others_do_not_count_on_is_repaired(walk: Walk) -> None:
    repaired = walk.machine.converges["a damaged replica that follows is repaired"]
    for broker, is_right in ((0, True), (1, False), (2, False)):
        damaged = with_part(walk.state.replicas[broker], Damaged(0))
        assert repaired(walk.state.with_replica(broker, damaged)) is is_right, "0 leads"
    walk.do(Crash(2, 0))
    assert repaired(walk.state.with_replica(2, with_part(walk.state.replicas[2], Damaged(0)))), "2 is down"


@attrs.frozen
class RepairsTheEligible(Damage):
    """A broker repairs its replica once that is out of the ISR."""

    def not_repairable(self, metadata: PartitionMetadata, broker: int) -> str:
        return "it is in sync" if broker in metadata.isr else ""


def eligible_and_damaged(damage: Damage) -> Walk:
    """Broker 0 has led on with its damaged log until broker 1 was in sync, and has handed over to it."""
    extensions = (ControlledShutdown(), damage)
    walk = Walk(Replication(2, 1, min_insync_replicas=2, bounds=BOUNDS, extensions=extensions))
    walk.do(Append(0)).fetch(1).fetch(1).do(Crash(1, 1), Crash(0, 1), DamageLog(0, 0), Restart(0), Restart(1))
    walk.do(Register(1), Register(0), ApplyMetadata(0), Unfence(0), ApplyMetadata(0), ApplyMetadata(1), Unfence(1))
    walk.fetch(1).decide().learn().do(BeginShutdown(0))
    controller = walk.state.controller
    assert (controller.leader, controller.isr, controller.elr) == (1, (1,), (0,))
    return walk


def test_a_damaged_replica_that_may_be_elected_is_not_cut() -> None:
    walk = eligible_and_damaged(Damage())
    assert not walk.enabled(RepairLog(0))
    walk.do(Crash(0, 1), Restart(0), Register(0), RepairLog(0))
    assert 0 not in walk.state.controller.elr


def test_cutting_one_that_may_be_elected_loses_what_is_committed() -> None:
    with pytest.raises(AssertionError, match="LeaderCandidateCompleteness"):
        eligible_and_damaged(RepairsTheEligible()).do(RepairLog(0))


def test_a_sync_that_has_lied_voids_the_note_of_a_clean_stop_and_costs_what_was_flushed(walk: Walk) -> None:
    walk.do(Append(0), Append(0), Flush(0), StopUnasked(0))
    assert (walk.state.replicas[0].flushed, walk.enabled(LoseEnd(0, 2))) == (2, False)
    walk.do(DamageLog(0, 1), LoseEnd(0, 1))
    left = walk.state.replicas[0]
    assert (left.log_end_offset, left.flushed, damage_of(left)) == (1, 1, NONE)
    assert CleanStop.of(left).broker_epoch == NONE
    walk.do(Restart(0))
    assert not walk.enabled(LoseEnd(0, 0)), "it runs"


def test_a_broker_that_runs_or_has_no_records_is_not_damaged(walk: Walk) -> None:
    assert not walk.enabled(DamageLog(0, 0))
    walk.do(Crash(0, 0))
    assert not walk.enabled(DamageLog(0, 0))


@pytest.mark.parametrize(
    "machine",
    [
        MODELS["damage"].machine,
        pytest.param(MODELS["lying-sync"].machine, marks=pytest.mark.deep),
        pytest.param(
            Replication(extensions=EXTENSIONS, brokers=2, max_records=1, bounds=Bounds(Crash=1, DamageLog=1)),
            marks=pytest.mark.deep,
        ),
    ],
    ids=["after a clean stop", "after a sync that lied", "after a crash"],
)
def test_every_reachable_state_satisfies_every_invariant(machine: Replication) -> None:
    found = explore(machine, converges=True)
    assert (found.holds, found.cut, found.unreached) == (True, None, ()), found.violations


@pytest.mark.parametrize("bug", damage.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine(), converges=True)
    goals = () if found.convergence is None else tuple(lasso.goal for lasso in found.convergence.lassos)
    named = (*(violation.invariant for violation in found.violations), *goals)
    assert named, "it violates something"
    assert named[0] in bug.violates
