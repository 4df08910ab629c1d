"""kafka-python as a recording's clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tidegauge.model_tests.harness.recording.clients import (
    MEMBER_SETTINGS,
    TRANSACTION_MS,
    Delivered,
    Library,
    NotSentError,
    Polled,
    Properties,
    Rebalances,
    Record,
    UnavailableError,
)

T = TypeVar("T")

REQUEST_SECONDS: Final = 30.0
COMMIT_MS: Final = 5_000
END_OFFSET_MS: Final = 3_000
"""How long an end offset is waited for: kafka-python 3.0 waits 30 s for a broker that died, with a busy loop."""


class KafkaPythonProducer:
    """kafka-python's producer: idempotent with acks=all, without retries else."""

    def __init__(self, bootstrap: str, acks: int, properties: Properties) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "acks": "all" if acks == -1 else acks,
            "linger_ms": 1,
            "enable_idempotence": acks == -1,
        }
        if acks != -1:
            config["retries"] = 0
        self._acks = acks
        try:
            self._producer = KafkaProducer(**{**config, **properties})
        except (KafkaError, AssertionError, ValueError) as error:
            raise UnavailableError(repr(error)) from error

    def send(self, topic: str, partition: int, value: bytes, delivered: Delivered) -> None:
        try:
            future = self._producer.send(topic, value, partition=partition)
        except (KafkaError, AssertionError) as error:
            raise NotSentError(repr(error)) from error
        future.add_callback(lambda metadata: delivered(metadata.offset if self._acks else None, None))
        future.add_errback(lambda error: delivered(None, type(error).__name__))

    def serve(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self, seconds: float) -> None:
        self._producer.close(timeout=seconds)


class KafkaPythonTransactions:
    """kafka-python's transactional producer, and a consumer that speaks for the group."""

    def __init__(self, bootstrap: str, transactional_id: str, group: str, properties: Properties) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": TRANSACTION_MS,
        }
        own: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": group, "enable_auto_commit": False}
        self._name = group
        try:
            self._producer = KafkaProducer(**{**config, **properties})
            self._group = KafkaConsumer(**{**own, **properties})
        except (KafkaError, AssertionError, ValueError) as error:
            raise UnavailableError(repr(error)) from error
        try:
            self._done(self._producer.init_transactions)
        except UnavailableError:
            self.close()
            raise

    def _done(self, act: Callable[..., T], *args: Any) -> T:
        try:
            return act(*args)
        except (KafkaError, AssertionError) as error:
            raise UnavailableError(repr(error)) from error

    def begin(self) -> None:
        self._done(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> int:
        future = self._done(partial(self._producer.send, topic, value, partition=partition))
        return int(self._done(future.get, TRANSACTION_MS / 1000).offset)

    def commit_offset(self, topic: str, partition: int, offset: int) -> None:
        committed = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._done(self._producer.send_offsets_to_transaction, committed, self._name)

    def committed(self, topic: str, partition: int) -> int:
        return self._done(self._group.committed, TopicPartition(topic, partition)) or 0

    def commit(self) -> None:
        self._done(self._producer.commit_transaction)

    def abort(self) -> None:
        self._done(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)
        self._group.close()


class KafkaPythonReader:
    """kafka-python's consumer, with assignments by hand."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "fetch_max_wait_ms": 50,
        }
        try:
            self._consumer = KafkaConsumer(**{**config, **properties})
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error

    def seek(self, topic: str, partition: int, offset: int) -> None:
        asked = TopicPartition(topic, partition)
        self._consumer.assign([asked])
        self._consumer.seek(asked, offset)

    def read(self, seconds: float) -> list[Record]:
        try:
            polled = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=200)
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error
        return [Record(record.offset, record.value) for records in polled.values() for record in records]

    def end_offset(self, topic: str, partition: int) -> int:
        asked = TopicPartition(topic, partition)
        try:
            return int(self._consumer.end_offsets([asked], timeout_ms=END_OFFSET_MS)[asked])
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    """kafka-python's consumer in a group; it knows the classic protocol only."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, protocol: str, properties: Properties, rebalances: Rebalances
    ) -> None:
        if protocol != "classic":
            raise UnavailableError(f"kafka-python has no members of the {protocol} protocol: use confluent-kafka")
        config: dict[str, Any] = {**MEMBER_SETTINGS, "bootstrap_servers": bootstrap, "group_id": group}
        self._topic = topic
        self._consumer = self._done(lambda: KafkaConsumer(**{**config, **properties}))
        self._done(lambda: self._consumer.subscribe([topic], listener=_Listener(self, rebalances)))

    def _done(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error

    def poll(self, seconds: float) -> list[Polled]:
        polled = self._done(lambda: self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=200))
        return [
            Polled(where.partition, [Record(record.offset, record.value) for record in records])
            for where, records in polled.items()
            if records
        ]

    def generation(self) -> int | None:
        generation = int(self._consumer.group_metadata().generation_id)
        return generation if generation >= 0 else None

    def commit(self, partition: int, offset: int, metadata: str) -> None:
        asked = {TopicPartition(self._topic, partition): OffsetAndMetadata(offset, metadata, -1)}
        self._done(lambda: self._consumer.commit(asked, timeout_ms=COMMIT_MS))

    def committed(self, partition: int) -> tuple[int, str] | None:
        where = TopicPartition(self._topic, partition)
        found = self._done(lambda: self._consumer.committed(where, metadata=True, timeout_ms=COMMIT_MS))
        return None if found is None else (int(found.offset), str(found.metadata))

    def close(self) -> None:
        self._done(lambda: self._consumer.close(autocommit=False))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """What kafka-python calls as it rebalances."""

    def __init__(self, member: KafkaPythonMember, rebalances: Rebalances) -> None:
        self._member = member
        self._rebalances = rebalances

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        partitions = [one.partition for one in assigned]
        self._rebalances.assigned(partitions, self._member.generation(), incremental=False)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._rebalances.released([one.partition for one in revoked])

    on_partitions_lost = on_partitions_revoked


class KafkaPythonAdmin:
    """kafka-python's admin client."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        try:
            self._admin = KafkaAdminClient(bootstrap_servers=bootstrap, **properties)
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication_factor)
        try:
            self._admin.create_topics([new], timeout_ms=int(REQUEST_SECONDS * 1000))
            deadline = time.monotonic() + REQUEST_SECONDS
            while time.monotonic() < deadline:
                (found,) = self._admin.describe_topics([topic])
                leaders = [partition["leader_id"] for partition in found["partitions"]]
                if len(leaders) == partitions and min(leaders) >= 0:
                    return
                time.sleep(0.05)
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error
        raise UnavailableError(f"topic {topic} has no leaders {REQUEST_SECONDS:.0f} s after it was created")

    def delete_topic(self, topic: str) -> None:
        try:
            self._admin.delete_topics([topic], timeout_ms=int(REQUEST_SECONDS * 1000))
        except KafkaError as error:
            raise UnavailableError(repr(error)) from error

    def close(self) -> None:
        self._admin.close()


LIBRARY = Library(KafkaPythonProducer, KafkaPythonReader, KafkaPythonAdmin, KafkaPythonTransactions, KafkaPythonMember)
