"""KAFKA-1211: a new follower truncates to its high watermark."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Replica


@attrs.frozen
class TruncateToHighWatermark(Replication):
    """The rule before KIP-101."""

    def truncation_on_becoming_follower(self, follower: Replica) -> int:
        return follower.high_watermark


BUG = Bug(
    name="kafka_1211",
    title="truncation to the high watermark",
    reference="KAFKA-1211, KIP-101",
    mechanism="A follower's high watermark lags behind the leader's; cutting there removes records that are committed.",
    violates=("LeaderCandidateCompleteness", "StrongIsr", "WeakIsr"),
    buggy=TruncateToHighWatermark,
    model=Replication(brokers=3, max_records=1, bounds=Bounds(ExpireSession=1)),
)
