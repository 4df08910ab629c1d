"""A member of a group that processes exactly once, of confluent-kafka, in a process of its own.

`processor.py BOOTSTRAP GROUP PROTOCOL TRANSACTIONAL_ID SESSION_MS`: it copies the records of `in` to `out`, each few in
a transaction with their offsets, under its membership (KIP-447), and prints a line for each thing that happens:
`committed N`, `aborted WHY`. SIGTERM has it leave; a test pauses it and crashes it by other signals. What it cannot go
on after ends the process, with the error as its last line.
"""

from __future__ import annotations

import signal
import sys
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

AT_ONCE: Final = 3
POLL_S: Final = 0.1
MIDST_S: Final = 0.05
"""How long a transaction is open before its offsets are sent, and after that."""
SECONDS: Final = 30.0
MOST_S: Final = 8
"""Between two polls: librdkafka may wait in a transaction for a crashed coordinator, and its group is not to."""


def settings(bootstrap: str, group: str, protocol: str, session_ms: int) -> dict[str, object]:
    """Of the consumer."""
    classic = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": session_ms // 10}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": MOST_S * 1_000,
        "isolation.level": "read_committed",
        "log_level": 0,
        **(classic if protocol == "classic" else {}),
    }


def copy(consumer: Consumer, producer: Producer, messages: list[Message]) -> None:
    """One transaction; an error after which it can only be aborted aborts it. Raises KafkaException."""
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce("out", message.value(), partition=message.partition())
        producer.flush(SECONDS)
        time.sleep(MIDST_S)
        ends = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [TopicPartition("in", partition, offset) for partition, offset in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
        time.sleep(MIDST_S)
        producer.commit_transaction(SECONDS)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(SECONDS)
        print(f"aborted {error.args[0].name()}", flush=True)
        go_back(consumer)
    else:
        print(f"committed {len(messages)}", flush=True)


def go_back(consumer: Consumer) -> None:
    """Go on from what the group has committed; who is no member any more is told where, when it is one again."""
    owned = consumer.assignment()
    for place in consumer.committed(owned, SECONDS) if owned else ():
        consumer.seek(TopicPartition(place.topic, place.partition, max(0, place.offset)))


def main(bootstrap: str, group: str, protocol: str, transactional_id: str, session_ms: str) -> None:
    """Until it is asked to leave. Raises KafkaException."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 4_000,
            "retry.backoff.ms": 20,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(SECONDS)
    consumer = Consumer(settings(bootstrap, group, protocol, int(session_ms)))
    consumer.subscribe(["in"])
    while not asked:
        messages = [one for one in consumer.consume(AT_ONCE, POLL_S) if one.error() is None]
        if messages:
            copy(consumer, producer, messages)
    print("leaves", flush=True)
    consumer.close()
    print("left", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KafkaException as error:
        print(f"ended {error.args[0].name()}", flush=True)
        sys.exit(1)
