"""The published model of replication 3.5 with a rule taken out: what the explorer then finds says what it is for."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tidegauge.spec.published.replication35.actions import Replication35Action
from tidegauge.spec.published.replication35.control import ReceiveMetadataUpdate, SendAlterPartitionRequest
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.replication35.state import Brokers, Follower, State, is_among


@attrs.frozen
class CountedAsByTlc(Replication35):
    """Steps as TLC counts them: one for each reason why a broker needs an update, or a leader may send a request."""

    def candidates(self, state: State) -> list[Replication35Action]:
        found = super().candidates(state)
        return found + [each for each in found for _ in range(self._more_reasons(state, each))]

    def _more_reasons(self, state: State, action: Replication35Action) -> int:
        if type(action) is ReceiveMetadataUpdate:
            return self.reasons_to_update(state, action.broker, state.metadata_log[action.offset - 1]) - 1
        if type(action) is SendAlterPartitionRequest and not action.guard(self, state):
            request = action.request(self, state.brokers[action.broker])
            return int(is_among(state.messages, request) and is_among(state.processed, request))
        return 0


@attrs.frozen
class CountsTheRecordFetched(Replication35):
    """A leader counts the record that a follower fetches as its own: a member of the ISR lacks what is committed."""

    def replicated(self, follower: Follower) -> int:
        return follower.end + 1


@attrs.frozen
class ElectsOutsideTheIsr(Replication35):
    """The controller elects any unfenced replica: the leader lacks what is committed."""

    def electable(self, state: State, candidates: Brokers, unfenced: Iterable[int]) -> Brokers:
        return tuple(replica for replica in state.partition.replicas if replica in unfenced)


@attrs.frozen
class LosesTheLastReplica(Replication35):
    """The last member of the ISR may lose its log: it leads all the same once it is back."""

    def may_crash(self, state: State, broker: int) -> bool:
        return True
