"""However many transactional ids a coordinator has, it goes through them in slices; what it does not know, it says."""

from __future__ import annotations

from importlib import import_module

import pytest
import trio
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.types import TransactionalId

from tidegauge.impl.coordinators.transactions.log_format import encode_key, encode_value
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition, TransactionMetadata, TransactionStatus
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.appends import PartitionAppend
from tidegauge.impl.wire.message_classes import moment_ms
from tidegauge.model_tests.server.transacting import BEGINNING_MS, Transacting, transacting
from tidegauge.model_tests.server.work_in_steps import counted_steps
from tidegauge.model_tests.simulated import simulated

EACH = 250
"""Ids in each status."""
MOST_CALLS = 6_500
"""In one step of a task: some milliseconds."""
NEVER_ENDS = 1 << 62
FAR = (1 << 63) - 1


async def logged(
    producer: Transacting, records: list[tuple[bytes, bytes | None]], topic: str = TRANSACTION_STATE
) -> None:
    """Have foreign records in the partition of the log that has the producer's id."""
    broker = producer.cluster.broker(0)
    index = broker.transactions.core().partition_of(producer.name) if topic == TRANSACTION_STATE else 0
    batch = build_batch([Record(nth, BEGINNING_MS, *record) for nth, record in enumerate(records)])
    append = PartitionAppend(topic, index, batch)
    (outcome,) = await broker.replicas.append([append], acks=-1, timeout_ms=1_000, origin=Origin.BROKER)
    assert outcome.error is ErrorCode.none


async def loaded_again(producer: Transacting) -> None:
    await producer.cluster.crash(0, lose_unsynced=False)
    await producer.cluster.restart(0)
    producer.askers.clear()
    await trio.sleep(1)


def known(number: int, status: TransactionStatus, start_ms: int = -1, updated_ms: int = 0) -> TransactionMetadata:
    partitions = frozenset({TopicPartition("t", 0)}) if status is TransactionStatus.ONGOING else frozenset()
    return TransactionMetadata(
        1_000_000 + number, 0, status, 1_000, partitions=partitions, start_ms=start_ms, last_update_ms=updated_ms
    )


async def states(producer: Transacting) -> dict[str, str]:
    response = await producer.ask_coordinator(ListTransactionsRequest())
    assert response.error_code is ErrorCode.none
    return {one.transactional_id: one.transaction_state for one in response.transaction_states}


@simulated
async def test_many_ids_are_loaded_listed_ended_and_forgotten_and_nobody_waits_for_all_of_them() -> None:
    config = {
        "transactional.id.expiration.ms": 40_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 20_000,
    }
    async with transacting(config=config, trace=False) as producer:
        statuses = {
            "idle": known(0, TransactionStatus.EMPTY, updated_ms=BEGINNING_MS),
            "late": known(1, TransactionStatus.ONGOING, BEGINNING_MS, NEVER_ENDS),
            "prepared": known(2, TransactionStatus.PREPARE_COMMIT, BEGINNING_MS, NEVER_ENDS),
        }
        for name, metadata in statuses.items():
            value = encode_value(metadata)
            await logged(producer, [(encode_key(f"{name}-{number}"), value) for number in range(EACH)])
        assert await states(producer) == {"tx": "Empty"}
        import_module("tidegauge.impl.server.broker.groups")  # which a broker imports at its first use, in one step
        with counted_steps() as steps:
            await loaded_again(producer)
            await producer.init()
            found = await states(producer)
            assert len(found) == 3 * EACH + 1
            await trio.sleep(15)
            found = await states(producer)
            counted = [sum(state == one for state in found.values()) for one in ("CompleteCommit", "Ongoing")]
            assert counted == [EACH, 0], "prepared ones are complete, and what is late is ended"
            await trio.sleep(30)
        assert not any(name.startswith("idle") for name in await states(producer))
        assert steps.total > 50 * MOST_CALLS
        assert steps.most < MOST_CALLS


@simulated
async def test_records_of_versions_that_are_not_known_are_passed_over_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later, group = b"\0\7\0\1x", b"\0\x63\0\1g"
    """Keys of versions that Kafka does not have yet, of a transaction and of a group."""
    async with transacting(1) as producer:
        far = known(7, TransactionStatus.EMPTY, FAR, FAR)
        await logged(
            producer,
            [
                (later, b"anything"),
                (encode_key("ty"), b"\0\2of a later version"),
                (encode_key("tz"), encode_value(far)),
            ],
        )
        await producer.cluster.create_topic(CONSUMER_OFFSETS, assignments=[[0]])
        await logged(producer, [(group, b"anything")], CONSUMER_OFFSETS)
        await loaded_again(producer)
        assert await producer.init() is ErrorCode.none, "the others have their coordinator"
        request = DescribeTransactionsRequest(transactional_ids=(TransactionalId("ty"), TransactionalId("tz")))
        unknown, found = (await producer.ask_coordinator(request)).transaction_states
        assert unknown.error_code is ErrorCode.transactional_id_not_found
        assert moment_ms(found.transaction_start_time) == FAR, "whatever time a log has, it is told"
    told = [one.getMessage() for one in caplog.records if one.getMessage().startswith("records passed over")]
    assert sorted(line.split("partition=")[1].split()[:2] for line in told) == [
        ["__consumer_offsets-0", "records=1"],
        ["__transaction_state-0", "records=2"],
    ]
