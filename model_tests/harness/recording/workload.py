"""The workload of a recording: producers and readers of one topic, each in a thread, then one reading to the end.

Theory of operation
-------------------
Every record is an operation of its own, with a value of its own. A producer has several in flight; since a process of
a history is sequential, each of these places is a process. After a producer's error the outcome is unknown: the library
may have tried before, and that attempt may have been stored. Only what the library refused to send counts as failed.

A reader polls one partition for a while, then goes to another: to its start, to its middle, or to where it left off.
Now and then it asks for the end offset. A library reads ahead, so what a call returns may be older than the call: fewer
records than expected prove nothing until the partition is declared settled.

At the end every partition has to acknowledge one more record, with the recording's acks. Then its faults count as over:
the partition is declared settled, and a new reader reads it up to its end offset. A partition that does not respond is
left unsettled, and the summary says so.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs

from tidegauge.linearizability.history import Isolation, Operations
from tidegauge.model_tests.harness.recording.clients import (
    Library,
    NotSentError,
    Producer,
    Properties,
    Reader,
    Record,
    UnavailableError,
)
from tidegauge.model_tests.harness.recording.recorder import ThreadedRecorder

POLL_SECONDS = 0.2
POLLS = 5
"""Reads of a partition before a reader goes to another one."""
BETWEEN_POLLS = 0.05


MOST_THREADS = 256
"""Of each kind, and the library starts threads of its own for each."""
MOST_PARTITIONS = 10_000
MOST_IN_FLIGHT = 10_000
"""Of each producer; each is a process of the history."""
MOST_RATE = 1_000_000
MOST_SECONDS = 30 * 24 * 3600
"""A timer takes no more than some hundred years, and no history a month."""


def _more_than_0(most: int) -> Callable[[object, attrs.Attribute[Any], float], None]:
    def check(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
        if not 0 < value <= most:  # nor NaN
            raise ValueError(f"{attribute.name.replace('_', '-')} {value}: give more than 0 and at most {most}")

    return check


def _none_or_threads(_: object, attribute: attrs.Attribute[Any], value: int) -> None:
    if not 0 <= value <= MOST_THREADS:
        raise ValueError(f"{attribute.name} {value}: give 0 or more, and at most {MOST_THREADS}")


@attrs.frozen
class Workload:
    """What to record."""

    bootstrap: str
    topic: str
    partitions: int = attrs.field(default=3, validator=_more_than_0(MOST_PARTITIONS))
    seconds: float = attrs.field(default=10.0, validator=_more_than_0(MOST_SECONDS))
    producers: int = attrs.field(default=2, validator=_more_than_0(MOST_THREADS))
    transactions: int = attrs.field(default=0, validator=_none_or_threads)
    """Transactional ids that write; 0 records no transactions."""
    groups: int = attrs.field(default=0, validator=_none_or_threads)
    """Members of a group that consume; 0 records no group."""
    group_protocol: str = "classic"
    """Or consumer (KIP-848)."""
    readers: int = attrs.field(default=2, validator=_more_than_0(MOST_THREADS))
    in_flight: int = attrs.field(default=5, validator=_more_than_0(MOST_IN_FLIGHT))
    """The most records in flight of each producer."""
    rate: float = attrs.field(default=200.0, validator=_more_than_0(MOST_RATE))
    """Records a second of each producer, at most."""
    acks: int = -1
    settle_seconds: float = attrs.field(default=30.0, validator=_more_than_0(MOST_SECONDS))
    """How long to wait for the cluster at the end."""
    seed: int = 1
    """Decides the partitions and positions that are asked for, not what the cluster responds."""
    properties: Properties = MappingProxyType({})
    """Settings of the library, for all of its clients."""


@attrs.frozen
class Recorded:
    """A recording's history, and what of it could not be finished."""

    operations: Operations
    unsettled: tuple[int, ...]
    """Partitions that did not respond at the end."""


class Recording:
    """One run of a workload. `stop` may be called in any thread to end it early."""

    def __init__(self, workload: Workload, library: Library) -> None:
        self._workload = workload
        self._library = library
        self._recorder = ThreadedRecorder(workload.topic)
        self._stopped = threading.Event()
        self._values = itertools.count()
        self._ends: dict[int, int] = {}
        """After the last record that each partition has acknowledged."""
        self._failures: list[BaseException] = []

    def stop(self) -> None:
        """End the workload now; what is on its way is waited for, and the partitions are read to their ends."""
        self._stopped.set()

    @property
    def operations(self) -> int:
        """How many there are so far."""
        return len(self._recorder)

    def run(self) -> Recorded:
        """Record. Raises UnavailableError when the cluster cannot be used at all."""
        work = self._workload
        threads = [
            threading.Thread(target=self._guarded, args=(task, number), name=f"{task.__name__}-{number}")
            for task, many in self._tasks()
            for number in range(many)
        ]
        for thread in threads:
            thread.start()
        self._stopped.wait(work.seconds)
        self._stopped.set()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        unsettled = self._settle()
        return Recorded(self._recorder.operations(), unsettled)

    def _tasks(self) -> Sequence[tuple[Callable[[int], None], int]]:
        """What is done at once, and by how many."""
        return ((self._produce, self._workload.producers), (self._read, self._workload.readers))

    @property
    def _writing(self) -> int:
        """How many processes write; those that read are numbered after them."""
        return self._workload.producers * self._workload.in_flight

    def _isolation(self, process: int) -> Isolation:
        """What a process that reads asks for."""
        return Isolation.READ_UNCOMMITTED

    def _reader(self, process: int) -> Reader:
        work = self._workload
        asked = {self._library.isolation: self._isolation(process).name.lower()}
        return self._library.reader(work.bootstrap, {**asked, **work.properties})

    def _guarded(self, task: Callable[[int], None], number: int) -> None:
        try:
            task(number)
        except Exception as error:
            self._failures.append(error)
            self._stopped.set()

    # --- producing -------------------------------------------------------------------------------------------------

    def _produce(self, number: int) -> None:
        work = self._workload
        rng = random.Random(f"{work.seed}/producer/{number}")
        producer = self._library.producer(work.bootstrap, work.acks, work.properties)
        free = list(range(number * work.in_flight, (number + 1) * work.in_flight))

        def release(process: int, _: bool) -> None:
            free.append(process)

        try:
            while not self._stopped.is_set():
                if free:
                    process = free.pop()
                    self._send(producer, process, rng.randrange(work.partitions), partial(release, process))
                producer.serve(1 / work.rate)
        finally:
            producer.close(work.settle_seconds)

    def _send(self, producer: Producer, process: int, partition: int, done: Callable[[bool], object]) -> None:
        """Send a record; `done` is told once whether it was acknowledged, and the process is free again."""
        value = next(self._values)
        index = self._recorder.produce(process, partition, value, self._workload.acks)

        def delivered(offset: int | None, error: str | None) -> None:
            if error is None:
                self._recorder.offset_known(index, offset)
                self._ends[partition] = max(self._ends.get(partition, 0), 1 + (offset or 0))
            else:
                self._recorder.unknown(index, error)
            done(error is None)

        try:
            producer.send(self._workload.topic, partition, b"%d" % value, delivered)
        except NotSentError as error:
            self._recorder.failed(index, str(error))
            done(False)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _read(self, number: int) -> None:
        work = self._workload
        rng = random.Random(f"{work.seed}/reader/{number}")
        process = self._writing + number
        reader = self._reader(process)
        positions = dict.fromkeys(range(work.partitions), 0)
        try:
            while not self._stopped.is_set():
                partition = rng.randrange(work.partitions)
                if rng.random() < 0.2:
                    self._list_offsets(reader, process, partition)
                left_off = positions[partition]
                start = rng.choice((left_off, left_off, left_off, left_off // 2, 0))
                end = self._follow(reader, process, partition, start)
                positions[partition] = max(left_off, end)
        finally:
            reader.close()

    def _follow(self, reader: Reader, process: int, partition: int, position: int) -> int:
        """Read a few times from a position on; returns where that ended."""
        reader.seek(self._workload.topic, partition, position)
        for _ in range(POLLS):
            if self._stopped.is_set():
                break
            records = self._fetch(reader, process, partition, position)
            if records is None:
                break
            if records:
                position = records[-1].offset + 1
            self._stopped.wait(BETWEEN_POLLS)
        return position

    def _fetch(
        self, reader: Reader, process: int, partition: int, position: int, transaction: int | None = None
    ) -> list[Record] | None:
        index = self._recorder.fetch(process, partition, position, self._isolation(process), transaction)
        try:
            records = reader.read(POLL_SECONDS)
        except UnavailableError as error:
            self._recorder.failed(index, str(error))
            return None
        self._recorder.read(index, records)
        return records

    def _list_offsets(self, reader: Reader, process: int, partition: int) -> int | None:
        index = self._recorder.list_offsets(process, partition)
        try:
            end = reader.end_offset(self._workload.topic, partition)
        except UnavailableError as error:
            self._recorder.failed(index, str(error))
            return None
        self._recorder.offset_known(index, end)
        return end

    # --- the end ---------------------------------------------------------------------------------------------------

    def _settle(self) -> tuple[int, ...]:
        """Read every partition to its end; returns those that could not be."""
        work = self._workload
        deadline = time.monotonic() + work.settle_seconds
        alive = self._probe(deadline)
        process = self._writing + work.readers
        reader = self._reader(process)
        unsettled = [partition for partition in range(work.partitions) if partition not in alive]
        try:
            for partition in sorted(alive):
                self._recorder.settled(partition)
                if not self._read_to_the_end(reader, process, partition, deadline):
                    unsettled.append(partition)
        finally:
            reader.close()
        return tuple(unsettled)

    def _probe(self, deadline: float) -> set[int]:
        """The partitions that acknowledge a record now."""
        work = self._workload
        producer = self._library.producer(work.bootstrap, work.acks, work.properties)
        alive: set[int] = set()
        waiting: set[int] = set()
        first = self._writing + work.readers + 1

        def completed(partition: int, acknowledged: bool) -> None:
            waiting.discard(partition)
            if acknowledged:
                alive.add(partition)

        try:
            while len(alive) < work.partitions and time.monotonic() < deadline:
                for partition in set(range(work.partitions)) - alive - waiting:
                    waiting.add(partition)
                    self._send(producer, first + partition, partition, partial(completed, partition))
                producer.serve(BETWEEN_POLLS)
        finally:
            producer.close(max(1.0, deadline - time.monotonic()))
        return alive

    def _end(self, reader: Reader, process: int, partition: int) -> int | None:
        """Up to where a partition has to be read."""
        return self._list_offsets(reader, process, partition)

    def _read_to_the_end(self, reader: Reader, process: int, partition: int, deadline: float) -> bool:
        end = self._end(reader, process, partition)
        if end is None:
            return False
        position = 0
        reader.seek(self._workload.topic, partition, position)
        while position < end and time.monotonic() < deadline:
            records = self._fetch(reader, process, partition, position)
            if records:
                position = records[-1].offset + 1
        return position >= end
