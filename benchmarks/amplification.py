"""What one request may cost a broker: bytes in, time on its loop, memory, bytes out; and what others feel of it.

`python -m benchmarks.limits --amplification [--quick] [--seed N]` runs it. For every API and version a seeded search
draws requests: many elements in one of the arrays, all the same or all different, and dear batches for Produce. The
broker runs in a process of its own, and tells after each request how long its steps took and how much its memory grew.
The worst of each API and version is kept. --quick draws less, and of the newest versions only.

After that another process sends the worst of all of them at once, again and again, while a good client produces single
records: its round trips are printed beside those of a quiet broker, and the load of the machine with them. The goal is
a p99 of at most five times the quiet one.
"""

from __future__ import annotations

import dataclasses
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import trio
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TransactionalId
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.commands.serving import collect_rarely
from tidegauge.impl.client.client import Client
from tidegauge.impl.client.coordinators import GROUP, TRANSACTION, Coordinator
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import TcpHost
from tidegauge.impl.ports.network import Address
from tidegauge.impl.records.batches import MAGIC, NO_PRODUCER_ID, BatchHeader, Compression
from tidegauge.impl.records.compression import compress
from tidegauge.impl.records.payload import Record, encode_record
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import encode_request
from tidegauge.impl.wire.element_limits import most_elements
from tidegauge.impl.wire.frames import LENGTH, FrameReader, FrameTooLargeError
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.records.odd_batches import with_payload
from tidegauge.model_tests.server.large_requests import (
    SEARCHED,
    arrays,
    frame_of,
    framed,
    many,
    message_class,
    versions,
)
from tidegauge.model_tests.wire.sample_messages import sample

DRAWS = 6
"""Requests that are drawn for each API and version."""
ROUND_TRIPS = 400
GOAL = 5
LONGEST_S = 120.0
BY_NAME = 12
MEMORY = "/dev/shm"
"""Where files lie in memory, so that the broker is measured and not the disk."""


@attrs.frozen
class Cost:
    """One request, and what it took."""

    name: str
    frame: bytes = attrs.field(repr=False)
    seconds: float
    """Of the processor on the loop, all steps together."""
    longest: float
    """Those of the longest step."""
    memory: float
    """MiB by which the broker's resident set grew at most."""
    bytes_out: int


class LoopTime(trio.abc.Instrument):
    """Of a broker's loop: how much processor time its steps take."""

    def __init__(self) -> None:
        self.total = self.longest = 0.0
        self._begun = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._begun = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = time.thread_time() - self._begun
        self.total += took
        self.longest = max(self.longest, took)

    def told(self) -> str:
        """Both, and from now on anew."""
        line = f"{self.total} {self.longest} {peak_memory()}"
        self.total = self.longest = 0.0
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM begins anew
        return line


def peak_memory() -> float:
    """MiB that were resident at most."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


async def tell_costs() -> None:
    """In the broker's process: for each line of standard input one of standard output, until it ends."""
    loop_time = LoopTime()
    trio.lowlevel.add_instrument(loop_time)
    while await trio.to_thread.run_sync(sys.stdin.readline):
        print(loop_time.told(), flush=True)


# --- requests --------------------------------------------------------------------------------------------------------


def drawn(
    key: ApiKey, version: int, topic_id: str, rng: random.Random, draws: int, most: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Requests of an API and version that may be dear, of at most so many elements."""
    values: dict[str, Any] = {
        "string": "large",
        "uuid": UUID(topic_id),
        "int32": 0,
        "int64": 0,
        "int8": 0,
        "bool": False,
    }
    message = message_class(key, version)
    paths = list(arrays(message))
    for _ in range(draws if paths else 1):
        path = rng.choice(paths) if paths else ("",)
        count = rng.choice((100, most_elements(key) // 10, most_elements(key) - len(path) * 4))
        count = count if most is None else most
        distinct = rng.random() < 0.7
        try:
            request = many(message, path, count, values, distinct=distinct)
            yield f"{count:,} of {'.'.join(path)}", frame_of(key, version, request)
        except (ValueError, TypeError):  # a value that the schema does not take
            continue
    if most is not None:
        return
    for name, fields in dear_expressions(key, message):
        yield name, frame_of(key, version, dataclasses.replace(sample(message, values), **fields))
    if key is ApiKey.METADATA and version < 9:
        count = 2_000_000
        yield "2,000,000 empty names", framed(key, version, struct.pack(">i", count) + bytes(2 * count))
    if key is ApiKey.PRODUCE and version == BY_NAME:
        for name, batch in dear_batches(rng):
            request = ProduceRequest(1, 30_000, [ProduceTopic("dear", "", [ProducePartition(0, batch)])])
            yield name, encode_request(request, 1, "x", version=BY_NAME)


def dear_expressions(key: ApiKey, message: type[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Fields of a request with a regular expression that is dear to make, or to match."""
    joins = {"member_id": "m", "rebalance_timeout": timedelta(seconds=20), "topic_partitions": ()}
    joins |= {"instance_id": None, "rack_id": None, "server_assignor": None}
    given = {
        ApiKey.CONSUMER_GROUP_HEARTBEAT: ("subscribed_topic_regex", joins),
        ApiKey.LIST_TRANSACTIONS: ("transactional_id_pattern", {}),
    }
    field, others = given.get(key, ("", {}))
    if field not in {each.name for each in dataclasses.fields(message)}:
        return
    classes = "".join(f"[{chr(0x4E00 + place)}-\uffff]?" for place in range(250))
    for expression in (f"(?i){classes}", "(a?){250}", ".*[a-z].{200}"):
        yield f"the expression {expression[:20]}", {**others, field: expression}


def dear_batches(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Batches that are many records in few bytes."""
    identical = encode_record(Record(0, 7, None, None), 0, 7)
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        count, name = rng.choice((100_000, 900_000)), codec.name.lower()
        yield f"{count:,} identical records in {name}", batch_of(identical * count, count, codec)
        yield f"64 MiB of zeros in {name}", batch_of(bytes(64 << 20), count, codec)
    for count, codec in ((900_000, Compression.ZSTD), (100_000, Compression.NONE)):
        records = b"".join(encode_record(Record(n, 7 + n, None, None), 0, 7) for n in range(count))
        yield f"{count:,} records in {codec.name.lower()}", batch_of(records, count, codec)


def batch_of(payload: bytes, count: int, codec: Compression) -> bytes:
    """A batch that says it holds so many records, and holds this."""
    header = BatchHeader(0, 0, -1, MAGIC, 0, codec, count - 1, 7, 7 + count, NO_PRODUCER_ID, -1, -1, count)
    return with_payload(header.pack(), compress(codec, payload))


# --- the search ------------------------------------------------------------------------------------------------------


class BrokerUnderTest:
    """The broker's process, and what it tells of itself."""

    def __init__(self, directory: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.amplification", "serve", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        host, _, port = self._line().rpartition(":")
        self.address = Address(host, int(port))

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline().strip()):
            raise RuntimeError("the broker is gone")
        return line

    def told(self) -> tuple[float, float, float]:
        """(seconds on the loop, seconds of the longest step, MiB at most) since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        total, longest, memory = map(float, self._line().split())
        return total, longest, memory

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


async def bytes_back(address: Address, frame: bytes) -> int:
    """Bytes of the response; 0 when the connection was closed."""
    stream = await trio.open_tcp_stream(address.host, address.port)
    try:
        with trio.move_on_after(LONGEST_S):
            await stream.send_all(frame)
            response = await FrameReader(stream, 1 << 30).read_frame()
            return 0 if response is None else len(response) + 4
    except (trio.BrokenResourceError, FrameTooLargeError):
        pass
    finally:
        await trio.aclose_forcefully(stream)
    return 0


async def cost_of(broker: BrokerUnderTest, name: str, frame: bytes) -> Cost:
    _, _, before = await trio.to_thread.run_sync(broker.told)
    size = await bytes_back(broker.address, frame)
    total, longest, memory = await trio.to_thread.run_sync(broker.told)
    return Cost(name, frame, total, longest, max(0.0, memory - before), size)


async def search(broker: BrokerUnderTest, topic_id: str, seed: int, draws: int, every: int) -> list[Cost]:
    """The worst request of each API and version, by the time that it takes on the loop."""
    worst = []
    for key in SEARCHED:
        if key is ApiKey.UNREGISTER_BROKER:  # it would do as it is told
            continue
        for version in versions(key)[::-1][::every]:
            rng = random.Random(f"{seed}/{key.name}/{version}")
            for _, frame in drawn(key, version, topic_id, random.Random(seed), 1, most=1):  # imports what it needs
                await bytes_back(broker.address, frame)
            found = [
                await cost_of(broker, f"{key.name} {version}: {name}", frame)
                for name, frame in drawn(key, version, topic_id, rng, draws)
            ]
            if found:
                worst.append(max(found, key=lambda cost: cost.seconds))
                print(f"{worst[-1].name}: {worst[-1].seconds * 1e3:.1f} ms", file=sys.stderr)
    return worst


# --- a good client meanwhile -----------------------------------------------------------------------------------------


async def round_trips(client: Client, count: int) -> list[float]:
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        await client.produce("meanwhile", b"x" * 100)
        times.append((time.perf_counter() - begun) * 1e3)
        await trio.sleep(0.005)
    return sorted(times)


class Attacker:
    """A process that sends these requests again and again, all at once."""

    def __init__(self, address: Address, worst: list[Cost]) -> None:
        command = [sys.executable, "-m", "benchmarks.amplification", "attack", address.host, str(address.port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for cost in worst:
            self._process.stdin.write(LENGTH.pack(len(cost.frame)) + cost.frame)
        self._process.stdin.close()
        self._process.stdout.readline()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


async def round_trips_under(client: Client, address: Address, worst: list[Cost], count: int) -> list[float]:
    """The good client's, while another process sends every one of these requests again and again."""
    attacker = await trio.to_thread.run_sync(Attacker, address, worst)
    try:
        await trio.sleep(1)
        return await round_trips(client, count)
    finally:
        attacker.stop()


async def attack(address: Address) -> None:
    """In the attacker's process: each frame of standard input is sent again and again, on a connection each time."""

    async def send(frame: bytes) -> None:
        while True:
            await bytes_back(address, frame)

    async with trio.open_nursery() as nursery:
        while head := sys.stdin.buffer.read(LENGTH.size):
            nursery.start_soon(send, sys.stdin.buffer.read(*LENGTH.unpack(head)))
        print("sent", flush=True)


async def measured(seed: int, *, quick: bool) -> None:
    place = MEMORY if Path(MEMORY).is_dir() else None  # noqa: ASYNC240 - before anything runs
    host = TcpHost(None)
    with tempfile.TemporaryDirectory(dir=place) as directory:
        broker = BrokerUnderTest(directory)
        try:
            network, clock = host.network("bench"), host.clock("bench")
            async with Client(network, [broker.address], clock, client_id="bench") as client:
                await round_trips(client, ROUND_TRIPS // 4)
                topic_id = str((await client.metadata("large")).topics[0].topic_id)
                count = ROUND_TRIPS // 4 if quick else ROUND_TRIPS
                quiet = await round_trips(client, count)
                worst = await search(broker, topic_id, seed, 2 if quick else DRAWS, 100 if quick else 1)
                together = await round_trips_under(client, broker.address, worst, count)
        finally:
            broker.stop()
            host.close()
    show(worst, quiet, together, seed)


def show(worst: list[Cost], quiet: list[float], together: list[float], seed: int) -> None:
    console = Console(width=150)
    measures = "bytes in", "loop, ms", "µs a byte", "longest step, ms", "MiB", "bytes out"
    table = Table("worst request of each API and version", *measures, box=None, pad_edge=False)
    for cost in sorted(worst, key=lambda one: -one.seconds):
        table.add_row(
            cost.name,
            f"{len(cost.frame):,}",
            f"{cost.seconds * 1e3:.1f}",
            f"{cost.seconds * 1e6 / len(cost.frame):.2f}",
            f"{cost.longest * 1e3:.1f}",
            f"{cost.memory:.0f}",
            f"{cost.bytes_out:,}",
        )
    console.print(table)
    loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(f"seed {seed}; load of the machine: {loads}, cores: {os.cpu_count()}")
    for name, times in (("quiet", quiet), (f"under {len(worst)} of them at once", together)):
        console.print(f"a good client, {name}: p50 {middle(times, 50):.2f} ms, p99 {middle(times, 99):.2f} ms")
    ratio = middle(together, 99) / middle(quiet, 99)
    console.print(f"p99 {ratio:.1f} times the quiet one (goal: {GOAL})")


def middle(times: list[float], percentile: int) -> float:
    return times[len(times) * percentile // 100]


# --- the broker's process --------------------------------------------------------------------------------------------


async def serve(directory: str) -> None:
    config = {"auto.create.topics.enable": False}
    async with Cluster(1, 1, host="tcp", directory=directory, trace=False, config=config) as cluster:
        for topic in ("meanwhile", "large", "dear"):
            await cluster.create_topic(topic)
        async with cluster.client("bench") as client:
            await find_coordinators(client)
        collect_rarely()  # as `tidegauge broker` does
        print(cluster.brokers[0].address, flush=True)
        await tell_costs()


async def find_coordinators(client: Client) -> None:
    """Return when the broker coordinates: without the internal topics requests would be refused at the door."""
    groups = DescribeGroupsRequest(groups=(GroupId("large"),), include_authorized_operations=False)
    await Coordinator(client, GROUP, "large").ask(groups, lambda response: known(response.groups[0].error_code), None)
    ids = DescribeTransactionsRequest(transactional_ids=(TransactionalId("large"),))
    coordinator = Coordinator(client, TRANSACTION, "large")
    await coordinator.ask(ids, lambda response: known(response.transaction_states[0].error_code), None)


def known(error: ErrorCode) -> ErrorCode:
    """A coordinator that knows of no such id is one."""
    unknown = ErrorCode.group_id_not_found, ErrorCode.transactional_id_not_found
    return ErrorCode.none if error in unknown else error


def main(words: Sequence[str] | None = None) -> None:
    if words is None and sys.argv[1:2] == ["serve"]:
        return trio.run(serve, sys.argv[2])
    if words is None and sys.argv[1:2] == ["attack"]:
        return trio.run(attack, Address(sys.argv[2], int(sys.argv[3])))
    options = parser("amplification", __doc__, quick="draw less, and of the newest versions only")
    options.add_argument("--seed", type=int, default=1, help="what the draws come from (default: 1)")
    chosen = options.parse_args(words)
    return trio.run(partial(measured, chosen.seed, quick=chosen.quick))


if __name__ == "__main__":
    main()
