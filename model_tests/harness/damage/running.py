"""A campaign of damage that is met while the broker runs: who serves the partition then, and when it is repaired.

One cluster of three has partitions in which the victim plays each of the roles, one for each kind of damage. Their
files are damaged under the running broker, and read, as by a consumer, a move of the replica or the cleaner.
`docs/durability.md` has what is promised, which a test compares with `table_of_roles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from enum import Enum
from pathlib import Path
from random import Random
from typing import Literal

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.records.batches import extents
from tidegauge.impl.storage.damage import DAMAGED_SUFFIX
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.model_tests.harness.damage.campaign import (
    BATCHES,
    CONFIG,
    CONVERGES_WITHIN,
    RECORDS,
    SEGMENT_BYTES,
    VICTIM,
    change_in_place,
    is_of,
    told,
    value,
)
from tidegauge.model_tests.harness.damage.files import SEGMENT, Change

REPLICATED, SINGLE = "replicated", "single"
"""The topics: partitions of three replicas, and of one."""
MET = ("length", "magic", "CRC", "header", "value byte", "zeroes from a page on")
"""What a checksum or a length tells a process that has the file open."""


class Role(Enum):
    """What the damaged replica is; who serves the partition then; and when the replica is repaired."""

    FOLLOWS = ("follows", "the leader, as before", "at once, by the same process")
    LEADS = ("leads, others are in sync", "another one of the ISR, with every record", "at once, by the same process")
    ALONE = (
        "leads alone",
        "itself, all but the damaged offsets (`CORRUPT_MESSAGE`)",
        "not: nobody has the records",
    )
    GIVEN_UP = (
        "cannot be repaired, or was damaged for the fourth time in the life of the process",
        "another one of the ISR",
        "at the next start of its broker, or when it is moved away and back (`Cluster.reassign`, "
        "AlterPartitionReassignments)",
    )

    @property
    def assignment(self) -> list[int]:
        return {Role.FOLLOWS: [1, VICTIM, 2], Role.ALONE: [VICTIM]}.get(self, [VICTIM, 1, 2])


def table_of_roles() -> str:
    """The promises, as the page has them."""
    rows = [("the replica", "who serves", "when it is repaired"), ("---",) * 3, *(role.value for role in Role)]
    lines = ["| " + " | ".join(row) + " |" if row[0] != "---" else "|---|---|---|" for row in rows]
    return "\n".join(lines) + "\n"


@attrs.frozen
class Cell:
    """One partition: its role, the damage, and in which segment."""

    role: Role
    damage: str
    is_active: bool
    topic: str
    partition: int

    @property
    def change(self) -> Change:
        return SEGMENT[self.damage]

    def __str__(self) -> str:
        return f"{self.role.name}, {self.damage} in the {'active' if self.is_active else 'closed'} segment"


def cells(seed: int) -> list[Cell]:
    """Every role with every kind of damage, in the closed segment or the active one; the next seed has the other.

    The partitions of a topic are numbered in this order.
    """
    drawn = [
        (role, damage, bool((number + seed) % 2))
        for role in (Role.FOLLOWS, Role.LEADS, Role.ALONE)
        for number, damage in enumerate(MET)
    ]
    drawn.append((Role.GIVEN_UP, "value byte", False))
    counted: Counter[str] = Counter()
    found = []
    for role, damage, is_active in drawn:
        topic = SINGLE if role is Role.ALONE else REPLICATED
        found.append(Cell(role, damage, is_active, topic, counted[topic]))
        counted[topic] += 1
    return found


async def run(seed: int, *, directory: Path | None = None) -> list[str]:
    """Damage a partition of each cell under the running broker; returns which promises are broken, and how."""
    rng = Random(f"running damage/{seed}")
    host: Literal["simulated", "tcp"] = "simulated" if directory is None else "tcp"
    found = cells(seed)
    async with Cluster(3, seed, CONFIG, host=host, directory=directory) as cluster:
        await _write(cluster, found)
        process = cluster.broker(VICTIM)
        with told() as lines, trio.fail_after(3 * CONVERGES_WITHIN):
            for number in range(4):
                for cell in found:
                    if number == 0 or cell.role is Role.GIVEN_UP:
                        _damage_and_meet(cluster, cell, rng)
                await _settled(cluster, found, is_last=number == 3)
            broken = [f"{cell}: {words}" for cell in found async for words in _broken(cluster, cell, lines)]
            if cluster.broker(VICTIM) is not process or process.halted is not None:
                broken.append(f"the broker did not run on: {process.halted}")
            broken += [line for line in lines if "request failed" in line]
            await cluster.shutdown(VICTIM, patient=False)
            await cluster.restart(VICTIM)
            for cell in found:
                await cluster.wait_for_isr(cell.topic, cell.role.assignment, cell.partition)
                if cell.role is not Role.ALONE:
                    broken += [f"{cell}, after a restart: {words}" for words in _unlike(cluster, cell)]
    return broken


async def _write(cluster: Cluster, found: Sequence[Cell]) -> None:
    settings = {"segment.bytes": SEGMENT_BYTES, "index.interval.bytes": 100, "retention.ms": -1}
    for topic in (REPLICATED, SINGLE):
        assignments = [cell.role.assignment for cell in found if cell.topic == topic]
        await cluster.create_topic(topic, assignments=assignments, config=settings)
    async with cluster.client("writer") as client, trio.open_nursery() as nursery:

        async def write(cell: Cell) -> None:
            for offset in range(RECORDS):
                await client.produce(cell.topic, value(cell.partition, offset), partition=cell.partition)

        for cell in found:
            nursery.start_soon(write, cell)
    await trio.sleep(2)


def _damage_and_meet(cluster: Cluster, cell: Cell, rng: Random) -> None:
    """Damage the file, and read all of it, as one does that looks at checksums."""
    replicas = cluster.broker(VICTIM).replicas
    hosted = replicas.get(cell.topic, cell.partition)
    assert hosted is not None, f"{cell}: it is to be repaired by the same process"
    log = hosted.log
    base = 2 * BATCHES if cell.is_active else BATCHES
    path = f"{log.directory}/{base:020d}.log"
    change_in_place(cluster.host.disk(broker_name(VICTIM)), path, lambda content: cell.change(content, rng))
    offset = base
    try:
        log.distrust(offset)
        while batches := list(extents(log.read(offset, 1 << 20))):
            offset = batches[-1].next_offset
    except CorruptLogError as error:
        replicas.storage_failed(hosted, error)
    else:
        raise AssertionError(f"{cell}: nothing was met")


async def _settled(cluster: Cluster, found: Sequence[Cell], *, is_last: bool) -> None:
    """Until each replica is where its role leads."""
    for cell in found:
        if cell.role is Role.GIVEN_UP and is_last:
            while VICTIM in cluster.isr(cell.topic, cell.partition):  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.05)
        elif cell.role is not Role.ALONE:
            while not is_whole(cluster, cell):  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.05)
            await cluster.wait_for_isr(cell.topic, cell.role.assignment, cell.partition)


def is_whole(cluster: Cluster, cell: Cell) -> bool:
    """Whether the victim hosts the partition without damage."""
    hosted = cluster.broker(VICTIM).replicas.get(cell.topic, cell.partition)
    return hosted is not None and not hosted.log.damage


async def _broken(cluster: Cluster, cell: Cell, lines: Sequence[str]) -> AsyncIterator[str]:
    names = [line.partition(":")[0] for line in lines if is_of(f"{cell.topic}-{cell.partition}/", line)]
    async with cluster.client("reader") as client:
        served, refused = await _readable(client, cell)
    leader = cluster.leader(cell.topic, cell.partition)
    wanted = set(range(RECORDS))
    if "damage met" not in names:
        yield f"nothing was told of the damage: {names}"
    if cell.role is Role.ALONE:
        if leader != VICTIM or served | refused != wanted or not refused or "read refused" not in names:
            yield f"led by {leader}, served {served}, refused {refused}, told {names}"
        return
    if refused or served != wanted:
        yield f"refused {refused}, missing {wanted - served}"
    if cell.role is Role.FOLLOWS and leader != 1:
        yield f"led by {leader}, not as before"
    if cell.role is Role.GIVEN_UP:
        if leader == VICTIM or "replica given up" not in names:
            yield f"led by {leader}, told {names}"
        return
    if "log repaired" not in names:
        yield f"no repair was told: {names}"
    for words in _unlike(cluster, cell):
        yield words


def _unlike(cluster: Cluster, cell: Cell) -> Iterator[str]:
    """How the victim's log differs from the others', and whether the damaged bytes were kept."""
    hosted = cluster.broker(VICTIM).replicas.get(cell.topic, cell.partition)
    assert hosted is not None, "it is in sync"
    log, offset, data = hosted.log, 0, b""
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20)
        offset, data = list(extents(read))[-1].next_offset, data + read
    other = cluster.broker(1).replicas.get(cell.topic, cell.partition)
    assert other is not None
    offset, wanted = 0, b""
    while offset < other.log.log_end_offset:
        read = other.log.read(offset, 1 << 20)
        offset, wanted = list(extents(read))[-1].next_offset, wanted + read
    if data != wanted:
        yield f"its log ends at {log.log_end_offset} and is not what the others have"
    names = cluster.host.disk(broker_name(VICTIM)).list_directory(log.directory)
    if not any(DAMAGED_SUFFIX in name for name in names):
        yield "the damaged bytes are gone"


async def _readable(client: Client, cell: Cell) -> tuple[set[int], set[int]]:
    """The offsets that are served with what was written, and those that are refused."""
    served, refused = set(), set()
    for offset in range(RECORDS):
        try:
            fetched = await client.fetch(cell.topic, offset, partition=cell.partition, max_bytes=1)
        except KafkaError as error:
            assert error.code is ErrorCode.corrupt_message, error  # noqa: PT017 - any other one is raised
            refused.add(offset)
            continue
        assert (fetched.records[0].offset, fetched.records[0].value) == (offset, value(cell.partition, offset))
        served.add(offset)
    return served, refused
