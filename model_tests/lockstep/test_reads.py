"""Cores and clusters show and tell consumers what the specification says, by Consume and ListOffsets, and no more."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch, PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.cores.stored_log import StoredLog
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.spec.replication.extensions.reads import Consume, LearnLeader, ListLatest

WALKS: Final = 60
ON_CLUSTER: Final = 5
SEED: Final = 1


class ShowsTheWholeLog(PartitionReplica):
    def read(
        self,
        offset: int,
        max_bytes: int,
        leader_epoch: int | None = None,
        *,
        at_least_one: bool = True,
        only_leader: bool = True,
        read_committed: bool = False,
    ) -> PartitionFetchResponse:
        error = self.read_error(offset, leader_epoch, only_leader=only_leader)
        if error is not ErrorCode.none:
            return self._refusal(error)
        return self._response(self._records(offset, max_bytes, self.log_end_offset, at_least_one=at_least_one))


class TellsTooSoon(PartitionReplica):
    @property
    def knows_high_watermark(self) -> bool:
        return True


class AsksForNoEpoch(PartitionReplica):
    def client_error(self, leader_epoch: int | None, *, only_leader: bool = True) -> ErrorCode:
        return super().client_error(None, only_leader=only_leader)


class FollowersTell(PartitionReplica):
    def latest_offset(
        self, leader_epoch: int | None = None, *, only_leader: bool = True, read_committed: bool = False
    ) -> int | ErrorCode:
        return super().latest_offset(leader_epoch, only_leader=False, read_committed=read_committed)


class ShowsWhatItLacks(PartitionReplica):
    """It calls an offset beyond its log the end of it."""

    def read_error(self, offset: int, leader_epoch: int | None, *, only_leader: bool = True) -> ErrorCode:
        error = super().read_error(offset, leader_epoch, only_leader=only_leader)
        return ErrorCode.none if error is ErrorCode.offset_out_of_range else error


class TakesAllForCommitted(PartitionReplica):
    def receive_fetch_response(self, fetch: FollowerFetch, response: PartitionFetchResponse, now_ms: int) -> bool:
        ahead = response._replace(high_watermark=1 << 40) if response.error is ErrorCode.none else response
        return super().receive_fetch_response(fetch, ahead, now_ms)


MUTANTS: Final[tuple[type[PartitionReplica], ...]] = (
    ShowsTheWholeLog,
    TellsTooSoon,
    AsksForNoEpoch,
    FollowersTell,
    ShowsWhatItLacks,
    TakesAllForCommitted,
)


def reads() -> Registration:
    """Walks with something forbidden before every fourth action."""
    registration = HARNESS["reads"]
    return attrs.evolve(registration, plan=attrs.evolve(registration.walk_plan(), forbidden_share=0.25))


def test_cores_show_and_tell_what_the_machine_says() -> None:
    refused, taken = Counter[tuple[str, str]](), Counter[str]()
    for found in reads().walks(SEED, amount(25, deep=WALKS)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        refused.update(found.refused)
        taken.update(action.name for action in found.actions)
    assert {kind.__name__ for kind in (Consume, LearnLeader, ListLatest)} <= set(taken)
    for error in ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"):
        assert refused["Consume", error]
        assert refused["ListLatest", error]
    assert refused["Consume", "OFFSET_OUT_OF_RANGE"]
    assert refused["ListLatest", "NOT_LEADER_OR_FOLLOWER"]


def test_stored_logs_show_the_same() -> None:
    for found in reads().walks(SEED, 10, roles=Roles(log=StoredLog)):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


@pytest.mark.parametrize("replica", MUTANTS, ids=lambda kind: kind.__name__)
def test_cores_that_show_or_tell_otherwise_are_found(replica: type[PartitionReplica]) -> None:
    assert reads().first_failure(SEED, WALKS, roles=Roles(replica=replica)) is not None


def test_a_cluster_shows_and_tells_consumers_what_the_machine_says() -> None:
    taken = Counter[str]()
    for found in reads().walks(SEED, ON_CLUSTER, side=Side.CLUSTER):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(action.name for action in found.actions)
    assert {kind.__name__ for kind in (Consume, LearnLeader, ListLatest)} <= set(taken)


@pytest.mark.parametrize(
    "replica", [ShowsTheWholeLog, ShowsWhatItLacks, AsksForNoEpoch], ids=lambda kind: kind.__name__
)
def test_a_cluster_that_shows_or_tells_otherwise_is_found(replica: type[PartitionReplica]) -> None:
    assert reads().first_failure(SEED, ON_CLUSTER, side=Side.CLUSTER, roles=Roles(replica=replica)) is not None


@pytest.mark.deep
@pytest.mark.parametrize(("side", "walks"), [(Side.CORES, 3_000), (Side.CLUSTER, 300)])
def test_many_walks_find_no_difference(side: Side, walks: int) -> None:
    for found in reads().walks(100, walks, side=side):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
