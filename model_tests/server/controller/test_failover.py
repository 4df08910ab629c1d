"""Two controllers over one metadata log: who decides comes from the log, and brokers follow it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from unittest.mock import patch

import attrs
import pytest
import trio
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.errors import ErrorCode as E

from tidegauge.impl.cluster.hosts import SimulatedHost
from tidegauge.impl.controller.decision import Proposal
from tidegauge.impl.controller.topics import CreatedTopic
from tidegauge.impl.metadata.codec import encode_decision
from tidegauge.impl.metadata.log import Leadership, NotLeaderError
from tidegauge.impl.metadata.records import (
    ControllerEpochRecord,
    MetadataRecord,
    RegisterControllerRecord,
    UserScramCredentialRecord,
)
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC_ID
from tidegauge.impl.partition.messages import EpochEndOffset
from tidegauge.impl.ports.network import Address, Network
from tidegauge.impl.server.broker.active_controller import ActiveController
from tidegauge.impl.server.broker.controller_link import NotControllerError
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.decisions import Turn
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.pace import SLICE, Pace
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.primitives import BrokerId, i64, millis
from tidegauge.impl.wire.produce_messages import NodeEndpoint
from tidegauge.model_tests.server.apis.test_configs import quorum_of
from tidegauge.model_tests.server.apis.test_topics import create, new
from tidegauge.model_tests.server.asking import Asker, node_asker
from tidegauge.model_tests.simulated import simulated

FIRST, SECOND = 3000, 3001
SECRET = ClusterSecret("known to all nodes")


class SharedLog:
    """A metadata log that two nodes share, whose leader the test chooses."""

    def __init__(self) -> None:
        self.records: list[MetadataRecord] = []
        self.decisions: list[tuple[int, bytes]] = []
        """(base offset, batch) of each."""
        self.leadership = Leadership(-1, -1)
        self.changed = trio.Event()

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def elect(self, node_id: int) -> None:
        """Give the log another leader, in a new epoch."""
        self.leadership = Leadership(node_id, self.leadership.epoch + 1)
        changed, self.changed = self.changed, trio.Event()
        changed.set()


@attrs.define
class Member:
    """One node's view of the shared log."""

    log: SharedLog
    node_id: int
    start_offset: int = 0
    gate: trio.Event | None = None
    """While it is there and not set, appends wait."""

    @property
    def leadership(self) -> Leadership:
        return self.log.leadership

    @property
    def end_offset(self) -> int:
        return len(self.log.records)

    async def leadership_after(self, known: Leadership) -> Leadership:
        while self.log.leadership == known:
            await self.log.changed.wait()
        return self.log.leadership

    async def append(self, records: Sequence[MetadataRecord]) -> int:
        if self.gate is not None:
            await self.gate.wait()
        if self.log.leadership.leader_id != self.node_id:
            raise NotLeaderError("another node leads")
        self.log.decisions.append((self.end_offset, encode_decision(records, self.end_offset, 0)))
        self.log.records += records
        return self.end_offset

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        return self.log.records[offset:]

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        later = [base for base, _ in self.log.decisions if base > offset]
        end = later[0] if later else self.end_offset
        return b"".join(batch for base, batch in self.log.decisions if base < end and base >= offset) or next(
            (batch for base, batch in reversed(self.log.decisions) if base <= offset < self.end_offset), b""
        )

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        return EpochEndOffset(epoch, self.end_offset)

    async def check(self) -> None: ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Nodes:
    """Two controllers and a broker on a simulated host."""

    def __init__(self, host: SimulatedHost, nursery: trio.Nursery, settings: Mapping[str, str]) -> None:
        self.log = SharedLog()
        self._host = host
        self._nursery = nursery
        self._settings = settings
        self.controllers = {
            node_id: ControllerNode(self.node(f"controller-{node_id}", node_id), seed=1, log=Member(self.log, node_id))
            for node_id in (FIRST, SECOND)
        }

    def node(self, name: str, node_id: int) -> Node:
        clock = self._host.clock(name)
        return Node(
            id=node_id,
            network=self._host.network(name),
            disk=self._host.disk(name),
            clock=clock,
            tracer=Tracer(None, node_id, clock),
            directory=self._host.directory(name),
            listen=self._host.listen_address(name),
            cluster_id="two",
            secret=SECRET,
            config=ServerConfig.from_properties({"broker.heartbeat.interval.ms": 1_000, **self._settings}),
            randomness=self._host.randomness(name),
        )

    async def start(self, voters: Sequence[int]) -> None:
        for controller in self.controllers.values():
            await self._nursery.start(controller.run)
        addresses = [self.controllers[voter].address for voter in voters]
        self.broker = Broker(self.node("broker-0", 0), addresses)
        await self._nursery.start(self.broker.run)

    def network(self, name: str) -> Network:
        """The network of a node that is neither broker nor controller."""
        return self._host.network(name)

    def cut_off(self, name: str) -> None:
        """Nothing reaches this node or leaves it."""
        self._host.links.isolate(name)

    @property
    def active(self) -> list[int]:
        return [node_id for node_id, node in self.controllers.items() if node.decisions.is_active]

    async def create_topic(self, name: str) -> E:
        """Forward a client's request until a controller has responded to it."""
        while True:
            with suppress(NotControllerError):
                response = await self.broker.controller.forward(create(new(name)))
                error: E = response.topics[0].error_code
                return error
            await trio.sleep(0.1)


@asynccontextmanager
async def two_controllers(
    leader: int, voters: Sequence[int] = (FIRST, SECOND), **settings: str
) -> AsyncIterator[Nodes]:
    """`leader` is elected before they start; the broker is configured with the addresses of `voters`.

    `settings` are the nodes', with underscores in place of dots.
    """
    host = SimulatedHost(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.links.run)
        nodes = Nodes(host, nursery, {name.replace("_", "."): value for name, value in settings.items()})
        nodes.log.elect(leader)
        await nodes.start(voters)
        yield nodes
        nursery.cancel_scope.cancel()


@simulated
async def test_a_broker_finds_the_controller_though_the_first_voter_is_not() -> None:
    async with two_controllers(leader=SECOND) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        assert nodes.active == [SECOND]
        assert nodes.broker.controller.active.address == nodes.controllers[SECOND].address
        assert await nodes.create_topic("a") is E.none
        image = nodes.broker.metadata.image
        assert (image.controller_id, image.controller_epoch) == (SECOND, 0)
        address = nodes.controllers[SECOND].address
        assert (image.controllers[SECOND].host, image.controllers[SECOND].port) == (address.host, address.port)


@simulated
async def test_a_broker_that_knows_one_voter_learns_from_it_where_the_controller_is() -> None:
    async with two_controllers(leader=SECOND, voters=[FIRST]) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        active = nodes.broker.controller.active
        assert (active.address, active.epoch) == (nodes.controllers[SECOND].address, 0)


@simulated
async def test_brokers_follow_when_another_node_becomes_the_controller() -> None:
    async with two_controllers(leader=FIRST) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        assert await nodes.create_topic("a") is E.none
        epoch_of_broker = nodes.broker.registration.broker_epoch
        for term, leader in enumerate((SECOND, FIRST, SECOND), start=1):
            nodes.log.elect(leader)
            await trio.sleep(1)
            assert nodes.active == [leader]
            assert [node.id for node in nodes.controllers.values() if node.controller.sessions] == [leader]
            assert nodes.broker.controller.active.address == nodes.controllers[leader].address
            assert await nodes.create_topic(f"topic-{term}") is E.none
            image = nodes.controllers[leader].controller.image
            assert {"a", f"topic-{term}"} <= set(image.topics)
            assert (image.controller_id, image.controller_epoch) == (leader, term)
            await trio.sleep(12)
            assert image.is_unfenced(0), "its heartbeats arrive"
        assert nodes.broker.registration.broker_epoch == epoch_of_broker, "it did not have to register again"
        assert [record for record in nodes.log.records if isinstance(record, ControllerEpochRecord)] == [
            ControllerEpochRecord(leader, epoch) for epoch, leader in enumerate((FIRST, SECOND, FIRST, SECOND))
        ]
        registered = [record for record in nodes.log.records if isinstance(record, RegisterControllerRecord)]
        assert [record.controller_id for record in registered] == [FIRST, SECOND], (
            "each once: its endpoint has not changed"
        )


@simulated
async def test_only_the_first_controller_installs_the_users_of_the_settings() -> None:
    async with two_controllers(leader=FIRST, sasl_users="alice:secret") as nodes:

        def credentials() -> int:
            return sum(isinstance(record, UserScramCredentialRecord) for record in nodes.log.records)

        installed = credentials()
        assert installed > 0
        for leader in (SECOND, FIRST):
            nodes.log.elect(leader)
            await trio.sleep(1)
            assert nodes.active == [leader]
        assert credentials() == installed, "a user who has changed a password keeps it"


@simulated
async def test_a_deposed_controller_applies_nothing_that_its_log_did_not_commit() -> None:
    async with two_controllers(leader=FIRST) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        first = nodes.controllers[FIRST]
        assert isinstance(first.log, Member)
        first.log.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            errors: list[E] = []

            async def ask() -> None:
                errors.append(await nodes.create_topic("a"))

            nursery.start_soon(ask)
            await trio.sleep(0.1)
            offset = first.controller.image.offset
            nodes.log.elect(SECOND)
            await trio.sleep(1)
            assert nodes.active == [SECOND]
            first.log.gate.set()
        assert errors == [E.none], "the second controller has decided it"
        assert "a" not in first.controller.image.topics
        assert first.halted is None
        assert first.controller.image.offset >= offset
        assert "a" in nodes.controllers[SECOND].controller.image.topics


@simulated
async def test_a_deposed_controller_refuses_at_once_what_its_log_has_not_committed() -> None:
    async with two_controllers(leader=FIRST) as nodes, trio.open_nursery() as nursery:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        first = nodes.controllers[FIRST]
        assert isinstance(first.log, Member)
        first.log.gate = trio.Event()
        peer = await node_asker(await nodes.network("peer").connect(first.address), SECRET)
        errors: list[E] = []

        async def ask() -> None:
            errors.append((await peer.ask(create(new("a")))).topics[0].error_code)

        nursery.start_soon(ask)
        await trio.sleep(0.1)
        assert errors == []
        nodes.log.elect(SECOND)
        await trio.sleep(0.1)
        assert errors == [E.not_controller], "though its append never returns"
        assert "a" not in first.controller.image.topics
        assert first.controller.sessions == {}


@simulated
async def test_a_deposed_controller_applies_nothing_of_a_group_that_its_log_has_not_committed() -> None:
    async with two_controllers(leader=FIRST) as nodes, trio.open_nursery() as nursery:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        first = nodes.controllers[FIRST]
        assert isinstance(first.log, Member)
        first.log.gate = trio.Event()
        peer = await node_asker(await nodes.network("peer").connect(first.address), SECRET)
        errors: list[E] = []

        async def ask() -> None:
            response = await peer.ask(create(new("a"), new("b"), new("c")))
            errors.extend(topic.error_code for topic in response.topics)

        nursery.start_soon(ask)
        await trio.sleep(0.1)
        assert errors == []
        nodes.log.elect(SECOND)
        await trio.sleep(0.1)
        assert errors == [E.not_controller] * 3
        assert not {"a", "b", "c"} & set(first.controller.image.topics)


@pytest.mark.parametrize("ends", [False, True])
def test_a_controller_that_is_deposed_or_ends_while_it_makes_a_group_commits_nothing_of_it(ends: bool) -> None:
    @simulated
    async def run() -> None:
        async with two_controllers(leader=FIRST) as nodes:
            with trio.fail_after(30):
                await nodes.broker.registration.unfenced.wait()
            first = nodes.controllers[FIRST]
            before = first.log.end_offset

            async def interrupt() -> None:
                if ends:
                    first.decisions.end("the controller has stopped")
                else:
                    nodes.log.elect(SECOND)

            def decide(turn: Turn, name: str) -> Generator[Proposal[CreatedTopic], CreatedTopic, CreatedTopic]:
                return (yield turn.controller.topics.create_on(name, name, [(0,)]))

            pace = Pace(until_running=interrupt)
            pace.spent = SLICE
            with pytest.raises(OSError if ends else NotLeaderError):
                await first.decisions.each(["a", "b"], decide, pace)
            assert first.log.end_offset == before
            assert not first.controller.image.topics

    run()


@simulated
async def test_a_turn_that_began_before_the_controller_was_deposed_applies_nothing() -> None:
    async with two_controllers(leader=FIRST) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        first = nodes.controllers[FIRST]
        offset = first.controller.image.offset
        epoch = nodes.broker.registration.broker_epoch
        async with first.decisions.turn() as turn:
            renewal = turn.controller.members.heartbeat(0, epoch, offset, 10**9)
            assert not renewal.records, "a session is not in the log"
            nodes.log.elect(SECOND)
            await trio.sleep(1)
            with pytest.raises(NotLeaderError, match="node 3000 is not the controller of epoch 0 any more"):
                await turn.commit(renewal)
        await trio.sleep(0.1)
        assert first.controller.sessions == {}
        assert nodes.active == [SECOND]


@pytest.mark.parametrize("leader", [FIRST, SECOND])
def test_no_client_is_told_that_the_controller_has_changed(leader: int) -> None:
    @simulated
    async def run() -> None:
        async with two_controllers(leader=leader) as nodes:
            with trio.fail_after(30):
                await nodes.broker.registration.unfenced.wait()
            peer = Asker(await nodes.network("peer").connect(nodes.broker.address))
            other = SECOND if leader == FIRST else FIRST
            nodes.log.leadership = Leadership(other, nodes.log.leadership.epoch + 1)  # which no node has noticed yet
            errors: list[E] = []

            async def ask() -> None:
                errors.append((await peer.ask(create(new("a")))).topics[0].error_code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.sleep(0.5)
                assert errors == [], "the broker asks on"
                nodes.log.changed.set()
            assert errors == [E.none]
            assert nodes.active == [other]

    run()


@simulated
async def test_a_request_is_forwarded_for_as_long_as_it_may_take_and_not_longer() -> None:
    async with two_controllers(leader=FIRST, retry_backoff_ms="1000") as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        nodes.log.leadership = Leadership(-1, 7)
        peer = Asker(await nodes.network("peer").connect(nodes.broker.address))
        for patience_ms in (0, 3_000, 120_000):
            began = trio.current_time()
            wanted = dataclasses.replace(create(new("a")), timeout=millis(patience_ms))
            (result,) = (await peer.ask(wanted)).topics
            assert result.error_code is E.request_timed_out
            assert "is not the active controller" in result.error_message
            taken_ms = 1_000 * (trio.current_time() - began)
            assert min(patience_ms, 60_000) <= taken_ms < min(patience_ms, 60_000) + 100


@simulated
async def test_a_controller_that_has_yet_to_notice_that_it_leads_no_more_looks_for_expired_sessions_seldom() -> None:
    async with two_controllers(leader=FIRST) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        nodes.log.leadership = Leadership(-1, 7)
        await trio.sleep(15)
        taken, decisions = 0, nodes.controllers[FIRST].decisions
        real = decisions.turn

        def counted() -> AbstractAsyncContextManager[Turn]:
            nonlocal taken
            taken += 1
            return real()

        with patch.object(decisions, "turn", counted):
            await trio.sleep(10)
        assert 0 < taken <= 11, "a session has expired, and the heartbeat interval is a second"


@simulated
async def test_a_quorum_has_its_configured_voters_and_observers() -> None:
    voters = "3000@controller-3000:9092,3001@controller-3001:9092"
    async with two_controllers(leader=SECOND, controller_quorum_voters=voters) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        response = await nodes.broker.controller.forward(quorum_of("__cluster_metadata"))
        ((partition,),) = (topic.partitions for topic in response.topics)
        assert partition.leader_id == SECOND
        assert [(voter.replica_id, voter.log_end_offset) for voter in partition.current_voters] == [
            (FIRST, -1),
            (SECOND, nodes.log.end_offset),
        ], "the first has not fetched"
        assert [observer.replica_id for observer in partition.observers] == [0]
        assert [(node.node_id, node.listeners[0].host) for node in response.nodes] == [
            (FIRST, "controller-3000"),
            (SECOND, "controller-3001"),
        ]
        nodes.cut_off("broker-0")
        await trio.sleep(301)
        peer = await node_asker(await nodes.network("peer").connect(nodes.controllers[SECOND].address), SECRET)
        ((partition,),) = (t.partitions for t in (await peer.ask(quorum_of("__cluster_metadata"))).topics)
        assert partition.observers == (), "it has not fetched for five minutes"


def heartbeat() -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=BrokerId(0),
        broker_epoch=i64(0),
        current_metadata_offset=i64(0),
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )


def metadata_fetch(max_wait_ms: int) -> FetchRequest:
    fetch = FetchTopic("", METADATA_TOPIC_ID, [FetchPartition(0, 0, 1 << 20)])
    return FetchRequest([fetch], max_wait_ms, 1, replica_id=0)


@simulated
async def test_a_node_that_is_not_the_controller_responds_so_and_names_the_leader() -> None:
    async with two_controllers(leader=SECOND) as nodes:
        first, second = nodes.controllers.values()
        with pytest.raises(NotLeaderError, match="node 3000 is not the active controller"):
            async with first.decisions.turn():
                pass
        peer = await node_asker(await nodes.network("peer").connect(first.address), SECRET)
        assert (await peer.ask(heartbeat())).error_code is E.not_controller
        assert (await peer.ask(create(new("a")))).topics[0].error_code is E.not_controller
        message = await peer.ask(metadata_fetch(0))
        (partition,) = message.topics[0].partitions
        assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (
            E.not_leader_or_follower,
            SECOND,
            0,
        )
        assert message.node_endpoints == [NodeEndpoint(SECOND, second.address.host, second.address.port)]


@simulated
async def test_a_metadata_fetch_that_waits_is_told_at_once_that_another_node_leads() -> None:
    async with two_controllers(leader=FIRST) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        peer = await node_asker(await nodes.network("peer").connect(nodes.controllers[FIRST].address), SECRET)
        request = metadata_fetch(60_000)
        request.topics[0].partitions[0].fetch_offset = len(nodes.log.records)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            messages = []

            async def fetch() -> None:
                messages.append(await peer.ask(request))

            nursery.start_soon(fetch)
            await trio.sleep(1)
            nodes.log.elect(SECOND)
        assert messages[0].topics[0].partitions[0].error_code is E.not_leader_or_follower
        assert trio.current_time() - began < 2


@simulated
async def test_a_controller_that_cannot_be_reached_is_left_for_the_next_voter() -> None:
    async with two_controllers(leader=FIRST) as nodes:
        with trio.fail_after(30):
            await nodes.broker.registration.unfenced.wait()
        first, second = nodes.controllers.values()
        nodes.cut_off(first.address.host)
        nodes.log.elect(SECOND)
        await trio.sleep(25)
        assert nodes.broker.controller.active.address == second.address
        assert second.controller.image.is_unfenced(0)


def test_the_next_voter_is_tried_and_older_leaders_are_ignored() -> None:
    one, two, learned = Address("a", 1), Address("b", 2), Address("c", 3)
    active = ActiveController([one, two])
    assert active.address == one
    active.leave(one)
    active.leave(one)
    assert active.address == two, "it was left once, by two requests"
    active.redirect(5, learned)
    active.redirect(4, one)
    assert (active.address, active.epoch) == (learned, 5)
    active.leave(learned)
    assert active.address == one, "from an address that is no voter's it goes back to the first voter"
    active.leave(one)
    active.leave(two)
    assert active.address == one


def test_a_single_voter_is_never_left() -> None:
    active = ActiveController([Address("a", 1)])
    active.leave(Address("a", 1))
    assert active.address == Address("a", 1)


def test_without_voters_there_is_no_controller() -> None:
    with pytest.raises(ValueError, match="no voter: name"):
        ActiveController([])
