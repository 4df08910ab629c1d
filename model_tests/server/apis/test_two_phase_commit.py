"""Two-phase commit over the wire (KIP-939): a database decides about a transaction, and a later process ends it."""

from __future__ import annotations

from typing import Any, Final

import pytest
import trio
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TransactionalId

from tidegauge.impl.server.transport.authorization import Operation, ResourceType
from tidegauge.impl.wire.apis import BROKER_APIS, UNSTABLE_APIS, ApiKey
from tidegauge.model_tests.server.asking import forbid
from tidegauge.model_tests.server.transacting import Transacting, transacting
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
UNSTABLE: Final = {"unstable.api.versions.enable": "true"}
TWO_PHASE: Final = {**UNSTABLE, "transaction.two.phase.commit.enable": "true"}
FOR_EVER_MS = (1 << 31) - 1
both = pytest.mark.parametrize("version", [1, 2])


async def process(producer: Transacting, *, keeps: bool, two_phase: bool = True) -> Transacting:
    """Another process of the transactional id, which has begun."""
    one = Transacting(producer.cluster, producer.version, timeout_ms=1_000, two_phase=two_phase)
    assert await one.init(keeps=keeps) is NONE
    return one


async def served(producer: Transacting) -> tuple[int, int]:
    """The versions of InitProducerId that a broker tells."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response: Any = await (await producer.peer(0)).ask(request)
    (found,) = (one for one in response.api_keys if one.api_key == ApiKey.INIT_PRODUCER_ID)
    return found.min_version, found.max_version


async def shown(producer: Transacting) -> tuple[str, int, int, int]:
    """State, time-out in ms, producer id and epoch as operators are told them."""
    asked = DescribeTransactionsRequest(transactional_ids=(TransactionalId(producer.name),))
    (one,) = (await producer.ask_coordinator(asked)).transaction_states
    return one.transaction_state, one.transaction_timeout.total_seconds() * 1_000, one.producer_id, one.producer_epoch


@both
@simulated
async def test_what_is_prepared_outlives_its_time_out_and_its_processes_until_it_is_ended(version: int) -> None:
    async with transacting(version, config=TWO_PHASE) as producer:
        first = await process(producer, keeps=False)
        begun = first.producer_id, first.epoch
        await first.write_patiently(b"1")
        await trio.sleep(60)
        assert await shown(first) == ("Ongoing", FOR_EVER_MS, *begun)

        second = await process(producer, keeps=True)
        assert (second.producer_id, second.epoch, second.ongoing) == (begun[0], begun[1] + 1, begun)
        assert await first.end(commit=True) is ErrorCode.producer_fenced
        assert await second.add("t", 1) is ErrorCode.invalid_txn_state, "it can only end it"

        third = await process(producer, keeps=True)
        assert (third.epoch, third.ongoing) == (second.epoch + 1, begun), "the database knows it as it was begun"
        asked = ListTransactionsRequest(state_filters=(), producer_id_filters=(ProducerId(begun[0]),))
        (listed,) = (await third.ask_coordinator(asked)).transaction_states
        assert (listed.producer_id, listed.transaction_state) == (begun[0], "Ongoing")
        assert await shown(third) == ("Ongoing", FOR_EVER_MS, *begun)
        assert await second.end(commit=False) is ErrorCode.producer_fenced
        assert await third.end(commit=True) is NONE
        await third.until_read([b"1"])

        assert await third.init(keeps=True) is NONE
        assert third.ongoing == (-1, -1), "nothing is prepared"
        await third.write_patiently(b"2")
        assert await third.end(commit=True) is NONE
        await third.until_read([b"1", b"2"])


@simulated
async def test_a_process_that_does_not_keep_it_aborts_what_was_prepared() -> None:
    async with transacting(config=TWO_PHASE) as producer:
        first = await process(producer, keeps=False)
        await first.write_patiently(b"1")
        second = await process(producer, keeps=False)
        await second.write_patiently(b"2")
        assert await second.end(commit=True) is NONE
        await second.until_read([b"2"])
        assert await first.end(commit=True) is ErrorCode.producer_fenced


@simulated
async def test_who_takes_over_without_two_phase_commit_has_as_long_as_it_says() -> None:
    async with transacting(config=TWO_PHASE) as producer:
        first = await process(producer, keeps=False)
        await first.write_patiently(b"1")
        second = await process(producer, keeps=True, two_phase=False)
        assert second.ongoing == (first.producer_id, first.epoch)
        await trio.sleep(30)
        assert await second.end(commit=True) is ErrorCode.producer_fenced, "its time was over"
        await second.until_read([])


@simulated
async def test_two_phase_commit_needs_the_setting_and_the_right() -> None:
    async with transacting(config=UNSTABLE) as producer:
        refused = Transacting(producer.cluster, two_phase=True)
        assert await refused.init(keeps=False) is ErrorCode.transactional_id_authorization_failed
        assert await producer.init(keeps=True) is NONE, "who only keeps what is open needs neither"
    async with transacting(config=TWO_PHASE) as producer:
        forbid(producer.cluster, (Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, "tx"))
        refused = Transacting(producer.cluster, two_phase=True)
        assert await refused.init(keeps=False) is ErrorCode.transactional_id_authorization_failed
        refused.two_phase = False
        assert await refused.init(keeps=True) is NONE


@simulated
async def test_a_version_that_may_change_is_served_only_where_the_setting_says_so() -> None:
    async with transacting(config=TWO_PHASE) as producer:
        assert await served(producer) == tuple(UNSTABLE_APIS[ApiKey.INIT_PRODUCER_ID])
    async with transacting() as producer:
        assert await served(producer) == tuple(BROKER_APIS[ApiKey.INIT_PRODUCER_ID])
        with pytest.raises(AssertionError, match="the broker closed the connection"):
            await producer.init(keeps=False)
