"""What the stored logs of lockstep have in common: each delegates to a log of `impl.storage`."""

from __future__ import annotations

import random
from typing import Final

from tidegauge.impl.partition.log import Admit, Buffer, Records
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.transactions import AbortedTransaction
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.checked import Batches
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log

DIRECTORY: Final = "records-0"


class DiskLog:
    """Satisfies `impl.partition.log.ReplicaLog` but for reading; it lies on a simulated disk of its own."""

    def __init__(
        self, disk: SimulatedDisk | None, config: LogConfig, log_start_offset: int, producers: ProducerStates | None
    ) -> None:
        self._disk = SimulatedDisk(random.Random(0)) if disk is None else disk
        self._log = Log.open(
            self._disk, DIRECTORY, config, now_ms=0, log_start_offset=log_start_offset, producers=producers
        )

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_start_epoch(self) -> int:
        return self._log.log_start_epoch

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        return self._log.latest_epoch

    @property
    def producers(self) -> ProducerStates:
        return self._log.producers

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for(epoch)

    def append_as_leader(
        self,
        batches: Batches,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        admit: Admit | None = None,
    ) -> None:
        self._log.append_as_leader(batches, leader_epoch, now_ms, origin=origin, admit=admit)

    def append_as_follower(self, batches: Buffer) -> None:
        self._log.append_as_follower(batches)

    def aborted_in(self, offset: int, records: Records) -> list[AbortedTransaction]:
        return self._log.aborted_in(offset, records)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self._log.aborted_transactions(start_offset, end_offset)

    def truncate_to(self, offset: int, *, epoch: int = -1) -> None:
        self._log.truncate_to(offset, epoch=epoch)

    def truncate_fully_and_start_at(self, offset: int, *, epoch: int = -1) -> None:
        self._log.truncate_fully_and_start_at(offset, epoch=epoch)

    def delete_records_before(self, offset: int) -> None:
        self._log.delete_records_before(offset)
