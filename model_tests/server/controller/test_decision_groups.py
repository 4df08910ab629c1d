"""A request of many elements commits its decisions in groups: flushed once, in order, all or nothing of each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from kio.schema.delete_topics.v6 import request as deleting
from kio.schema.errors import ErrorCode as E
from kio.schema.incremental_alter_configs.v1 import request as altering
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.codec import decode_decisions
from tidegauge.impl.metadata.records import ConfigRecord, MetadataRecord, RemoveTopicRecord, TopicRecord
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.server.controller import decisions, node
from tidegauge.impl.server.controller.metadata_log import StoredMetadataLog
from tidegauge.impl.wire.primitives import TopicName, i8, millis
from tidegauge.model_tests.server.apis.test_topics import create, new
from tidegauge.model_tests.server.asking import asking
from tidegauge.model_tests.server.controller.test_decisions import Requests, SlowLog, image_of, slow_log
from tidegauge.model_tests.simulated import simulated

NAMES = [f"t{number}" for number in range(10)]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "GROUP", 4)
    monkeypatch.setattr(node, "StoredMetadataLog", SlowLog)


def create_all() -> Any:
    return create(*(new(name) for name in NAMES))


def delete_all() -> Any:
    named = tuple(deleting.DeleteTopicState(name=TopicName(name), topic_id=None) for name in NAMES)
    return deleting.DeleteTopicsRequest(topics=named, timeout=millis(5_000))


def alter_all() -> Any:
    change = altering.AlterableConfig(name="flush.ms", config_operation=i8(0), value="9")
    named = (
        altering.AlterConfigsResource(resource_type=i8(2), resource_name=name, configs=(change,)) for name in NAMES
    )
    return altering.IncrementalAlterConfigsRequest(resources=tuple(named), validate_only=False)


class Watched:
    """The flushes of a cluster's metadata log from now on, and what it has got."""

    def __init__(self, cluster: Cluster) -> None:
        log = cluster.controller.log
        assert isinstance(log, StoredMetadataLog)
        self.log = log
        self.begin = log.end_offset
        self.flushes = 0
        self._flush = log.log.flush
        log.log.flush = self.flush  # type: ignore[method-assign]

    def flush(self) -> int:
        self.flushes += 1
        return self._flush()

    def batches(self) -> list[list[MetadataRecord]]:
        """The records of each batch."""
        raw, position = self.log.log.read(self.begin, 1 << 20), 0
        found: list[list[MetadataRecord]] = []
        while position < len(raw):
            header = BatchHeader.parse(raw, position)
            batch = raw[position : position + header.size]
            found.append([record for _, record in decode_decisions(batch, header.base_offset)])
            position += header.size
        return found


def names(batch: Sequence[object]) -> list[str]:
    return [record.name for record in batch if isinstance(record, TopicRecord)]


@simulated
async def test_a_group_is_flushed_once_and_its_decisions_keep_their_order() -> None:
    async with asking(1) as (cluster, peer):
        await cluster.settle_metadata()
        watched = Watched(cluster)
        response = await peer.ask(create_all())
        assert [topic.error_code for topic in response.topics] == [E.none] * 10
        assert [names(batch) for batch in watched.batches()] == [NAMES[:4], NAMES[4:8], NAMES[8:]]
        assert watched.flushes == 3
        await cluster.settle_metadata()
        watched = Watched(cluster)
        response = await peer.ask(alter_all())
        assert [one.error_code for one in response.responses] == [E.none] * 10
        assert [sum(isinstance(one, ConfigRecord) for one in batch) for batch in watched.batches()] == [4, 4, 2]
        watched = Watched(cluster)
        response = await peer.ask(delete_all())
        assert [one.error_code for one in response.responses] == [E.none] * 10
        assert [sum(isinstance(one, RemoveTopicRecord) for one in batch) for batch in watched.batches()] == [4, 4, 2]
        assert set(cluster.controller.controller.image.topics) == {"t"}


@simulated
async def test_a_decision_of_a_group_is_made_on_what_those_before_it_will_have_left() -> None:
    async with asking(1) as (cluster, peer):
        response = await peer.ask(create(new("a.b"), new("bad name"), new("a_b"), new("c")))
        errors = [topic.error_code for topic in response.topics]
        assert errors == [E.none, E.invalid_topic_exception, E.invalid_topic_exception, E.none]
        assert "collides" in response.topics[2].error_message
        assert set(cluster.controller.controller.image.topics) == {"t", "a.b", "c"}


@simulated
async def test_a_group_with_many_records_takes_no_further_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "GROUP_RECORDS", 5)
    async with asking(1) as (cluster, peer):
        await cluster.settle_metadata()
        watched = Watched(cluster)
        await peer.ask(create(new("a", 4), new("b", 1), new("c", 1), new("d", 3), new("e", 1)))
        assert [names(batch) for batch in watched.batches()] == [["a"], ["b", "c", "d"], ["e"]]


@simulated
async def test_nothing_of_a_group_is_visible_before_it_is_committed_and_others_decide_between_groups() -> None:
    async with asking(2) as (cluster, peer), trio.open_nursery() as nursery:
        await cluster.settle_metadata()
        log = slow_log(cluster, writes_first=True)
        before, requests = image_of(cluster), Requests(cluster, nursery)
        nursery.start_soon(peer.ask, create_all())
        await wait_all_tasks_blocked()
        requests.create("other", "other", broker=1)
        await wait_all_tasks_blocked()
        assert image_of(cluster) == before
        assert requests.by_name == {}
        assert log.gate is not None
        log.gate.set()
        await wait_all_tasks_blocked()
        made = [name for name in cluster.controller.controller.image.topics if name in (*NAMES, "other")]
        assert made == [*NAMES[:4], "other", *NAMES[4:]]
        assert requests.by_name == {"other": E.none}


@pytest.mark.parametrize("at", ["append_as_leader", "flush"])
def test_a_log_that_refuses_a_group_ends_the_controller_with_nothing_of_it_applied(at: str) -> None:
    @simulated
    async def run() -> None:
        async with asking(1) as (cluster, peer), trio.open_nursery() as nursery:
            await cluster.settle_metadata()
            log = cluster.controller.log
            assert isinstance(log, StoredMetadataLog)
            works, errors = getattr(log.log, at), list[E]()
            calls = 0

            def second_fails(*args: object, **kwargs: object) -> object:
                nonlocal calls
                calls += 1
                if calls >= 2:
                    raise OSError("the disk is gone")
                return works(*args, **kwargs)

            setattr(log.log, at, second_fails)

            async def ask() -> None:
                errors.extend(topic.error_code for topic in (await peer.ask(create_all())).topics)

            nursery.start_soon(ask)
            await trio.sleep(1)
            assert cluster.controller.halted == "the metadata log cannot be written: the disk is gone"
            assert set(cluster.controller.controller.image.topics) == {"t", *NAMES[:4]}, "the first group"
            assert E.none not in errors, "not even of the first group: the response is of all"
            await cluster.restart_controller()
            assert set(cluster.controller.controller.image.topics) == {"t", *NAMES[:4]}, "what is not flushed is lost"
            await trio.sleep(10)
            nursery.cancel_scope.cancel()

    run()


@simulated
async def test_a_request_that_is_cancelled_while_its_group_is_committed_does_not_stop_that() -> None:
    async with asking(1) as (cluster, peer):
        await cluster.settle_metadata()
        log = slow_log(cluster, writes_first=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.ask, create_all())
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await peer.stream.aclose()
        await wait_all_tasks_blocked()
        assert log.gate is not None
        log.gate.set()
        await trio.sleep(1)
        image = cluster.controller.controller.image
        assert set(NAMES[:4]) <= set(image.topics)
        assert image.offset == log.end_offset
        assert cluster.controller.halted is None
