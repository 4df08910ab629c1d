"""A leader's core does what the specification says of lag, action by action: who is dropped, and whose fetch rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import attrs
import pytest

from tidegauge.impl.partition.messages import UNKNOWN_OFFSET, FollowerFetch
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.partition.state import RemoteReplica
from tidegauge.model_tests.harness.cores.lag import STEPS
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.lag.machine import Lag

WALKS = 30
WITHIN = 20


def test_every_action_of_the_specification_has_a_step() -> None:
    assert set(STEPS) == set(Lag.action_types)


def test_random_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken = Counter[type[Action]]()
    refused = Counter[tuple[str, str]]()
    for found in HARNESS["lag"].walks(7, WALKS):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"
        taken.update(map(type, found.actions))
        refused.update(found.refused)
    assert set(taken) == set(Lag.action_types)
    assert min(taken.values()) >= 10, taken
    assert set(refused) == {("Shrink", "NONE")}


@pytest.mark.deep
def test_many_walks_find_no_difference() -> None:
    for found in HARNESS["lag"].walks(11, 1_000):
        assert found.failure is None, f"walk {found.number}: {found.failure.words}"


# --- what a core may get wrong ---------------------------------------------------------------------------------------


class ForgetsRests(PartitionReplica):
    def was_at_rest(self, fetch: FollowerFetch, at_ms: int) -> None:
        """Whatever was at rest, the leader goes by what it has looked at."""


class BelievesFormerProcesses(PartitionReplica):
    def was_at_rest(self, fetch: FollowerFetch, at_ms: int) -> None:
        known = self.remote_replicas.get(fetch.replica_id)
        super().was_at_rest(fetch if known is None else fetch._replace(broker_epoch=known.broker_epoch), at_ms)


class RestsOutsideTheIsr(PartitionReplica):
    def is_at_rest(self, fetch: FollowerFetch) -> bool:
        isr, self.isr = self.isr, frozenset(self.replicas)
        rests = super().is_at_rest(fetch)
        self.isr = isr
        return rests


class DropsAtTheLimit(PartitionReplica):
    def lagging_replicas(self, now_ms: int) -> frozenset[int]:
        return super().lagging_replicas(now_ms + 1)


class NeverQuiteThere(PartitionReplica):
    def update_follower(self, fetch: FollowerFetch, now_ms: int) -> None:
        for remote in self.remote_replicas.values():
            remote.leader_end_offset_at_last_fetch = 1 << 40
        super().update_follower(fetch, now_ms)


class KnowsWhoRests(PartitionReplica):
    def was_at_rest(self, fetch: FollowerFetch, at_ms: int) -> None:
        """Any broker that fetches is taken for a replica."""
        if fetch.leader_epoch == self.leader_epoch and fetch.broker_epoch == self._known(fetch).broker_epoch:
            super().was_at_rest(fetch, at_ms)

    def _known(self, fetch: FollowerFetch) -> RemoteReplica:
        return self.remote_replicas[fetch.replica_id]


class WaitsForTheDead(PartitionReplica):
    def low_watermark(self, live: Collection[int]) -> int:
        of_all = super().low_watermark(self.remote_replicas)
        return of_all if of_all != UNKNOWN_OFFSET else super().low_watermark(live)


WRONG = (
    ForgetsRests,
    BelievesFormerProcesses,
    RestsOutsideTheIsr,
    DropsAtTheLimit,
    NeverQuiteThere,
    KnowsWhoRests,
    WaitsForTheDead,
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_core_that_is_wrong_is_found(wrong: type[PartitionReplica]) -> None:
    assert HARNESS["lag"].first_failure(3, WITHIN, roles=attrs.evolve(Roles(), replica=wrong)) is not None
