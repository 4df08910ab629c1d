"""Every setting that Kafka's brokers change while they run (KIP-226): for whom it is changed, and what it does."""

from __future__ import annotations

import ssl
from typing import Final

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.idempotent import IdempotentProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security
from tidegauge.impl.metadata.config_resources import AlterOperation
from tidegauge.impl.metadata.topic_configs import TOPIC_CONFIGS
from tidegauge.impl.server.settings.fields import Update
from tidegauge.impl.server.settings.server_config import DYNAMIC_CONFIGS, FIELDS, UPDATES
from tidegauge.impl.server.settings.sources import ConfigSource
from tidegauge.impl.server.settings.without_effect import NO_EFFECT, WITHOUT_EFFECT
from tidegauge.model_tests.server.apis.test_configs import BROKER, alter, entry
from tidegauge.model_tests.server.asking import Asker, asking
from tidegauge.model_tests.server.transport.security.certificates import Authority
from tidegauge.model_tests.simulated import simulated

SET, DELETE = AlterOperation.SET, AlterOperation.DELETE

CLUSTER_WIDE: Final = {
    "background.threads": "9",
    "config.providers": "file",
    "follower.fetch.last.tiered.offset.enable": "true",
    "follower.replication.throttled.rate": "7",
    "group.coordinator.cached.buffer.max.bytes": "600000",
    "leader.replication.throttled.rate": "7",
    "log.cleaner.backoff.ms": "7",
    "log.cleaner.dedupe.buffer.size": "7000000",
    "log.cleaner.io.buffer.load.factor": "0.5",
    "log.cleaner.io.buffer.size": "7000",
    "log.cleaner.io.max.bytes.per.second": "7000.0",
    "log.cleaner.threads": "2",
    "max.connection.creation.rate": "7",
    "max.connections": "7",
    "max.connections.per.ip": "7",
    "max.connections.per.ip.overrides": "10.0.0.1:7",
    "metric.reporters": "org.example.Reporter",
    "num.io.threads": "9",
    "num.network.threads": "4",
    "num.recovery.threads.per.data.dir": "3",
    "num.replica.fetchers": "2",
    "producer.id.expiration.ms": "7000",
    "remote.fetch.max.wait.ms": "7",
    "remote.list.offsets.request.timeout.ms": "7",
    "remote.log.index.file.cache.total.size.bytes": "7",
    "remote.log.manager.copier.thread.pool.size": "7",
    "remote.log.manager.copy.max.bytes.per.second": "7",
    "remote.log.manager.expiration.thread.pool.size": "7",
    "remote.log.manager.fetch.max.bytes.per.second": "7",
    "remote.log.manager.follower.thread.pool.size": "7",
    "remote.log.reader.threads": "7",
    "replica.alter.log.dirs.io.max.bytes.per.second": "7",
    "share.coordinator.cached.buffer.max.bytes": "600000",
    "transaction.partition.verification.enable": "false",
}
"""A value for each that Kafka changes for all brokers or for one, besides topics' defaults."""

OF_ONE_BROKER: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MINE:SSL",
    "principal.builder.class": "org.example.Builder",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": "org.example.Module required;",
    "sasl.kerberos.kinit.cmd": "/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "7",
    "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1]",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.ticket.renew.jitter": "0.1",
    "sasl.kerberos.ticket.renew.window.factor": "0.7",
    "sasl.login.refresh.buffer.seconds": "7",
    "sasl.login.refresh.min.period.seconds": "7",
    "sasl.login.refresh.window.factor": "0.7",
    "sasl.login.refresh.window.jitter": "0.1",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384",
    "ssl.client.auth": "required",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.engine.factory.class": "org.example.Factory",
    "ssl.keymanager.algorithm": "PKIX",
    "ssl.protocol": "TLSv1.2",
    "ssl.provider": "SunJSSE",
    "ssl.secure.random.implementation": "SHA1PRNG",
    "ssl.trustmanager.algorithm": "SunX509",
}
"""The same of those that are changed for one broker only; `listeners` has a test of its own."""

OF_ONE_LISTENER: Final = {
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
"""Those that are changed under `listener.name.<listener>.` only."""


def test_the_settings_that_can_be_changed_are_kafkas() -> None:
    topics = {setting.synonyms[0][0] for setting in TOPIC_CONFIGS.values() if setting.synonyms}
    assert {name for name, update in UPDATES.items() if update is Update.CLUSTER_WIDE} == {*CLUSTER_WIDE, *topics}
    assert {name for name, update in UPDATES.items() if update is Update.PER_BROKER} == {*OF_ONE_BROKER, "listeners"}
    assert {name for name, update in UPDATES.items() if update is Update.PER_LISTENER} == OF_ONE_LISTENER
    assert DYNAMIC_CONFIGS.settings.keys() == UPDATES.keys()


def test_what_nobody_reads_says_that_it_has_no_effect() -> None:
    assert not WITHOUT_EFFECT.keys() & FIELDS.keys()
    assert all(one.setting.documentation.endswith(NO_EFFECT) for one in WITHOUT_EFFECT.values())


async def told(peer: Asker, name: str, resource: str = "0") -> tuple[str | None, int]:
    config = await entry(peer, BROKER, resource, name)
    return config.value, config.config_source


@simulated
async def test_each_is_taken_for_all_brokers_and_for_one_described_and_taken_away() -> None:
    async with asking() as (cluster, peer):
        for name, value in CLUSTER_WIDE.items():
            for resource, source in (("", ConfigSource.ALL_BROKERS), ("0", ConfigSource.BROKER)):
                altered = await alter(peer, BROKER, resource, (name, SET, value))
                assert altered.error_code is ErrorCode.none, (name, altered.error_message)
                await cluster.settle_metadata()
                assert await told(peer, name, resource) == (value, source)
            for resource in ("0", ""):
                assert (await alter(peer, BROKER, resource, (name, DELETE, None))).error_code is ErrorCode.none
            await cluster.settle_metadata()
            assert (await told(peer, name))[1] == ConfigSource.DEFAULT


@simulated
async def test_each_brokers_own_are_taken_for_one_broker_and_refused_for_all() -> None:
    async with asking() as (cluster, peer):
        for name, value in OF_ONE_BROKER.items():
            refused = await alter(peer, BROKER, "", (name, SET, value))
            assert refused.error_code is ErrorCode.invalid_request
            assert "each broker's own" in refused.error_message
            altered = await alter(peer, BROKER, "0", (name, SET, value))
            assert altered.error_code is ErrorCode.none, (name, altered.error_message)
            await cluster.settle_metadata()
            secret = name == "sasl.jaas.config"
            assert await told(peer, name) == (None if secret else value, ConfigSource.BROKER)
        await cluster.restart_controller()
        assert cluster.controller.controller.image.broker_configs["0"] == OF_ONE_BROKER


@pytest.mark.parametrize(
    ("resource", "name", "value", "words"),
    [
        ("0", "ssl.keystore.location", "/x.pem", "one listener at a time: name it listener.name.<listener>.ssl.key"),
        ("", "listener.name.mine.ssl.keystore.type", "PEM", "each broker's own: give a broker's id"),
        ("0", "listener.name.mine.ssl.client.auth", "none", "cannot be changed for one listener while brokers run"),
        ("0", "broker.session.timeout.ms", "9", "cannot be changed while brokers run; what can is background.threads"),
        ("0", "num.io.threads", "0", "num.io.threads='0': it must be at least 1"),
        ("0", "num.io.threads", "3", "num.io.threads=3: it is 8 now; one change halves or doubles it at most"),
        ("0", "cordoned.log.dirs", "*", "cordoned.log.dirs cannot be changed while brokers run"),
        ("0", "num.io.threads", "17", "num.io.threads=17: it is 8 now; one change halves or doubles it at most"),
        ("", "log.cleaner.threads", "3", "log.cleaner.threads=3: it is 1 now"),
        ("0", "num.io.threads", "many", "num.io.threads='many': it must be a whole number"),
        ("0", "max.connections.per.ip.overrides", "10.0.0.1", "it must be a list of ADDRESS:NUMBER"),
        ("0", "sasl.login.refresh.window.jitter", "0.3", "it must be from 0.0 to 0.25"),
        ("0", "listeners", "PLAINTEXT://127.0.0.1:1", "a broker that runs keeps PLAINTEXT://"),
        ("0", "listener.security.protocol.map", "PLAINTEXT:SSL", "keep PLAINTEXT:PLAINTEXT"),
    ],
)
@simulated
async def test_what_no_running_broker_takes_is_refused_in_words(
    resource: str, name: str, value: str, words: str
) -> None:
    async with asking() as (cluster, peer):
        refused = await alter(peer, BROKER, resource, (name, SET, value))
        assert refused.error_code is ErrorCode.invalid_request
        assert words in refused.error_message
        assert name not in cluster.controller.controller.image.broker_configs.get(resource, {})


@simulated
async def test_a_broker_takes_the_listeners_that_it_has() -> None:
    async with asking() as (cluster, peer):
        where = f"PLAINTEXT://{cluster.broker(0).address}"
        assert (await alter(peer, BROKER, "0", ("listeners", SET, where))).error_code is ErrorCode.none


@simulated
async def test_limits_of_connections_are_in_force_at_once_and_for_one_listener_too() -> None:
    async with asking() as (cluster, peer):
        for name in ("max.connections", "listener.name.plaintext.max.connections", "max.connections.per.ip"):
            assert (await alter(peer, BROKER, "0", (name, SET, "2"))).error_code is ErrorCode.none
            await cluster.settle_metadata()
            host = cluster.network.host("late")
            first = await host.connect(cluster.broker(0).address)
            second = await host.connect(cluster.broker(0).address)
            with trio.fail_after(1):
                assert await second.receive_some() == b"", f"{name}: it is closed"
            await first.aclose()
            await alter(peer, BROKER, "0", (name, DELETE, None))
            await cluster.settle_metadata()


@simulated
async def test_some_addresses_have_limits_of_their_own() -> None:
    async with asking() as (cluster, peer):
        await alter(peer, BROKER, "", ("max.connections.per.ip", SET, "5"))
        await alter(peer, BROKER, "", ("max.connections.per.ip.overrides", SET, "10.0.0.1:1, [::1]:0"))
        await cluster.settle_metadata()
        listeners = cluster.broker(0).listeners
        listeners._served_to.update({"10.0.0.1": 1, "10.0.0.2": 4})
        refused = {host: listeners._refusal("PLAINTEXT", host) for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3", "::1")}
        assert {host: bool(why) for host, why in refused.items()} == {
            "10.0.0.1": True,
            "10.0.0.2": False,
            "10.0.0.3": False,
            "::1": True,
        }
        assert refused["10.0.0.1"] == "max.connections.per.ip=1 of this address are served"


@simulated
async def test_connections_beyond_the_rate_wait() -> None:
    async with asking() as (cluster, peer):
        name = "listener.name.plaintext.max.connection.creation.rate"
        assert (await alter(peer, BROKER, "", (name, SET, "1"))).error_code is ErrorCode.none
        await cluster.settle_metadata()
        waits = [cluster.broker(0).listeners._wait_ms("PLAINTEXT", "late") for _ in range(20)]
        assert (waits[0], waits[-1] > 0) == (0, True)
        assert cluster.broker(0).listeners._wait_ms("OTHER", "late") == 0


@simulated
async def test_idle_producers_are_forgotten_by_the_setting_of_now() -> None:
    async with asking() as (cluster, peer), cluster.client() as client:
        await IdempotentProducer(client, "t").produce(b"x")
        hosted = cluster.broker(0).replicas.get("t", 0)
        assert hosted is not None
        assert len(hosted.replica.producers.entries) == 1
        await trio.sleep(2)
        cluster.broker(0).actions.expire_producers()
        assert len(hosted.replica.producers.entries) == 1
        await alter(peer, BROKER, "", ("producer.id.expiration.ms", SET, "1000"))
        await cluster.settle_metadata()
        cluster.broker(0).actions.expire_producers()
        assert not hosted.replica.producers.entries


@simulated
async def test_as_many_tasks_clean_as_the_setting_of_now_says() -> None:
    async with asking(config={"log.cleaner.backoff.ms": 10}) as (cluster, peer):
        cleaner = cluster.broker(0).cleaner
        for threads in ("2", "4", "2"):
            await alter(peer, BROKER, "", ("log.cleaner.threads", SET, threads))
            await cluster.settle_metadata()
            await trio.sleep(1)
            assert len(cleaner._tasks) == int(threads)


@simulated
async def test_a_listener_shows_its_new_certificate_and_keeps_the_old_one_while_the_new_one_is_none() -> None:
    old, new = Authority(), Authority()
    chain, key = old.server
    async with Cluster(brokers=1, seed=1, security=Security("SSL", certificate=chain, key=key)) as cluster:

        async def connect(authority: Authority) -> Asker:
            stream = await cluster.network.host("peer").connect(cluster.broker(0).advertised)
            context = ssl.create_default_context(cadata=authority.certificate)
            secured: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(stream, context, server_hostname="localhost")
            await secured.do_handshake()
            return Asker(secured)

        peer = await connect(old)
        prefix = "listener.name.ssl.ssl.keystore"
        refused = await alter(peer, BROKER, "0", (f"{prefix}.key", SET, "no key"))
        assert refused.error_code is ErrorCode.invalid_request
        assert "listener SSL: ssl.keystore.key" in refused.error_message
        changes = ((f"{prefix}.certificate.chain", SET, new.server[0]), (f"{prefix}.key", SET, new.server[1]))
        assert (await alter(peer, BROKER, "0", *changes)).error_code is ErrorCode.none
        await cluster.settle_metadata()
        other = await connect(new)
        with pytest.raises(trio.BrokenResourceError):
            await connect(old)
        name = f"{prefix}.key"
        config = await entry(other, BROKER, "0", name)
        assert (config.value, config.is_sensitive, config.read_only) == (None, True, False)
        names = [name, "ssl.keystore.key", "ssl.keystore.key"]
        assert [(one.name, one.value) for one in config.synonyms] == [(known, None) for known in names]
        await alter(peer, BROKER, "0", (changes[0][0], DELETE, None), (name, DELETE, None))
        await cluster.settle_metadata()
        await connect(old)
