"""A controller's decision, held against the records that it writes: what it says beside them follows from them.

The specification has no effects and no deadlines. A reader of the records alone has to come to the image that the
proposal has, and to the elections that it tells of; and the sessions are those of the brokers that are not fenced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import LeaderElected, Proposal
from tidegauge.impl.metadata.config_resources import ALL_BROKERS
from tidegauge.impl.metadata.image import ClusterImage, ControllerRegistration
from tidegauge.impl.metadata.records import MetadataRecord, PartitionChangeRecord
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS
from tidegauge.impl.partition.registration import PartitionRegistration

ENDPOINTS: Final = (("here", 9093), ("there", 9093))


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


def check_group(controller: Controller, proposal: Proposal[Any]) -> None:
    """Raise AssertionError unless a proposal means the same in a group of decisions that is committed as one."""
    ahead = controller.ahead()
    assert ahead.sessions is controller.sessions, "who decides ahead knows other sessions"
    ahead.expect(proposal)
    for image in (ahead.image, controller.rebased(proposal).image):
        assert image.offset == proposal.image.offset, "a group goes on from another offset"
        assert list(image.partitions()) == list(proposal.image.partitions()), "a group has other partitions"
        assert image.brokers == proposal.image.brokers, "a group has other brokers"


def check_taking_over(controller: Controller, records: Sequence[MetadataRecord], now_ms: int) -> None:
    """Raise AssertionError unless who takes over behind these records says who it is, where, and what goes for all.

    It says so once: where it is only if that is news. Another one of the same rules does it, and resigns.
    """
    successor = type(controller)(controller.node_id, controller.config)
    successor.replay(records)
    told = successor.image
    assert told.offset == len(records), "a controller has not read what others have decided"
    for epoch, endpoint in enumerate((*ENDPOINTS, *ENDPOINTS[1:]), told.controller_epoch + 1):
        known, proposal = told.controllers.get(controller.node_id), successor.take_over(epoch, now_ms, endpoint)
        here = ControllerRegistration(controller.node_id, *endpoint)
        has_setting = MIN_INSYNC_REPLICAS in told.broker_configs.get(ALL_BROKERS, {})
        count = 1 + (known != here) + (not has_setting)
        assert len(proposal.records) == count, f"{proposal.records} are written by who takes over at {endpoint}"
        successor.apply(proposal)
        assert told.controller_epoch == epoch, "a controller takes over in its own epoch"
        assert told.controllers[controller.node_id] == here, "brokers look for the controller elsewhere"
        assert MIN_INSYNC_REPLICAS in told.broker_configs[ALL_BROKERS], "brokers may have settings that differ"
        check_sessions(successor)
        for deadline in successor.sessions.values():
            wanted = now_ms + controller.config.broker_session_timeout_ms
            assert deadline == wanted, f"a session that expires at {deadline}, not {wanted}"
    successor.resign()
    assert successor.next_deadline_ms is None, "who has resigned has sessions"


def check_sessions(controller: Controller) -> None:
    """Raise AssertionError unless the brokers with a session are those that are not fenced, and expire in time."""
    sessions = controller.sessions
    unfenced = {broker.broker_id for broker in controller.image.unfenced_brokers()}
    assert set(sessions) == unfenced, f"{set(sessions)} have sessions, {unfenced} are not fenced"
    assert controller.next_deadline_ms == (min(sessions.values()) if sessions else None), "the next deadline"
    for now_ms in sorted({deadline - early for deadline in sessions.values() for early in (0, 1)}):
        expected = sorted(broker for broker, deadline in sessions.items() if deadline <= now_ms)
        assert controller.expired_sessions(now_ms) == expected, f"sessions that have expired at {now_ms}"
