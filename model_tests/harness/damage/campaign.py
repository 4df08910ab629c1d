"""A campaign: one cluster, one partition for each kind of damage; the broker stops, its disk is damaged, it starts.

All partitions are damaged at once, so that a campaign is one run. What is observed of each is held against what is
promised, and against what may never be: a record served that nobody wrote, one that is neither there nor refused nor
told of, a broker that does not start, a partition without damage that is affected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, Literal

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.records.batches import extents
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.server.broker.appends import AppendState, PartitionAppend
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log import Log
from tidegauge.model_tests.harness.damage.cells import Kind, Promise, Stop
from tidegauge.model_tests.harness.damage.files import HUGE, somewhere
from tidegauge.model_tests.harness.simulation.operators import deletion

TOPIC: Final = "damaged"
HEALTHY: Final = "healthy"
VICTIM: Final = 0
BATCHES: Final = 4
"""Of one record each in a segment."""
RECORDS: Final = 3 * BATCHES - 1
STRAY: Final = 999
CONFIG: Final[Mapping[str, object]] = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_200,
    "replica.fetch.backoff.ms": 100,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "retry.backoff.ms": 100,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.dedupe.buffer.size": 24 * 500,
}
CONVERGES_WITHIN: Final = 60.0


@attrs.frozen
class Written:
    """What a partition holds before the damage: a record in each batch."""

    partition: int
    superseded: frozenset[int] = frozenset()
    """Offsets that the cleaner has left out, for a later record has their key; one in each closed segment."""

    @property
    def end(self) -> int:
        """A log that is cleaned has one more closed segment, since its newest record of a key stays."""
        return RECORDS + (BATCHES if self.superseded else 0)

    @property
    def active(self) -> int:
        """The base offset of the active segment."""
        return self.end - self.end % BATCHES

    def key(self, offset: int) -> bytes:
        return b"superseded" if offset in self.superseded or offset == self.active - 1 else b"%010d" % offset

    def from_on(self, offset: int) -> list[int]:
        """The offsets that are to be there from one on."""
        return [one for one in range(offset, self.end) if one not in self.superseded]


def draw_written(partitions: int, seed: int, *, cleaned: bool) -> list[Written]:
    """Of a log that is cleaned any batch of a closed segment may be left out, but the last one of the last."""
    rng = Random(f"written/{seed}")
    lefts = [(rng.randrange(4), 4 + rng.randrange(4), 8 + rng.randrange(3)) for _ in range(partitions)]
    return [Written(number, frozenset(left) if cleaned else frozenset()) for number, left in enumerate(lefts)]


def value(partition: int, offset: int) -> bytes:
    return (b"%03d-%03d." % (partition, offset)) * 8


TIMESTAMP: Final = 1_000_000
_KEY: Final = Written(0).key(0)
SEGMENT_BYTES: Final = BATCHES * len(build_batch([Record(0, TIMESTAMP, _KEY, value(0, 0))]))


@attrs.frozen
class Observed:
    """What became of one partition."""

    kind: Kind
    outcome: Promise | None
    """None: something that may never be."""
    detail: str
    lines: Sequence[str]
    """What was told of it, from warnings up."""


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def told() -> Iterator[list[str]]:
    """The lines of all nodes, from warnings up."""
    handler, logger = _Lines(), logging.getLogger("tidegauge")
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


async def run(
    kinds: Sequence[Kind],
    stop: Stop,
    replicas: int,
    seed: int,
    beside: tuple[Sequence[str], str] = ((), ""),
    *,
    directory: Path | None = None,
    cleaned: bool = False,
) -> list[Observed]:
    """Damage a partition in each of these ways; returns what was observed of each.

    On the simulated host, or with a `directory` on the real one, with its files there.
    `beside` names files of the directory (`cells.BESIDE`), and one of `cells.CHECKPOINT_DAMAGE` for them.
    With `cleaned` the cleaner was at each log, and has left batches out.
    """
    rng = Random(f"damage/{seed}")
    host: Literal["simulated", "tcp"] = "simulated" if directory is None else "tcp"
    written = draw_written(len(kinds), seed, cleaned=cleaned)
    async with Cluster(replicas, seed, CONFIG, host=host, directory=directory) as cluster:
        await _write(cluster, kinds, written)
        if stop is Stop.CLEAN:
            await cluster.shutdown(VICTIM, patient=False)
        else:
            await cluster.crash(VICTIM, lose_unsynced=False)
        disk = cluster.host.disk(broker_name(VICTIM))
        root = cluster.broker(VICTIM).replicas.directories.paths[0]
        for one, kind in zip(written, kinds, strict=True):
            _damage(disk, f"{root}/{TOPIC}-{one.partition}", kind, one, rng)
        names, damage = beside
        for name in names:
            _damage_checkpoint(disk, root, name, damage, rng)
        with told() as lines:
            await cluster.restart(VICTIM)
            with trio.fail_after(CONVERGES_WITHIN):
                await cluster.broker(VICTIM).unfenced.wait()
                for topic, number in ((TOPIC, len(kinds)), (HEALTHY, 1)):
                    for partition in range(number):
                        await cluster.wait_for_isr(topic, range(replicas), partition)
            return [await _observe(cluster, kind, one, lines) for one, kind in zip(written, kinds, strict=True)]


async def _write(cluster: Cluster, kinds: Sequence[Kind], written: Sequence[Written]) -> None:
    """Closed segments and an active one in each partition; the closed ones are flushed, the recovery points noted."""
    settings: dict[str, object] = {"segment.bytes": SEGMENT_BYTES, "index.interval.bytes": 100, "retention.ms": -1}
    if cleaned := any(one.superseded for one in written):
        settings |= {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": 0}
    await cluster.create_topic(TOPIC, len(kinds), config=settings)
    await cluster.create_topic(HEALTHY)
    async with cluster.client("writer") as client:
        await client.produce(HEALTHY, value(0, 0))
    leaders: dict[int, list[Written]] = {}
    for one in written:
        leaders.setdefault(cluster.leader(TOPIC, one.partition), []).append(one)
    for offset in range(written[0].end):
        for leader, led in leaders.items():
            await _append(cluster, leader, [(one, offset) for one in led])
    if cleaned:
        with trio.fail_after(CONVERGES_WITHIN):
            for one in written:
                while not is_cleaned(cluster, one):  # noqa: ASYNC110 - virtual time
                    await trio.sleep(0.5)
    async with cluster.client("operator") as client:
        for partition, kind in enumerate(kinds):
            if kind.log_start:
                await client.ask_leader(TOPIC, partition, deletion(partition, kind.log_start, topic=TOPIC))
    await trio.sleep(2)


async def _append(cluster: Cluster, leader: int, records: Sequence[tuple[Written, int]]) -> None:
    """Append to each of these partitions the record of an offset, and wait until it is committed."""
    appends = [PartitionAppend(TOPIC, one.partition, _batch(one, offset)) for one, offset in records]
    outcomes = await cluster.broker(leader).replicas.append(appends, acks=ACKS_ALL, timeout_ms=10_000)
    assert all(outcome.state is AppendState.COMMITTED for outcome in outcomes), outcomes


def is_cleaned(cluster: Cluster, one: Written) -> bool:
    """Whether no replica has what was to be left out."""
    hosted = (cluster.broker(broker).replicas.get(TOPIC, one.partition) for broker in range(cluster.size))
    logs = [replica.log for replica in hosted if replica is not None]
    return len(logs) == cluster.size and all([o for o, _ in _read(log)] == one.from_on(0) for log in logs)


def _read(log: Log) -> Iterator[tuple[int, bytes | None]]:
    """Each offset and value from the log start on. Raises CorruptLogError at what is damaged."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20)
        yield from ((record.offset, record.value) for record in decode_batches(read))
        offset = list(extents(read))[-1].next_offset


def _batch(one: Written, offset: int) -> bytes:
    return build_batch([Record(0, TIMESTAMP, one.key(offset), value(one.partition, offset))])


def _damage(disk: Disk, directory: str, kind: Kind, one: Written, rng: Random) -> None:
    if not kind.where:
        for name in disk.list_directory(directory):
            disk.remove(f"{directory}/{name}")
        disk.remove_directory(directory)
        return
    bases = {"closed": BATCHES, "active": one.active, "stray": STRAY}
    name = kind.where.format(**{part: f"{base:020d}" for part, base in bases.items()})
    _change(disk, f"{directory}/{name}", lambda content: kind.change(content, rng))


def _damage_checkpoint(disk: Disk, root: str, name: str, damage: str, rng: Random) -> None:
    def change(content: bytes) -> bytes | None:
        if not content:
            return None  # it was not there
        lines = content.decode().splitlines()
        huge = [*lines[:2], *(f"{line.rpartition(' ')[0]} {HUGE}" for line in lines[2:])]
        return {
            "garbage": rng.randbytes(len(content)),
            "empty": b"",
            "zeroes": bytes(len(content)),
            "missing": None,
            "a huge number": ("\n".join(huge) + "\n").encode(),
            "half a file": content[: len(content) // 2],
            "a flipped bit": somewhere(content, rng),
        }[damage]

    _change(disk, f"{root}/{name}", change)


def _change(disk: Disk, path: str, change: Callable[[bytes], bytes | None]) -> None:
    content = b""
    if disk.exists(path):
        file = disk.open(path)
        content = file.read(0, file.size)
        file.close()
        disk.remove(path)
    if (damaged := change(content)) is not None:
        file = disk.open(path, create=True)
        file.append(damaged)
        file.sync()
        file.close()
    disk.sync_directory(path.rpartition("/")[0])


def change_in_place(disk: Disk, path: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change a file that others have open."""
    file = disk.open_apart(path)
    content = file.read(0, file.size)
    damaged = change(content)
    assert damaged is not None
    file.truncate(0)
    file.append(damaged)
    file.close()


async def _observe(cluster: Cluster, kind: Kind, one: Written, lines: Sequence[str]) -> Observed:
    name = f"{TOPIC}-{one.partition}/"
    concerning = [line for line in lines if is_of(name, line)]
    if any("request failed" in line for line in lines):
        return Observed(kind, None, "a request failed", lines)
    if cluster.broker(VICTIM).halted is not None:
        return Observed(kind, None, f"the broker stopped: {cluster.broker(VICTIM).halted}", lines)
    async with cluster.client("reader") as client:
        if [record.value for record in (await client.fetch(HEALTHY, 0)).records] != [value(0, 0)]:
            return Observed(kind, None, "a partition without damage is affected", lines)
        if cluster.size > 1:
            return _observe_replica(cluster, kind, one, concerning)
        return await _observe_only(cluster, client, kind, one, concerning)


def is_of(name: str, line: str) -> bool:
    """Whether a line of a broker concerns a partition, by itself or as one of a checkpoint's."""
    if "node=controller" in line:
        return False
    return name in f"{line.replace(' ', '/')}/" or (line.startswith("checkpoint ") and "-offset-checkpoint" in line)


def _observe_replica(cluster: Cluster, kind: Kind, one: Written, lines: Sequence[str]) -> Observed:
    """The damaged replica is in sync again: it has to hold what the others hold."""
    hosted = cluster.broker(VICTIM).replicas.get(TOPIC, one.partition)
    assert hosted is not None, "a replica that is in sync is hosted"
    try:
        found = list(_read(hosted.log))
    except CorruptLogError as error:
        return Observed(kind, None, f"the replica is in sync with damage: {error}", lines)
    if found != [(offset, value(one.partition, offset)) for offset in one.from_on(kind.log_start)]:
        return Observed(kind, None, f"the replica is in sync with {[offset for offset, _ in found]}", lines)
    is_repaired = any(line.split(":")[0] in REPAIRS and f"log_end={one.end} " not in line for line in lines)
    return Observed(kind, Promise.REPAIRED if is_repaired else Promise.RECOVERED, "", lines)


REPAIRS: Final = frozenset(
    {"log repaired", "torn tail cut", "partition directory missing", "log ends below its high watermark"}
)
"""Lines of logs that had to be fetched again, all or in part."""


async def _observe_only(cluster: Cluster, client: Client, kind: Kind, one: Written, lines: Sequence[str]) -> Observed:
    """The damaged replica is the only one: each offset is there, or refused, or beyond the end."""
    partition, refused, passed_over = one.partition, [], set()
    end = (await client.list_offsets(TOPIC, partition=partition)).offset
    if end > one.end:
        return Observed(kind, None, f"the log ends at {end}, and {one.end} records were written", lines)
    for offset in range(kind.log_start, end):
        try:
            fetched = await client.fetch(TOPIC, offset, partition=partition, max_bytes=1)
        except KafkaError as error:
            if error.code is not ErrorCode.corrupt_message:
                return Observed(kind, None, f"offset {offset}: {error}", lines)
            refused.append(offset)
            continue
        if not fetched.records and offset in one.superseded:
            continue  # a batch without records takes its place
        first, wanted = fetched.records[0], one.from_on(offset)
        if first.offset not in wanted or first.value != value(partition, first.offset):
            return Observed(kind, None, f"offset {offset} is served as {first}", lines)
        passed_over.update(wanted[: wanted.index(first.offset)])
    await _append(cluster, VICTIM, [(one, end)])
    after = await client.fetch(TOPIC, end, partition=partition)
    if [record.value for record in after.records] != [value(partition, end)]:
        return Observed(kind, None, "what is appended is not read", lines)
    outcome: Promise | None = Promise.RECOVERED
    if end < one.end:
        outcome = Promise.CUT if end else Promise.GONE
    elif refused:
        outcome = Promise.REFUSED
    detail = f"end {end}, refused {refused}, passed over {sorted(passed_over)}, left out {sorted(one.superseded)}"
    if passed_over:
        outcome = Promise.PASSED_OVER if one.superseded else None
    if outcome is not Promise.RECOVERED and not lines:
        return Observed(kind, None, f"nothing was told: {detail}", lines)
    return Observed(kind, outcome, detail, lines)
