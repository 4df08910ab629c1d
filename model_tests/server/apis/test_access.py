"""Every API requires the operations that Kafka requires; without them it returns Kafka's error and does nothing."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security, allow
from tidegauge.impl.metadata.access import Acl, Operation, PatternType, Permission
from tidegauge.impl.records.payload import ProducerIdentity, build_batch, decode_batches
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, request_class
from tidegauge.impl.wire.message_classes import blank, nested_class
from tidegauge.impl.wire.primitives import i8, millis
from tidegauge.model_tests.server.apis.access_rules import (
    CASES,
    GROUP,
    OPEN,
    TOPIC,
    TRANSACTION,
    Case,
    Fields,
    Fixtures,
    Required,
    on_topic,
    on_transaction,
    table,
)
from tidegauge.model_tests.server.transport.security.peers import USERS, Peer, one_broker
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.tidy import ROOT

SECURITY = Security("SASL_PLAINTEXT", users=USERS, acls=())

REFUSALS = frozenset(error for error in ErrorCode if error.name.endswith("authorization_failed"))


def message(case: Case, fixtures: Fixtures) -> Any:
    version = BROKER_APIS[case.api].highest if case.version is None else case.version
    return built(request_class(case.api, version), case.fields(fixtures))


def built(message_class: type, fields: Fields) -> Any:
    """A message of a class from its fields by name; those left out have Kafka's defaults."""
    hints = typing.get_type_hints(message_class)
    unknown = fields.keys() - hints.keys()
    assert not unknown, f"{message_class.__module__} has no {unknown}: {sorted(hints)}"
    values = {}
    for name, value in fields.items():
        nested = nested_class(hints[name]) or object
        if isinstance(value, list):
            values[name] = tuple(built(nested, one) for one in value)
        else:
            values[name] = built(nested, value) if isinstance(value, dict) else value
    return dataclasses.replace(blank(message_class), **values)


def errors_in(response: Any) -> Iterator[ErrorCode]:
    """Every error code in a response but NONE."""
    if isinstance(response, ErrorCode):
        if response is not ErrorCode.none:
            yield response
    elif isinstance(response, tuple | list):
        for item in response:
            yield from errors_in(item)
    elif attrs.has(type(response)):
        for attribute in attrs.fields(type(response)):
            yield from errors_in(getattr(response, attribute.name))
    elif dataclasses.is_dataclass(response):
        for field in dataclasses.fields(response):
            yield from errors_in(getattr(response, field.name))


def acls_for(requirements: Iterable[Required], principal: str = "User:alice") -> list[Acl]:
    return [
        Acl(
            need.resource_type,
            need.name,
            PatternType.LITERAL,
            principal,
            "*",
            need.operation,
            Permission.ALLOW,
        )
        for need in requirements
    ]


def state(cluster: Cluster) -> object:
    """What a request may change."""
    log = cluster.controller.log.end_offset
    logs = [
        (name, index, replica.log.log_start_offset, replica.log.log_end_offset)
        for name, index, _ in cluster.controller.controller.image.partitions()
        if (replica := cluster.replica(0, name, index))
    ]
    return log, logs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_api_is_refused_without_each_right_and_served_with_all(case: Case) -> None:
    assert case.api in BROKER_HANDLERS

    @simulated
    async def run() -> None:
        async with one_broker(SECURITY) as at:
            cluster = at.cluster
            await cluster.create_topic(TOPIC)
            topic_id = UUID(cluster.controller.controller.image.topics[TOPIC].topic_id)
            records = requests.batch([b"value"], cluster.broker(0).clock.now_ms())
            transactional = build_batch(
                list(decode_batches(records)), producer=ProducerIdentity(7, 0, 0), transactional=True
            )
            request = message(case, Fixtures(topic_id, records, transactional))
            peer = await at.user("alice")

            for missing in case.requirements:
                others = [need for need in case.requirements if need != missing]
                await cluster.create_acls([*acls_for(others), *acls_for([missing], "User:bob"), *elsewhere(missing)])
                before = state(cluster)
                assert set(errors_in(await peer.request(request))) == {missing.error}, f"without {missing}"
                assert state(cluster) == before, f"without {missing}, yet something happened"
                await cluster.delete_acls()

            before = state(cluster)
            assert set(errors_in(await peer.request(request))) <= {need.error for need in case.requirements}
            assert state(cluster) == before

            await cluster.create_acls(acls_for(case.requirements))
            response = await peer.request(request)
            assert not REFUSALS.intersection(errors_in(response)), "although all that it requires is allowed"

    run()


def elsewhere(need: Required) -> list[Acl]:
    """ACLs for the same operation on another resource, which must not help."""
    if need.name not in (TOPIC, GROUP, TRANSACTION) or need.error is ErrorCode.cluster_authorization_failed:
        return []
    return acls_for([attrs.evolve(need, name=f"{need.name}-of-others")])


def test_every_api_is_in_the_table() -> None:
    assert {case.api for case in CASES} | OPEN.keys() == set(BROKER_APIS)
    assert not OPEN.keys() & {case.api for case in CASES}


def test_every_case_has_requirements() -> None:
    assert all(case.requirements for case in CASES)


@simulated
async def test_of_several_topics_those_are_served_that_may_be() -> None:
    async with one_broker(SECURITY) as at:
        topics = {name: f"{name}-{TOPIC}" for name in ("mine", "theirs")}
        ids = {}
        for name in topics.values():
            await at.cluster.create_topic(name)
            ids[name] = UUID(at.cluster.controller.controller.image.topics[name].topic_id)
        await at.cluster.create_acls(allow("User:alice", topic=topics["mine"]))
        peer = await at.user("alice")
        ask = functools.partial(ask_about, at.cluster, peer, ids)

        assert await ask(ApiKey.PRODUCE) == {topics["mine"]: set(), topics["theirs"]: {DENIED}}
        assert await ask(ApiKey.FETCH) == {topics["mine"]: set(), topics["theirs"]: {DENIED}}
        logs = {name: at.cluster.replica(0, name).log.log_end_offset for name in topics.values()}
        assert logs == {topics["mine"]: 1, topics["theirs"]: 0}
        assert await ask(ApiKey.METADATA) == {topics["mine"]: set(), topics["theirs"]: {DENIED}}
        every = await peer.request(dataclasses.replace(blank(request_class(ApiKey.METADATA, 12)), topics=None))
        assert [topic.name for topic in every.topics] == [topics["mine"]]
        assert await ask(ApiKey.DELETE_TOPICS) == {topics["mine"]: set(), topics["theirs"]: {DENIED}}
        await at.cluster.settle_metadata()
        assert list(at.cluster.controller.controller.image.topics) == [topics["theirs"]]


DENIED = ErrorCode.topic_authorization_failed


@simulated
async def test_transactions_are_shown_and_ended_as_far_as_each_right_goes() -> None:
    async with one_broker(SECURITY, config={"transaction.state.log.num.partitions": 1}) as at:
        await at.cluster.create_topic(TOPIC)
        await at.cluster.create_acls(acls_for([on_transaction(Operation.WRITE), on_topic(Operation.WRITE)]))
        alice, bob = await at.user("alice"), await at.user("bob")

        async def asked(peer: Peer, api: ApiKey, fields: Fields, version: int | None = None) -> Any:
            version = BROKER_APIS[api].highest if version is None else version
            request = built(request_class(api, version), fields)
            while BUSY.intersection(errors_in(response := await peer.request(request))):  # noqa: ASYNC110
                await trio.sleep(0.05)
            return response

        who = {"transactional_id": TRANSACTION, "producer_id": -1, "producer_epoch": -1}
        await asked(alice, ApiKey.FIND_COORDINATOR, {"key_type": i8(1), "coordinator_keys": (TRANSACTION,)})
        begun = await asked(alice, ApiKey.INIT_PRODUCER_ID, {**who, "transaction_timeout": millis(60_000)})
        who |= {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        topics = [{"name": TOPIC, "partitions": (0,)}]
        joined = {**{f"v3_and_below_{name}": value for name, value in who.items()}, "v3_and_below_topics": topics}
        assert not set(errors_in(await asked(alice, ApiKey.ADD_PARTITIONS_TO_TXN, joined, 3)))

        async def shown(peer: Peer) -> tuple[int, str, int]:
            listed = await asked(peer, ApiKey.LIST_TRANSACTIONS, {})
            found = await asked(peer, ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": (TRANSACTION,)})
            (state,) = found.transaction_states
            return len(listed.transaction_states), state.error_code.name, len(state.topics)

        assert await shown(alice) == (1, "none", 1)
        assert await shown(bob) == (0, "transactional_id_authorization_failed", 0)
        await at.cluster.create_acls(acls_for([on_transaction(Operation.DESCRIBE)], "User:bob"))
        assert await shown(bob) == (1, "none", 0), "its topic is not bob's"
        ending = {**who, "committed": True}
        (refused,) = set(errors_in(await asked(bob, ApiKey.END_TXN, ending, 4)))
        assert refused is ErrorCode.transactional_id_authorization_failed
        assert not set(errors_in(await asked(alice, ApiKey.END_TXN, ending, 4)))


BUSY = {
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
    ErrorCode.concurrent_transactions,
}


async def ask_about(cluster: Cluster, peer: Peer, ids: dict[str, UUID], api: ApiKey) -> dict[str, set[ErrorCode]]:
    """The errors of each topic in the response to one request about all."""
    records = requests.batch([b"value"], cluster.broker(0).clock.now_ms())
    fixture_sets = [Fixtures(topic_id, records, records) for topic_id in ids.values()]
    (case,) = (case for case in CASES if case.api is api and case.variant in ("", "by id"))
    messages = [message(case, fixtures) for fixtures in fixture_sets]
    array = "topic_data" if api is ApiKey.PRODUCE else "topics"
    both = dataclasses.replace(
        messages[0], **{array: tuple(topic for one in messages for topic in getattr(one, array))}
    )
    response = await peer.request(both)
    topics = response.responses if hasattr(response, "responses") else response.topics
    names = {topic_id: name for name, topic_id in ids.items()}
    return {names[UUID(str(topic.topic_id))]: set(errors_in(topic)) for topic in topics}


def test_the_table_of_the_documentation_is_this_one() -> None:
    assert table() in (ROOT / "docs" / "security.md").read_text("utf-8"), f"docs/security.md should have:\n{table()}"
