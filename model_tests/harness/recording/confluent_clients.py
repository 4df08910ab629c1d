"""confluent-kafka (librdkafka) as a recording's clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegauge.model_tests.harness.recording.clients import (
    HEARTBEAT_MS,
    SESSION_MS,
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

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
SILENT = logging.getLogger(__name__)
"""What a producer that is fenced logs, whatever its log level is."""
SILENT.setLevel(logging.CRITICAL + 1)


def _made(kind: Callable[[dict[str, Any]], T], bootstrap: str, config: dict[str, Any]) -> T:
    """A client with this configuration. Raises UnavailableError naming the setting that is wrong."""
    quiet = {"bootstrap.servers": bootstrap, "error_cb": _quiet, "log_level": 0}
    try:
        return kind({**quiet, **config})
    except (KafkaException, ValueError, TypeError) as error:
        raise UnavailableError(f"confluent-kafka refuses its settings: {told(error)}") from error


def told(error: BaseException) -> str:
    """What went wrong, in words."""
    inner = error.args[0] if error.args else None
    return str(inner.str()) if isinstance(inner, KafkaError) else str(error)


def _quiet(_: KafkaError) -> None:
    """Errors reach the recording with the operation that they end."""


class ConfluentKafkaProducer:
    """librdkafka's producer: idempotent with acks=all, without retries else, for a retry could make a second record."""

    def __init__(self, bootstrap: str, acks: int, properties: Properties) -> None:
        config: dict[str, Any] = {"acks": acks, "linger.ms": 1, "enable.idempotence": acks == -1}
        if acks != -1:
            config["retries"] = 0
        self._producer = _made(ConfluentProducer, bootstrap, {**config, **properties})
        self._acks = acks

    def send(self, topic: str, partition: int, value: bytes, delivered: Delivered) -> None:
        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                delivered(None, error.name())
            else:
                delivered(message.offset() if self._acks else None, None)

        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=report)
        except (BufferError, KafkaException) as error:
            raise NotSentError(str(error)) from error
        self._producer.poll(0)

    def serve(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def close(self, seconds: float) -> None:
        self._producer.flush(seconds)
        self._producer.purge()
        self._producer.poll(0)


class ConfluentKafkaTransactions:
    """librdkafka's transactional producer, and a consumer that speaks for the group."""

    def __init__(self, bootstrap: str, transactional_id: str, group: str, properties: Properties) -> None:
        config = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "linger.ms": 1,
            "logger": SILENT,
        }
        self._producer = _made(ConfluentProducer, bootstrap, {**config, **properties})
        self._group = _made(Consumer, bootstrap, {"group.id": group, **properties})
        try:
            self._done(self._producer.init_transactions, REQUEST_SECONDS)
        except UnavailableError:
            self.close()
            raise

    def _done(self, act: Callable[..., T], *args: Any) -> T:
        try:
            return act(*args)
        except KafkaException as error:
            raise UnavailableError(told(error)) from error
        except SystemError as error:  # the binding calls a callback while the exception of a fatal error is pending
            raise UnavailableError(told(error.__cause__ or error)) from error

    def begin(self) -> None:
        self._done(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> int:
        found: list[int] = []
        refused: list[str] = []

        def report(error: KafkaError | None, message: Any) -> None:
            if error is None:
                found.append(message.offset())
            else:
                refused.append(error.str())

        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=report)
        except (BufferError, KafkaException) as error:
            raise UnavailableError(told(error)) from error
        self._done(self._producer.flush, TRANSACTION_MS / 1000)
        if not found:
            raise UnavailableError(refused[0] if refused else "no response")
        return found[0]

    def commit_offset(self, topic: str, partition: int, offset: int) -> None:
        metadata = self._done(self._group.consumer_group_metadata)
        committed = [TopicPartition(topic, partition, offset)]
        self._done(self._producer.send_offsets_to_transaction, committed, metadata, REQUEST_SECONDS)

    def committed(self, topic: str, partition: int) -> int:
        (found,) = self._done(self._group.committed, [TopicPartition(topic, partition)], REQUEST_SECONDS)
        if found.error is not None:
            raise UnavailableError(str(found.error.str()))
        return max(0, int(found.offset))

    def commit(self) -> None:
        self._done(self._producer.commit_transaction, REQUEST_SECONDS)

    def abort(self) -> None:
        self._done(self._producer.abort_transaction, REQUEST_SECONDS)

    def close(self) -> None:
        self._producer.purge()
        self._group.close()


class ConfluentKafkaReader:
    """librdkafka's consumer, with assignments by hand."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        config = {
            "group.id": "tidegauge-record",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
        self._consumer = _made(Consumer, bootstrap, {**config, **properties})

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def read(self, seconds: float) -> list[Record]:
        deadline = time.monotonic() + seconds
        records: list[Record] = []
        for message in self._consumer.consume(num_messages=200, timeout=max(0.0, deadline - time.monotonic())):
            if (error := message.error()) is not None:
                raise UnavailableError(error.str())
            records.append(Record(message.offset() or 0, message.value()))
        return records

    def end_offset(self, topic: str, partition: int) -> int:
        try:
            _, end = self._consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=REQUEST_SECONDS, cached=False
            )
        except KafkaException as error:
            raise UnavailableError(told(error)) from error
        return int(end)

    def close(self) -> None:
        self._consumer.close()


class ConfluentKafkaMember:
    """librdkafka's consumer in a group; it does not tell the generation."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, protocol: str, properties: Properties, rebalances: Rebalances
    ) -> None:
        config: dict[str, Any] = {
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
            config |= {"max.poll.interval.ms": SESSION_MS}
        self._topic = topic
        self._rebalances = rebalances
        assignors = str(properties.get("partition.assignment.strategy", ""))
        self._is_incremental = protocol == "consumer" or "cooperative" in assignors
        self._consumer = _made(Consumer, bootstrap, {**config, **properties})
        told = {"on_assign": self._assigned, "on_revoke": self._released, "on_lost": self._released}
        self._consumer.subscribe([topic], **told)

    def _assigned(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        self._rebalances.assigned([one.partition for one in partitions], None, incremental=self._is_incremental)

    def _released(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        self._rebalances.released([one.partition for one in partitions])

    def poll(self, seconds: float) -> list[Polled]:
        found: dict[int, list[Record]] = {}
        try:
            messages = self._consumer.consume(num_messages=200, timeout=seconds)
        except KafkaException as error:
            raise UnavailableError(told(error)) from error
        for message in messages:
            if message.error() is None:
                found.setdefault(message.partition() or 0, []).append(Record(message.offset() or 0, message.value()))
        return [Polled(partition, records) for partition, records in found.items()]

    def generation(self) -> int | None:
        return None

    def commit(self, partition: int, offset: int, metadata: str) -> None:
        asked = [TopicPartition(self._topic, partition, offset, metadata)]
        try:
            done = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            raise UnavailableError(told(error)) from error
        for one in done or ():
            if one.error is not None:
                raise UnavailableError(str(one.error.str()))

    def committed(self, partition: int) -> tuple[int, str] | None:
        try:
            (found,) = self._consumer.committed([TopicPartition(self._topic, partition)], REQUEST_SECONDS)
        except KafkaException as error:
            raise UnavailableError(told(error)) from error
        if found.error is not None:
            raise UnavailableError(str(found.error.str()))
        return (int(found.offset), str(found.metadata)) if found.offset >= 0 else None

    def close(self) -> None:
        self._consumer.close()


class ConfluentKafkaAdmin:
    """librdkafka's admin client."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        self._admin = _made(AdminClient, bootstrap, dict(properties))

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        self._connect()
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication_factor)
        self._wait(self._admin.create_topics([new], request_timeout=REQUEST_SECONDS)[topic])
        deadline = time.monotonic() + REQUEST_SECONDS
        while time.monotonic() < deadline:
            found = self._admin.list_topics(topic, timeout=REQUEST_SECONDS).topics[topic].partitions
            if len(found) == partitions and all(partition.leader >= 0 for partition in found.values()):
                return
            time.sleep(0.05)
        raise UnavailableError(f"topic {topic} has no leaders {REQUEST_SECONDS:.0f} s after it was created")

    def _connect(self) -> None:
        """Wait for a first response: librdkafka fails one request while it goes from bootstrap to brokers."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                self._admin.list_topics(timeout=max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                if time.monotonic() >= deadline:
                    reason = f"no broker responds within {CONNECT_SECONDS:.0f} s ({told(error)})"
                    raise UnavailableError(reason) from error
                time.sleep(0.1)
            else:
                return

    def delete_topic(self, topic: str) -> None:
        self._wait(self._admin.delete_topics([topic], request_timeout=REQUEST_SECONDS)[topic])

    def _wait(self, future: Any) -> None:
        try:
            future.result(REQUEST_SECONDS)
        except (KafkaException, TimeoutError) as error:
            raise UnavailableError(told(error) or f"no response within {REQUEST_SECONDS:.0f} s") from error

    def close(self) -> None:
        self._admin.poll(0)


LIBRARY = Library(
    ConfluentKafkaProducer,
    ConfluentKafkaReader,
    ConfluentKafkaAdmin,
    ConfluentKafkaTransactions,
    ConfluentKafkaMember,
    isolation="isolation.level",
)
