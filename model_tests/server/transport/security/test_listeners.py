"""Listeners as they are configured: protocols, addresses, what clients are told, and which one brokers use."""

from __future__ import annotations

import dataclasses
import re
import ssl
from typing import Any

import pytest
import trio
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security, allow, deny
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.settings.security import STANDARD_AUTHORIZER
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.transport.security.listeners import (
    ListenerSpec,
    SecurityProtocol,
    listener_config,
    plan_listeners,
)
from tidegauge.impl.server.transport.security.users import format_users, parse_jaas_users, parse_users
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.primitives import i8
from tidegauge.model_tests.server.transport.security.certificates import Authority
from tidegauge.model_tests.server.transport.security.peers import USERS, Peer, empty, one_broker
from tidegauge.model_tests.simulated import simulated

NODE = Address("node", 9092)
CUSTOM = "PLAINTEXT:PLAINTEXT,CLIENT:SASL_SSL,BROKER:PLAINTEXT"


def plan(**settings: Any) -> list[ListenerSpec]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return list(plan_listeners(ServerConfig.from_properties(named)))


def names(**settings: Any) -> list[str]:
    return [spec.name for spec in plan(**settings)]


def test_without_settings_there_is_one_for_all() -> None:
    (only,) = plan()
    assert (only.name, only.protocol, only.trusted) == ("PLAINTEXT", SecurityProtocol.PLAINTEXT, False)
    assert only.listens_at(NODE) == NODE
    assert only.advertises(NODE) == NODE
    assert only.advertises(NODE, "told") == Address("told", 9092)


def test_addresses_listened_at_and_advertised() -> None:
    plain, ssl, sasl = plan(
        listeners="PLAINTEXT://,SSL://10.0.0.1:0,SASL_SSL://[::1]:9094",
        advertised_listeners="SSL://example.org:443,SASL_SSL://example.org",
    )
    assert plain.listens_at(NODE) == NODE
    assert ssl.listens_at(NODE) == Address("10.0.0.1", 0)
    assert ssl.advertises(Address("10.0.0.1", 5), "told") == Address("example.org", 443)
    assert sasl.listens_at(NODE) == Address("::1", 9094)
    assert sasl.advertises(Address("::1", 9094)) == Address("example.org", 9094)


def test_brokers_share_a_plain_listener_or_get_one_of_their_own() -> None:
    assert names(listeners="SSL://:1,PLAINTEXT://:2") == ["PLAINTEXT", "SSL"]
    assert names(listeners="SSL://:1") == ["INTERNAL", "SSL"]
    assert names(authorizer_class_name=STANDARD_AUTHORIZER) == ["INTERNAL", "PLAINTEXT"]
    own = {"listener_security_protocol_map": CUSTOM, "listeners": "CLIENT://:1,BROKER://:2,PLAINTEXT://:3"}
    assert names(**own, inter_broker_listener_name="BROKER") == ["BROKER", "CLIENT", "PLAINTEXT"]
    assert names(**own) == ["BROKER", "CLIENT", "PLAINTEXT"]
    assert names(listeners="PLAINTEXT://:1,SSL://:2", inter_broker_listener_name="SSL") == ["SSL", "PLAINTEXT"]
    assert [spec.trusted for spec in plan(**own)] == [False, False, False]
    assert [spec.trusted for spec in plan(listeners="SSL://:1")] == [True, False]
    taken = plan(listeners="INTERNAL://:1", listener_security_protocol_map="INTERNAL:SSL")
    assert [spec.name for spec in taken] == ["INTERNAL_", "INTERNAL"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": "SSL"}, "listeners has 'SSL'"),
        ({"listeners": "SSL://:99999"}, "'SSL://:99999'"),
        ({"listeners": "CLIENT://:1"}, "which protocol CLIENT speaks"),
        ({"listeners": "SSL://:1,SSL://:2"}, "SSL twice"),
        ({"listeners": "SSL://0.0.0.0:1"}, "advertised.listeners"),
        ({"listeners": "SSL://[::]:1"}, "advertised.listeners"),
        ({"listeners": "SSL://:1", "advertised_listeners": "SASL_SSL://a:1"}, "there is no listener SASL_SSL"),
        ({"listener_security_protocol_map": "A:TLS"}, "'A:TLS'"),
        ({"listeners": "SSL://:1", "inter_broker_listener_name": "PLAINTEXT"}, "must be one of SSL"),
    ],
)
def test_settings_that_are_wrong_are_named(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Cluster(config={name.replace("_", "."): value for name, value in {"listeners": "SSL://:1", **settings}.items()})


def test_a_listener_has_settings_of_its_own() -> None:
    """KIP-103."""
    config = ServerConfig.from_properties(
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.inside.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.inside.connections.max.reauth.ms": "7",
        }
    )
    inside, outside = listener_config(config, "INSIDE"), listener_config(config, "OUTSIDE")
    assert (inside.sasl_enabled_mechanisms, inside.connections_max_reauth_ms) == (("SCRAM-SHA-512",), 7)
    assert (outside.sasl_enabled_mechanisms, outside.connections_max_reauth_ms) == (("PLAIN", "SCRAM-SHA-256"), 0)
    with pytest.raises(ValueError, match=r"'listener\.name\.inside\.num\.partitions' is not a setting"):
        ServerConfig.from_properties({"listener.name.inside.num.partitions": 1})
    with pytest.raises(ValueError, match=r"listener\.name\.inside\.ssl\.client\.auth is 'maybe'"):
        ServerConfig.from_properties({"listener.name.inside.ssl.client.auth": "maybe"})


def test_users_as_text() -> None:
    users = {"alice": "a:b,c\\d", "b,o:b": " pass word "}
    assert parse_users(format_users(users)) == users
    assert parse_users("alice:secret,bob:pass:word") == {"alice": "secret", "bob": "pass:word"}
    assert parse_users("") == {}
    for wrong in ("alice", "alice:", ":secret", "alice:secret,bob", "alice:secret,,bob:secret"):
        with pytest.raises(ValueError, match=r"sasl\.users: item \d is not name:password") as refused:
            parse_users(wrong)
        assert "secret" not in str(refused.value)


def test_users_of_a_jaas_configuration() -> None:
    text = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="a \\"b\\"; c";'
    )
    assert parse_jaas_users(text) == {"admin": "admin-secret", "alice": 'a "b"; c'}


@simulated
async def test_users_of_one_listener_are_not_those_of_another() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_carol="carol-secret";'
    config = {
        "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
        "listeners": "A://,B://:0",
        "listener.name.a.plain.sasl.jaas.config": jaas,
        "sasl.users": "alice:alice-secret",
    }
    async with one_broker(config=config) as at:
        for listener, allowed in (("A", True), ("B", False)):
            peer = await at.connect(listener)
            await peer.handshake("PLAIN")
            response = await peer.authenticate(b"\0carol\0carol-secret")
            assert (response.error_code == 0) is allowed
            peer = await at.connect(listener)
            await peer.log_in("alice")


@simulated
async def test_a_client_is_told_addresses_on_the_listener_by_which_it_came() -> None:
    security = Security("SASL_PLAINTEXT", "PLAINTEXT", users=USERS)
    config = {"advertised.listeners": "PLAINTEXT://outside:1234"}
    async with Cluster(brokers=2, security=security, config=config) as cluster:
        told = {}
        network = cluster.host.network("peer")
        for name, address in cluster.broker(0).listeners.bound.items():
            peer = Peer(await network.connect(address))
            if name == "SASL_PLAINTEXT":
                await peer.log_in("alice")
            response = await peer.request(empty(ApiKey.METADATA, 12))
            told[name] = [str(Address(broker.host, broker.port)) for broker in response.brokers]
        assert told["SASL_PLAINTEXT"] == cluster.bootstrap_servers.split(",") == ["broker-0:9092", "broker-1:9092"]
        assert told["PLAINTEXT"] == cluster.bootstrap_servers_of("PLAINTEXT").split(",") == ["outside:1234"] * 2
        with pytest.raises(ValueError, match="listener 'SSL': there is SASL_PLAINTEXT, PLAINTEXT"):
            cluster.bootstrap_servers_of("SSL")


@simulated
async def test_a_restarted_broker_listens_where_it_did() -> None:
    async with Cluster(brokers=2, security=Security("SASL_PLAINTEXT", "PLAINTEXT", users=USERS, acls=())) as cluster:
        before = cluster.broker(1).listeners.bound
        assert list(before) == ["INTERNAL", "SASL_PLAINTEXT", "PLAINTEXT"]
        await cluster.crash(1)
        await cluster.restart(1)
        assert cluster.broker(1).listeners.bound == before


def test_a_restarted_broker_listens_on_the_ports_that_it_had() -> None:
    async def main() -> None:
        async with Cluster(host="tcp", brokers=1, security=Security("SASL_PLAINTEXT", "PLAINTEXT", acls=())) as cluster:
            before = cluster.broker(0).listeners.bound
            assert len({address.port for address in before.values()}) == 3
            await cluster.crash(0)
            await cluster.restart(0)
            assert cluster.broker(0).listeners.bound == before

    trio.run(main)


def test_security_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="protocol 'TLS' is not known"):
        Security("TLS")
    with pytest.raises(ValueError, match="operation 'LOOK' is not known"):
        allow("User:a", "LOOK", topic="t")
    with pytest.raises(ValueError, match="an ACL on 2 resources"):
        allow("User:a", "READ", topic="t", group="g")
    with pytest.raises(ValueError, match="an ACL on 0 resources"):
        deny("User:a")
    with pytest.raises(ValueError, match="'a': write Type:name"):
        allow("a", topic="t")
    with pytest.raises(ValueError, match=r"super\.users has 'admin'"):
        Security(super_users=["admin"])
    authority = Authority()
    shown = repr(Security("SASL_SSL", users=USERS, certificate=authority.server[0], key=authority.server[1]))
    assert "PRIVATE" not in shown
    assert "alice-secret" not in shown


def test_settings_given_by_hand_count_before_those_of_security() -> None:
    cluster = Cluster(security=Security("PLAINTEXT"), config={"listeners": "SASL_PLAINTEXT://"})
    assert cluster.config.listeners == ("SASL_PLAINTEXT://",)


def test_one_port_cannot_be_every_brokers() -> None:
    with pytest.raises(ValueError, match="SSL at port 9093 for 3 brokers"):
        Cluster(brokers=3, host="tcp", config={"listeners": "SSL://:9093"})


@simulated
async def test_a_tls_listener_without_a_certificate_does_not_start() -> None:
    with pytest.raises(ValueError, match="needs a certificate"):
        async with Cluster(brokers=1, security=Security("SSL")):
            raise AssertionError("it started")


@simulated
async def test_tls_over_the_simulated_network() -> None:
    authority = Authority()
    chain, key = authority.server
    security = Security("SASL_SSL", "SSL", certificate=chain, key=key, users=USERS)
    async with one_broker(security) as at:
        for name in ("SASL_SSL", "SSL"):
            stream = (await at.connect(name)).stream
            context = ssl.create_default_context(cadata=authority.certificate)
            peer = Peer(trio.SSLStream(stream, context, server_hostname="localhost"))
            if name == "SASL_SSL":
                await peer.log_in("alice")
            assert (await peer.request(empty(ApiKey.METADATA, 12))).brokers


@simulated
async def test_nobody_is_let_in_before_the_broker_has_the_metadata() -> None:
    """An authorizer that allows what no ACL is about would otherwise allow everything for a moment."""
    security = Security("PLAINTEXT", acls=deny("User:*", topic="*"), allow_everyone_if_no_acl_found=True)
    async with Cluster(brokers=1, seed=1, security=security) as cluster:
        await cluster.create_topic("orders")
        await cluster.crash(0)
        cluster.isolate("controller")
        await cluster.restart(0)
        peer = Peer(await cluster.host.network("peer").connect(cluster.broker(0).advertised))
        with trio.move_on_after(5) as waited:
            await peer.request(empty(ApiKey.METADATA, 12))
        assert waited.cancelled_caught
        cluster.heal()
        peer = Peer(await cluster.host.network("peer").connect(cluster.broker(0).advertised))
        every = dataclasses.replace(empty(ApiKey.METADATA, 12), topics=None)
        assert (await peer.request(every)).topics == ()


@simulated
async def test_secrets_are_told_to_nobody() -> None:
    config = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": 'user_carol="carol-secret"'}
    security = Security("SASL_PLAINTEXT", users=USERS, key="the key", certificate="the chain")
    async with one_broker(security, config) as at:
        peer = await at.user("alice")
        resource = DescribeConfigsResource(resource_type=i8(4), resource_name="0", configuration_keys=None)
        response = await peer.request(DescribeConfigsRequest(resources=(resource,)))
        values = {entry.name: entry.value for entry in response.results[0].configs}
        assert values["sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        assert values["sasl.users"] is values["ssl.keystore.key"] is None
        for secret in ("alice-secret", "carol-secret", "the key", "the chain"):
            assert secret not in str(response)


@simulated
async def test_certificates_of_sasl_clients_are_asked_for_by_the_listeners_own_setting() -> None:
    """KIP-684."""
    authority = Authority()
    chain, key = authority.server
    context = ssl.create_default_context(cadata=authority.certificate)
    security = Security("SASL_SSL", certificate=chain, key=key, trusted=authority.certificate, users=USERS)
    for config, served in (({}, True), ({"listener.name.sasl_ssl.ssl.client.auth": "required"}, False)):
        async with one_broker(security, config) as at:
            peer = Peer(trio.SSLStream((await at.connect()).stream, context, server_hostname="localhost"))
            if served:
                await peer.log_in("alice")
            else:
                with pytest.raises(trio.BrokenResourceError):
                    await peer.log_in("alice")
