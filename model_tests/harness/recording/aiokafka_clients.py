"""aiokafka as a recording's clients: each has an event loop of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from tidegauge.model_tests.harness.recording.clients import (
    MEMBER_SETTINGS,
    TRANSACTION_MS,
    Delivered,
    Library,
    Polled,
    Properties,
    Rebalances,
    Record,
    UnavailableError,
)

T = TypeVar("T")

REQUEST_SECONDS = 30.0


class _Loop:
    """An event loop in a thread; `run` waits for a coroutine there."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float = REQUEST_SECONDS) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds)
        except (KafkaError, AssertionError) as error:  # it asserts that nobody goes on after a fatal error
            raise UnavailableError(repr(error)) from error
        except TimeoutError:
            raise UnavailableError(f"no response within {seconds:.0f} s") from None

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class AiokafkaProducer:
    """aiokafka's producer, idempotent; with other acks it sends again on its own, and a record may be there twice."""

    def __init__(self, bootstrap: str, acks: int, properties: Properties) -> None:
        if acks != -1:
            raise UnavailableError(f"acks={acks} with aiokafka, which repeats what may have been stored: use acks=all")
        self._loop = _Loop()
        self._loop.run(self._start(bootstrap, properties))

    async def _start(self, bootstrap: str, properties: Properties) -> None:
        config: dict[str, Any] = {"bootstrap_servers": bootstrap, "acks": "all", "linger_ms": 1}
        self._producer = AIOKafkaProducer(**{**config, "enable_idempotence": True, **properties})
        await self._producer.start()

    def send(self, topic: str, partition: int, value: bytes, delivered: Delivered) -> None:
        asyncio.run_coroutine_threadsafe(self._send(topic, partition, value, delivered), self._loop.loop)

    async def _send(self, topic: str, partition: int, value: bytes, delivered: Delivered) -> None:
        try:
            metadata = await self._producer.send_and_wait(topic, value, partition=partition)
        except (KafkaError, asyncio.CancelledError) as error:
            delivered(None, type(error).__name__)
        else:
            delivered(metadata.offset, None)

    def serve(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self, seconds: float) -> None:
        try:
            self._loop.run(self._producer.stop(), seconds)
        finally:
            self._loop.close()


class AiokafkaTransactions:
    """aiokafka's transactional producer, and a consumer that speaks for the group."""

    def __init__(self, bootstrap: str, transactional_id: str, group: str, properties: Properties) -> None:
        self._name = group
        self._loop = _Loop()
        try:
            self._loop.run(self._start(bootstrap, transactional_id, properties))
        except UnavailableError:
            self._loop.close()
            raise

    async def _start(self, bootstrap: str, transactional_id: str, properties: Properties) -> None:
        config: dict[str, Any] = {"bootstrap_servers": bootstrap, "transactional_id": transactional_id}
        config["transaction_timeout_ms"] = TRANSACTION_MS
        own: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": self._name, "enable_auto_commit": False}
        self._producer = AIOKafkaProducer(**{**config, **properties})
        self._group = AIOKafkaConsumer(**{**own, **properties})
        await self._producer.start()
        await self._group.start()

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> int:
        sent = self._loop.run(self._producer.send_and_wait(topic, value, partition=partition), TRANSACTION_MS / 1000)
        return int(sent.offset)

    def commit_offset(self, topic: str, partition: int, offset: int) -> None:
        committed = {TopicPartition(topic, partition): offset}
        self._loop.run(self._producer.send_offsets_to_transaction(committed, self._name))

    def committed(self, topic: str, partition: int) -> int:
        return self._loop.run(self._group.committed(TopicPartition(topic, partition))) or 0

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        try:
            with suppress(UnavailableError):
                self._loop.run(self._group.stop())
                self._loop.run(self._producer.stop(), TRANSACTION_MS / 1000)
        finally:
            self._loop.close()


class AiokafkaReader:
    """aiokafka's consumer, with assignments by hand."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        self._loop = _Loop()
        self._loop.run(self._start(bootstrap, properties))

    async def _start(self, bootstrap: str, properties: Properties) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "fetch_max_wait_ms": 50,
        }
        self._consumer = AIOKafkaConsumer(**{**config, **properties})
        await self._consumer.start()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._loop.run(self._seek(TopicPartition(topic, partition), offset))

    async def _seek(self, asked: TopicPartition, offset: int) -> None:
        self._consumer.assign([asked])
        self._consumer.seek(asked, offset)

    def read(self, seconds: float) -> list[Record]:
        polled = self._loop.run(self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=200))
        return [Record(record.offset, record.value) for records in polled.values() for record in records]

    def end_offset(self, topic: str, partition: int) -> int:
        asked = TopicPartition(topic, partition)
        return int(self._loop.run(self._consumer.end_offsets([asked]))[asked])

    def close(self) -> None:
        try:
            self._loop.run(self._consumer.stop())
        finally:
            self._loop.close()


class AiokafkaMember:
    """aiokafka's consumer in a group; it knows the classic protocol only, and has no public word for generations."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, protocol: str, properties: Properties, rebalances: Rebalances
    ) -> None:
        if protocol != "classic":
            raise UnavailableError(f"aiokafka has no members of the {protocol} protocol: use confluent-kafka")
        self._topic = topic
        self._loop = _Loop()
        try:
            self._loop.run(self._start(bootstrap, group, properties, rebalances))
        except UnavailableError:
            self._loop.close()
            raise

    async def _start(self, bootstrap: str, group: str, properties: Properties, rebalances: Rebalances) -> None:
        config: dict[str, Any] = {**MEMBER_SETTINGS, "bootstrap_servers": bootstrap, "group_id": group}
        self._consumer = AIOKafkaConsumer(**{**config, **properties})
        self._consumer.subscribe([self._topic], listener=_Listener(rebalances))
        await self._consumer.start()

    def poll(self, seconds: float) -> list[Polled]:
        polled = self._loop.run(self._consumer.getmany(timeout_ms=int(seconds * 1000), max_records=200))
        return [
            Polled(where.partition, [Record(record.offset, record.value) for record in records])
            for where, records in polled.items()
            if records
        ]

    def generation(self) -> int | None:
        return None

    def commit(self, partition: int, offset: int, metadata: str) -> None:
        self._loop.run(self._consumer.commit({TopicPartition(self._topic, partition): (offset, metadata)}))

    def committed(self, partition: int) -> tuple[int, str] | None:
        where = TopicPartition(self._topic, partition)
        # Its public method drops the metadata.
        found = self._loop.run(self._consumer._coordinator.fetch_committed_offsets([where])).get(where)
        return None if found is None or found.offset < 0 else (int(found.offset), str(found.metadata))

    def close(self) -> None:
        try:
            self._loop.run(self._consumer.stop())
        finally:
            self._loop.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """What aiokafka calls as it rebalances."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._rebalances.assigned([one.partition for one in assigned], None, incremental=False)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._rebalances.released([one.partition for one in revoked])


class AiokafkaAdmin:
    """aiokafka's admin client."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        self._loop = _Loop()
        self._loop.run(self._start(bootstrap, properties))

    async def _start(self, bootstrap: str, properties: Properties) -> None:
        self._admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **properties)
        await self._admin.start()

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        if replication_factor < 0:  # aiokafka cannot ask for the cluster's default
            replication_factor = min(3, len(self._loop.run(self._admin.describe_cluster())["brokers"]))
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication_factor)
        response = self._loop.run(self._admin.create_topics([new]))
        for _, code, *rest in response.topic_errors:
            if code:
                raise UnavailableError(f"topic {topic} cannot be created: {for_code(code).__name__} {rest[0] or ''}")
        deadline = time.monotonic() + REQUEST_SECONDS
        while time.monotonic() < deadline:
            (found,) = self._loop.run(self._admin.describe_topics([topic]))
            leaders = [partition["leader"] for partition in found["partitions"]]
            if len(leaders) == partitions and min(leaders) >= 0:
                return
            time.sleep(0.05)
        raise UnavailableError(f"topic {topic} has no leaders {REQUEST_SECONDS:.0f} s after it was created")

    def delete_topic(self, topic: str) -> None:
        self._loop.run(self._admin.delete_topics([topic]))

    def close(self) -> None:
        try:
            self._loop.run(self._admin.close())
        finally:
            self._loop.close()


LIBRARY = Library(AiokafkaProducer, AiokafkaReader, AiokafkaAdmin, AiokafkaTransactions, AiokafkaMember)
