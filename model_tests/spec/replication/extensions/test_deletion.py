"""Topics that are deleted, and those that have a deleted one's name, by hand and exhaustively."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.model_tests.spec.replication.walk import PLENTY, Walk
from tidegauge.spec.bugs import deletion
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.replication.actions import Append
from tidegauge.spec.replication.control import ApplyMetadata, ShrinkIsr
from tidegauge.spec.replication.extensions.deletion import (
    DeleteTopic,
    Deletion,
    FetchOfFormer,
    FormerLog,
    ProposalOfFormer,
    is_deleted,
)
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.faults import Crash, Register, Restart, Unfence
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import Error, Record

BOUNDS = Bounds({**PLENTY, "DeleteTopic": 1})


def walk(*former: int) -> Walk:
    extensions = (Reassignment((0, 1, 2)), Deletion(former))
    return Walk(Replication(brokers=3, max_records=4, bounds=BOUNDS, extensions=extensions))


def test_a_leader_that_does_not_know_it_leads_on_and_its_proposals_are_refused() -> None:
    one = walk().do(DeleteTopic(), Append(0), ShrinkIsr(0, (2,))).decide()
    assert one.decisions() == [Error.UNKNOWN_TOPIC_ID]
    one.do(ApplyMetadata(0))
    assert (one.state.replicas[0].leader, one.state.replicas[0].log) == (-1, ())
    assert is_deleted(one.state.replicas[0])


def test_a_broker_that_was_down_deletes_its_replica_when_it_is_back() -> None:
    one = walk().do(Append(0), Crash(1, 0), DeleteTopic(), Restart(1), Register(1), ApplyMetadata(1), Unfence(1))
    assert is_deleted(one.state.replicas[1])
    refusal = DeleteTopic().guard(one.machine, one.state)
    assert isinstance(refusal, Refusal)
    assert refusal.error is Error.UNKNOWN_TOPIC_OR_PARTITION


def test_a_former_log_goes_before_the_new_topic_counts_and_survives_a_crash_until_then() -> None:
    one = walk(1).do(Crash(1, 0))
    assert FormerLog.of(one.state.replicas[1]).log == (Record(0, 0),)
    one.do(Restart(1), Register(1), ApplyMetadata(1))
    assert (FormerLog.of(one.state.replicas[1]).log, one.state.replicas[1].log) == ((), ())


def test_what_is_of_the_former_topic_is_refused_by_its_id_though_each_epoch_is_right() -> None:
    one = walk(1).do(Append(0))
    machine, state = one.machine, one.state
    for kind in (FetchOfFormer, ProposalOfFormer):
        refused = machine.refused(state, kind)
        assert refused, f"no {kind.__name__} is attempted"
        assert {reason.error for _, reason in refused} == {Error.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("name", ["deletion", "recreation", pytest.param("recreation-crash", marks=pytest.mark.deep)])
def test_explored_to_the_end_every_invariant_holds(name: str) -> None:
    found = explore(MODELS[name].machine, converges=True)
    assert found.holds, found.violations
    assert (found.cut, found.unreached) == (None, ())
    assert counted(found) == COUNTS.get(name, counted(found))


@pytest.mark.parametrize("bug", deletion.BUGS, ids=lambda bug: bug.name)
def test_a_wrong_rule_is_found(bug: Bug[Replication]) -> None:
    found = explore(bug.machine())
    assert found.violations, f"nothing is violated in {found.distinct} states"
    assert found.violations[0].invariant in bug.violates


def test_every_property_is_violated_by_some_bug() -> None:
    violated = {explore(bug.machine()).violations[0].invariant for bug in deletion.BUGS}
    assert violated >= {"NothingOfTheFormerTopic", "DeletedIsNobodys", "DeletedLeavesNoLog", "DeletedForGood"}
