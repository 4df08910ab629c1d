"""Transactions over the wire, in both versions of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import TransactionState
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TransactionalId
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

from tidegauge.impl.coordinators.transactions.log_format import encode_key
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.server.broker.appends import PartitionAppend
from tidegauge.impl.wire.primitives import TopicName, i8, i16, i32, millis
from tidegauge.model_tests.server.transacting import BEGINNING_MS, Transacting, transacting
from tidegauge.model_tests.simulated import simulated

NONE = ErrorCode.none
both = pytest.mark.parametrize("version", [1, 2])


@both
@simulated
async def test_what_is_committed_is_read_and_what_is_aborted_is_not(version: int) -> None:
    async with transacting(version, brokers=3) as producer:
        for value, commit in ((b"1", True), (b"2", False), (b"3", True)):
            for partition in (0, 1):
                await producer.write_patiently(value, partition=partition)
            assert await producer.end(commit=commit) is NONE
        for partition in (0, 1):
            await producer.until_read([b"1", b"3"], partition=partition)
            assert await producer.read(partition=partition, committed=False) == [b"1", b"2", b"3"]
        assert producer.epoch == (3 if version == 2 else 0)


@both
@simulated
async def test_a_new_process_aborts_and_fences_the_old_one(version: int) -> None:
    async with transacting(version) as zombie:
        await zombie.write_patiently(b"1")
        young = Transacting(zombie.cluster, version)
        assert await young.init() is NONE
        assert (young.producer_id, young.epoch > zombie.epoch) == (zombie.producer_id, True)
        assert await zombie.write(b"2") is ErrorCode.invalid_producer_epoch
        assert await zombie.end(commit=True) is ErrorCode.producer_fenced
        await young.write_patiently(b"3")
        assert await young.end(commit=True) is NONE
        await young.until_read([b"3"])


@both
@simulated
async def test_a_record_begins_no_transaction_that_its_coordinator_does_not_have(version: int) -> None:
    async with transacting(version) as producer:
        if version == 1:
            assert await producer.write(b"1") is ErrorCode.transaction_abortable, "it was not added"
        await producer.write_patiently(b"1")
        assert await producer.end(commit=True) is NONE
        late = Transacting(producer.cluster, version, producer_id=producer.producer_id, epoch=0)
        late.sequences["t", 0] = 1 if version == 1 else 0
        await producer.until_read([b"1"])
        expected = ErrorCode.transaction_abortable if version == 1 else ErrorCode.invalid_producer_epoch
        assert await late.write(b"late") is expected
        assert await producer.read(committed=False) == [b"1"], "nothing hangs"


@simulated
async def test_the_next_transaction_begins_while_the_last_one_is_being_completed() -> None:
    async with transacting() as producer:
        await producer.write_patiently(b"1")
        assert await producer.end(commit=True) is NONE
        assert await producer.write(b"2") is NONE, "its leader asks again, for another word"


@simulated
async def test_a_client_that_goes_on_at_once_waits_for_its_last_transaction_but_not_for_long() -> None:
    async with transacting(1) as producer:
        held = producer.cluster.hold_requests("WriteTxnMarkers", client=0)
        with held:
            await producer.write_patiently(b"1")
            assert await producer.end(commit=True) is NONE
            begun = trio.current_time()
            assert await producer.add() is ErrorCode.concurrent_transactions
            assert 0.1 <= trio.current_time() - begun < 0.12

            async def release() -> None:
                await trio.sleep(0.05)
                held.release()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(release)
                begun = trio.current_time()
                assert await producer.add() is NONE
                assert 0.05 <= trio.current_time() - begun < 0.1


@simulated
async def test_without_verification_a_leader_takes_what_comes() -> None:
    async with transacting(1, config={"transaction.partition.verification.enable": "false"}) as producer:
        assert await producer.write(b"1") is NONE
        assert await producer.read() == []


@both
@simulated
async def test_a_transaction_that_is_left_behind_is_aborted_in_time_and_its_producer_fenced(version: int) -> None:
    async with transacting(version) as producer:
        producer.timeout_ms = 1_000
        assert await producer.init() is NONE
        await producer.write_patiently(b"1")
        begun = trio.current_time()
        other = Transacting(producer.cluster, 2, "other")
        assert await other.init() is NONE
        await other.write_patiently(b"2")
        assert await other.end(commit=True) is NONE
        await producer.until_read([b"2"])
        assert 1 <= trio.current_time() - begun < 12, "looked for every ten seconds"
        assert await producer.end(commit=True) is ErrorCode.producer_fenced


@simulated
async def test_a_time_out_beyond_the_limit_is_refused() -> None:
    async with transacting(config={"transaction.max.timeout.ms": 60_000}) as producer:
        producer.timeout_ms = 60_001
        assert await producer.init() is ErrorCode.invalid_transaction_timeout


@both
@simulated
async def test_what_another_coordinator_finds_prepared_it_completes(version: int) -> None:
    async with transacting(version, brokers=3) as producer:
        cluster = producer.cluster
        await producer.write_patiently(b"1")
        first = await producer.coordinator()
        held = cluster.hold_requests("WriteTxnMarkers", client=first)
        with held:
            assert await producer.end(commit=True) is NONE
            await trio.sleep(0.1)
            assert held.waiting == 1
            assert await producer.read() == []
            await cluster.crash(first)
        producer.leader = await cluster.wait_for_leader("t", other_than=first)
        await producer.until_read([b"1"])
        assert producer.version == 1 or await producer.init(goes_on=True) is NONE, "the epoch that it was given is kept"
        await producer.write_patiently(b"2")
        assert await producer.end(commit=True) is NONE
        await producer.until_read([b"1", b"2"])


REQUESTS: dict[str, Callable[[Transacting], Awaitable[ErrorCode]]] = {
    "InitProducerId": lambda client: client.init(patient=False),
    "AddPartitionsToTxn": lambda client: client.add(),
    "EndTxn": lambda client: client.end(commit=True),
}


@pytest.mark.parametrize("request_name", REQUESTS)
@simulated
async def test_a_coordinator_that_is_cut_off_sends_its_clients_to_another_one(request_name: str) -> None:
    """It does not know that it was replaced; what it cannot commit is refused at first for the record before."""
    async with transacting(1, brokers=3) as producer:
        cluster = producer.cluster
        await producer.write_patiently(b"1")
        former = await producer.coordinator()
        others: set[int | str] = {0, 1, 2, "controller"}
        for other in others - {former}:
            cluster.block(former, other)
            cluster.block(other, former)
        adding, asking = (
            Transacting(cluster, 1, leader=former, producer_id=producer.producer_id, epoch=producer.epoch) for _ in "ab"
        )
        added: list[ErrorCode] = []

        async def add() -> None:
            added.append(await adding.add("t", 1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await trio.sleep(29.8)
            assert await REQUESTS[request_name](asking) is ErrorCode.concurrent_transactions
            assert not added
        assert added == [ErrorCode.coordinator_not_available]
        assert await asking.coordinator() == former, "so it says itself"
        assert await REQUESTS[request_name](asking) is ErrorCode.coordinator_not_available
        producer.leader = next(one for one in range(3) if one != former)
        assert await producer.coordinator() != former
        assert await producer.add("t", 1) is NONE
        cluster.heal()
        await producer.write_patiently(b"2", partition=1)
        assert await producer.end(commit=True) is NONE


@simulated
async def test_a_marker_is_sent_again_until_it_is_taken_and_a_deleted_topic_has_nothing_left_to_end() -> None:
    async with transacting(brokers=3) as producer:
        cluster = producer.cluster
        await cluster.create_topic("gone", assignments=[[0]])
        await producer.write_patiently(b"1")
        await producer.write_patiently(b"1", "gone")
        await cluster.delete_topic("gone")
        coordinator = await producer.coordinator()
        with cluster.fail_requests("WriteTxnMarkers", "NOT_LEADER_OR_FOLLOWER", 3, client=coordinator) as failed:
            assert await producer.end(commit=True) is NONE
            await producer.until_read([b"1"])
            assert failed.hits == 3
        assert (await described(producer)).transaction_state == "CompleteCommit"


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of markers that were refused for an epoch."""
    return [one.getMessage() for one in caplog.records if one.getMessage().startswith("marker refused")]


def test_a_marker_that_is_refused_for_the_producers_epoch_is_sent_ever_more_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where it is refused: elsewhere it is sent at once."""

    @simulated
    async def test() -> None:
        async with transacting(brokers=3) as producer:
            cluster = producer.cluster
            await cluster.create_topic("u", assignments=[[1]])
            await producer.write_patiently(b"1")
            producer.leader = 1
            await producer.write_patiently(b"1", "u")
            fail, sender = partial(cluster.fail_requests, "WriteTxnMarkers"), await producer.coordinator()
            with (
                fail("INVALID_PRODUCER_EPOCH", None, broker=0, client=sender) as at_0,
                fail("NOT_LEADER_OR_FOLLOWER", 20, broker=1, client=sender),
            ):
                assert await producer.end(commit=True) is NONE
                await trio.sleep(5)
                await producer.until_read([b"1"], "u")
                await trio.sleep(95)
                assert at_0.hits == 10, "after 0.2, 0.4, ... 25.6 and every 30 seconds"
            producer.leader = 0
            await producer.until_read([b"1"])
            assert (await described(producer)).transaction_state == "CompleteCommit"

    test()
    (line,) = refusals(caplog)
    assert "partition=t-0 transactional_id=tx" in line
    assert "the partition knows a later epoch of the producer" in line


def test_a_coordinator_whose_marker_is_refused_for_a_later_one_stops(caplog: pytest.LogCaptureFixture) -> None:
    @simulated
    async def test() -> None:
        async with transacting(brokers=3) as producer:
            cluster = producer.cluster
            await producer.write_patiently(b"1")
            coordinator = await producer.coordinator()
            await abort(producer, coordinator_epoch=1)
            assert await producer.end(commit=True) is NONE
            await trio.sleep(1)
            held = cluster.hold_requests("WriteTxnMarkers", client=coordinator)
            with held:
                await trio.sleep(5)
                assert held.waiting == 0
            assert (await described(producer)).transaction_state == "PrepareCommit"
            await cluster.crash(coordinator)
            producer.leader = await cluster.wait_for_leader("t", other_than=coordinator)
            while await producer.coordinator() == coordinator:  # noqa: ASYNC110
                await trio.sleep(0.05)
            while (await described(producer)).transaction_state != "CompleteCommit":  # noqa: ASYNC110
                await trio.sleep(0.05)

    test()
    (line,) = refusals(caplog)
    assert "coordinator_epoch=0" in line
    assert "a later coordinator has written markers there" in line


@simulated
async def test_a_partition_that_the_coordinator_does_not_know_yet_does_not_join() -> None:
    async with transacting(brokers=3) as producer:
        cluster, coordinator = producer.cluster, await producer.coordinator()
        producer.leader = (coordinator + 1) % 3
        cluster.block("controller", coordinator)
        await cluster.create_topic("new", assignments=[[producer.leader]])
        assert await producer.write(b"1", "new") is ErrorCode.not_enough_replicas
        cluster.heal()
        await producer.write_patiently(b"1", "new")
        assert await producer.end(commit=True) is NONE
        await producer.until_read([b"1"], "new")


@both
@simulated
async def test_operators_see_a_transaction_and_may_abort_one_that_hangs(version: int) -> None:
    async with transacting(version) as producer:
        assert (await described(producer)).transaction_state == "Empty"
        await producer.write_patiently(b"1")
        found = await described(producer)
        assert (found.transaction_state, found.producer_id, found.producer_epoch) == (
            "Ongoing",
            producer.producer_id,
            0,
        )
        assert [(topic.topic, topic.partitions) for topic in found.topics] == [("t", (0,))]
        assert await listed(producer) == [("tx", "Ongoing")]
        assert await listed(producer, states=("Empty",)) == []
        await abort(producer)
        await producer.until_read([])
        partition = producer.cluster.broker(0).replicas.get("t", 0)
        assert partition is not None
        assert partition.replica.last_stable_offset == 2
        unknown = Transacting(producer.cluster, version, "unknown")
        assert (await described(unknown)).error_code is ErrorCode.transactional_id_not_found
        assert await unknown.end(commit=True) is ErrorCode.invalid_producer_id_mapping


@simulated
async def test_a_record_that_is_none_takes_its_partition_a_coordinator_and_a_tombstone_gives_it_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with transacting(1) as producer:
        cluster = producer.cluster

        async def logged(value: bytes | None) -> None:
            """Have a foreign record of the producer's id in the log, and the log loaded."""
            replicas = cluster.broker(0).replicas
            batch = build_batch([Record(0, BEGINNING_MS, encode_key(producer.name), value)])
            index = cluster.broker(0).transactions.core().partition_of(producer.name)
            append = PartitionAppend(TRANSACTION_STATE, index, batch)
            (outcome,) = await replicas.append([append], acks=-1, timeout_ms=1_000, origin=Origin.BROKER)
            assert outcome.error is NONE
            await cluster.crash(0, lose_unsynced=False)
            await cluster.restart(0)
            producer.askers.clear()
            await trio.sleep(1)

        await logged(b"\0\1none")
        assert await producer.init(patient=False) is ErrorCode.not_coordinator
        assert "coordinator not loaded" in caplog.text
        assert "transactional id 'tx'" in caplog.text
        other = Transacting(cluster, 1, "ty")
        assert await other.init() is NONE, "its partition is another one"
        await logged(None)
        assert await producer.init() is NONE


@simulated
async def test_ids_are_listed_by_a_pattern_that_costs_one_pass() -> None:
    async with transacting() as producer:
        long = Transacting(producer.cluster, name="a" * 10_000 + "!")
        assert await long.init() is NONE
        for pattern, found in (("", 2), (".*", 2), ("t.", 1), ("t", 0), ("(a+)+$", 0), ("(a+)+!", 1), ("(", None)):
            response = await producer.ask_coordinator(ListTransactionsRequest(transactional_id_pattern=pattern))
            expected = NONE if found is not None else ErrorCode.invalid_regular_expression
            assert (response.error_code, len(response.transaction_states)) == (expected, found or 0), pattern


@simulated
async def test_a_transactional_id_that_nobody_uses_is_forgotten() -> None:
    config = {
        "transactional.id.expiration.ms": 5_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
    }
    async with transacting(config=config) as producer:
        await trio.sleep(4)
        assert await listed(producer) == [("tx", "Empty")]
        await trio.sleep(4)
        assert await listed(producer) == []
        first = producer.producer_id
        assert await producer.init() is NONE
        assert (producer.epoch, producer.producer_id != first) == (0, True)


@simulated
async def test_partitions_that_are_not_there_are_not_added_and_no_other_is() -> None:
    async with transacting(1) as producer:
        assert await producer.add("missing") is ErrorCode.unknown_topic_or_partition
        assert await producer.add("t", 7) is ErrorCode.unknown_topic_or_partition
        assert (await described(producer)).transaction_state == "Empty"


@simulated
async def test_at_a_lower_level_a_transaction_does_not_raise_the_epoch() -> None:
    async with transacting() as producer:
        await to_level(producer, 1, 2)
        await producer.write_patiently(b"1")
        assert await producer.end(commit=True) is NONE
        await producer.until_read([b"1"])
        assert (await described(producer)).producer_epoch == 0


@simulated
async def test_a_client_that_upgrades_between_two_transactions_begins_under_a_new_epoch() -> None:
    """It learns of a new level of `transaction.version`; what it has sent before joins no later transaction."""
    async with transacting(1) as producer:
        for level, upgrade in ((0, 2), (1, 1)):
            await to_level(producer, level, upgrade)
            await producer.write_patiently(b"%d" % level)
            assert await producer.end(commit=True) is NONE
            await producer.until_read([b"0", b"1"][: level + 1])
        assert producer.epoch == 0, "as long as it speaks version 1"
        await to_level(producer, 2, 1)
        late = Transacting(producer.cluster, 1, producer_id=producer.producer_id, epoch=producer.epoch)
        producer.version = 2
        assert await producer.init(goes_on=True) is NONE
        assert producer.epoch == 1
        await producer.write_patiently(b"2")
        assert await late.end(commit=True) is ErrorCode.producer_fenced
        assert await late.add("t", 1) is ErrorCode.producer_fenced
        assert await producer.end(commit=False) is NONE
        assert producer.epoch == 2
        await to_level(producer, 1, 2)
        await producer.write_patiently(b"3")
        assert await producer.end(commit=True) is NONE
        await producer.until_read([b"0", b"1", b"3"])


async def to_level(producer: Transacting, level: int, upgrade: int) -> None:
    """Set `transaction.version`; `upgrade`: 1 for one, 2 for a safe downgrade."""
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=i16(level), upgrade_type=i8(upgrade))
    peer = await producer.peer(0)
    response = await peer.ask(UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,)))
    assert response.error_code is NONE, response
    cache = producer.cluster.broker(0).metadata
    while cache.image.feature_level("transaction.version") != level:  # noqa: ASYNC110 - virtual time
        await trio.sleep(0.05)


# --- operators --------------------------------------------------------------------------------------------------------


async def described(producer: Transacting) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=(TransactionalId(producer.name),))
    (found,) = (await producer.ask_coordinator(request)).transaction_states
    assert isinstance(found, TransactionState)
    return found


async def listed(producer: Transacting, states: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    response = await producer.ask_coordinator(ListTransactionsRequest(state_filters=(*states, "Odd")))
    assert (response.error_code, response.unknown_state_filters) == (NONE, ("Odd",))
    found = await producer.ask_coordinator(ListTransactionsRequest(state_filters=states))
    return [(one.transactional_id, one.transaction_state) for one in found.transaction_states]


async def abort(producer: Transacting, coordinator_epoch: int = 0) -> None:
    """What `kafka-transactions abort` sends to a partition's leader."""
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=TopicName("t"), partition_indexes=(i32(0),)),),
        coordinator_epoch=i32(coordinator_epoch),
        transaction_version=i8(0),
    )
    response = await (await producer.peer(producer.leader)).ask(WriteTxnMarkersRequest(markers=(marker,)))
    assert response.markers[0].topics[0].partitions[0].error_code is NONE
