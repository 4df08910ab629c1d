"""Log starts with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.replication.extensions.retention import HOLE, FollowerLogStart, LeaderLogStart, Retention
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
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
        missing = LeaderLogStart.of(response).offset - follower.log_end_offset
        return evolve(follower, log=(*follower.log, *(HOLE,) * missing))


@attrs.frozen
class TellsBeforeItIsWritten(Retention):
    """A follower tells its log start before it has written it down, as Kafka does."""

    def before_fetch(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        return replica


@attrs.frozen
class TruncatesToItsOwnStart(Retention):
    """A follower with nothing in common with its leader cuts its log at its own log start."""

    def after_response(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchResponse], Replica],
        follower: Replica,
        response: FetchResponse,
    ) -> Replica:
        if response.error is Error.OFFSET_OUT_OF_RANGE:
            return self.started_over(follower, response)
        return inner(follower, response)


@attrs.frozen
class TrustsEmptyLogs(Retention):
    """A log without records is taken for a prefix of every other, whatever its records were."""

    def diverging_epoch(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest], tuple[int, int] | None],
        leader: Replica,
        request: FetchRequest,
    ) -> tuple[int, int] | None:
        if request.offset == FollowerLogStart.of(request).offset:
            return None
        return super().diverging_epoch(machine, inner, leader, request)


def _model(records: int, bounds: Bounds) -> Replication:
    return Replication(brokers=2, max_records=records, bounds=bounds, extensions=(Retention(),))


BUGS: Final = (
    Bug(
        name="deletes_beyond_high_watermark",
        title="records deleted that are not committed",
        reference="KIP-107",
        mechanism="A log starts beyond its high watermark, so that followers start over beyond what is committed.",
        violates=("LogStartWithinCommitted",),
        buggy=DeletesBeyondHighWatermark,
        model=_model(1, Bounds(DeleteRecords=1)),
    ),
    Bug(
        name="keeps_records_below_gap",
        title="a log with a hole",
        reference="KIP-107",
        mechanism="A follower out of range keeps its records and goes on behind the gap.",
        violates=("NoHoles",),
        buggy=KeepsRecordsBelowGap,
        model=_model(1, Bounds(ExpireSession=1, DeleteRecords=1)),
    ),
    Bug(
        name="tells_before_it_is_written",
        title="deleted records that a crash brings back",
        reference="KIP-107; Apache Kafka writes log starts down once a minute",
        mechanism="A follower tells a log start that is not written down; a crash undoes what was done.",
        violates=("LowWatermarkIsTrue",),
        buggy=TellsBeforeItIsWritten,
        model=_model(2, Bounds(Crash=1, DeleteRecords=1)),
    ),
)
"""Each overrides a rule of `Retention`. `TruncatesToItsOwnStart` and `TrustsEmptyLogs` show in no small model."""
