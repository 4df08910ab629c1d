"""Effects of a replica tell what has happened, all of it and nothing else: lockstep on cores checks each step."""

from __future__ import annotations

import pytest

from tidegauge.impl.partition import messages
from tidegauge.impl.partition.follower import Follower
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.registry import HARNESS

SEED = 5
WALKS = 20


def silent(kind: type[messages.Effect]) -> type[PartitionReplica]:
    class Silent(PartitionReplica):
        def take_effects(self) -> list[messages.Effect]:
            return [effect for effect in super().take_effects() if not isinstance(effect, kind)]

    return Silent


class WakesForNothing(PartitionReplica):
    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        self._effects.append(messages.HighWatermarkAdvanced(offset))


class ProposesTwice(PartitionReplica):
    def _propose(self, isr: frozenset[int]) -> None:
        super()._propose(isr)
        self._effects.append(messages.SendAlterPartition())


class StartsOverInSilence(PartitionReplica):
    def start_over(self, log_start_offset: int, log_start_epoch: int) -> None:
        known = len(self._effects)
        Follower.start_over(self, log_start_offset, log_start_epoch)
        del self._effects[known:]


class FetchesAsLeader(PartitionReplica):
    def fetch_request(self, broker_epoch: int) -> messages.FollowerFetch | None:
        return messages.FollowerFetch(self.broker_id, broker_epoch, self.leader_epoch, self.log_end_offset, -1, 0)


class ProposesAlways(PartitionReplica):
    def alter_partition_request(self, broker_epoch: int) -> messages.AlterPartitionRequest | None:
        return messages.AlterPartitionRequest(self.broker_id, broker_epoch, self.leader_epoch, self.partition_epoch, ())


class TakesNoDivergence(PartitionReplica):
    def receive_fetch_response(
        self, fetch: messages.FollowerFetch, response: messages.PartitionFetchResponse, now_ms: int
    ) -> bool:
        return super().receive_fetch_response(fetch, response, now_ms) and response.diverging_epoch is None


@pytest.mark.parametrize(
    ("machine", "replica", "words"),
    [
        ("replication", silent(messages.HighWatermarkAdvanced), "tells nobody of"),
        ("replication", silent(messages.LogEndAdvanced), "tells nobody of"),
        ("replication", silent(messages.LeadershipChanged), "tells nobody of"),
        ("replication", silent(messages.IsrChanged), "tells nobody of"),
        ("replication", silent(messages.SendAlterPartition), "tells nobody of"),
        ("retention", silent(messages.FollowerLogStartMoved), "tells nobody of"),
        ("retention", StartsOverInSilence, "tells nobody of"),
        ("replication", WakesForNothing, "which did not happen"),
        ("replication", ProposesTwice, "tells twice"),
        ("replication", FetchesAsLeader, "fetches from itself or nobody"),
        ("replication", ProposesAlways, "proposes nothing"),
        ("replication", TakesNoDivergence, "is not taken"),
    ],
)
def test_an_effect_that_is_missing_needless_or_doubled_is_a_difference(
    machine: str, replica: type[PartitionReplica], words: str
) -> None:
    assert words in _failure(machine, Roles(replica=replica))


def _failure(machine: str, roles: Roles) -> str:
    """The words of the first failure; replicas that fail before the first action fail so as well."""
    try:
        found = HARNESS[machine].first_failure(SEED, WALKS, roles=roles)
    except AssertionError as error:
        return str(error)
    return found.failure.words if found is not None and found.failure is not None else ""
