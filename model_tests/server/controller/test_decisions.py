"""The controller over a slow metadata log: nothing is visible before it is committed, and decisions wait their turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode as E
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.records import ControllerEpochRecord, MetadataRecord
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.controller import node
from tidegauge.impl.server.controller.decisions import Decisions
from tidegauge.impl.server.controller.metadata_log import StoredMetadataLog
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.model_tests.server.apis.test_topics import create, new
from tidegauge.model_tests.server.asking import asking
from tidegauge.model_tests.simulated import simulated


class SlowLog(StoredMetadataLog):
    """A log that commits when the test says so: before it has written a decision, or after."""

    gate: trio.Event | None = None
    """While it is there and not set, appends wait."""
    writes_first = False
    refusal: OSError | None = None
    uncommitted_from: int | None = None

    @property
    def end_offset(self) -> int:
        return super().end_offset if self.uncommitted_from is None else self.uncommitted_from

    async def append(self, records: Sequence[MetadataRecord]) -> int:
        if self.gate is None:
            return await super().append(records)
        if self.writes_first:
            end_offset = self.end_offset
            await super().append(records)
            self.uncommitted_from = end_offset
        await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal
        self.uncommitted_from = None
        return self.end_offset if self.writes_first else await super().append(records)

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        return self.log.read(offset, max_bytes, self.end_offset) if offset < self.end_offset else b""


@pytest.fixture(autouse=True)
def slow_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "StoredMetadataLog", SlowLog)


def slow_log(cluster: Cluster, *, writes_first: bool) -> SlowLog:
    """The controller's log, which commits nothing from now on."""
    log = cluster.controller.log
    assert isinstance(log, SlowLog)
    log.gate, log.writes_first = trio.Event(), writes_first
    return log


class Requests:
    """Requests in the background, and what came back by name."""

    def __init__(self, cluster: Cluster, nursery: trio.Nursery) -> None:
        self.by_name: dict[str, Any] = {}
        self._cluster = cluster
        self._nursery = nursery

    def create(self, name: str, topic: str, broker: int = 0) -> None:
        """Ask the controller for a topic, as this broker does."""

        async def ask() -> None:
            response = await self._cluster.broker(broker).controller.forward(create(new(topic)))
            self.by_name[name] = response.topics[0].error_code

        self._nursery.start_soon(ask)

    def heartbeat(self, name: str, *, want_shut_down: bool = False) -> None:
        """Let broker 1 renew its session, or ask to stop."""

        async def beat() -> None:
            broker = self._cluster.broker(1)
            offset = broker.metadata.image.offset
            response = await broker.controller.heartbeat(offset, want_shut_down=want_shut_down)
            self.by_name[name] = response.error_code

        self._nursery.start_soon(beat)


def image_of(cluster: Cluster) -> dict[str, object]:
    """All that the controller knows from its log."""
    image = cluster.controller.controller.image
    kept = ("offset", "brokers", "topics", "topic_names", "broker_configs", "client_quotas", "next_producer_id")
    return {name: getattr(image, name) for name in kept}


@pytest.mark.parametrize("writes_first", [False, True])
def test_nothing_is_visible_before_it_is_committed(writes_first: bool) -> None:
    @simulated
    async def run() -> None:
        async with asking(3) as (cluster, _), trio.open_nursery() as nursery:
            await cluster.settle_metadata()
            log = slow_log(cluster, writes_first=writes_first)
            before, known = log.end_offset, set(cluster.controller.controller.image.topics)
            requests = Requests(cluster, nursery)
            requests.create("created", "a")
            await wait_all_tasks_blocked()
            requests.create("second", "b")
            await wait_all_tasks_blocked()
            assert requests.by_name == {}, "a decision waits for the one before it"
            assert set(cluster.controller.controller.image.topics) == known
            assert await cluster.broker(2).controller.metadata_end(before) == before
            assert log.gate is not None
            log.gate.set()
            await wait_all_tasks_blocked()
            assert requests.by_name == {"created": E.none, "second": E.none}
            assert "a" in cluster.controller.controller.image.topics
            assert await cluster.broker(2).controller.metadata_end(before) == log.end_offset > before

    run()


@simulated
async def test_a_heartbeat_that_only_renews_a_session_waits_for_no_decision() -> None:
    """Brokers live on while a decision takes longer than their sessions last."""
    async with asking(3) as (cluster, _), trio.open_nursery() as nursery:
        await cluster.settle_metadata()
        log = slow_log(cluster, writes_first=False)
        requests = Requests(cluster, nursery)
        requests.create("created", "a")
        await wait_all_tasks_blocked()
        before = dict(cluster.controller.controller.sessions)
        await trio.sleep(1)
        for name in ("beat", "beat again"):
            requests.heartbeat(name)
            await wait_all_tasks_blocked()
        assert requests.by_name == {"beat": E.none, "beat again": E.none}
        assert cluster.controller.controller.sessions[1] > before[1]
        assert log.gate is not None
        log.gate.set()
        await wait_all_tasks_blocked()
        assert requests.by_name["created"] is E.none


@simulated
async def test_a_heartbeat_that_changes_more_waits_for_the_decision_before_it() -> None:
    async with asking(3) as (cluster, _), trio.open_nursery() as nursery:
        await cluster.settle_metadata()
        log = slow_log(cluster, writes_first=False)
        requests = Requests(cluster, nursery)
        requests.create("created", "a")
        await wait_all_tasks_blocked()
        requests.heartbeat("leave", want_shut_down=True)
        await wait_all_tasks_blocked()
        assert requests.by_name == {}
        assert log.gate is not None
        log.gate.set()
        await wait_all_tasks_blocked()
        assert requests.by_name == {"created": E.none, "leave": E.none}


@simulated
async def test_a_decision_is_made_on_what_the_one_before_it_has_left() -> None:
    async with asking(2) as (cluster, _), trio.open_nursery() as nursery:
        log = slow_log(cluster, writes_first=True)
        requests = Requests(cluster, nursery)
        for broker, name in enumerate(("first", "second")):
            requests.create(name, "a", broker)
            await wait_all_tasks_blocked()
        assert requests.by_name == {}
        assert log.gate is not None
        log.gate.set()
        await wait_all_tasks_blocked()
        assert requests.by_name == {"first": E.none, "second": E.topic_already_exists}


@simulated
async def test_a_log_that_refuses_a_decision_ends_the_controller_with_nothing_applied() -> None:
    async with asking(2) as (cluster, peer), trio.open_nursery() as nursery:
        log = slow_log(cluster, writes_first=False)
        log.refusal = OSError("no space left on device")
        before = image_of(cluster)
        nursery.start_soon(peer.ask, create(new("a")))
        await wait_all_tasks_blocked()
        assert log.gate is not None
        log.gate.set()
        await trio.sleep(1)
        assert cluster.controller.halted == "the metadata log cannot be written: no space left on device"
        assert image_of(cluster) == before
        await cluster.restart_controller()
        assert set(cluster.controller.controller.image.topics) == {"t"}
        nursery.cancel_scope.cancel()


@simulated
async def test_what_is_written_and_not_flushed_is_not_committed() -> None:
    async with asking(1) as (cluster, _):
        await cluster.settle_metadata()
        log = cluster.controller.log
        assert isinstance(log, SlowLog)
        before = log.end_offset
        seen: list[tuple[int, Sequence[MetadataRecord], bytes]] = []
        flush = log.log.flush

        def fail() -> int:
            seen.append((log.end_offset, log.read(before), log.read_batches(before, 1 << 20)))
            raise OSError("the disk is gone")

        log.log.flush = fail  # type: ignore[method-assign]
        with pytest.raises(OSError, match="the disk is gone"):
            await StoredMetadataLog.append(log, [ControllerEpochRecord(3000, 7)])
        assert log.log.log_end_offset == before + 1, "it was written"
        assert seen == [(before, [], b"")]
        assert (log.end_offset, log.read(before), log.read_batches(before, 1 << 20)) == seen[0]
        log.log.flush = flush  # type: ignore[method-assign]


@simulated
async def test_a_controller_that_ends_between_commit_and_apply_has_a_successor_with_the_same_image() -> None:
    async with asking(2) as (cluster, peer), trio.open_nursery() as nursery:
        log = slow_log(cluster, writes_first=True)
        crashed = cluster.controller
        nursery.start_soon(peer.ask, create(new("a", 3, 2)))
        await wait_all_tasks_blocked()
        assert "a" not in crashed.controller.image.topics
        log.uncommitted_from = None
        written = crashed.log.read(0)
        await cluster.restart_controller()
        successor = cluster.controller.controller.image
        assert "a" in successor.topics
        crashed.controller.replay(written[crashed.controller.image.offset :])
        assert crashed.controller.image.topics == {
            name: topic for name, topic in successor.topics.items() if name in ("t", "a")
        }
        nursery.cancel_scope.cancel()


@simulated
async def test_a_decision_that_is_being_committed_is_applied_though_its_request_is_cancelled() -> None:
    async with asking(2) as (cluster, _):
        controller, log = cluster.controller, slow_log(cluster, writes_first=True)

        async def delete() -> None:
            async with controller.decisions.turn() as turn:
                await turn.commit(turn.controller.topics.delete("t"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            assert log.gate is not None
            log.gate.set()
        assert controller.controller.image.topics == {}
        assert controller.controller.image.offset == log.end_offset
        assert controller.halted is None


@simulated
async def test_a_request_that_asks_for_a_turn_while_its_node_is_stopped_is_cancelled_and_no_failure() -> None:
    async with asking(1) as (cluster, _):
        node, tracer = cluster.controller, Tracer(None, 0, SimulatedClock())
        decisions = Decisions(node.controller, node.log, tracer, on_commit=lambda: None, on_failure=pytest.fail)
        decisions.end("the controller has stopped")
        with trio.CancelScope() as scope:
            scope.cancel()
            async with decisions.turn():
                raise AssertionError("a turn after the end")
        assert scope.cancelled_caught
        with pytest.raises(OSError, match="the controller has stopped"):
            async with decisions.turn():
                pass
