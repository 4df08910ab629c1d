"""What the tests of this room do with a real client: produce and read back, with confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

WAIT_S = 20.0


@contextmanager
def producer(bootstrap: str, **config: Any) -> Iterator[Producer]:
    """A producer that does not wait, gives up after some seconds, and prints nothing."""
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 0,
            "message.timeout.ms": 15_000,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 50,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )
    try:
        yield made
    finally:
        made.purge()
        made.flush(1)


def produce(client: Producer, topic: str, value: bytes, partition: int = 0) -> int:
    """The offset of a record, once it is acknowledged. Raises KafkaException."""
    ended: list[tuple[Any, Any]] = []
    client.produce(topic, value, partition=partition, callback=lambda *end: ended.append(end))
    client.flush(WAIT_S)
    assert ended, f"neither acknowledged nor failed within {WAIT_S} s"
    error, message = ended[0]
    if error is not None:
        raise KafkaException(error)
    return int(message.offset())


def read(bootstrap: str, topic: str, count: int, partition: int = 0, **config: Any) -> list[bytes]:
    """The first `count` values of a partition."""
    settings = {"group.id": "reader", "client.id": "reader", "enable.auto.commit": False, "log_level": 0, **config}
    reader = Consumer({"bootstrap.servers": bootstrap, **settings})
    reader.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    while len(values) < count:
        message = reader.poll(WAIT_S)
        assert message is not None, f"{len(values)} of {count} records within {WAIT_S} s"
        if message.error() is None:
            values.append(message.value() or b"")
    return values
