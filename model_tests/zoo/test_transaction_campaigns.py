"""Campaigns with transactions find the bugs that the table says they find."""

from __future__ import annotations

from collections.abc import Set

import pytest

from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import Marker
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition
from tidegauge.linearizability.check import check
from tidegauge.model_tests.bugs.transactions import TRANSACTION_BUGS
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting
from tidegauge.model_tests.zoo.transaction_campaigns import FOUND_WITHIN, NOT_FOUND


def shows(bug: str, seed: int) -> bool:
    """Whether a run with the bug fails."""
    run = simulate(draw_transacting(seed, bug))
    return not run.holds or bool(check(run.operations).anomalies)


def test_of_every_bug_the_table_says_where_campaigns_find_it_or_why_they_do_not() -> None:
    assert {*FOUND_WITHIN, *NOT_FOUND} == set(TRANSACTION_BUGS)
    assert not FOUND_WITHIN.keys() & NOT_FOUND.keys()


class CompletesNothing(TransactionCoordinator):
    """A coordinator that does not see that a transaction has all its markers."""

    def marker_written(self, marker: Marker, partitions: Set[TopicPartition], now_ms: int) -> None:
        if (complete := super().marker_written(marker, partitions, now_ms)) is not None:
            self.failed(complete)


def test_a_coordinator_of_another_class_takes_part_in_a_campaign() -> None:
    run = simulate(draw_transacting(1), validated=False, roles=TransactionRoles(coordinator=CompletesNothing))
    assert not run.holds


@pytest.mark.deep
@pytest.mark.parametrize("bug", FOUND_WITHIN)
def test_a_campaign_finds_the_bug(bug: str) -> None:
    assert any(shows(bug, seed) for seed in range(1, 1 + FOUND_WITHIN[bug])), f"{bug} went unnoticed"
