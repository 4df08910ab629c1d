"""Real clients over TCP: TLS, every SASL mechanism, certificates, and what they make of being refused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import kafka
import kafka.errors
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tidegauge import RunningCluster, running_cluster
from tidegauge.impl.cluster.security import Security, allow, deny
from tidegauge.model_tests.server.transport.security.certificates import Authority

PATIENCE_S = 20.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
BY_CERTIFICATE = r"User:CN=carol,OU=tests,O=Orders\, Inc."
AUTHORITY = Authority()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of PEM files: ca, another (authority's ca), carol (chain), carol_key."""
    directory = tmp_path_factory.mktemp("pem")
    chain, key = AUTHORITY.issue("carol@orders", common_name="carol")
    contents = {
        "ca": AUTHORITY.certificate,
        "another": Authority().certificate,
        "carol": chain,
        "carol_key": key,
    }
    for name, text in contents.items():
        (directory / name).write_text(text)
    return {name: str(directory / name) for name in contents}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    chain, key = AUTHORITY.server
    security = Security(
        "SASL_SSL",
        "SASL_PLAINTEXT",
        "SSL",
        certificate=chain,
        key=key,
        trusted=AUTHORITY.certificate,
        client_certificates="requested",
        users={"alice": "alice-secret", "bob": "bob-secret", "root": "root-secret"},
        super_users=["User:root"],
        acls=[
            *(acl for who in ("User:alice", BY_CERTIFICATE) for acl in allow(who, "READ", "WRITE", topic="orders")),
            *allow("User:bob", topic="b", prefixed=True),
            *deny("User:bob", "WRITE", topic="bank"),
            *deny("User:bob", "READ", topic="bazaar"),
            *allow("User:*", "READ", group="readers"),
        ],
    )
    with running_cluster(security=security) as running:
        for topic in ("orders", "bank", "bazaar", "secrets"):
            running.create_topic(topic)
        yield running


Settings = dict[str, Any]


@pytest.fixture
def confluent(cluster: RunningCluster, files: dict[str, str]) -> Callable[..., Settings]:
    """Settings of a librdkafka client."""

    def settings(
        protocol: str, user: str = "", mechanism: str = "PLAIN", password: str | None = None, **others: Any
    ) -> Settings:
        made = {
            "bootstrap.servers": cluster.bootstrap_servers_of(protocol),
            "security.protocol": protocol,
            "ssl.ca.location": files["ca"],
            "log_level": 0,
        }
        if user:
            made |= {"sasl.mechanism": mechanism, "sasl.username": user}
            made["sasl.password"] = f"{user}-secret" if password is None else password
        return made | {name.replace("_", "."): value for name, value in others.items()}

    return settings


@pytest.fixture
def plain_kafka(cluster: RunningCluster, files: dict[str, str]) -> Callable[..., Settings]:
    """Settings of a kafka-python client."""

    def settings(
        protocol: str, user: str = "", mechanism: str = "PLAIN", password: str | None = None, **others: Any
    ) -> Settings:
        made = {
            "bootstrap_servers": cluster.bootstrap_servers_of(protocol),
            "security_protocol": protocol,
            "ssl_cafile": files["ca"],
            "ssl_check_hostname": True,
        }
        if user:
            made |= {"sasl_mechanism": mechanism, "sasl_plain_username": user}
            made["sasl_plain_password"] = f"{user}-secret" if password is None else password
        return made | others

    return settings


def produced(settings: Settings, topic: str = "orders") -> tuple[KafkaError | None, int | None]:
    """(error, offset) of one record."""
    reports: list[tuple[KafkaError | None, int | None]] = []
    producer = Producer({"message.timeout.ms": int(PATIENCE_S * 1000), **settings})
    producer.produce(topic, b"value", on_delivery=lambda error, message: reports.append((error, message.offset())))
    assert producer.flush(PATIENCE_S) == 0, "neither delivered nor refused"
    return reports[0]


def consumed(settings: Settings, topic: str = "orders") -> Any:
    """The first record, or the error in its place."""
    consumer = Consumer({"group.id": "readers", "auto.offset.reset": "earliest", **settings})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "neither a record nor an error"
        return message.error() or message.value()
    finally:
        consumer.close()


def first_failure(settings: Settings) -> KafkaError:
    """The first error that a client tells its application."""
    told: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": told.append})
    deadline = time.monotonic() + PATIENCE_S
    while not told and time.monotonic() < deadline:
        producer.poll(0.05)
    return told[0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_confluent_kafka_is_let_in(confluent: Callable[..., Settings], protocol: str, mechanism: str) -> None:
    settings = confluent(protocol, "alice", mechanism)
    error, offset = produced(settings)
    assert error is None
    assert offset is not None
    assert consumed(settings) == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_kafka_python_is_let_in(plain_kafka: Callable[..., Settings], protocol: str, mechanism: str) -> None:
    settings = plain_kafka(protocol, "alice", mechanism)
    with kafka.KafkaProducer(**settings) as producer:
        assert producer.send("orders", b"value").get(PATIENCE_S).topic == "orders"
    with kafka.KafkaConsumer(auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([kafka.TopicPartition("orders", 0)])
        assert next(consumer).value == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_is_let_in(cluster: RunningCluster, files: dict[str, str], mechanism: str) -> None:
    async def main() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers_of("SASL_SSL"),
            security_protocol="SASL_SSL",
            ssl_context=create_ssl_context(cafile=files["ca"]),
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
        )
        await producer.start()
        try:
            return int((await producer.send_and_wait("orders", b"value")).offset)
        finally:
            await producer.stop()

    assert asyncio.run(main()) >= 0


def test_large_records_come_back_over_tls(confluent: Callable[..., Settings], cluster: RunningCluster) -> None:
    cluster.create_topic("large")
    values = [bytes([number]) * 700_000 for number in range(8)]
    settings = confluent("SASL_SSL", "root", "SCRAM-SHA-512")
    producer = Producer(settings)
    for value in values:
        producer.produce("large", value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({"group.id": "readers", **settings})
    try:
        consumer.assign([TopicPartition("large", 0, 0)])
        assert [message.value() for message in consumer.consume(len(values), PATIENCE_S)] == values
    finally:
        consumer.close()


def test_a_certificate_is_who_its_client_is(
    confluent: Callable[..., Settings], plain_kafka: Callable[..., Settings], files: dict[str, str]
) -> None:
    named = confluent("SSL", ssl_certificate_location=files["carol"], ssl_key_location=files["carol_key"])
    assert produced(named)[0] is None
    error, _ = produced(confluent("SSL"))
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    settings = plain_kafka("SSL", ssl_certfile=files["carol"], ssl_keyfile=files["carol_key"])
    with kafka.KafkaProducer(**settings) as producer:
        assert producer.send("orders", b"value").get(PATIENCE_S).offset >= 0


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Executor]:
    """A process of its own: a client of kafka-python that is refused as it is made goes on to connect all its life."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        yield process


def refused_admin(settings: Settings) -> list[str]:
    """What kafka-python logs while a client cannot log in: it tries again whatever it is told."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("kafka").addHandler(handler)
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        kafka.KafkaAdminClient(bootstrap_timeout_ms=500, **settings)
    return lines


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told(
    confluent: Callable[..., Settings],
    plain_kafka: Callable[..., Settings],
    mechanism: str,
    elsewhere: Executor,
) -> None:
    wrong = confluent("SASL_SSL", "alice", mechanism, password="guess")
    assert first_failure(wrong).code() == KafkaError._AUTHENTICATION
    lines = elsewhere.submit(refused_admin, plain_kafka("SASL_SSL", "alice", mechanism, password="guess")).result()
    told = f"SaslAuthenticationFailedError: Authentication failed: invalid credentials for SASL mechanism {mechanism}"
    assert any(told in line for line in lines)


def test_an_authority_that_the_client_does_not_trust(confluent: Callable[..., Settings], files: dict[str, str]) -> None:
    settings = confluent("SASL_SSL", "alice", ssl_ca_location=files["another"])
    assert "certificate verify failed" in first_failure(settings).str()  # librdkafka has two codes for it


def test_a_client_without_tls_on_a_tls_listener(confluent: Callable[..., Settings]) -> None:
    settings = {**confluent("SASL_SSL", "alice"), "security.protocol": "SASL_PLAINTEXT"}
    assert first_failure(settings).code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


def test_a_mechanism_that_is_not_known(confluent: Callable[..., Settings]) -> None:
    settings = confluent("SASL_SSL", "alice", "OAUTHBEARER", enable_sasl_oauthbearer_unsecure_jwt=True)
    settings["sasl.oauthbearer.config"] = "principal=alice"
    assert first_failure(settings).code() == KafkaError._AUTHENTICATION


def test_what_is_denied_is_told_as_such(
    confluent: Callable[..., Settings], plain_kafka: Callable[..., Settings]
) -> None:
    alice, bob = confluent("SASL_SSL", "alice"), confluent("SASL_SSL", "bob")
    for settings, topic in ((alice, "secrets"), (bob, "bank")):
        error, _ = produced(settings, topic)
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(bob, "bazaar").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with kafka.KafkaProducer(**plain_kafka("SASL_SSL", "alice")) as producer:
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            producer.send("secrets", b"value").get(PATIENCE_S)
        assert producer.send("orders", b"value").get(PATIENCE_S).offset >= 0


def test_topics_that_may_not_be_described_are_hidden(confluent: Callable[..., Settings]) -> None:
    def seen(user: str) -> set[str]:
        return set(AdminClient(confluent("SASL_SSL", user)).list_topics(timeout=PATIENCE_S).topics)

    assert seen("alice") == {"orders"}
    assert seen("bob") == {"bank", "bazaar"}
    assert {"orders", "bank", "secrets"} <= seen("root")


def refusal(future: Any) -> int:
    """The code of the error that an admin request ends in."""
    with pytest.raises(KafkaException) as refused:
        future.result(PATIENCE_S)
    return int(refused.value.args[0].code())


def test_administration_takes_rights(confluent: Callable[..., Settings]) -> None:
    alice, root = (AdminClient(confluent("SASL_SSL", user)) for user in ("alice", "root"))
    new = [NewTopic("born-here", 1, 1)]
    assert refusal(alice.create_topics(new)["born-here"]) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    root.create_topics(new)["born-here"].result(PATIENCE_S)
    assert refusal(alice.delete_topics(["born-here"])["born-here"]) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    root.delete_topics(["born-here"])["born-here"].result(PATIENCE_S)


def test_acls_are_administered(confluent: Callable[..., Settings], cluster: RunningCluster) -> None:
    alice, root = (AdminClient(confluent("SASL_SSL", user)) for user in ("alice", "root"))
    binding = AclBinding(
        ResourceType.TOPIC,
        "secr",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    those = AclBindingFilter(
        ResourceType.TOPIC,
        "secrets",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert refusal(alice.create_acls([binding])[binding]) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert refusal(alice.delete_acls([those])[those]) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    root.create_acls([binding])[binding].result(PATIENCE_S)
    cluster.settle_metadata()
    assert root.describe_acls(those).result(PATIENCE_S) == [binding]
    assert produced(confluent("SASL_SSL", "alice"), "secrets")[0] is None
    assert root.delete_acls([those])[those].result(PATIENCE_S) == [binding]
    cluster.settle_metadata()
    error, _ = produced(confluent("SASL_SSL", "alice"), "secrets")
    assert error is not None


def test_passwords_are_administered(confluent: Callable[..., Settings], cluster: RunningCluster) -> None:
    root = AdminClient(confluent("SASL_SSL", "root"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5_000)
    root.alter_user_scram_credentials([UserScramCredentialUpsertion("dave", info, b"dave-secret")])["dave"].result(
        PATIENCE_S
    )
    cluster.settle_metadata()
    described = root.describe_user_scram_credentials(["dave"])["dave"].result(PATIENCE_S)
    assert [(one.mechanism, one.iterations) for one in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_512, 5_000)
    ]
    error, _ = produced(confluent("SASL_SSL", "dave", "SCRAM-SHA-512"))
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "dave is let in, and may do nothing"
    assert first_failure(confluent("SASL_SSL", "dave", "SCRAM-SHA-256")).code() == KafkaError._AUTHENTICATION


def test_a_client_authenticates_again_without_losing_its_connection() -> None:
    """KIP-368: the session of 1.2 s ends twice; the connection does not."""
    security = Security("SASL_PLAINTEXT", users={"alice": "alice-secret"})
    with running_cluster(security=security, config={"connections.max.reauth.ms": 1_200}) as cluster:
        cluster.create_topic("orders")
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "alice-secret",
            }
        )
        errors: list[Any] = []
        until = time.monotonic() + 2.8
        while time.monotonic() < until:
            producer.produce("orders", b"value", on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(PATIENCE_S) == 0
            time.sleep(0.05)
        assert set(errors) == {None}
        assert cluster.run(lambda c: c.broker(0).closed_connections) == []


def test_a_secured_cluster_goes_on_without_its_leader(files: dict[str, str]) -> None:
    """Brokers replicate and elect on their own listener, clients follow on theirs, and both are found again."""
    chain, key = AUTHORITY.server
    security = Security(
        "SASL_SSL",
        certificate=chain,
        key=key,
        users={"alice": "alice-secret"},
        acls=allow("User:alice", topic="orders"),
    )
    config = {"broker.session.timeout.ms": 500, "broker.heartbeat.interval.ms": 100}
    with running_cluster(brokers=3, security=security, config=config) as cluster:
        cluster.create_topic("orders", config={"min.insync.replicas": 2})
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": files["ca"],
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
            "log_level": 0,
        }
        assert produced(settings) == (None, 0)
        leader = cluster.leader("orders")
        cluster.crash(leader)
        assert produced(settings) == (None, 1)
        cluster.restart(leader)
        cluster.wait_for_isr("orders", {0, 1, 2})
        assert produced(settings) == (None, 2)


def test_a_keystore_in_a_file_and_settings_under_kafkas_names(tmp_path: Path) -> None:
    chain, key = AUTHORITY.server
    (tmp_path / "broker.pem").write_text(key + chain)
    (tmp_path / "ca.pem").write_text(AUTHORITY.certificate)
    config = {
        "listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
        ),
    }
    with running_cluster(config=config) as cluster:
        cluster.create_topic("orders")
        secured = {
            "bootstrap.servers": cluster.bootstrap_servers_of("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-secret",
        }
        assert produced(secured) == (None, 0)
        assert produced({"bootstrap.servers": cluster.bootstrap_servers_of("PLAINTEXT")}) == (None, 1)
