"""A poll that its application cancels loses no records."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tidegauge.model_tests.client.test_consumer_groups import FOUR, Member, produce, running
from tidegauge.model_tests.simulated import simulated


@simulated
async def test_a_poll_that_is_cancelled_as_there_are_records_returns_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (_, client), Member(client) as one:
        await produce(client, b"0", b"1", b"2", b"3")
        await one.join()
        take, values, scopes = one._prefetching.take, list[bytes](), list[trio.CancelScope]()

        def taken(most: int) -> Any:
            found = take(most)
            if found:
                scopes[-1].cancel()
            return found

        monkeypatch.setattr(one._prefetching, "take", taken)
        for _ in range(100):
            with trio.CancelScope() as scope:
                scopes.append(scope)
                values += [record.value or b"" for record in await one.poll(500)]
            if len(values) == len(FOUR):
                break
        assert sorted(values) == [b"0", b"1", b"2", b"3"]
