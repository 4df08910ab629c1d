"""What no walk sends to a replica, asked of it between two steps: what it says follows from its fields.

A walk tells a replica nothing twice, has one `min.insync.replicas`, and refuses a follower with one error alone. So
after each step one replica, each in its turn, is told what it knows already and what is older, or is refused with other
errors, or has another minimum. Nothing of this changes it; what would is done to a copy.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition import messages
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog

REFUSALS: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.offset_out_of_range,
    ErrorCode.kafka_storage_error,
)
"""Of a fetch; none has a log start with it."""


def check_known_metadata(replica: PartitionReplica, now_ms: int) -> None:
    """What a replica knows is no news, nor is what is older, whichever of the two epochs says so."""
    known = PartitionRegistration(
        replica.replicas, replica.leader, replica.leader_epoch, replica.partition_epoch, replica.isr
    )
    older = known._replace(leader=NO_LEADER, partition_epoch=known.partition_epoch - 1, isr=frozenset())
    newer = older._replace(partition_epoch=known.partition_epoch + 1)
    epoch = replica.controller_epoch
    for registration, controller_epoch in ((known, epoch), (older, epoch), (older, epoch + 1), (newer, epoch - 1)):
        learns = replica.apply_metadata(registration, controller_epoch, now_ms)
        assert not learns, f"broker {replica.broker_id} learns {registration} of controller epoch {controller_epoch}"


def check_refused(replica: PartitionReplica, now_ms: int) -> None:
    """A follower whose fetch is refused goes on as before; it starts over only where it is told."""
    fetch = replica.fetch_request(0)
    if fetch is None:
        return
    before = replica.log_end_offset, replica.high_watermark
    for error in REFUSALS:
        refusal = messages.PartitionFetchResponse(error, replica.leader, replica.leader_epoch)
        taken = replica.receive_fetch_response(fetch, refusal, now_ms)
        assert not taken, f"broker {replica.broker_id} says that it has taken {error.name}"
        assert (replica.log_end_offset, replica.high_watermark) == before, f"{error.name} changes a follower"


def check_starting_over(replica: PartitionReplica, now_ms: int) -> None:
    """A follower that is told where its leader's log starts starts over there, be it at the beginning."""
    fetch = replica.fetch_request(0)
    if fetch is None or not isinstance(replica.log, MemoryLog):
        return
    for start in (0, replica.log_end_offset + 1):
        another = copy(replica)
        another.log, another._effects = copy(replica.log), []
        error = ErrorCode.offset_out_of_range
        refusal = messages.PartitionFetchResponse(error, replica.leader, replica.leader_epoch, log_start_offset=start)
        assert another.receive_fetch_response(fetch, refusal, now_ms), f"a follower does not start over at {start}"
        found = another.log.log_start_offset, another.log_end_offset, another.high_watermark
        assert found == (start, start, start), f"a follower that starts over at {start} has {found}"


def check_minimums(replica: PartitionReplica, now_ms: int) -> None:
    """No `min.insync.replicas` asks for more members than there are replicas."""
    config, members, count = replica.config, len(replica.isr), len(replica.replicas)
    for least in range(1, count + 2):
        replica.config = messages.PartitionConfig(least, config.replica_lag_time_max_ms)
        lacks = members < min(least, count)
        assert replica.is_under_min_isr == lacks, f"{members} of {count} in sync, where {least} are asked for"
    replica.config = config


QUESTIONS: Final = (check_known_metadata, check_refused, check_starting_over, check_minimums)
"""What is asked, one after the other."""


def check_asked(replica: PartitionReplica, turn: int, now_ms: int) -> None:
    """Raise AssertionError if a replica says anything else than what its fields say, or does something."""
    QUESTIONS[turn % len(QUESTIONS)](replica, now_ms)
    assert not (effects := replica.take_effects()), f"broker {replica.broker_id} has effects of no news: {effects}"


def check_refusal(replica: PartitionReplica, response: messages.PartitionFetchResponse) -> None:
    """Raise AssertionError unless a response with an error names the leader, and where its log starts if that helps."""
    if response.error is ErrorCode.none:
        return
    wanted = messages.PartitionFetchResponse(response.error, replica.leader, replica.leader_epoch)
    if response.error is ErrorCode.offset_out_of_range:
        log = replica.log
        wanted = wanted._replace(log_start_offset=log.log_start_offset, log_start_epoch=log.log_start_epoch)
    assert response == wanted, f"broker {replica.broker_id} refuses a fetch with {response}, not {wanted}"
