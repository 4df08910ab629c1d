"""Every API on every listener, asked by everybody: what comes of it is what docs/security.md says."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest
import trio
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security
from tidegauge.impl.metadata.topic_names import METADATA_TOPIC_ID
from tidegauge.impl.ports.network import Address
from tidegauge.impl.ports.randomness import SeededRandomness
from tidegauge.impl.records.payload import ProducerIdentity, build_batch, decode_batches
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.server.transport.security.failed_logins import FailedLogins
from tidegauge.impl.wire.apis import request_class, versions_of
from tidegauge.impl.wire.channel import Channel, NoResponseError, UnreachableError
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.message_classes import blank
from tidegauge.model_tests.server.apis.access_rules import TOPIC, Fixtures
from tidegauge.model_tests.server.apis.test_access import REFUSALS, errors_in, message
from tidegauge.model_tests.server.transport.security.listener_rules import (
    ABSENT,
    CLOSED,
    NO_LOGIN,
    SERVED,
    Listener,
    Row,
    Who,
    expected,
    listener_table,
    refusals,
    rows,
)
from tidegauge.model_tests.server.transport.security.peers import USERS, Peer
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.tidy import ROOT

SECURED = Security("SASL_PLAINTEXT", users=USERS, acls=())
IMPOSTOR = ClusterSecret("what a client might take for it")
RANDOMNESS = SeededRandomness(1, "peer")


class Opening:
    """A peer's connection that is being opened."""

    def __init__(self, peer: Peer) -> None:
        self.address = Address("peer", 1)
        self.request_here = peer.request


class Asked:
    """A cluster, and the outcomes of requests to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._topic_id = UUID(cluster.controller.controller.image.topics[TOPIC].topic_id)
        self._records = requests.batch([b"value"], cluster.broker(0).clock.now_ms())

    async def connect(self, listener: Listener) -> Peer:
        broker = self.cluster.broker(0)
        addresses = {
            Listener.CONTROLLER: self.cluster.controller.address,
            Listener.INTERNAL: broker.address,
            Listener.CLIENTS: broker.advertised,
            Listener.PLAINTEXT: broker.advertised,
        }
        return Peer(await self.cluster.host.network("peer").connect(addresses[listener]))

    async def logged_in(self, listener: Listener, who: Who) -> Peer | None:
        """A connection; None when the peer cannot log in."""
        peer = await self.connect(listener)
        if who is Who.ANONYMOUS or listener is Listener.PLAINTEXT:
            return peer
        secret = self.cluster.parts.nodes.secret if who is Who.NODE else IMPOSTOR
        try:
            if listener is Listener.CLIENTS and who is Who.CLIENT:
                await peer.log_in("alice")
            else:
                await secret.login("broker-0", RANDOMNESS)(Opening(peer))
        except (UnreachableError, AssertionError):
            await peer.stream.aclose()
            return None
        return peer

    def request(self, row: Row) -> Any:
        if row.case is None:
            versions = versions_of(row.api)
            assert versions is not None
            return blank(request_class(row.api, versions.highest))
        batch = build_batch(list(decode_batches(self._records)), producer=ProducerIdentity(7, 0, 0), transactional=True)
        return message(row.case, Fixtures(self._topic_id, self._records, batch))

    async def outcome(self, row: Row, listener: Listener, who: Who) -> set[str]:
        """What comes of a request, by the words of the table."""
        peer = await self.logged_in(listener, who)
        if peer is None:
            return {NO_LOGIN}
        with trio.fail_after(60):
            try:
                response = await peer.request(self.request(row))
            except (AssertionError, trio.BrokenResourceError):
                return {CLOSED}
            finally:
                await peer.stream.aclose()
        return {error.name.upper() for error in REFUSALS.intersection(errors_in(response))} or {SERVED}


def is_as_expected(row: Row, wanted: str, outcome: set[str]) -> bool:
    if wanted == ABSENT:
        return outcome in ({CLOSED}, {NO_LOGIN})
    if wanted.isupper() and row.case is not None:
        return outcome <= {error.name.upper() for error in refusals(row.case)}
    return outcome == {wanted}


@pytest.mark.parametrize("listener", Listener, ids=lambda one: one.name)
def test_every_api_has_the_outcome_of_the_table_for_everybody(listener: Listener) -> None:
    @simulated
    async def run() -> None:
        security = None if listener is Listener.PLAINTEXT else SECURED
        async with Cluster(brokers=1, seed=1, security=security) as cluster:
            await cluster.create_topic(TOPIC)
            asked = Asked(cluster)
            wrong = [
                f"{row} at {listener.name} by {who.value}: {outcome}, not {wanted}"
                for row in rows()
                for who in Who
                if not is_as_expected(
                    row, wanted := expected(row, listener, who), outcome := await asked.outcome(row, listener, who)
                )
            ]
            assert wrong == []

    run()


def test_the_table_of_the_documentation_is_this_one() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    assert listener_table() in page, f"docs/security.md should have:\n{listener_table()}"


@simulated
async def test_nobody_but_a_node_reads_the_credentials_or_registers_a_broker() -> None:
    async with Cluster(brokers=1, seed=1, security=SECURED) as cluster, trio.open_nursery() as nursery:
        network, address = cluster.host.network("peer"), cluster.controller.address
        fetch = FetchRequest([FetchTopic("", METADATA_TOPIC_ID, [FetchPartition(0, 0, 1 << 20)])], 0, 1, 1 << 20)
        register = blank(BrokerRegistrationRequest)
        secret = cluster.parts.nodes.secret
        before = cluster.controller.log.end_offset
        for request in (fetch, register):
            anonymous = Channel(network, address, "peer", nursery, timeout_ms=5_000)
            with pytest.raises(NoResponseError):
                await anonymous.request(request)
            impostor = Channel(
                network, address, "peer", nursery, timeout_ms=5_000, handshake=IMPOSTOR.login("broker-7", RANDOMNESS)
            )
            with pytest.raises(UnreachableError, match="no node of this cluster: a SCRAM server with another"):
                await impostor.request(request)
        assert cluster.controller.log.end_offset == before
        node = Channel(network, address, "peer", nursery, handshake=secret.login("broker-7", RANDOMNESS))
        response = await node.request(fetch)
        assert len(response.topics[0].partitions[0].records) > 0
        assert (await node.request(register)).error_code is ErrorCode.inconsistent_cluster_id, (
            "a blank names no cluster"
        )
        nursery.cancel_scope.cancel()


@simulated
async def test_a_node_tells_an_impostor_nothing() -> None:
    """Something else listens where the controller did: a broker gives it neither the secret nor a request."""
    async with Cluster(brokers=1, seed=1, security=SECURED) as cluster, trio.open_nursery() as nursery:
        listener = await cluster.host.network("impostor").listen(Address("impostor", 1))
        got: list[bytes] = []

        async def serve(stream: trio.abc.Stream) -> None:
            got.append(bytes(await stream.receive_some()))

        nursery.start_soon(listener.serve, serve)
        secret = cluster.parts.nodes.secret
        channel = Channel(
            cluster.host.network("peer"),
            Address("impostor", 1),
            "peer",
            nursery,
            timeout_ms=1_000,
            handshake=secret.login("broker-0", RANDOMNESS),
        )
        with pytest.raises(UnreachableError):
            await channel.request(blank(BrokerRegistrationRequest))
        assert len(got) == 1, "the SaslHandshake"
        assert secret.text.encode() not in b"".join(got)
        assert secret.text not in repr(secret)
        nursery.cancel_scope.cancel()


@simulated
async def test_a_failed_login_is_logged_and_delayed() -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(FailedLogins.__module__)
    logger.addHandler(handler)
    try:
        async with Cluster(
            brokers=1,
            seed=1,
            security=SECURED,
            config={"connection.failed.authentication.delay.ms": 700},
        ) as cluster:
            await cluster.create_topic(TOPIC)
            asked = Asked(cluster)
            peer = await asked.connect(Listener.CLIENTS)
            await peer.handshake("PLAIN")
            began = trio.current_time()
            assert (await peer.authenticate(b"\0alice\0guess")).error_code is ErrorCode.sasl_authentication_failed
            assert trio.current_time() - began >= 0.7
            began = trio.current_time()
            assert await asked.logged_in(Listener.CONTROLLER, Who.CLIENT) is None
            await asked.outcome(next(rows()), Listener.INTERNAL, Who.ANONYMOUS)
    finally:
        logger.removeHandler(handler)
    why = "authentication by PLAIN failed: wrong password, or no user 'alice'"
    early = "PRODUCE version 13 of a peer that has not authenticated: SASL_HANDSHAKE is due"
    refused = [
        f'login refused: node=broker-0 listener={listener} why="{reason}" next="the connection is closed"'
        for listener, reason in (("SASL_PLAINTEXT", why), ("INTERNAL", early))
    ]
    broken_off = (
        "login broken off: node=controller listener=CONTROLLER "
        'why="the peer left before authentication by SCRAM-SHA-256 was over" '
        'next="if it is one of yours, compare its credentials, or its cluster secret, with this node\'s"'
    )
    assert lines == [refused[0], broken_off, refused[1]], "an impostor sees that the secrets differ, and leaves"


def test_a_flood_of_failed_logins_makes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def fail() -> None:
        failed = FailedLogins("SSL")
        for _ in range(100):
            for _ in range(1_000):
                failed.note("10.0.0.7", "wrong password")
            await trio.sleep(1)

    fail()
    assert len(caplog.messages) == 100
    assert caplog.messages[-10] == (
        'login refused: listener=SSL peer=10.0.0.7 why="wrong password" next="the connection is closed" '
        "left_out_before=9990"
    )
