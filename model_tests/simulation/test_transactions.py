"""Campaigns with transactions: what clients saw is exactly once, and a cluster that breaks that is found out."""

from __future__ import annotations

from unittest.mock import patch

import attrs
import pytest

from tidegauge.impl.client import requests
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.coordinators.groups.offsets import GroupOffsets
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.server.broker.marker_sender import MarkerSender
from tidegauge.impl.storage.transaction_index import TransactionIndex
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import Kind, Outcome
from tidegauge.model_tests.harness.simulation.options import Losses, Options
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate
from tidegauge.model_tests.harness.simulation.sometimes_of_transactions import GOALS
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting
from tidegauge.model_tests.harness.verification.campaigning import SEEDS_TO_SEE, summed

FAULTLESS = Options(
    seed=7,
    duration=1.0,
    transactions=1,
    partitions=2,
    producers=1,
    consumers=0,
    readers=0,
    pause_between_operations=0.04,
    losses=Losses.NONE,
)
"""Without faults."""
BRIEF = attrs.evolve(FAULTLESS, duration=0.5)
"""Half of it, in which each mistake below shows already."""


def holds(options: Options) -> Simulated:
    run = simulate(options)
    assert run.holds, "\n".join((*run.failures, f"reproduce: {run.reproduce}"))
    assert {TRANSACTION_STATE, CONSUMER_OFFSETS} <= {one.topic for one in run.validated}
    verdicts = check(run.operations)
    allowed = {Verdict.VALID, *([Verdict.UNKNOWN] if options.losses is Losses.ANY else [])}
    assert verdicts.of(run.seed) in allowed, f"{verdicts.anomalies}\nreproduce: {run.reproduce}"
    return run


def test_the_seed_in_which_a_zombie_took_for_undone_what_had_got_no_response_holds() -> None:
    run = holds(draw_transacting(1))
    assert run.reproduce == "tidegauge simulate --seed 1 --transactions"
    assert set(run.sometimes) == set(GOALS)


def test_a_run_without_faults_commits_aborts_fences_and_consumes_and_is_repeated_to_the_byte() -> None:
    run, again = holds(FAULTLESS), simulate(FAULTLESS, validated=False)
    rows = list(run.operations)
    assert run.digest == again.digest
    assert [str(row) for row in rows] == [str(row) for row in again.operations]
    assert {row.kind for row in rows if row.transaction is not None} == {
        *(Kind.PRODUCE, Kind.FETCH, Kind.COMMIT, Kind.COMMIT_OFFSETS),
    }
    assert sum(row.kind is Kind.COMMIT and row.outcome is Outcome.OK for row in rows) > 20
    assert sum(row.kind is Kind.READ_OFFSETS and row.found is not None for row in rows) > 2
    assert run.sometimes["a transaction was aborted by its producer"] > 2
    assert run.sometimes["a zombie was fenced"] > 0
    assert run.sometimes["a group's offset was committed in a transaction"] > 2
    assert run.sometimes == again.sometimes


@pytest.mark.parametrize("versions", [(1,), (2, 1, 2)])
def test_clients_of_each_version_hold_and_follow_between_two_transactions(versions: tuple[int, ...]) -> None:
    run = holds(attrs.evolve(BRIEF, transaction_versions=versions))
    assert run.sometimes["the version of the transactions protocol changed"] >= len(versions) - 1
    assert run.sometimes["a transaction was committed"] > 10


def test_a_producer_that_counts_from_zero_within_an_epoch_of_version_1_loses_records() -> None:
    """What the native producer did that took itself for one of version 2: its records were taken for repeats."""
    real = TransactionalProducer.end

    async def counts_anew(self: TransactionalProducer, timeout_ms: float | None, *, commit: bool) -> None:
        await real(self, timeout_ms, commit=commit)
        self._sequences.clear()

    with patch.object(TransactionalProducer, "end", counts_anew):
        run = simulate(attrs.evolve(BRIEF, transaction_versions=(1,)), validated=False)
    assert Name.INCONSISTENT_OFFSETS in {anomaly.name for anomaly in check(run.operations).anomalies}


class AcknowledgesUnwritten(MarkerSender):
    """Some markers are lost: they count as written, and are not."""

    async def _write_at(self, broker_id, marker, partitions, refused):  # type: ignore[no-untyped-def]
        if marker.epoch % 4 == 3:
            self._acknowledge(marker, set(partitions))
        else:
            await super()._write_at(broker_id, marker, partitions, refused)


def test_a_marker_that_is_lost_hangs_a_transaction_which_the_healed_cluster_shows() -> None:
    lost = patch("tidegauge.impl.server.broker.transactions.MarkerSender", AcknowledgesUnwritten)
    with lost, patch("tidegauge.model_tests.harness.simulation.simulation.CONVERGES_WITHIN", 2.0):
        run = simulate(attrs.evolve(BRIEF, seed=1), validated=False)
    assert any("has an open transaction of producer" in problem for problem in run.problems), run.problems


def test_a_read_committed_that_takes_aborted_records_is_seen_in_the_history() -> None:
    def all_of_them(batches, aborted):  # type: ignore[no-untyped-def]
        return ((position, header) for position, header in batches if not header.is_control)

    with patch.object(requests, "_visible", all_of_them):
        run = simulate(BRIEF, validated=False)
    assert Name.ABORTED_READ in {anomaly.name for anomaly in check(run.operations).anomalies}


@pytest.mark.parametrize(("counts", "name"), [(True, Name.FAILED_COMMIT_READ), (False, Name.COMMITTED_OFFSET_ORDER)])
def test_an_offset_that_counts_whatever_becomes_of_its_transaction_is_seen_in_the_history(
    counts: bool, name: Name
) -> None:
    real = GroupOffsets._end_transaction

    def ends(self: GroupOffsets, producer_id: int, *, is_commit: bool) -> None:
        real(self, producer_id, is_commit=counts)

    with patch.object(GroupOffsets, "_end_transaction", ends):
        run = simulate(BRIEF, validated=False)
    assert name in {anomaly.name for anomaly in check(run.operations).anomalies}


def test_a_last_stable_offset_that_nothing_holds_back_is_seen_in_the_trace_and_in_the_history() -> None:
    with patch("tidegauge.impl.partition.transactions.Transactions.first_undecided_offset", lambda *_: None):
        run = simulate(BRIEF)
    assert any("the last stable offset is" in failure for failure in run.failures), run.failures
    found = {anomaly.name for anomaly in check(run.operations).anomalies}
    assert found & {Name.PRECOMMITTED_READ, Name.READ_BEYOND_LSO, Name.ABORTED_READ}, found


def test_an_index_without_the_aborted_transactions_is_seen_in_the_trace() -> None:
    with patch.object(TransactionIndex, "append", lambda *_: None):
        run = simulate(BRIEF)
    assert any("the index of aborted transactions has" in failure for failure in run.failures), run.failures


def test_a_bug_is_switched_on_and_seen_in_the_trace() -> None:
    """Seed 5 shows it in a quarter of the time that seed 1 takes."""
    options = draw_transacting(5, "kafka_6119")
    run = simulate(options)
    assert attrs.evolve(options, bug=None) == draw_transacting(5)
    assert any(failure.startswith("coordinators: decision") for failure in run.failures), run.failures
    assert run.reproduce == "tidegauge simulate --seed 5 --transactions --bug kafka_6119"


def test_producer_state_that_a_marker_does_not_move_is_seen_in_the_trace() -> None:
    real = ProducerStates.take_in

    def keeps_epoch(self, header, base_offset, marker=None):  # type: ignore[no-untyped-def]
        before = self.entries.get(header.producer_id)
        epoch = None if before is None else before.epoch
        aborted = real(self, header, base_offset, marker)
        if header.is_control and epoch is not None:
            self.entries[header.producer_id].epoch = epoch
        return aborted

    with patch.object(ProducerStates, "take_in", keeps_epoch):
        run = simulate(BRIEF)
    assert any("the replica remembers epoch" in failure for failure in run.failures), run.failures


@pytest.mark.parametrize(
    ("levels", "seed"),
    [
        pytest.param(levels, seed, marks=[] if (levels, seed) == ((0,), 1) else [pytest.mark.deep])
        for levels in ((0,), (0, 2), (2, 0, 2), (1, 0))
        for seed in range(1, 11)
    ],
)
def test_a_campaign_holds_where_the_log_of_transactions_says_less(levels: tuple[int, ...], seed: int) -> None:
    """Level 0 of `transaction.version` writes values of version 0: one producer id, and no version of the client."""
    holds(attrs.evolve(draw_transacting(seed), transaction_versions=levels))


@pytest.mark.deep
def test_a_campaign_holds_and_reaches_every_goal() -> None:
    runs = [holds(draw_transacting(seed)) for seed in range(100, 100 + 5 * SEEDS_TO_SEE)]
    assert all(summed(run.sometimes for run in runs).values())
