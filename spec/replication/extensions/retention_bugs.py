"""Log starts broken on purpose: in each machine one rule of `Retention` is exchanged, and an invariant falls."""

from __future__ import annotations

import attrs

from tidegauge.spec.replication.extensions.retention import HOLE, Retention
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Error, FetchRequest, FetchResponse, Replica


@attrs.frozen
class DeletesBeyondHighWatermark(Retention):
    """What is not committed may be deleted."""

    def deletion_limit(self, replica: Replica) -> int:
        return replica.log_end_offset


@attrs.frozen
class KeepsRecordsBelowGap(Retention):
    """A follower that is out of range goes on at the leader's log start and keeps what it had."""

    def started_over(self, follower: Replica, response: FetchResponse) -> Replica:
        missing = response.log_start - follower.log_end_offset
        return attrs.evolve(follower, log=(*follower.log, *(HOLE,) * missing))


@attrs.frozen
class TellsBeforeItIsWritten(Retention):
    """A follower tells its log start before it has written it down, as Kafka does."""

    def before_fetch(self, replica: Replica) -> Replica:
        return replica


@attrs.frozen
class TruncatesToItsOwnStart(Retention):
    """A follower with nothing in common with its leader cuts its log at its own log start."""

    def answered(self, follower: Replica, response: FetchResponse) -> Replica:
        if response.error is Error.OFFSET_OUT_OF_RANGE:
            return self.started_over(follower, response)
        return Replication.answered(self, follower, response)


@attrs.frozen
class TrustsEmptyLogs(Retention):
    """A log without records is taken for a prefix of every other, whatever its records were."""

    def diverging_epoch(self, leader: Replica, request: FetchRequest) -> tuple[int, int] | None:
        if request.offset == request.log_start:
            return None
        return super().diverging_epoch(leader, request)
