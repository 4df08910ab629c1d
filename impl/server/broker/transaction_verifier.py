"""Verification: what a leader asks coordinators before a transaction begins in its partition (KIP-890).

Version 1: the client has added the partition, and the leader verifies that. Version 2: the leader adds the partition by
asking. What the coordinator has said is kept by the partition's leader (`impl.partition.verification`) until a record
makes use of it, or a marker ends what it was said of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TransactionalId

from tidegauge.impl.coordinators.hashing import partition_for
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import TopicName, i16, i32

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic

    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.partition import Partition, TopicPartition
    from tidegauge.impl.server.broker.peers import Peers

AT_ONCE: Final = 400
"""Partitions in one request: less than half of the elements that it may have (`impl.wire.element_limits`)."""
TRIED_AGAIN: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Errors that producers of older versions do not try again upon: they are told NOT_ENOUGH_REPLICAS, as by Kafka."""


class Unverified(NamedTuple):
    """A producer that is about to write to a partition in a transaction."""

    partition: Partition
    producer_id: int
    epoch: int


class Refusal(NamedTuple):
    """Why a producer's transaction may not begin."""

    error: ErrorCode
    message: str


class TransactionVerifier:
    """Asks coordinators whether transactions may begin."""

    def __init__(self, metadata: MetadataCache, peers: Peers, config: DynamicConfig, clock: Clock) -> None:
        self._metadata = metadata
        self._peers = peers
        self._config = config
        self._clock = clock

    async def verify(
        self, transactional_id: str, unverified: Iterable[Unverified], *, adds: bool, knows_abortable: bool
    ) -> dict[TopicPartition, Refusal]:
        """Ask for the verifications that are missing; why partitions are refused. Those not named may be appended to.

        `adds`: whether the partitions join the transaction by that (version 2). `knows_abortable`: whether the client
        knows TRANSACTION_ABORTABLE.
        """
        by_producer: dict[tuple[int, int], list[Partition]] = defaultdict(list)
        for one in unverified:
            by_producer[one.producer_id, one.epoch].append(one.partition)
        refused: dict[TopicPartition, Refusal] = {}
        for (producer_id, epoch), partitions in by_producer.items():
            errors = await self._asked_patiently(transactional_id, producer_id, epoch, partitions, adds=adds)
            for key, error in errors.items():
                if error is not ErrorCode.none:
                    refused[key] = _refusal(error, knows_abortable=knows_abortable)
        return refused

    async def _asked_patiently(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Sequence[Partition], *, adds: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        """The coordinator's errors; while the producer's last transaction is being completed it is asked again.

        Each time for another verification: the marker that completes the last transaction ends the one before.
        """
        config = self._config.current
        gives_up = trio.current_time() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
        while True:
            questions = {
                one.key: (one.replica, one.replica.verifications.begin(producer_id, epoch))
                for one in partitions
                if not one.is_gone and one.replica.is_leader
            }
            if not questions:
                return {}
            errors: dict[TopicPartition, ErrorCode] = {}
            if adds or config.transaction_partition_verification_enable:
                keys = list(questions)
                for start in range(0, len(keys), AT_ONCE):
                    part = keys[start : start + AT_ONCE]
                    errors |= await self._asked(transactional_id, producer_id, epoch, part, adds=adds)
                await self._clock.until_running()
            else:
                errors = dict.fromkeys(questions, ErrorCode.none)
            for key, (replica, asked) in questions.items():
                if errors.get(key) is ErrorCode.none:
                    replica.confirm(asked)
            is_busy = adds and ErrorCode.concurrent_transactions in errors.values()
            if not is_busy or trio.current_time() >= gives_up:
                return errors
            await trio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    async def _asked(
        self, transactional_id: str, producer_id: int, epoch: int, keys: Sequence[TopicPartition], *, adds: bool
    ) -> dict[TopicPartition, ErrorCode]:
        from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction

        topic = self._metadata.image.topics.get(TRANSACTION_STATE)
        leader = -1
        if topic is not None:
            leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        channel = self._peers.channel(leader, "transactions")
        if channel is None:
            return dict.fromkeys(keys, ErrorCode.coordinator_not_available)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=TransactionalId(transactional_id),
            producer_id=ProducerId(producer_id),
            producer_epoch=i16(epoch),
            verify_only=not adds,
            topics=_topics(keys),
        )
        try:
            response = await channel.request(AddPartitionsToTxnRequest(transactions=(transaction,)))
        except (UnreachableError, NoResponseError):
            return dict.fromkeys(keys, ErrorCode.network_exception)
        if response.error_code is not ErrorCode.none:
            return dict.fromkeys(keys, ErrorCode.invalid_txn_state)
        return {
            (one.name, partition.partition_index): partition.partition_error_code
            for result in response.results_by_transaction
            for one in result.topic_results
            for partition in one.results_by_partition
        }


def _topics(keys: Iterable[TopicPartition]) -> tuple[AddPartitionsToTxnTopic, ...]:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic

    topics: dict[str, list[i32]] = defaultdict(list)
    for name, index in keys:
        topics[name].append(i32(index))
    return tuple(
        AddPartitionsToTxnTopic(name=TopicName(name), partitions=tuple(indexes)) for name, indexes in topics.items()
    )


def _refusal(error: ErrorCode, *, knows_abortable: bool) -> Refusal:
    """What a producer is told whose transaction may not begin."""
    if error in TRIED_AGAIN:
        return Refusal(
            ErrorCode.not_enough_replicas, f"the coordinator was asked about the transaction: {error.name.upper()}"
        )
    if error is ErrorCode.producer_fenced:
        return Refusal(ErrorCode.invalid_producer_epoch, "the coordinator has fenced the producer")
    if error is ErrorCode.transaction_abortable and not knows_abortable:
        error = ErrorCode.invalid_txn_state
    return Refusal(error, "the coordinator does not have the partition in a transaction of this producer")
