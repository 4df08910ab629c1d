"""No request, however odd, finds an error that no code expects: each has a response, or ends its connection.

Beside each error code is a text, wherever the response has a place for one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import decode_response
from tidegauge.model_tests.server.apis.test_bounded_requests import cluster_with_a_topic, sent
from tidegauge.model_tests.server.large_requests import SEARCHED, frame_of, message_class, versions
from tidegauge.model_tests.server.odd_requests import odd_request, odd_values
from tidegauge.model_tests.simulated import simulated

KEYS = [key for key in SEARCHED if key is not ApiKey.UNREGISTER_BROKER]  # it would do as it is told
LONGEST_S = 100


def errors_without_text(message: Any) -> Iterator[Any]:
    """What of a response has an error code and room for a text, and says nothing beside the code."""
    names = [name for name in getattr(type(message), "__slots__", ()) if name != "__weakref__"]
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message)]
    has_both = {"error_code", "error_message"} <= set(names)
    if has_both and message.error_code is not ErrorCode.none and not message.error_message:
        yield message
    for name in names:
        value = getattr(message, name)
        for item in value if isinstance(value, (tuple, list)) else (value,):
            yield from errors_without_text(item)


async def check_odd_requests(seed: int, draws: int, *, all_versions: bool) -> None:
    rng = Random(seed)
    async with cluster_with_a_topic() as (cluster, values):
        odd = odd_values(values["uuid"])
        for key in KEYS:
            for version in versions(key) if all_versions else versions(key)[-1:]:
                for _ in range(draws):
                    frame = frame_of(key, version, odd_request(message_class(key, version), rng, odd))
                    with trio.move_on_after(LONGEST_S):
                        if (response := await sent(cluster, frame)) is not None:
                            untold = list(errors_without_text(decode_response(response, key, version).message))
                            assert not untold, (key.name, version, frame[:200], untold)
                    for node in (cluster.broker(0), cluster.controller):
                        assert not node.failed_requests.last, (key.name, version, frame[:200])
                        assert node.halted is None, (key.name, version, frame[:200])
        await cluster.create_topic("afterwards")
        async with cluster.client() as client:
            assert await client.produce("afterwards", b"x") == 0


@simulated
async def test_odd_values_in_any_field_are_taken_or_refused() -> None:
    await check_odd_requests(1, 2, all_versions=False)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 6))
@simulated
async def test_odd_values_in_any_field_of_any_version_are_taken_or_refused(seed: int) -> None:
    await check_odd_requests(seed, 4, all_versions=True)
