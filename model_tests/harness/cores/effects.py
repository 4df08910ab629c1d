"""Effects of a replica, held against what has changed in it.

The specification has no effects: they tell the shell what to look at again, and one that is missing leaves a request to
its timeout, one too many wakes it for nothing. Which there must be follows from the fields, before and after: so every
step of a lockstep checks them. So it is with what a replica would send if it were asked now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition import messages
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.partition.replica import PartitionReplica


class Told(NamedTuple):
    """The fields of a replica that effects tell of, as they were when its effects were last taken."""

    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    isr: frozenset[int]
    pending_isr: frozenset[int] | None
    log_starts: Mapping[int, int]
    """Of its followers."""


def told(replica: PartitionReplica) -> Told:
    """What a replica's effects have told by now."""
    return Told(
        replica.leader_epoch,
        replica.high_watermark,
        replica.log_end_offset,
        replica.isr,
        replica.pending_isr,
        {number: remote.log_start_offset for number, remote in replica.remote_replicas.items()},
    )


def check_effects(
    before: Told, replica: PartitionReplica, effects: Sequence[messages.Effect], *, appended: bool
) -> Told:
    """Raise AssertionError unless the effects tell what has changed, and nothing else; returns what is told now.

    `appended` says that the replica was asked to append: of what it fetched nobody is told.
    """
    now = told(replica)
    begins_epoch = now.leader_epoch != before.leader_epoch
    expected: list[messages.Effect] = []
    if begins_epoch:
        expected.append(messages.LeadershipChanged(replica.leader, replica.leader_epoch))
    elif now.isr != before.isr:
        expected.append(messages.IsrChanged(now.isr))
    if appended and now.log_end_offset > before.log_end_offset:
        expected.append(messages.LogEndAdvanced(now.log_end_offset))
    if now.high_watermark > before.high_watermark:
        expected.append(messages.HighWatermarkAdvanced(now.high_watermark))
    if now.pending_isr is not None and now.pending_isr != before.pending_isr:
        expected.append(messages.SendAlterPartition())
    if not begins_epoch:
        expected += [
            messages.FollowerLogStartMoved(number, offset)
            for number, offset in now.log_starts.items()
            if offset != before.log_starts.get(number, messages.UNKNOWN_OFFSET)
        ]
    if effects == expected:
        return now
    missing = [effect for effect in expected if effect not in effects]
    needless = [effect for effect in effects if effect not in expected]
    assert not missing, f"broker {replica.broker_id} tells nobody of {missing}"
    assert not needless, f"broker {replica.broker_id} tells of {needless}, which did not happen"
    assert len(effects) == len(expected), f"broker {replica.broker_id} tells twice of one of {effects}"
    return now


def takes_fetch_response(
    replica: PartitionReplica, fetch: messages.FollowerFetch, response: messages.PartitionFetchResponse
) -> bool:
    """Whether a replica is to say that it has taken the response: its fetch session goes on from there."""
    starts_over = response.error is ErrorCode.offset_out_of_range and response.log_start_offset >= 0
    return replica.accepts_fetch_response(fetch) and (response.error is ErrorCode.none or starts_over)


def check_requests(replica: PartitionReplica) -> None:
    """Raise AssertionError if a replica would fetch from nobody, or propose what it has not proposed."""
    follows = replica.leader not in (NO_LEADER, replica.broker_id)
    assert (replica.fetch_request(0) is not None) == follows, (
        f"broker {replica.broker_id} fetches from itself or nobody"
    )
    proposes = replica.is_leader and replica.pending_isr is not None
    assert (replica.alter_partition_request(0) is not None) == proposes, f"broker {replica.broker_id} proposes nothing"


def check_outcome(replica: PartitionReplica, appended: messages.Appended) -> None:
    """Raise AssertionError if a producer that asks now, however late, gets other words than the fields have."""
    leads = replica.is_leader and replica.leader_epoch == appended.leader_epoch
    enough = min(replica.config.min_insync_replicas, len(replica.replicas))
    expected: ErrorCode | None = ErrorCode.none
    if not leads:
        expected = ErrorCode.not_leader_or_follower
    elif replica.high_watermark < appended.end_offset:
        expected = None
    elif len(replica.isr) < enough:
        expected = ErrorCode.not_enough_replicas_after_append
    found = replica.append_outcome(appended)
    assert found is expected, f"broker {replica.broker_id} says {found} of {appended}, not {expected}"
