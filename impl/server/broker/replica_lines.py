"""What a broker's replicas say in the log about an election: where the leader's log ends, what a follower's log loses.

The controller knows no log's end. So an unclean election's loss is told by those who see it: the leader says where its
log ends as its leader epoch begins, and each follower how much of its own log goes because the leader has it not.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.server.broker.partition import Partition

LOGGER: Final = logging.getLogger(__name__)


class Extent(NamedTuple):
    """Where a replica's log begins and ends, and what of it the replica knows to be committed."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int


def extent_of(partition: Partition) -> Extent:
    """The extent of a replica's log at this moment."""
    log = partition.log
    return Extent(log.log_start_offset, log.log_end_offset, partition.replica.high_watermark)


def tell_leader_epoch(partition: Partition, before: int) -> None:
    """Say where the log of a new leader ends, unless the epoch before was this one, or there was none."""
    replica = partition.replica
    if replica.is_leader and replica.leader_epoch > max(before, 0):
        log_event(
            LOGGER,
            logging.INFO,
            "leader epoch begun",
            partition=f"{partition.topic}-{partition.index}",
            leader_epoch=replica.leader_epoch,
            log_end_offset=partition.log.log_end_offset,
            high_watermark=replica.high_watermark,
        )


def tell_truncation(partition: Partition, leader: int, had: Extent) -> None:
    """Say how many offsets of a follower's log are gone, if any are, and how many of them it knew to be committed."""
    end = partition.log.log_end_offset
    if end >= had.log_end_offset:
        return
    told = {
        "partition": f"{partition.topic}-{partition.index}",
        "leader": leader,
        "leader_epoch": partition.replica.leader_epoch,
        "log_end_offset": end,
        "before": had.log_end_offset,
        "offsets": had.log_end_offset - end,
    }
    known = min(had.high_watermark, had.log_end_offset) - end
    if known > 0:
        why = "the leader does not have them; as after an unclean election"
        log_event(LOGGER, logging.ERROR, "committed records truncated", **told, committed=known, why=why)
    else:
        why = "the leader does not have them; none was known here to be committed"
        log_event(LOGGER, logging.INFO, "log truncated", **told, why=why)
