"""What a transaction costs on a cluster, beside librdkafka's mock cluster: same client, same settings, same run.

`python -m benchmarks.commits [--quick] [--data DIR]` prints a table. Clusters run in processes of their own; the client
is confluent-kafka in this one, one producer, one partition, records of 100 bytes. A transaction begins, has so many
records produced, and commits. Plain produce is the same without transactions: an idempotent producer produces as many
and waits until all are acknowledged. The overhead is the time of a transaction over that of such a round. Three brokers
means replication factor 3 and min.insync.replicas 2 here, of the transaction log too, and no replication at all in the
mock, which keeps no transaction log either: it says yes. The two are measured in turn, and the best of each figure
counts. Broker CPU is that of the cluster's process. The last line is the load of the machine, by `os.getloadavg`.

`--against HOST:PORT` compares with a cluster that is running (franz-go's kfake, Apache Kafka, another of ours) in place
of the mock, with as many brokers here as it has; it makes a topic there and deletes it. `--process PID` is that
cluster's process, if it is on this machine: then its CPU is known. kfake is a Go program that no package of this
project's registries brings along: build it where there is Go, as `kcl fake`, or of franz-go's sources (`pkg/kfake`).
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence

import attrs
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from benchmarks.broker import MEMORY, TOPIC, check, cluster, cpu_seconds, producer, running
from benchmarks.options import parser

SIZES = (1, 100, 1_000)
"""Records of a transaction."""
VALUE = bytes(100)
WARM = 5
"""Rounds before anything is measured."""


@attrs.frozen
class Figures:
    """One row: seconds of a transaction, of a round of plain produce, and of the cluster's CPU for a transaction."""

    transaction: float
    plain: float
    cpu: float

    @property
    def overhead(self) -> float:
        """A transaction beside plain produce."""
        return self.transaction / self.plain


def send(client: Producer, records: int) -> None:
    for _ in range(records):
        client.produce(TOPIC, VALUE, partition=0, on_delivery=check)


def in_transaction(client: Producer, records: int) -> None:
    client.begin_transaction()
    send(client, records)
    client.commit_transaction(30)


def plainly(client: Producer, records: int) -> None:
    send(client, records)
    client.flush(30)


def timed(work: Callable[[], None], repetitions: int) -> float:
    """Seconds of each."""
    for _ in range(WARM):
        work()
    begun = time.perf_counter()
    for _ in range(repetitions):
        work()
    return (time.perf_counter() - begun) / repetitions


def figures(bootstrap: str, process_id: int | None, records: int, repetitions: int) -> Figures:
    """One round."""
    plain = producer(bootstrap, **{"enable.idempotence": True})
    round_seconds = timed(lambda: plainly(plain, records), repetitions)
    transactional = producer(bootstrap, **{"transactional.id": f"bench-{records}"})
    transactional.init_transactions(30)
    begun = cpu_seconds(process_id)
    seconds = timed(lambda: in_transaction(transactional, records), repetitions)
    return Figures(seconds, round_seconds, (cpu_seconds(process_id) - begun) / (repetitions + WARM))


def best(rounds: Sequence[Figures]) -> Figures:
    """The least of each figure: what else the machine does only ever makes them more."""
    return Figures(*(min(values) for values in zip(*map(attrs.astuple, rounds), strict=True)))


def compared(
    ours: tuple[str, int], other: tuple[str, int | None], records: int, repetitions: int, rounds: int
) -> tuple[Figures, Figures]:
    """Ours and the other, in turn, so that both see the same machine."""
    found: tuple[list[Figures], list[Figures]] = ([], [])
    for _ in range(rounds):
        for (bootstrap, process_id), rows in zip((ours, other), found, strict=True):
            rows.append(figures(bootstrap, process_id, records, repetitions))
    return best(found[0]), best(found[1])


def table(rows: Sequence[tuple[int, int, Figures, Figures]], other: str) -> Table:
    result = Table(title=f"one producer, confluent-kafka, 100 B a record; × is the ratio to {other}")
    for heading in ("brokers", "records", "transactions/s", "×", "plain rounds/s", "×"):
        result.add_column(heading, justify="right")
    for heading in ("overhead", "the other's", "CPU µs", "the other's"):
        result.add_column(heading, justify="right")
    for brokers, records, ours, mock in rows:
        result.add_row(
            str(brokers),
            str(records),
            f"{1 / ours.transaction:.0f}",
            f"{mock.transaction / ours.transaction:.2f}",
            f"{1 / ours.plain:.0f}",
            f"{mock.plain / ours.plain:.2f}",
            f"{ours.overhead:.1f}",
            f"{mock.overhead:.1f}",
            f"{ours.cpu * 1e6:.0f}",
            "–" if math.isnan(mock.cpu) else f"{mock.cpu * 1e6:.0f}",
        )
    return result


def main(words: Sequence[str] | None = None) -> None:
    memory = MEMORY if os.path.isdir(MEMORY) else tempfile.gettempdir()
    options = parser("commits", __doc__, quick="a fifth of the transactions, and one round")
    options.add_argument("--data", metavar="DIR", default=memory, help="where our brokers' files are")
    options.add_argument("--against", metavar="HOST:PORT", help="a cluster that is running, in place of the mock")
    options.add_argument("--process", metavar="PID", type=int, help="of the cluster that is running")
    chosen = options.parse_args(words)
    if chosen.process is not None and chosen.against is None:
        options.error("--process is that of a cluster that is running: name it with --against")
    repetitions, rounds = (60, 1) if chosen.quick else (300, 3)
    rows = []
    if chosen.against is not None:
        with running(chosen.against) as brokers, cluster("ours", brokers, chosen.data) as ours:
            other = (chosen.against, chosen.process)
            for records in SIZES:
                rows.append((brokers, records, *compared(ours, other, records, repetitions, rounds)))
    else:
        for brokers in (1, 3):
            with cluster("mock", brokers, chosen.data) as mock, cluster("ours", brokers, chosen.data) as ours:
                for records in SIZES:
                    rows.append((brokers, records, *compared(ours, mock, records, repetitions, rounds)))
    Console(width=130).print(table(rows, chosen.against or "librdkafka's mock cluster"))
    if chosen.against is None:
        print(
            "kfake: not in this run. It is a Go program: start one (`kcl fake`), and name it with --against HOST:PORT"
        )
    print("load of the machine in the last 1, 5 and 15 minutes:", *(f"{one:.1f}" for one in os.getloadavg()))


if __name__ == "__main__":
    main()
