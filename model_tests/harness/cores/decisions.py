"""A controller's decision, held against the records that it writes: what it says beside them follows from them.

The specification has no effects and no deadlines. A reader of the records alone has to come to the image that the
proposal has, and to the elections that it tells of; and the sessions are those of the brokers that are not fenced.
"""

from __future__ import annotations

from typing import Any

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import LeaderElected, Proposal
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import PartitionChangeRecord
from tidegauge.impl.partition.registration import PartitionRegistration


def check_decision(image: ClusterImage, proposal: Proposal[Any]) -> None:
    """Raise AssertionError unless a proposal that was made on this image says what its records say."""
    assert proposal.base_offset == image.offset, "a decision that is made on another image"
    replayed, told = image.draft(), list(proposal.elections)
    for record in proposal.records:
        changed = record if isinstance(record, PartitionChangeRecord) else None
        replayed.apply(record)
        if changed is None or changed.leader is None:
            continue
        new = replayed.partition(changed.topic, changed.partition)
        assert new is not None, "a partition that is changed exists"
        assert told, f"nobody is told of the election of {new.leader}"
        _check_election(told.pop(0), changed, new)
    assert not told, f"elections are told of that did not happen: {told}"
    assert proposal.image.offset == replayed.offset, "the image does not have the records"
    assert list(proposal.image.partitions()) == list(replayed.partitions()), "the image has other partitions"
    assert proposal.image.brokers == replayed.brokers, "the image has other brokers"


def _check_election(told: LeaderElected, record: PartitionChangeRecord, new: PartitionRegistration) -> None:
    expected = (record.topic, record.partition, new.leader, new.leader_epoch)
    assert told[:4] == expected, f"told of {told} where {expected} is elected"


def check_sessions(controller: Controller) -> None:
    """Raise AssertionError unless the brokers with a session are those that are not fenced, and expire in time."""
    sessions = controller.sessions
    unfenced = {broker.broker_id for broker in controller.image.unfenced_brokers()}
    assert set(sessions) == unfenced, f"{set(sessions)} have sessions, {unfenced} are not fenced"
    assert controller.next_deadline_ms == (min(sessions.values()) if sessions else None), "the next deadline"
    for now_ms in sorted({deadline - early for deadline in sessions.values() for early in (0, 1)}):
        expected = sorted(broker for broker, deadline in sessions.items() if deadline <= now_ms)
        assert controller.expired_sessions(now_ms) == expected, f"sessions that have expired at {now_ms}"
