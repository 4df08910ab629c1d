"""Simulated runs without a trace, in which idle partitions of fetch sessions come to rest: valid, and converging.

A broker with a trace looks at every partition of every fetch, for the trace has each of them. So runs that are
validated never have a partition at rest. The checker decides about the histories of these runs.
"""

from __future__ import annotations

import pytest

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.linearizability.check import Verdict, check
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.simulation.options import Fault, resting, sparse
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate

SEEDS = (49, 2, 0, 1, 3, 4, 5, 6)[: amount(3, deep=8)]
"""In 49 a leader cannot be reached while partitions that follow it are at rest; with 2 every fault is there."""
DEEP_SEEDS = range(1_000, 1_200)


def checked_run(seed: int) -> Simulated:
    run = simulate(resting(sparse(seed)))
    assert run.holds, run.failures
    verdicts = check(run.operations)
    assert verdicts.of(seed) is not Verdict.VIOLATED, verdicts.anomalies
    return run


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_whose_partitions_come_to_rest_is_valid_and_converges(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    roused: list[FollowerFetch] = []
    was_at_rest = PartitionReplica.was_at_rest

    def counted(self: PartitionReplica, fetch: FollowerFetch, at_ms: int) -> None:
        roused.append(fetch)
        was_at_rest(self, fetch, at_ms)

    monkeypatch.setattr(PartitionReplica, "was_at_rest", counted)
    run = checked_run(seed)
    assert not run.events, "no trace is kept: it would keep partitions from their rest"
    assert len(roused) > 5, "partitions come to rest and are roused, again and again"


@pytest.mark.deep
@pytest.mark.parametrize("seed", DEEP_SEEDS)
def test_many_seeds_whose_partitions_come_to_rest_are_valid_and_converge(seed: int) -> None:
    checked_run(seed)


def test_runs_with_rests_have_crashes_pauses_partitions_and_moves() -> None:
    drawn = {fault for seed in SEEDS for fault in resting(sparse(seed)).faults}
    assert drawn >= {Fault.CRASH, Fault.PAUSE, Fault.ISOLATE, Fault.EXPIRY, Fault.SHUTDOWN, Fault.REASSIGNMENT}
    assert Fault.UNCLEAN not in drawn
