"""Brokers come to each other by TLS and SASL where a listener of these is theirs; who is not let in does not follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
import trio
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security, allow
from tidegauge.impl.metadata.access import Acl
from tidegauge.impl.ports.network import Address
from tidegauge.impl.ports.randomness import SeededRandomness
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError
from tidegauge.impl.server.transport.security.inter_broker import InterBroker
from tidegauge.impl.server.transport.security.listeners import plan_listeners
from tidegauge.impl.server.transport.security.logins import log_in
from tidegauge.impl.wire.channel import Channel, UnreachableError
from tidegauge.model_tests.server.transport.security.certificates import Authority
from tidegauge.model_tests.simulated import simulated

AUTHORITY = Authority()
ANOTHER = Authority()
BY_CERTIFICATE = r"User:CN=broker,OU=tests,O=Orders\, Inc."
CHAIN, KEY = AUTHORITY.issue("localhost", "127.0.0.1", "broker-0", "broker-1", common_name="broker")
USERS = {"node": "node-secret"}


def jaas(password: str = "node-secret") -> str:
    return f'some.LoginModule required username="node" password="{password}" user_node="node-secret";'


def settings(protocol: str, mechanism: str = "PLAIN", **others: str) -> dict[str, str]:
    """Those by which brokers use the listener of this protocol."""
    own = f"listener.name.{protocol.lower()}."
    made = {"inter.broker.listener.name": protocol, f"{own}ssl.client.auth": "required"}
    if "SASL" in protocol:
        made |= {"sasl.mechanism.inter.broker.protocol": mechanism}
        made |= {f"{own}{mechanism.lower()}.sasl.jaas.config": jaas()}
    return made | {name.replace("_", "."): value for name, value in others.items()}


def secured(
    protocol: str,
    *,
    shown: tuple[str, str] = (CHAIN, KEY),
    super_users: Sequence[str] = ("User:node", BY_CERTIFICATE),
    acls: Sequence[Acl] = (),
) -> Security:
    chain, key = shown
    trusted = AUTHORITY.certificate
    return Security(
        protocol, users=USERS, certificate=chain, key=key, trusted=trusted, super_users=super_users, acls=acls
    )


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", ""), ("SASL_PLAINTEXT", "SCRAM-SHA-512"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256")],
)
def test_brokers_replicate_over_sockets_by_the_listeners_protocol(protocol: str, mechanism: str) -> None:
    async def main() -> None:
        config = settings(protocol, mechanism)
        with trio.fail_after(60):
            async with Cluster(brokers=2, host="tcp", security=secured(protocol), config=config) as cluster:
                assert [list(broker.listeners.bound) for broker in cluster.brokers] == [[protocol]] * 2
                await cluster.create_topic("t", assignments=[[0, 1]], config={"min.insync.replicas": 2})
                async with cluster.client() as client:
                    assert await client.produce("t", b"a", b"b") == 0  # both have it: acks=all, min ISR 2
                assert cluster.isr("t") == (0, 1)

    trio.run(main)


def misled(cluster: Cluster, broker_id: int, **wrong: str) -> None:
    """From now on this broker comes to others by these settings."""
    config = cluster.broker(broker_id).config
    properties = {**config.initial.properties, **wrong}
    config.initial = attrs.evolve(ServerConfig.from_properties(properties), properties=properties)
    config.current = config.initial


@contextmanager
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The lines about logins, from here on."""
    found: list[str] = []
    caplog.clear()
    with caplog.at_level("WARNING"):
        yield found
    found += [line for line in caplog.messages if line.startswith(("login refused", "broker not logged in at"))]


@pytest.mark.parametrize(
    ("protocol", "mechanism", "wrong", "told", "refused"),
    [
        *(
            (
                "SASL_PLAINTEXT",
                mechanism,
                {f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": jaas("wrong")},
                f"it refuses user 'node' by {mechanism}",
                "wrong password, or no user 'node'",
            )
            for mechanism in ("PLAIN", "SCRAM-SHA-256")
        ),
        (
            "SSL",
            "",
            {"ssl.truststore.certificates": ANOTHER.certificate},
            "certificate verify failed",
            "the TLS handshake failed",
        ),
        (
            "SSL",
            "",
            dict(zip(("ssl.keystore.certificate.chain", "ssl.keystore.key"), ANOTHER.server, strict=True)),
            "does it trust this node's certificate?",
            "certificate verify failed",
        ),
    ],
    ids=["password by PLAIN", "password by SCRAM", "trust store", "certificate"],
)
def test_a_follower_that_is_not_let_in_leaves_the_isr_and_both_sides_say_why(
    caplog: pytest.LogCaptureFixture, protocol: str, mechanism: str, wrong: dict[str, str], told: str, refused: str
) -> None:
    @simulated
    async def run() -> None:
        config = {**settings(protocol, mechanism), "replica.lag.time.max.ms": "2000"}
        async with Cluster(brokers=2, seed=1, security=secured(protocol), config=config) as cluster:
            right = dict(cluster.broker(1).config.initial.properties)
            misled(cluster, 1, **wrong)
            await cluster.create_topic("t", assignments=[[0, 1]])
            with trio.fail_after(60):
                await cluster.wait_for_isr("t", {0})
            async with cluster.client() as client:
                assert await client.produce("t", b"a") == 0
            misled(cluster, 1, **right)
            with trio.fail_after(60):
                await cluster.wait_for_isr("t", {0, 1})

    with lines(caplog) as found:
        run()
    mine = [line for line in found if line.startswith("broker not logged in at: node=broker-1 broker=0 ")]
    theirs = [line for line in found if line.startswith(f"login refused: node=broker-0 listener={protocol} ")]
    assert mine
    assert all(told in line and f"listener={protocol}" in line and "next=" in line for line in mine), mine
    assert theirs
    assert all(refused in line for line in theirs), theirs


@simulated
async def test_a_follower_needs_cluster_action() -> None:
    """As with Kafka: the listener makes nobody a broker, the authorizer does."""
    security = secured("SASL_PLAINTEXT", super_users=(), acls=allow("User:node", topic="*"))
    config = {**settings("SASL_PLAINTEXT"), "replica.lag.time.max.ms": "2000"}
    async with Cluster(brokers=2, seed=1, security=security, config=config) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        with trio.fail_after(60):
            await cluster.wait_for_isr("t", {0})
        await cluster.create_acls(allow("User:node", "CLUSTER_ACTION", cluster=True))
        with trio.fail_after(60):
            await cluster.wait_for_isr("t", {0, 1})


@pytest.mark.parametrize(("algorithm", "isr"), [("https", {0}), ("", {0, 1})])
def test_the_certificate_has_to_be_the_hosts_unless_a_setting_says_otherwise(algorithm: str, isr: set[int]) -> None:
    shown = AUTHORITY.issue("elsewhere", common_name="broker")

    @simulated
    async def run() -> None:
        config = {**settings("SSL"), "replica.lag.time.max.ms": "2000", "ssl.endpoint.identification.algorithm": ""}
        security = secured("SSL", shown=shown)
        async with Cluster(brokers=2, seed=1, security=security, config=config) as cluster:
            misled(cluster, 1, **{"ssl.endpoint.identification.algorithm": algorithm})
            await cluster.create_topic("t", assignments=[[0, 1]])
            await trio.sleep(10)
            assert set(cluster.isr("t")) == isr

    run()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security.inter.broker.protocol": "SSL"}, "inter.broker.listener.name and security.inter.broker.protocol"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol is 'GSSAPI'"),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config has no username and password",
        ),
        ({"listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "is 'PLAIN': brokers log in"),
        ({"inter.broker.listener.name": "SSL"}, "inter.broker.listener.name is 'SSL': it must be one of SASL_SSL"),
    ],
)
def test_settings_that_let_no_broker_in_are_refused_at_the_start(given: dict[str, str], words: str) -> None:
    config = {"listeners": "SASL_SSL://", **settings("SASL_SSL"), **given}
    with pytest.raises(ValueError, match=words.replace(".", r"\.")) as refused:
        plan_listeners(ServerConfig.from_properties(config))
    assert "node-secret" not in str(refused.value)


def test_the_protocol_names_the_listener_for_brokers() -> None:
    config = settings("SASL_SSL") | {"listeners": "PLAINTEXT://:1,SASL_SSL://:2"}
    del config["inter.broker.listener.name"]
    named = ServerConfig.from_properties(config | {"security.inter.broker.protocol": "SASL_SSL"})
    assert [spec.name for spec in plan_listeners(named)] == ["SASL_SSL", "PLAINTEXT"]
    assert [spec.name for spec in plan_listeners(ServerConfig.from_properties(config))] == ["PLAINTEXT", "SASL_SSL"]


@simulated
async def test_a_broker_whose_session_has_ended_logs_in_again() -> None:
    config = {**settings("SASL_PLAINTEXT"), "replica.lag.time.max.ms": "10000", "connections.max.reauth.ms": "3000"}
    async with Cluster(brokers=2, seed=1, security=secured("SASL_PLAINTEXT"), config=config) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]], config={"min.insync.replicas": "2"})
        for number in range(5):
            async with cluster.client() as client:
                assert await client.produce("t", b"a") == number
            await trio.sleep(7)
        assert cluster.isr("t") == (0, 1)


def test_a_node_with_another_clusters_secret_names_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def run() -> None:
        security = Security("SASL_PLAINTEXT", users=USERS)
        async with Cluster(brokers=1, seed=1, security=security) as cluster, trio.open_nursery() as nursery:
            spec = plan_listeners(cluster.config)[0]
            randomness = SeededRandomness(1, "impostor")
            login = ClusterSecret("the secret of another cluster").login("broker-7", randomness)
            ways = InterBroker(spec, lambda: cluster.config, cluster.host.network("impostor"), randomness, login)
            address = cluster.broker(0).listeners.address
            channel = Channel(ways.network(0), address, "broker-7", nursery, handshake=ways.login(0))
            with pytest.raises(UnreachableError):
                await channel.connect()
            nursery.cancel_scope.cancel()

    with lines(caplog) as found:
        run()
    (line,) = (line for line in found if line.startswith("broker not logged in at: "))
    assert "broker=0" in line
    assert "has another cluster secret" in line
    assert "give all nodes of the cluster the same secret" in line


class Impostor:
    """A server whose responses to a login are these tokens."""

    address = Address("impostor", 9092)

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)
        self.told: list[bytes] = []

    async def request_here(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(message, SaslHandshakeRequest):
            return SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=())
        self.told.append(message.auth_bytes)
        nonce = self.told[0].decode().rpartition("r=")[2]
        token = self._tokens.pop(0).replace("NONCE", nonce).encode()
        return SaslAuthenticateResponse(error_code=ErrorCode.none, error_message=None, auth_bytes=token)


@pytest.mark.parametrize(
    ("tokens", "words", "rounds"),
    [
        (("r=NONCEx,s=c2FsdA==,i=4095",), "it asks for 4095 iterations", 1),
        (("r=NONCEx,s=c2FsdA==,i=999999999",), "it asks for 999999999 iterations", 1),
        (("r=NONCE,s=c2FsdA==,i=4096",), "none of this exchange", 1),
        (("r=NONCEx,s=c2FsdA==,i=4096", "v=c2FsdA=="), "does not know the credential", 2),
    ],
    ids=["weak", "endless", "replayed", "without the credential"],
)
@simulated
async def test_a_broker_does_not_log_in_at_an_impostor(tokens: tuple[str, ...], words: str, rounds: int) -> None:
    impostor = Impostor(*tokens)
    with pytest.raises(AuthenticationFailedError, match=words):
        await log_in(impostor, "SCRAM-SHA-256", "node", "node-secret", SeededRandomness(1, "node"))
    assert len(impostor.told) == rounds
