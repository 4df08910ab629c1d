"""The gate of a SASL listener: who passes it and when, and how little anybody else gets."""

from __future__ import annotations

import struct
from datetime import timedelta

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

from tidegauge.impl.cluster.security import Security
from tidegauge.impl.controller.scram_credentials import Upsertion
from tidegauge.impl.metadata.credentials import salted_password
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.transport.refused import RefusedError
from tidegauge.impl.server.transport.security.plain import PlainExchange
from tidegauge.impl.server.transport.security.sasl_gate import SaslGate, SaslServer
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey
from tidegauge.impl.wire.codecs import MalformedMessageError, peek_request
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.server.transport.security.peers import USERS, OneBroker, Peer, empty, one_broker
from tidegauge.model_tests.simulated import simulated

METADATA = empty(ApiKey.METADATA, 12)
API_VERSIONS = ApiVersionsRequest(client_software_name="peer", client_software_version="1")
ALICE = b"\0alice\0alice-secret"
WRONG = b"\0alice\0wrong"


REQUESTS = st.builds(
    lambda api, version, body: struct.pack(">hhih", api, version, 1, -1) + body,
    st.sampled_from([ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.METADATA]),
    st.integers(-1, 5),
    st.one_of(st.binary(max_size=20), st.sampled_from([b"\0\5PLAIN", b"\0\0\0\3\0a\0", b"\4\0a\0\0"])),
)
"""Requests with a client id of null, and some bodies that can be read."""


async def is_served(peer: Peer) -> bool:
    return bool((await peer.request(METADATA)).brokers)


async def was_refused(at: OneBroker, peer: Peer, messages: str) -> None:
    assert await peer.is_disconnected()
    assert messages in at.cluster.broker(0).closed_connections[-1]


@simulated
async def test_the_way_through_with_each_mechanism() -> None:
    async with one_broker() as at:
        for version in range(3):
            peer = await at.connect()
            assert (await peer.handshake("PLAIN")).error_code is ErrorCode.none
            response = await peer.authenticate(ALICE, version)
            assert (response.error_code, response.error_message, response.auth_bytes) == (ErrorCode.none, None, b"")
            assert await is_served(peer)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            client = ScramClient("bob", "bob-secret", mechanism)
            peer = await at.connect()
            shaken = await peer.handshake(mechanism)
            assert shaken.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
            client.process_server_first_message((await peer.authenticate(client.first_message())).auth_bytes)
            client.process_server_final_message((await peer.authenticate(client.final_message())).auth_bytes)
            assert await is_served(peer)


@simulated
async def test_every_exchange_has_a_nonce_of_its_own() -> None:
    async with one_broker() as at:
        firsts = set()
        for _ in range(3):
            peer = await at.connect()
            await peer.handshake("SCRAM-SHA-256")
            firsts.add((await peer.authenticate(b"n,,n=alice,r=c")).auth_bytes)
        assert len(firsts) == 3


@simulated
async def test_bare_tokens_follow_a_handshake_of_version_0() -> None:
    async with one_broker() as at:
        peer = await at.connect()
        await peer.handshake("PLAIN", 0)
        await peer.send_token(ALICE)
        assert await peer.token() == b""
        assert await is_served(peer)
        client = ScramClient("bob", "bob-secret", "SCRAM-SHA-512")
        peer = await at.connect()
        await peer.handshake("SCRAM-SHA-512", 0)
        await peer.send_token(client.first_message())
        client.process_server_first_message(await peer.token())
        await peer.send_token(client.final_message())
        client.process_server_final_message(await peer.token())
        assert await is_served(peer)
        peer = await at.connect()
        await peer.handshake("PLAIN", 0)
        await peer.send_token(WRONG)
        await was_refused(at, peer, "PLAIN failed")


@simulated
async def test_api_versions_are_sent_to_unauthenticated_clients_in_any_version() -> None:
    async with one_broker() as at:
        peer = await at.connect()
        for version in range(5):
            response = await peer.request(API_VERSIONS, version)
            told = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
            for api in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                assert told[api] == BROKER_APIS[api]
        await peer.log_in("alice")
        assert (await peer.request(API_VERSIONS)).error_code is ErrorCode.none


@simulated
async def test_an_unauthenticated_client_that_requests_anything_else_is_disconnected() -> None:
    async with one_broker() as at:
        for api in BROKER_APIS:
            header = struct.pack(">hhih", api, BROKER_APIS[api].highest, 1, -1)
            if api not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE):
                peer = await at.connect()
                await peer.send_token(header)
                await was_refused(at, peer, f"{api.name} version")
                assert "HANDSHAKE is due" in at.cluster.broker(0).closed_connections[-1]
            if api is not ApiKey.SASL_AUTHENTICATE:
                peer = await at.connect()
                await peer.handshake("PLAIN")
                await peer.send_token(header)
                await was_refused(at, peer, f"{api.name} version")
                assert "AUTHENTICATE is due" in at.cluster.broker(0).closed_connections[-1]


@simulated
async def test_the_response_to_an_unknown_mechanism_lists_those_there_are() -> None:
    async with one_broker(Security("SASL_PLAINTEXT", users=USERS, mechanisms=["SCRAM-SHA-512", "PLAIN"])) as at:
        for version in range(2):
            peer = await at.connect()
            response = await peer.handshake("SCRAM-SHA-256", version)
            assert response.error_code is ErrorCode.unsupported_sasl_mechanism
            assert response.mechanisms == ("SCRAM-SHA-512", "PLAIN")
            await was_refused(at, peer, "'SCRAM-SHA-256' is not enabled")


@simulated
async def test_the_response_to_a_failure_is_late_and_always_the_same() -> None:
    async with one_broker(config={"connection.failed.authentication.delay.ms": 700}) as at:
        messages = set()
        for token in (WRONG, b"\0nobody\0wrong", b"", b"\0alice\0", b"bob\0alice\0alice-secret"):
            for version in range(3):
                peer = await at.connect()
                await peer.handshake("PLAIN")
                began = trio.current_time()
                response = await peer.authenticate(token, version)
                assert trio.current_time() - began == pytest.approx(0.7)
                assert response.error_code is ErrorCode.sasl_authentication_failed
                messages.add(response.error_message)
                await was_refused(at, peer, "PLAIN failed")
        assert messages == {"Authentication failed: invalid credentials for SASL mechanism PLAIN"}


@simulated
async def test_an_unauthenticated_client_may_send_small_frames_only() -> None:
    async with one_broker(config={"sasl.server.max.receive.size": 1_000}) as at:
        peer = await at.connect()
        await peer.handshake("PLAIN")
        await peer.send(SaslAuthenticateRequest(auth_bytes=bytes(2_000)))
        await was_refused(at, peer, "only 0 to 1000")
        friend = await at.user("alice")
        assert (await friend.authenticate(bytes(2_000))).error_code is ErrorCode.illegal_sasl_state


@simulated
async def test_the_handshake_is_not_for_those_who_are_in_nor_for_listeners_without_sasl() -> None:
    async with one_broker(Security("PLAINTEXT", "SASL_PLAINTEXT", users=USERS)) as at:
        plain = await at.connect("PLAINTEXT")
        friend = await at.connect("SASL_PLAINTEXT")
        await friend.log_in("alice")
        for peer in (plain, friend):
            for version in range(2):
                assert (await peer.handshake("PLAIN", version)).error_code is ErrorCode.illegal_sasl_state
            for version in range(3):
                assert (await peer.authenticate(ALICE, version)).error_code is ErrorCode.illegal_sasl_state
            assert await is_served(peer)


@simulated
async def test_the_same_user_authenticates_again_before_the_session_ends() -> None:
    """KIP-368."""
    async with one_broker(config={"connections.max.reauth.ms": (1 << 63) - 1}) as at:
        peer = await at.connect()
        await peer.handshake("PLAIN")
        assert (await peer.authenticate(ALICE)).session_lifetime > timedelta(days=1_000_000)
    async with one_broker(config={"connections.max.reauth.ms": 10_000}) as at:
        peer = await at.connect()
        await peer.handshake("PLAIN")
        assert (await peer.authenticate(ALICE)).session_lifetime == timedelta(seconds=10)
        assert (await peer.handshake("PLAIN")).error_code is ErrorCode.illegal_sasl_state, "not within a second"
        for _ in range(3):
            await trio.sleep(8)
            assert await is_served(peer)
            assert (await peer.handshake("PLAIN")).error_code is ErrorCode.none
            assert (await peer.authenticate(ALICE)).session_lifetime == timedelta(seconds=10)
        await trio.sleep(9.9)
        assert await is_served(peer)
        await trio.sleep(0.2)
        await peer.send(METADATA)
        await was_refused(at, peer, "has expired")


@simulated
async def test_a_session_that_has_ended_is_renewed_by_authentication_alone() -> None:
    async with one_broker(config={"connections.max.reauth.ms": 10_000}) as at:
        peer = await at.user("alice")
        await trio.sleep(20)
        await peer.log_in("alice")
        assert await is_served(peer)


@simulated
async def test_nobody_becomes_another_by_authenticating_again() -> None:
    async with one_broker(config={"connections.max.reauth.ms": 10_000}) as at:
        peer = await at.user("alice")
        await trio.sleep(2)
        await peer.handshake("PLAIN")
        response = await peer.authenticate(b"\0bob\0bob-secret")
        assert response.error_code is ErrorCode.sasl_authentication_failed
        await was_refused(at, peer, "User:alice authenticates again as User:bob")

        peer = await at.user("alice")
        await trio.sleep(2)
        client = ScramClient("alice", "alice-secret", "SCRAM-SHA-256")
        await peer.handshake("SCRAM-SHA-256")
        client.process_server_first_message((await peer.authenticate(client.first_message())).auth_bytes)
        response = await peer.authenticate(client.final_message())
        assert response.error_code is ErrorCode.sasl_authentication_failed
        await was_refused(at, peer, "not PLAIN")


@simulated
async def test_between_the_steps_of_a_new_authentication_nothing_else_is_served() -> None:
    async with one_broker(config={"connections.max.reauth.ms": 10_000}) as at:
        for message in (METADATA, API_VERSIONS):
            peer = await at.user("alice")
            await trio.sleep(2)
            await peer.handshake("PLAIN")
            await peer.send(message)
            await was_refused(at, peer, "AUTHENTICATE is due")


@simulated
async def test_passwords_change_while_the_cluster_runs_and_survive_a_restart() -> None:
    """A credential that was altered counts at once, at a restarted broker, and under a restarted controller."""

    async def logs_in(at: OneBroker, password: str) -> bool:
        client = ScramClient("alice", password, "SCRAM-SHA-256")
        peer = await at.connect()
        await peer.handshake("SCRAM-SHA-256")
        client.process_server_first_message((await peer.authenticate(client.first_message())).auth_bytes)
        return (await peer.authenticate(client.final_message())).error_code is ErrorCode.none

    async with one_broker() as at:
        assert await logs_in(at, "alice-secret")
        salted = salted_password("sha256", "changed", b"salt", 5_000)
        upsertions = [Upsertion("alice", 1, 5_000, b"salt", salted)]
        async with at.cluster.controller.decisions.turn() as turn:
            await turn.commit(turn.controller.scram_credentials.alter([], upsertions))
        await at.cluster.settle_metadata()
        for _ in range(2):
            assert not await logs_in(at, "alice-secret")
            assert await logs_in(at, "changed")
            await at.cluster.crash(0)
            await at.cluster.restart_controller()
            await at.cluster.restart(0)


@settings(max_examples=amount(40, deep=100), deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), REQUESTS), max_size=4))
def test_no_request_of_an_unauthenticated_client_passes(frames: list[bytes]) -> None:
    """But ApiVersions, and what the rules refuse ends the connection."""
    exchanges = {"PLAIN": lambda: PlainExchange(USERS)}

    async def run() -> None:
        gate = SaslGate(SaslServer(exchanges, SimulatedClock(), failure_delay_ms=0))
        for frame in frames:
            try:
                response = await gate.take(frame)
            except (RefusedError, MalformedMessageError):
                return
            assert not gate.is_open
            assert response is not None or peek_request(frame)[0] == ApiKey.API_VERSIONS

    run_deterministically(run, seed=1)
