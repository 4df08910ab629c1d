"""Consumers that are shown or told too much, with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Error, FetchResponse, Log, Replica

MOVED: Final = Replication(
    brokers=2, max_records=1, initial_leader=1, bounds=Bounds(PreferredElection=1), extensions=(Reads(),)
)
"""The leadership moves to a follower that is in sync, and does not know the high watermark yet."""


@attrs.frozen
class ShowsTheWholeLog(Reads):
    """A broker shows consumers what is not committed yet."""

    def shown(self, replica: Replica, offset: int) -> Log:
        return replica.log[offset:]


@attrs.frozen
class TellsTooSoon(Reads):
    """A new leader tells the latest offset by the high watermark that it had as a follower."""

    def knows_high_watermark(self, replica: Replica) -> bool:
        return True


@attrs.frozen
class AsksForNoEpoch(Reads):
    """A broker responds to a consumer that knows a later leader."""

    def epoch_error(self, replica: Replica, leader_epoch: int) -> Error:
        error = super().epoch_error(replica, leader_epoch)
        return Error.OK if error is Error.UNKNOWN_LEADER_EPOCH else error


@attrs.frozen
class FollowersTell(Reads):
    """A follower tells the latest offset."""

    def latest_error(self, replica: Replica, broker: int, leader_epoch: int) -> Error:
        error = super().latest_error(replica, broker, leader_epoch)
        return Error.OK if error is Error.NOT_LEADER_OR_FOLLOWER else error


@attrs.frozen(slots=False)
class TakesAllForCommitted(Replication):
    """A follower takes what it has fetched for committed."""

    def after_response(self, follower: Replica, response: FetchResponse) -> Replica:
        after = super().after_response(follower, response)
        if response.error or response.diverging_end_offset != NONE:
            return after
        return evolve(after, high_watermark=after.log_end_offset)


BUGS: Final = (
    Bug(
        name="shows_the_whole_log",
        title="consumers are shown what is not committed",
        reference="KIP-392",
        mechanism="What lies above the high watermark is shown, and the next leader may lack it.",
        violates=("CommittedRead",),
        buggy=ShowsTheWholeLog,
        model=MOVED,
    ),
    Bug(
        name="tells_too_soon",
        title="the latest offset goes back",
        reference="KAFKA-2334, KIP-207",
        mechanism="A new leader tells the high watermark that it had as a follower, below what its predecessor told.",
        violates=("LatestOffsetMonotone",),
        buggy=TellsTooSoon,
        model=MOVED,
    ),
    Bug(
        name="asks_for_no_epoch",
        title="a former leader responds to who knows the present one",
        reference="KIP-320",
        mechanism="A consumer that the new leader has told an offset is told a lower one by the old leader.",
        violates=("LatestOffsetMonotone",),
        buggy=AsksForNoEpoch,
        model=evolve(MOVED, bounds=Bounds(ExpireSession=1)),
    ),
    Bug(
        name="followers_tell",
        title="a follower tells the latest offset",
        reference="KIP-392",
        mechanism="A follower's high watermark lags: who was told the leader's sees the log grow shorter.",
        violates=("LatestOffsetMonotone",),
        buggy=FollowersTell,
        model=MOVED,
    ),
    Bug(
        name="takes_all_for_committed",
        title="a follower's high watermark runs ahead",
        reference="KIP-392",
        mechanism="A follower takes what it has fetched for committed, and shows it.",
        violates=("HighWatermarkIsCommitted",),
        buggy=TakesAllForCommitted,
        model=MOVED,
    ),
)
