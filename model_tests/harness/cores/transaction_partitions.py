"""A partition in a lockstep of transactions: a leader and a follower over stored logs, and what they come to.

What the specification has as one partition are two replicas here. Where nothing may come between, the follower fetches
at once; else it does when the action says so. An election makes the follower the leader, if it has as much as is to be
kept; or the leader has cut its log to what is kept; or it restarts with that and reads its log from the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.log import Buffer
from tidegauge.impl.partition.messages import Appended, PartitionConfig, PartitionFetchResponse
from tidegauge.impl.partition.producer_state import DEFAULT_EXPIRATION_MS, ProducerStates
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import BatchHeader, RecordError, headers
from tidegauge.impl.records.lazy import in_memory
from tidegauge.impl.records.markers import TransactionMarker
from tidegauge.impl.records.origin import Origin
from tidegauge.impl.storage.config import LogConfig
from tidegauge.model_tests.harness.cores.asked_transactions import (
    forgotten_while_open,
    old_otherwise,
    stable_otherwise,
    taken_in_otherwise,
)
from tidegauge.model_tests.harness.cores.disk_log import DiskLog
from tidegauge.model_tests.harness.cores.transaction_abstraction import (
    partition_of,
    produced,
    read_otherwise,
    returned,
    transaction_marker,
)
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.near_misses import epochs_around
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.partition_rules import PartitionRules

ACKS_ALL: Final = -1
MUCH: Final = 1 << 20
REPLICAS: Final = (0, 1)
CONFIG: Final = PartitionConfig()
_LOG_CONFIG: Final = LogConfig(segment_bytes=170)
"""Two batches make a segment: what is remembered after a cut or a restart comes from snapshots as well."""


class Turn(Enum):
    """What an election comes from."""

    CUT = "the leader has followed for a while, has cut its log, and leads again"
    ANOTHER = "the follower leads, if it has what is kept; else the leader restarts"
    RESTART = "the leader restarts"


TURNS: Final = (Turn.CUT, Turn.ANOTHER, Turn.CUT, Turn.RESTART, Turn.ANOTHER)
"""By leader epoch."""


class TransactionLog(DiskLog):
    """Satisfies `impl.partition.log.ReplicaLog`."""

    def __init__(self, producers: type[ProducerStates], disk: SimulatedDisk | None = None) -> None:
        super().__init__(disk, _LOG_CONFIG, 0, producers())

    def fetch(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        return self._log.read(offset, max_bytes, end_offset)

    def after_restart(self, kept: int) -> TransactionLog:
        """What a restarted process finds: the first `kept` entries."""
        self._log.truncate_to(kept)
        self._log.abandon()
        return TransactionLog(type(self.producers), self._disk)

    @property
    def batches(self) -> Buffer:
        """All that it holds."""
        found = bytearray()
        reached = self.log_start_offset
        while reached < self.log_end_offset:
            data = self._log.read(reached, MUCH)
            found += data
            reached += sum(1 for _ in headers(data))
        return found


def _no_markers(marker: TransactionMarker) -> Iterator[tuple[TransactionMarker, int]]:
    """Of no producer, of no epoch, and of versions of transactions that nobody knows."""
    yield marker._replace(producer_id=-1), 0
    yield marker._replace(producer_epoch=-1), 0
    yield from ((marker, version) for version in (-1, 3))


class PartitionCores:
    """One partition: its two replicas, the first of which leads at first."""

    def __init__(self, machine: PartitionRules, replica: type[PartitionReplica], producers: type[ProducerStates]):
        self.machine = machine
        self.kind = replica
        self.registration = PartitionRegistration(REPLICAS, 0, 0, 0, frozenset(REPLICAS))
        self.replicas = [self._started(number, TransactionLog(producers), 0) for number in REPLICAS]
        self._changed = True
        self._abstract = spec.Partition()
        self._returned: tuple[int, ...] = ()
        self._paged: tuple[int, ...] = ()
        self._shown = 0
        self._asked: tuple[Change, ...] = ()

    def _started(self, number: int, log: TransactionLog, high_watermark: int) -> PartitionReplica:
        replica = self.kind(number, log, CONFIG, high_watermark)
        replica.apply_metadata(self.registration, 0, 0)
        return replica

    @property
    def leader(self) -> PartitionReplica:
        return self.replicas[self.registration.leader]

    def _touched(self) -> PartitionReplica:
        """The leader, to which something is about to happen: what was read off it is out of date."""
        self._changed = True
        return self.leader

    # --- what is done to it --------------------------------------------------------------------------------------

    def append(self, request: spec.ProduceRequest) -> Appended | ErrorCode:
        """A record reaches the leader, or an offset that the group's coordinator writes."""
        if request.sequence == spec.NONE:
            leader = self._touched()
            error = leader.coordinators_batch_error(request.producer_id, request.epoch)
            if error is not ErrorCode.none:
                return error
            leader.end_verification(request.producer_id)
            return leader.append(produced(request), ACKS_ALL, 0, Origin.BROKER)
        try:
            return self._touched().append(produced(request), ACKS_ALL, 0)
        except RecordError as refused:
            return refused.error_code

    def append_marker(self, request: spec.MarkerRequest) -> Appended | ErrorCode:
        """A marker reaches the leader, behind some that are none."""
        for wrong, version in _no_markers(transaction_marker(request)):
            error = self.leader.append_marker(wrong, version, 0)
            assert error is ErrorCode.invalid_request, f"{wrong} of version {version}: {error}"
        outcome = self._touched().append_marker(transaction_marker(request), request.version, 0)
        self.sweep()
        return outcome

    def sweep(self) -> None:
        """Each replica looks for producers that have been idle for long: all were there less long ago."""
        for replica in self.replicas:
            replica.producers.expire(DEFAULT_EXPIRATION_MS - 1)

    def confirm(self, request: spec.ProduceRequest) -> None:
        """The coordinator's verification reaches the leader, which has asked for it."""
        asked = self._touched().verification(BatchHeader.parse(produced(request)))
        if asked is None:  # it goes without, by another verification or with what is open
            asked = self.leader.verifications.begin(request.producer_id, request.epoch)
        self.leader.confirm(asked)

    def replicate(self) -> None:
        """The follower fetches until it has all, and knows that all is committed."""
        self._touched()
        follower = self.replicas[1 - self.registration.leader]
        while True:
            fetch = follower.fetch_request(0)
            assert fetch is not None
            response = self.leader.receive_fetch(fetch, MUCH, 0)
            follower.receive_fetch_response(fetch, response, 0)
            if follower.high_watermark == self.leader.log_end_offset == follower.log_end_offset:
                return

    def elect(self, kept: int) -> None:
        """Another replica leads, or the same one after a restart, with so many entries."""
        self._touched()
        former = self.registration.leader
        other = self.replicas[1 - former]
        turn = self.registration.leader_epoch % len(TURNS)
        follows = other.log_end_offset == kept and TURNS[turn] is Turn.ANOTHER
        self.registration = self.registration._replace(
            leader=1 - former if follows else former,
            leader_epoch=self.registration.leader_epoch + 1,
            partition_epoch=self.registration.partition_epoch + 1,
        )
        replica = self.replicas[former]
        assert isinstance(replica.log, TransactionLog)
        if TURNS[turn] is Turn.CUT:
            replica.log.truncate_to(kept)  # as it does that has followed for a while
            replica.apply_metadata(self.registration, 0, 0)
        else:
            log = replica.log.after_restart(kept)
            self.replicas[former] = self._started(former, log, replica.high_watermark)
        other.apply_metadata(self.registration, 0, 0)
        self.sweep()

    # --- as the specification has it -----------------------------------------------------------------------------

    @property
    def batches(self) -> Buffer:
        """All that the leader has."""
        log = self.leader.log
        assert isinstance(log, TransactionLog)
        return log.batches

    def abstraction(self, expected: spec.Partition) -> spec.Partition:
        """What the leader has and remembers."""
        if self._changed:
            self._abstract = partition_of(self.leader, self.batches, expected.log)
            self._returned, self._paged = (
                tuple(
                    offset
                    for page in self._pages(room, read_committed=True)
                    for offset in returned(in_memory(page.records), page.aborted or ())
                )
                for room in (MUCH, 1)
            )
            self._shown = self.leader.log.log_start_offset + sum(1 for _ in self._pages(1, read_committed=False))
            self._asked = tuple(self._asked_otherwise("a partition", expected))
            self._changed = False
        return self._abstract

    def _asked_otherwise(self, name: str, expected: spec.Partition) -> Iterator[Change]:
        """What copies of what the leader knows say otherwise."""
        states = self.leader.producers
        yield from taken_in_otherwise(name, states)
        yield from forgotten_while_open(name, states)
        yield from old_otherwise(name, self.leader.verifications)
        if self._abstract == expected:
            yield from stable_otherwise(name, self.machine, self.leader, expected)

    def _pages(self, room: int, *, read_committed: bool) -> Iterator[PartitionFetchResponse]:
        """What a consumer is given that has room for so many bytes, segment by segment or one batch at a time.

        Each batch has one record.
        """
        offset = self.leader.log.log_start_offset
        while (page := self.leader.read(offset, room, read_committed=read_committed)).records:
            yield page
            offset += sum(1 for _ in headers(in_memory(page.records)))

    def differences(self, name: str, expected: spec.Partition) -> Iterator[Change]:
        """Where a reader would stop or read otherwise than the specification says, at the leader or at a follower."""
        stable = self.leader.last_stable_offset
        yield from read_otherwise(self.machine, name, expected, stable, self._returned)
        yield from read_otherwise(self.machine, f"{name} batch by batch", expected, stable, self._paged)
        if self.leader.knows_high_watermark and self._shown != expected.high_watermark:
            yield Change(f"{name}.shown without read_committed", expected.high_watermark, self._shown)
        yield from self._told_otherwise(name, expected, stable)
        yield from self._taken_otherwise(name, expected)
        yield from self._asked
        follower = self.replicas[1 - self.registration.leader]
        is_told = (follower.log_end_offset, follower.high_watermark) == (len(expected.log), expected.high_watermark)
        if is_told and follower.last_stable_offset != stable:
            yield Change(f"{name}.last_stable_offset of the follower", stable, follower.last_stable_offset)

    def _told_otherwise(self, name: str, expected: spec.Partition, stable: int) -> Iterator[Change]:
        """Where a client is told that the log ends, by whichever records it wants, and what is kept of it besides."""
        leader, high_watermark = self.leader, expected.high_watermark
        for read_committed, end in ((False, high_watermark), (True, stable)):
            wanted = end if leader.knows_high_watermark else ErrorCode.offset_not_available
            if (found := leader.latest_offset(read_committed=read_committed)) != wanted:
                yield Change(f"{name}.latest_offset, read_committed={read_committed}", wanted, found)
        beside = leader.read(leader.log.log_start_offset, 0, at_least_one=False)
        told = beside.high_watermark if beside.last_stable_offset == spec.NONE else beside.last_stable_offset
        if beside.error is ErrorCode.none and told != stable:
            yield Change(f"{name}: last stable offset without read_committed", stable, told)
        for replica in self.replicas:
            if replica.producers.end_offset != replica.log_end_offset:
                yield Change(f"{name}: producers' memory is of", replica.log_end_offset, replica.producers.end_offset)

    def _taken_otherwise(self, name: str, expected: spec.Partition) -> Iterator[Change]:
        """From which producers a group coordinator's batch, which has no sequence, would be taken otherwise."""
        known = {entry.producer_id: entry for entry in expected.memory.producers}
        for producer_id in sorted({*known, *(one for one, _ in expected.verified)}):
            entry = known.get(producer_id)
            for epoch in epochs_around(entry.epoch if entry is not None else 0):
                is_open = entry is not None and entry.open_from != spec.NONE and entry.epoch == epoch
                wanted = ErrorCode.invalid_txn_state
                if entry is not None and epoch < entry.epoch:
                    wanted = ErrorCode.invalid_producer_epoch
                elif is_open or (producer_id, epoch) in expected.verified:
                    wanted = ErrorCode.none
                found = self.leader.coordinators_batch_error(producer_id, epoch)
                if found is not wanted:
                    yield Change(f"{name}: a batch of producer {producer_id} in epoch {epoch}", wanted, found)
                request = spec.ProduceRequest(0, producer_id, epoch, 0, 0, 0, 2)
                header = BatchHeader.parse(produced(request))
                goes_on = self.machine.is_open_for(expected.memory, request)
                if self.leader.producers.is_open_for(header) != goes_on:
                    yield Change(f"{name}: producer {producer_id} goes on in epoch {epoch}", goes_on, not goes_on)
                if entry is not None and entry.last_sequence != spec.NONE and epoch == entry.epoch:
                    repeat = BatchHeader.parse(produced(evolve(request, sequence=entry.last_sequence)))
                    if self.leader.verification(repeat) is not None:
                        yield Change(f"{name}: a repeat of producer {producer_id}", "known", "asked about")
                if wanted is ErrorCode.none and self.leader.verification(header) is not None:
                    yield Change(f"{name}: producer {producer_id} in epoch {epoch}", "verified", "asked about")
