"""Every API asks for the rights that Kafka asks for, gives Kafka's error without them, and does nothing then."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import attrs
import pytest
from kio.schema.errors import ErrorCode

from impl.client import requests
from impl.cluster import Cluster
from impl.controller.access import Acl, PatternType, Permission
from impl.security import Security
from impl.server.handlers import HANDLERS
from impl.wire.apis import BROKER_APIS, request_class
from impl.wire.versions import blank, nested_class
from model_tests.security.access_rules import CASES, GROUP, OPEN, TOPIC, TRANSACTION, Case, Fields, Right, World
from model_tests.security.peers import USERS, door
from model_tests.simulated import simulated

SECURITY = Security("SASL_PLAINTEXT", users=USERS, acls=())

REFUSALS = frozenset(error for error in ErrorCode if error.name.endswith("authorization_failed"))


def message(case: Case, world: World) -> Any:
    version = BROKER_APIS[case.api].highest if case.version is None else case.version
    return built(request_class(case.api, version), case.fields(world))


def built(message_class: type, fields: Fields) -> Any:
    """A message of a class from its fields by name; those left out have Kafka's defaults."""
    hints = typing.get_type_hints(message_class)
    unknown = fields.keys() - hints.keys()
    assert not unknown, f"{message_class.__module__} has no {unknown}: {sorted(hints)}"
    values = {}
    for name, value in fields.items():
        nested = nested_class(hints[name])
        if nested is None or value is None:
            values[name] = value
        else:
            values[name] = tuple(built(nested, one) for one in value) if isinstance(value, list) else value
    return dataclasses.replace(blank(message_class), **values)


def errors_in(answer: Any) -> Iterator[ErrorCode]:
    """Every error code in an answer but NONE."""
    if isinstance(answer, ErrorCode):
        if answer is not ErrorCode.none:
            yield answer
    elif isinstance(answer, tuple | list):
        for item in answer:
            yield from errors_in(item)
    elif attrs.has(type(answer)):
        for attribute in attrs.fields(type(answer)):
            yield from errors_in(getattr(answer, attribute.name))
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from errors_in(getattr(answer, field.name))


def acls_for(rights: Iterable[Right], principal: str = "User:alice") -> list[Acl]:
    return [
        Acl(right.resource_type, right.name, PatternType.LITERAL, principal, "*", right.operation, Permission.ALLOW)
        for right in rights
    ]


def state(cluster: Cluster) -> object:
    """What a request may change."""
    log = cluster.controller.controller.log.end_offset
    logs = [
        (name, index, replica.log.log_start_offset, replica.log.log_end_offset)
        for name, index, _ in cluster.controller.controller.image.partitions()
        if (replica := cluster.replica(0, name, index))
    ]
    return log, logs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_api_is_refused_without_each_right_and_served_with_all(case: Case) -> None:
    if case.api not in HANDLERS:
        pytest.skip("not served yet")

    @simulated
    async def run() -> None:
        async with door(SECURITY) as at:
            cluster = at.cluster
            await cluster.create_topic(TOPIC)
            topic_id = UUID(cluster.controller.controller.image.topics[TOPIC].topic_id)
            records = requests.batch([b"value"], cluster.broker(0).clock.now_ms())
            request = message(case, World(topic_id, records))
            peer = await at.user("alice")

            for missing in case.rights:
                others = [right for right in case.rights if right != missing]
                await cluster.create_acls([*acls_for(others), *acls_for([missing], "User:bob"), *elsewhere(missing)])
                before = state(cluster)
                assert set(errors_in(await peer.ask(request))) == {missing.error}, f"without {missing}"
                assert state(cluster) == before, f"without {missing}, yet something happened"
                await cluster.delete_acls()

            before = state(cluster)
            assert set(errors_in(await peer.ask(request))) <= {right.error for right in case.rights}
            assert state(cluster) == before

            await cluster.create_acls(acls_for(case.rights))
            refused = REFUSALS.intersection(errors_in(await peer.ask(request)))
            assert not refused, "with all the rights that it takes"

    run()


def elsewhere(right: Right) -> list[Acl]:
    """The same right on another resource, which must not help."""
    if right.name not in (TOPIC, GROUP, TRANSACTION) or right.error is ErrorCode.cluster_authorization_failed:
        return []
    return acls_for([attrs.evolve(right, name=f"{right.name}-of-others")])


def test_every_api_is_in_the_table() -> None:
    assert {case.api for case in CASES} | OPEN.keys() == set(BROKER_APIS)
    assert not OPEN.keys() & {case.api for case in CASES}


def test_the_rights_of_a_case_are_told_apart_by_their_errors() -> None:
    for case in CASES:
        assert len({right.error for right in case.rights}) == len(case.rights) > 0, case
