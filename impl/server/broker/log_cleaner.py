"""The cleaner of a broker: compacts the dirtiest log, then the next, and rests while no log is dirty.

A round over one log is a generator of small pieces of work (`impl.storage.cleaner`). They run in the broker's loop, so
that a simulated run remains a function of its seed; between them other tasks run, and the cleaner keeps to
log.cleaner.io.max.bytes.per.second. A thread would not help: it would hold the interpreter as long.

A log in which the cleaner finds damage is not cleaned again. A disk that fails takes its log directory offline.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import trio

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.records.batches import RecordError
from tidegauge.impl.server.broker.partition import Partition
from tidegauge.impl.storage.cleaner_choice import LogToClean, cleanable, dirtiest
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.log import Log

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.disk import Disk
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.storage.cleaner import CleanedLog
    from tidegauge.impl.storage.cleaner_filter import LastRecord

LOGGER: Final = logging.getLogger(__name__)

PIECES_A_TURN: Final = 4
"""Pieces of a round between two turns of the loop: each is a batch, or a few hundred records of a large one."""
BYTES_A_TURN: Final = 64 << 10
"""Bytes of batches, read or written, between two turns."""


class LogCleaner:
    """Compaction of one broker's logs."""

    def __init__(self, replicas: ReplicaManager, config: DynamicConfig, *, clock: Clock, disk: Disk) -> None:
        self._replicas = replicas
        self._config = config
        self._clock = clock
        self._disk = disk
        self._busy: WeakSet[Log] = WeakSet()
        self._uncleanable: WeakSet[Log] = WeakSet()
        """Logs in which damage was found."""
        self._left: WeakSet[Log] = WeakSet()
        """Logs of which it was told that they are not cleaned, because their damage is known."""
        self._put_off: WeakSet[Log] = WeakSet()
        """Logs whose last round lacked room, say: they are tried again after a rest, when no other one is due."""
        self._nursery: trio.Nursery | None = None
        self._tasks: set[int] = set()
        """The numbers of the tasks that clean, from 0."""
        self.rounds = 0
        """Rounds that are complete."""
        self.cleaned: dict[tuple[str, int], CleanedLog] = {}
        """What the last round over each log did."""

    async def run(self) -> None:
        """Clean until cancelled."""
        if not self._config.current.log_cleaner_enable:
            return
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(trio.sleep_forever)
            self.reconfigure()

    def reconfigure(self) -> None:
        """Begin as many tasks as log.cleaner.threads are missing; those that are too many end by themselves."""
        if self._nursery is None:
            return
        for task in range(self._config.current.log_cleaner_threads):
            if task not in self._tasks:
                self._tasks.add(task)
                self._nursery.start_soon(self._run_one, task)

    async def _run_one(self, task: int) -> None:
        try:
            await self._clean_while_wanted(task)
        finally:
            self._tasks.discard(task)

    async def _clean_while_wanted(self, task: int) -> None:
        while task < self._config.current.log_cleaner_threads:
            if not await self.clean_dirtiest():
                await trio.sleep(self._clock.coalesced_ms(max(1, self._config.current.log_cleaner_backoff_ms)) / 1000)
            await self._clock.until_running()

    async def clean_dirtiest(self) -> bool:
        """Clean the log that needs it most, in one round; False when none is due."""
        chosen = self._choose()
        if chosen is None:
            self._put_off.clear()
            return False
        partition, to_clean = chosen
        self._busy.add(to_clean.log)
        try:
            await self._clean(partition, to_clean)
        finally:
            self._busy.discard(to_clean.log)
        return True

    def _choose(self) -> tuple[Partition, LogToClean] | None:
        now_ms = self._clock.now_ms()
        candidates: dict[int, Partition] = {}
        logs: list[LogToClean] = []
        for partition in self._replicas:
            log = partition.log
            if not log.config.is_compacted or log in self._busy or log in self._uncleanable:
                continue
            if log in self._put_off:
                continue
            if log.is_damaged:
                self._leave_damaged(partition)
                continue
            directory = self._replicas.directories.where(*partition.key)
            if directory is None:
                continue
            cleaned = directory.cleaned_offset(*partition.key)
            try:
                logs.append(cleanable(log, cleaned, partition.replica.last_stable_offset, now_ms))
            except OSError as error:
                self._replicas.storage_failed(partition, error)
                continue
            candidates[id(log)] = partition
        best = dirtiest(logs)
        return None if best is None else (candidates[id(best.log)], best)

    def _leave_damaged(self, partition: Partition) -> None:
        """Clean no log in which damage is known: what is written would have no gap where offsets are lost."""
        if partition.log not in self._left:
            self._left.add(partition.log)
            self._tell_not_cleaned(partition, "it is damaged", "it is cleaned when it is repaired")

    def _tell_not_cleaned(self, partition: Partition, why: str, following: str) -> None:
        name = f"{partition.topic}-{partition.index}"
        log_event(LOGGER, logging.ERROR, "log not cleaned", partition=name, why=why, next=following)

    async def _clean(self, partition: Partition, to_clean: LogToClean) -> None:
        try:
            result = await self._run_round(partition, to_clean)
            directory = self._replicas.directories.where(*partition.key)
            if result is not None and directory is not None and not partition.is_gone:
                directory.checkpoint_cleaned(partition.topic, partition.index, result.end_offset)
                self.cleaned[partition.key] = result
                self.rounds += 1
                _tell_removed(partition, result.counts.records_without_key)
        except OSError as error:
            self._put_off.add(to_clean.log)
            self._replicas.storage_failed(partition, error)
        except RecordError as error:
            self._uncleanable.add(to_clean.log)
            self._tell_not_cleaned(partition, str(error), "it is not cleaned until the broker starts again")
            if isinstance(error, CorruptLogError):
                lies_below_start = to_clean.log.examine(error) and not to_clean.log.damage
                if not lies_below_start:
                    self._replicas.storage_failed(partition, error)

    async def _run_round(self, partition: Partition, to_clean: LogToClean) -> CleanedLog | None:
        """Run a whole round; None when the log changed during it, or is no longer hosted here."""
        # The first round imports what cleans: a broker without compacted topics never does.
        from tidegauge.impl.storage.cleaner import Round
        from tidegauge.impl.storage.offset_map import OffsetMap, bytes_for

        config = self._config.current
        load_factor = config.log_cleaner_io_buffer_load_factor
        # Each key has an offset of its own. Keys lie all over the map, of which a page may be 2 MiB: it is no larger.
        needed = bytes_for(to_clean.first_uncleanable_offset - to_clean.first_dirty_offset, load_factor)
        most = config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads
        round_ = Round(
            to_clean.log,
            self._disk,
            OffsetMap(min(most, needed), load_factor),
            to_clean.first_dirty_offset,
            to_clean.first_uncleanable_offset,
            self._clock.now_ms(),
            last_records(partition),
        )
        slices = round_.run()
        pieces = size = 0
        while True:
            try:
                size += next(slices)
            except StopIteration as done:
                result: CleanedLog | None = done.value
                return result
            pieces += 1
            if pieces >= PIECES_A_TURN or size >= BYTES_A_TURN:
                await trio.sleep(size / config.log_cleaner_io_max_bytes_per_second)
                await self._clock.until_running()
                pieces = size = 0
                is_hosted = self._replicas.get(*partition.key) is partition
                if not is_hosted or partition.log is not to_clean.log:  # a replica that has moved has another one
                    slices.close()
                    return None


def _tell_removed(partition: Partition, records: int) -> None:
    """Of records that have no key, and so are of no use in a compacted topic: it was none when it took them."""
    if records:
        log_event(
            LOGGER,
            logging.WARNING,
            "records without keys removed",
            partition=f"{partition.topic}-{partition.index}",
            records=records,
            why="the topic is compacted now, which keeps the newest record of each key",
            next="nothing brings them back: set cleanup.policy to delete to keep those that are left",
        )


def last_records(partition: Partition) -> dict[int, LastRecord]:
    """The last record of each producer that the log remembers."""
    from tidegauge.impl.storage.cleaner_filter import LastRecord

    return {
        entry.producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
        for entry in partition.log.producers.entries.values()
    }
