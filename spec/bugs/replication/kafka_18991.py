"""KAFKA-18991: a follower acts on a response to a fetch of an earlier epoch."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import FetchResponse, Replica


@attrs.frozen
class AcceptsStaleResponse(Replication):
    """Only the offset was compared."""

    def accepts_fetch_response(self, follower: Replica, response: FetchResponse) -> bool:
        return response.request.offset == follower.log_end_offset


BUG = Bug(
    name="kafka_18991",
    title="stale diverging response truncates",
    reference="KAFKA-18991",
    mechanism="A response that was right in an earlier epoch arrives in a later one, when the log has moved on.",
    violates=("CommonPrefixKept", "LeaderCandidateCompleteness", "StrongIsr", "WeakIsr"),
    buggy=AcceptsStaleResponse,
    model=Replication(brokers=2, max_records=1, bounds=Bounds(ExpireSession=2)),
)
