"""Campaigns with members of a group that process exactly once: what they saw is valid, and what breaks it is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.impl.coordinators.transactions.messages import EndTxn
from tidegauge.impl.coordinators.transactions.metadata import TransactionMetadata
from tidegauge.impl.coordinators.transactions.rules import Request, Ruling, TransactionRules
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import Kind
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles
from tidegauge.model_tests.harness.simulation.group_campaign import SimulatedGroup, simulate_group
from tidegauge.model_tests.harness.simulation.group_goals import DECISIONS, OF_PLAIN_MEMBERS, decided
from tidegauge.model_tests.harness.simulation.group_goals import GOALS as OF_ALL_MEMBERS
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.simulation.processors import COMMITTED, GOALS, Outputs

R = TypeVar("R", bound=Request)
EAGER, COOPERATIVE, CONSUMERS, BOTH = 26, 4, 5, 3
"""Seeds of each protocol."""
DELETED = 18
MANY = 60


@cache
def holds(seed: int) -> SimulatedGroup:
    run = simulate_group(draw_group(seed, exactly_once=True))
    assert not run.failures, f"seed {seed}: {run.failures}"
    assert check(run.operations).of(seed) is Verdict.VALID
    return run


@pytest.mark.parametrize("seed", [EAGER, COOPERATIVE, CONSUMERS, BOTH])
def test_members_of_each_protocol_make_one_output_of_each_record(seed: int) -> None:
    run = holds(seed)
    assert run.sometimes[COMMITTED] > 5
    rows = list(run.operations)
    assert {row.kind for row in rows if row.transaction is not None} == {
        *(Kind.PRODUCE, Kind.DELIVER, Kind.COMMIT_OFFSETS, Kind.COMMIT),
    }
    assert run.transactions is not None
    assert run.transactions.events > 20, "what transaction coordinators decide is held against the specification"


def test_a_run_is_repeated_to_the_row() -> None:
    run, again = holds(BOTH), simulate_group(draw_group(BOTH, exactly_once=True))
    assert list(run.operations) == list(again.operations)
    assert run.trace == again.trace


def test_a_campaign_of_such_members_asks_for_nothing_that_they_never_do() -> None:
    run = holds(COOPERATIVE)
    assert not OF_PLAIN_MEMBERS & run.sometimes.keys()
    assert run.sometimes.keys() | OF_PLAIN_MEMBERS == {*OF_ALL_MEMBERS, *GOALS}
    plain = {decided(machine, kind): kind for machine, kinds in DECISIONS.items() for kind in kinds}
    made = {type(one.decision) for seed in (EAGER, COOPERATIVE, BOTH) for one in holds(seed).trace}
    assert not {goal for goal in OF_PLAIN_MEMBERS if plain[goal] in made}


@pytest.mark.deep
def test_many_runs_hold_and_see_all_that_such_members_see() -> None:
    seen = sum((Counter(holds(seed).sometimes) for seed in range(1, 1 + MANY)), Counter[str]())
    assert not {goal for goal in GOALS if not seen[goal]}


def test_outputs_are_held_against_the_inputs() -> None:
    outputs = Outputs({0: (0, 0), 1: (0, 1), 2: (0, 1), 3: (1, 0)})
    assert not outputs.faults([0, 1, 3], {0: 2, 1: 1}), "output 2 was aborted"
    assert outputs.faults([1, 2, 3], {0: 2, 1: 0}) == [
        "the record at offset 0 of partition 0 has 0 committed outputs",
        "the record at offset 1 of partition 0 has 2 committed outputs",
        "there is a committed output of offset 0 of partition 1, where no record is",
    ]


# --- what breaks it --------------------------------------------------------------------------------------------------


class TakesOffsetsOfAnyGeneration(GroupCoordinator):
    """Who commits in a transaction is believed, as before KIP-447."""

    def _commit_error(self, commit: Commit) -> tuple[ErrorCode, Mapping[tuple[str, int], ErrorCode]]:
        return (ErrorCode.none, {}) if commit.is_transactional else super()._commit_error(commit)


class TellsPendingOffsets(GroupCoordinator):
    """Who asks for a stable offset is told the one that a transaction is about to change."""

    def told(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        return super().told(key, require_stable=False)


@attrs.frozen
class FencesNoZombie(TransactionRules):
    """Who asks under an epoch that is over is taken for who has the present one."""

    def request_error(self, metadata: TransactionMetadata, request: Request) -> ErrorCode:
        return super().request_error(metadata, self._believed(metadata, request))

    def end_ruling(self, metadata: TransactionMetadata, request: EndTxn, new_id: int, now_ms: int) -> Ruling:
        if not self.is_end_repeated(metadata, request):
            request = self._believed(metadata, request)
        return super().end_ruling(metadata, request, new_id, now_ms)

    def _believed(self, metadata: TransactionMetadata, request: R) -> R:
        is_former = request.producer_id == metadata.producer_id and request.epoch < metadata.epoch
        believed: R = request._replace(epoch=metadata.epoch)  # type: ignore[assignment]
        return believed if is_former else request


ANY, PENDING, ZOMBIE = TakesOffsetsOfAnyGeneration, TellsPendingOffsets, FencesNoZombie


@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        (ANY, {Name.COMMIT_OF_FORMER_GENERATION}),
        (PENDING, {Name.DOUBLED_DELIVERY, Name.OFFSETS_OVERLAP}),
        (ZOMBIE, {Name.DOUBLED_DELIVERY, Name.OFFSETS_OVERLAP, Name.LOST_WRITE}),
    ],
)
def test_a_wrong_coordinator_is_found_by_what_members_saw(
    wrong: type[GroupCoordinator] | type[TransactionRules], seen: set[Name]
) -> None:
    """With that very seed the right ones hold."""
    run = broken(COOPERATIVE, wrong)
    assert {one.name for one in run.anomalies} >= seen
    assert any("has 2 committed outputs" in problem for problem in run.problems) is (Name.DOUBLED_DELIVERY in seen)
    assert run.transactions is not None
    assert run.transactions.holds is (wrong is not ZOMBIE), "its coordinator takes what the specification refuses"
    holds(COOPERATIVE)


@pytest.mark.parametrize("wrong", [ANY, PENDING])
def test_a_wrong_coordinator_of_kip_848_is_found_by_what_it_decides(wrong: type[GroupCoordinator]) -> None:
    options = draw_group(CONSUMERS, exactly_once=True)
    assert not simulate_group(options, OffsetRoles(coordinator=wrong), until_wrong=True).coordinated.holds


def broken(seed: int, wrong: type[GroupCoordinator] | type[TransactionRules]) -> SimulatedGroup:
    options = draw_group(seed, exactly_once=True)
    if issubclass(wrong, TransactionRules):
        return simulate_group(options, transaction_rules=wrong)
    return simulate_group(options, OffsetRoles(coordinator=wrong))


def test_a_group_that_is_deleted_by_what_may_be_committed_may_be_found_by_the_next_coordinator_or_not() -> None:
    """In this seed the deletion was written, its coordinator resigned, and the next one found it in the log."""
    holds(DELETED)
