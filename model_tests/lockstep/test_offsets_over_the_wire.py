"""A cluster does what the specification says of offsets, action by action, over the network, refusals included.

Coordinators die, give way and lose their replicas between any two steps. That a cluster shows each bug of the zoo is in
`test_shortest_counterexamples`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.log_entries import LogEntry
from tidegauge.impl.coordinators.groups.requests import Ruling
from tidegauge.impl.records.batches import NO_PRODUCER_ID
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.model_tests.harness.cluster.offsets import STEPS
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles
from tidegauge.model_tests.harness.counterexamples.files import Failure
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.model_tests.lockstep.test_offsets import (
    AbortsCountToo,
    DeletesWhatIsNotThere,
    ExpiresATickLate,
    ExpiresBesideAnOpenTransaction,
    ExpiresBesideWhatIsOnItsWay,
    TakesAnyGeneration,
    TellsWhatIsAboutToChange,
    TellsWhatIsNotStable,
    TheLastMarkerCounts,
    TombstonesLeaveWhatIsPending,
)
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.offsets.machine import Offsets

SEED = 1
WALKS = 6
WITHIN = 4
REGISTERED = HARNESS["offsets"]
OFTEN = attrs.evolve(REGISTERED, plan=attrs.evolve(REGISTERED.walk_plan(), forbidden_share=0.25))
"""The walks with something forbidden before every fourth action."""


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Offsets.action_types)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken: set[type[Action]] = set()
    refused = Counter[tuple[str, str]]()
    for found in OFTEN.walks(SEED, WALKS, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert taken == set(Offsets.action_types)
    assert set(refused) == {
        ("Commit", "ILLEGAL_GENERATION"),
        ("Commit", "UNKNOWN_MEMBER_ID"),
        ("CommitInTransaction", "ILLEGAL_GENERATION"),
        ("CommitInTransaction", "UNKNOWN_MEMBER_ID"),
        ("Delete", "GROUP_ID_NOT_FOUND"),
        ("Delete", "NON_EMPTY_GROUP"),
        ("FetchStable", "UNSTABLE_OFFSET_COMMIT"),
    }


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 104))
def test_many_walks_find_no_difference(seed: int) -> None:
    for found in OFTEN.walks(seed, 200, side=Side.CLUSTER, length=80):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


# --- what a broker may get wrong --------------------------------------------------------------------------------------


class ForgetsWhatItLoadsLast(GroupCoordinator):
    """The last batch of a log is not replayed before the next one is."""

    def replay(self, entries: Iterable[LogEntry]) -> None:
        waiting = getattr(self, "waiting", ())
        self.waiting = tuple(entries)
        super().replay(waiting)


class DropsWhatWaits(GroupCoordinator):
    """A commit is acknowledged and not kept in memory."""

    def committed(self, ruling: Ruling, base_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        super().committed(ruling if producer_id != NO_PRODUCER_ID else Ruling(), base_offset, producer_id)


class RespondsAtOnce(CoordinatorLog[GroupCoordinator]):
    """Nobody waits for the followers."""

    async def append(self, *args: Any, **kwargs: Any) -> ErrorCode:
        self._tasks.start_soon(partial(super().append, *args, **kwargs))
        return ErrorCode.none


WRONG = {
    **{
        wrong.__name__: OffsetRoles(offsets=wrong)
        for wrong in (TheLastMarkerCounts, AbortsCountToo, TombstonesLeaveWhatIsPending)
    },
    **{
        wrong.__name__: OffsetRoles(coordinator=wrong)
        for wrong in (
            ExpiresBesideAnOpenTransaction,
            ExpiresBesideWhatIsOnItsWay,
            ExpiresATickLate,
            TellsWhatIsNotStable,
            TellsWhatIsAboutToChange,
            TakesAnyGeneration,
            DeletesWhatIsNotThere,
            ForgetsWhatItLoadsLast,
            DropsWhatWaits,
        )
    },
    RespondsAtOnce.__name__: OffsetRoles(log=RespondsAtOnce),
}
FIRST = {
    "TheLastMarkerCounts": 22,
    "TombstonesLeaveWhatIsPending": 7,
    "ExpiresBesideAnOpenTransaction": 5,
    "ForgetsWhatItLoadsLast": 5,
}
"""The walk that shows it, where it is not the first: the search begins there."""


@pytest.mark.parametrize("name", WRONG)
def test_a_broker_with_one_wrong_rule_is_found_within_few_walks(name: str) -> None:
    first, roles = FIRST.get(name, 0), WRONG[name]
    found = OFTEN.first_failure(SEED, WITHIN, first=first, side=Side.CLUSTER, roles=roles)
    assert found is not None, f"nothing was noticed in {WITHIN} walks"
    assert found.failure is not None
    assert found.failure.expected.kind is Failure.DIFFERENCE
    assert OFTEN.walk(SEED, found.number, side=Side.CLUSTER).failure is None, "without it the walk shows nothing"
