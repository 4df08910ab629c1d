"""A member of a group, of a Python library, in a process of its own: `member.py LIBRARY BOOTSTRAP TOPIC SESSION_MS`.

confluent-kafka is named by its protocol; the group has the topic's name. It prints a line for each thing that happens:
`has N` partitions, `got VALUE`; what it has got it commits. SIGTERM has it leave; a test pauses it and crashes it by
other signals.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, Final

HEARTBEAT_MS: Final = 200
POLL_S: Final = 0.1
AT_ONCE: Final = 20


class Leaving:
    """Whether it is to leave."""

    def __init__(self) -> None:
        self.asked = False
        self.had = 0
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True

    def has(self, count: int) -> None:
        """Print how many partitions it has, where that has changed."""
        if count != self.had:
            self.had = count
            print(f"has {count}", flush=True)


def got(value: bytes | None) -> None:
    print(f"got {(value or b'').decode()}", flush=True)


def confluent(bootstrap: str, topic: str, session_ms: int, protocol: str) -> None:
    """confluent-kafka, by either protocol."""
    from confluent_kafka import Consumer, KafkaException

    classic = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": HEARTBEAT_MS}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **(classic if protocol == "classic" else {}),
        }
    )
    consumer.subscribe([topic])
    leaving = Leaving()
    while not leaving.asked:
        messages = [one for one in consumer.consume(AT_ONCE, POLL_S) if one.error() is None]
        leaving.has(len(consumer.assignment()))
        for message in messages:
            got(message.value())
        if messages:
            with suppress(KafkaException):  # it is no member any more, and another one goes on from before
                consumer.commit(asynchronous=False)
    consumer.close()


def kafka_python(bootstrap: str, topic: str, session_ms: int) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer
    from kafka.errors import KafkaConnectionError, KafkaError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=topic,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=2 * session_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        reconnect_backoff_max_ms=100,
    )
    leaving = Leaving()
    while not leaving.asked:
        try:
            found = consumer.poll(timeout_ms=int(1_000 * POLL_S), max_records=AT_ONCE)
        except KafkaConnectionError:  # it asked a broker that is down for the coordinator: the next poll asks another
            continue
        leaving.has(len(consumer.assignment()))
        for records in found.values():
            for record in records:
                got(record.value)
        if found:
            with suppress(KafkaError):
                consumer.commit()
    consumer.close()


async def aiokafka(bootstrap: str, topic: str, session_ms: int) -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    consumer: Any = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=topic,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=50,
    )
    leaving = Leaving()
    async with consumer:
        while not leaving.asked:
            found = await consumer.getmany(timeout_ms=int(1_000 * POLL_S), max_records=AT_ONCE)
            leaving.has(len(consumer.assignment()))
            for records in found.values():
                for record in records:
                    got(record.value)
            if found:
                with suppress(KafkaError):
                    await consumer.commit()


def main(library: str, bootstrap: str, topic: str, session_ms: str) -> None:
    """Be a member until somebody asks it to leave."""
    match library:
        case "kafka-python":
            kafka_python(bootstrap, topic, int(session_ms))
        case "aiokafka":
            asyncio.run(aiokafka(bootstrap, topic, int(session_ms)))
        case _:
            confluent(bootstrap, topic, int(session_ms), library)


if __name__ == "__main__":
    main(*sys.argv[1:])
