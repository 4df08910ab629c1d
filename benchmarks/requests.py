"""What a request of each kind costs a broker: the CPU time of its process, divided by the number of requests.

`python -m benchmarks.requests [--quick] [--data DIR] [--only KIND]` prints a table. One client sends one request
after the other over one connection to a broker in a process of its own, and waits for each response. Beside each figure
is its ratio to that of DescribeCluster in the same run, since a loaded machine makes both worse. All kinds are measured
in turn, many rounds of them, and the median of each counts; the last line is the load of the machine, by
`os.getloadavg`.

`--beside PATH` compares with another checkout of this project, an earlier one perhaps: its broker runs at the same time
and gets the same requests, in turn with this one's. The ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import attrs
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.find_coordinator.v0.request import FindCoordinatorRequest as FindCoordinatorRequestV0
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest as FindCoordinatorRequestV3
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64
from rich.console import Console
from rich.table import Table

from benchmarks.broker import MEMORY, TOPIC
from benchmarks.options import parser
from tidegauge.impl.records.payload import Record, build_batch
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from tidegauge.impl.wire.frames import LENGTH
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.tidy import ROOT

BASE: Final = "DescribeCluster"
"""The kind to which the others are compared: it costs little beyond what every request costs."""
LARGE: Final = 1_000_000
LARGE_BATCHES: Final = 2
"""With which the log begins; two small ones follow."""
CONSUMER: Final = BrokerId(-1)
WARM: Final = 30
"""Requests of a kind before anything is measured."""


@attrs.frozen
class Kind:
    """A kind of request: the frames that are sent in turn, and how many in a round."""

    frames: Sequence[bytes]
    times: int


class Broker:
    """A broker in a process of its own, and a connection to it."""

    def __init__(self, process: subprocess.Popen[str], stream: socket.socket) -> None:
        self._tasks = Path(f"/proc/{process.pid}/task")
        self._stream = stream

    def respond(self, frame: bytes) -> bytes:
        """The response to a request."""
        self._stream.sendall(frame)
        (size,) = LENGTH.unpack(self._received(LENGTH.size))
        return self._received(size)

    def _received(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            some = self._stream.recv(min(size - len(received), 1 << 20))
            if not some:
                raise RuntimeError("the broker closed the connection")
            received += some
        return bytes(received)

    def microseconds(self, kind: Kind) -> float:
        """CPU time of one request."""
        begun = self._cpu_ns()
        for one_frame in islice(cycle(kind.frames), kind.times):
            self.respond(one_frame)
        return (self._cpu_ns() - begun) / kind.times / 1e3

    def _cpu_ns(self) -> int:
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in self._tasks.iterdir())


@contextlib.contextmanager
def broker(checkout: Path, data: str) -> Iterator[Broker]:
    """The broker of a checkout."""
    command = [sys.executable, "-m", "benchmarks.broker", "--serve-ours", "1", data]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            host, _, port = process.stdout.readline().strip().rpartition(":")
            with socket.create_connection((host, int(port))) as stream:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
                yield Broker(process, stream)
        finally:
            process.stdin.close()
            process.wait(timeout=20)


def frame(message: Any, version: int | None = None) -> bytes:
    return encode_request(message, 7, "benchmark", version=version)


def produce(size: int, acks: int, version: int = 12) -> bytes:
    now_ms = int(time.time() * 1e3)
    batch = build_batch([Record(0, now_ms, None, os.urandom(size))])
    return frame(ProduceRequest(acks, 30_000, [ProduceTopic(TOPIC, "", [ProducePartition(0, batch)])]), version)


def fetch(offset: int, partition_bytes: int) -> bytes:
    topic = FetchTopic(TOPIC, "", [FetchPartition(0, offset, partition_bytes)])
    return frame(FetchRequest([topic], 0, 1), 12)


def administrative() -> dict[str, bytes]:
    """The kinds that neither write nor read records."""
    name = TopicName(TOPIC)
    end = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(-1))
    start = DeleteRecordsPartition(partition_index=i32(0), offset=i64(0))
    epoch = OffsetForLeaderPartition(partition=i32(0), current_leader_epoch=i32(-1), leader_epoch=i32(0))
    messages = {
        "ApiVersions": ApiVersionsRequest(client_software_name="benchmark", client_software_version="1"),
        "Metadata": MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=name),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
        "ListOffsets": ListOffsetsRequest(
            replica_id=CONSUMER, isolation_level=i8(0), topics=(ListOffsetsTopic(name=name, partitions=(end,)),)
        ),
        "FindCoordinator": FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("group",)),
        "FindCoordinator 3": FindCoordinatorRequestV3(key="group", key_type=i8(0)),
        "FindCoordinator 0": FindCoordinatorRequestV0(key="group"),
        "DeleteRecords": DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=name, partitions=(start,)),),
            timeout=i32Timedelta.parse(timedelta(minutes=1)),
        ),
        "InitProducerId": InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout=i32Timedelta.parse(timedelta(minutes=1)),
            producer_id=ProducerId(-1),
            producer_epoch=i16(-1),
        ),
        "OffsetForLeaderEpoch": OffsetForLeaderEpochRequest(
            replica_id=CONSUMER, topics=(OffsetForLeaderTopic(topic=name, partitions=(epoch,)),)
        ),
        BASE: DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=i8(1)),
    }
    return {kind: frame(message) for kind, message in messages.items()}


def kinds() -> dict[str, Kind]:
    """By their names in the table, in the order in which clients send them most."""
    small = {
        "Produce, 100 B, acks=all": produce(100, -1),
        "Produce, 100 B, acks=1": produce(100, 1),
        "Produce 7, 100 B, acks=all": produce(100, -1, 7),
        **administrative(),
    }
    # A broker looks at the checksum of what a consumer asks for again: one that goes on asks for another offset.
    fetches = [fetch(offset, 1) for offset in (LARGE_BATCHES, LARGE_BATCHES + 1)]
    large = [fetch(offset, LARGE) for offset in range(LARGE_BATCHES)]
    return {
        **{name: Kind([one], 50) for name, one in small.items()},
        "Fetch, 1 record": Kind(fetches, 50),
        "Fetch, 1 record again": Kind(fetches[:1], 50),
        "Produce, 1 MB, acks=all": Kind([produce(LARGE, -1)], 5),
        "Fetch, 1 MB": Kind(large, 6),
        "Fetch, 1 MB again": Kind(large[:1], 5),
    }


def measure(brokers: Sequence[Broker], measured: Mapping[str, Kind], rounds: int) -> dict[str, list[list[float]]]:
    """For each kind and each broker the microseconds of each round."""
    for one in brokers:
        for _ in range(LARGE_BATCHES):
            one.respond(produce(LARGE, -1))
        one.respond(produce(100, -1))
        one.respond(produce(100, -1))
        for kind in measured.values():
            for one_frame in islice(cycle(kind.frames), min(WARM, kind.times)):
                one.respond(one_frame)
    found: dict[str, list[list[float]]] = {name: [[] for _ in brokers] for name in measured}
    for number in range(rounds):
        for name, kind in measured.items():
            for place in sorted(range(len(brokers)), reverse=bool(number % 2)):
                found[name][place].append(brokers[place].microseconds(kind))
    return found


def table(found: Mapping[str, list[list[float]]], others: Sequence[Path]) -> Table:
    result = Table(title=f"CPU of a broker for one request, µs; × is the ratio to {BASE}, or to the other checkout")
    result.add_column("request")
    for heading in ("here", "×", *(word for path in others for word in (path.name, "×"))):
        result.add_column(heading, justify="right")
    base = statistics.median(found[BASE][0])
    for name, (here, *rest) in found.items():
        cells = [f"{statistics.median(here):.0f}", f"{statistics.median(here) / base:.2f}"]
        for other in rest:
            ratio = statistics.median(mine / its for mine, its in zip(here, other, strict=True))
            cells += [f"{statistics.median(other):.0f}", f"{ratio:.3f}"]
        result.add_row(name, *cells)
    return result


def main(words: Sequence[str] | None = None) -> None:
    options = parser("requests", __doc__, quick="a tenth of the rounds")
    options.add_argument("--data", metavar="DIR", default=MEMORY, help="where the brokers' files are")
    options.add_argument("--only", metavar="KIND", action="append", help="kinds whose names begin so")
    options.add_argument("--beside", metavar="PATH", type=Path, action="append", default=[], help="another checkout")
    chosen = options.parse_args(words)
    wanted = tuple(chosen.only or [""])
    measured = {name: kind for name, kind in kinds().items() if name == BASE or name.startswith(wanted)}
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(broker(path.resolve(), chosen.data)) for path in (ROOT, *chosen.beside)]
        found = measure(brokers, measured, 15 if chosen.quick else 150)
    console = Console(width=120)
    console.print(table(found, chosen.beside))
    console.print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
