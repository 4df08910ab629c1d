"""What the controller's decisions say in the log: brokers fenced, leaders elected, ISRs shrunk and expanded.

One decision may concern every partition of a broker. Of each kind of line `MOST_LINES` are logged for one decision,
then one with the number of the others.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from tidegauge.impl.controller.decision import LeaderElected, Proposal
from tidegauge.impl.controller.membership import HeartbeatResponse
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tidegauge.impl.partition.registration import NO_LEADER, PartitionRegistration
from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.checkpoints import encode_uuid
from tidegauge.impl.wire.primitives import topic_uuid

LOGGER: Final = logging.getLogger(__name__)

MOST_LINES: Final = 20
"""Of a kind, for one decision."""
DELETED: Final = "brokers delete its logs"


def log_decision(before: ClusterImage, proposal: Proposal[object]) -> None:
    """Log what a committed decision changes; `before` is the image on which it was made, not yet changed."""
    if not LOGGER.isEnabledFor(logging.ERROR):
        return
    lines = _Lines()
    for record in proposal.records:
        match record:
            case RegisterBrokerRecord():
                lines.log(logging.INFO, "broker registered", broker=record.broker_id, broker_epoch=record.broker_epoch)
            case BrokerRegistrationChangeRecord(fenced=True):
                lines.broker_leaves = proposal.image.is_shutting_down(record.broker_id)
                _log_fenced(lines, record, proposal.response)
            case BrokerRegistrationChangeRecord(fenced=False):
                lines.log(logging.INFO, "broker unfenced", broker=record.broker_id, broker_epoch=record.broker_epoch)
            case UnregisterBrokerRecord():
                lines.log(logging.INFO, "broker unregistered", broker=record.broker_id)
            case TopicRecord():
                lines.log(logging.INFO, "topic created", topic=record.name, topic_id=_shown(record.topic_id))
            case RemoveTopicRecord():
                lines.log(
                    logging.INFO, "topic deleted", topic_id=_shown(record.topic_id), next="brokers delete its logs"
                )
            case PartitionChangeRecord():
                _log_partition(lines, before, proposal.image, record)
    for election in proposal.elections:
        _log_election(lines, before, proposal.image, election)
    lines.end()


def _shown(topic_id: str) -> str:
    """A topic id in Kafka's form, as `partition.metadata` has it."""
    return encode_uuid(topic_uuid(topic_id))


def _log_fenced(lines: _Lines, record: BrokerRegistrationChangeRecord, response: object) -> None:
    """A broker asks for it in a heartbeat, to which the decision responds; else its session has expired."""
    if lines.broker_leaves:
        lines.log(logging.INFO, "broker left", broker=record.broker_id, why="controlled shutdown")
    else:
        lines.log(
            logging.WARNING,
            "broker fenced",
            broker=record.broker_id,
            broker_epoch=record.broker_epoch,
            why="it asked to be fenced" if isinstance(response, HeartbeatResponse) else "its session expired",
            next="it leads nothing until it heartbeats and has caught up",
        )


def _log_partition(lines: _Lines, before: ClusterImage, after: ClusterImage, record: PartitionChangeRecord) -> None:
    if record.isr is not None:
        _log_isr(lines, before, record, record.isr)
    if record.lost_replicas is None:
        return
    old, new = (image.partition(record.topic, record.partition) for image in (before, after))
    news = set(record.lost_replicas) - (old.lost_replicas if old is not None else set())
    if not news or new is None:
        return
    waits = new.leader == NO_LEADER and not new.isr and not new.elr
    lines.log(
        logging.ERROR,
        "replica lost",
        partition=f"{record.topic}-{record.partition}",
        broker=min(news),
        why="its broker no longer has its log, or has to cut it, since it is damaged",
        next=_next_of_leaderless(new) if waits else "it is elected after replicas that have their logs",
    )


def _next_of_leaderless(partition: PartitionRegistration | None) -> str:
    """What a partition without a leader waits for."""
    if partition is None or partition.isr or partition.elr:
        return "it has a leader again when one of its ISR or ELR returns"
    kept = [replica for replica in partition.replicas if replica not in partition.lost_replicas]
    if len(kept) > 1 and partition.last_known_leader not in kept:
        return f"of brokers {kept} nobody knows which has most: elect one uncleanly, or put the log back"
    return f"broker {(kept or [partition.last_known_leader])[0]} leads when it is alive"


def _log_isr(lines: _Lines, before: ClusterImage, record: PartitionChangeRecord, isr: tuple[int, ...]) -> None:
    old = before.partition(record.topic, record.partition)
    was = sorted(old.isr) if old is not None else []
    where = f"{record.topic}-{record.partition}"
    if set(was) - set(isr):
        lines.log(logging.INFO, "ISR shrunk", partition=where, before=was, isr=list(isr))
    else:
        lines.log(logging.INFO, "ISR expanded", partition=where, before=was, isr=list(isr))


def _log_election(lines: _Lines, before: ClusterImage, after: ClusterImage, election: LeaderElected) -> None:
    where = f"{election.topic}-{election.partition}"
    if election.leader == NO_LEADER and lines.broker_leaves:
        lines.log(logging.INFO, "last replica left", partition=where, next="the partition is offline until it returns")
    elif election.leader == NO_LEADER:
        lines.log(
            logging.WARNING,
            "partition offline",
            partition=where,
            leader_epoch=election.leader_epoch,
            why="no replica that has every committed record is alive",
            next=_next_of_leaderless(after.partition(election.topic, election.partition)),
        )
    elif election.unclean:
        lines.log(
            logging.ERROR,
            "unclean leader elected",
            partition=where,
            leader=election.leader,
            leader_epoch=election.leader_epoch,
            in_sync=_in_sync(before, election),
            why=_why_unclean(before, after, election),
            next="committed records that this leader lacks are lost: it says where its log ends (leader epoch begun), "
            "and each replica that returns how much of its log goes (committed records truncated)",
        )
    else:
        lines.log(
            logging.INFO,
            "leader elected",
            partition=where,
            leader=election.leader,
            leader_epoch=election.leader_epoch,
        )


def _in_sync(before: ClusterImage, election: LeaderElected) -> list[int] | None:
    """The replicas that have every committed record, none of which is alive; None where nobody knows of one."""
    old = before.partition(election.topic, election.partition)
    return None if old is None else sorted(old.isr | old.elr) or None


def _why_unclean(before: ClusterImage, after: ClusterImage, election: LeaderElected) -> str:
    old, new = (image.partition(election.topic, election.partition) for image in (before, after))
    if old is not None and new is not None and (lost := old.lost_replicas | new.lost_replicas):
        kept = set(new.replicas) - lost
        if kept == {election.leader}:
            return "no replica of its ISR or ELR is alive, and no other one has its log"
        if not kept:
            return "no replica has its log any more"
    if old is not None and old.leader == NO_LEADER and old.last_known_leader == election.leader:
        return "its ISR and ELR are empty, and this replica led it last; it has crashed or lost records since"
    return "no replica of its ISR or ELR is alive, and unclean election is allowed or was asked for"


class _Lines:
    """The lines of one decision, counted by kind."""

    def __init__(self) -> None:
        self.broker_leaves = False
        """Whether the decision lets a broker stop by controlled shutdown."""
        self._counts: Counter[tuple[int, str]] = Counter()

    def log(self, level: int, event: str, **details: object) -> None:
        """Log a line, unless there are enough of its kind."""
        if not LOGGER.isEnabledFor(level):
            return
        self._counts[level, event] += 1
        if self._counts[level, event] <= MOST_LINES:
            log_event(LOGGER, level, event, **details)

    def end(self) -> None:
        """Log how many lines of each kind were left out."""
        for (level, event), count in self._counts.items():
            if count > MOST_LINES:
                log_event(LOGGER, level, event, more_partitions=count - MOST_LINES)
