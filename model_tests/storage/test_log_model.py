"""The log against a list: appends, cuts, flushes, crashes and lost indexes in any order, over the simulated disk.

The model is the list of records with their epochs, and how many of them are flushed. After a crash the log has to be a
prefix of the model that holds at least what was flushed.
"""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import checked_headers
from tidegauge.impl.records.payload import Record, build_batch, decode_batches
from tidegauge.impl.records.slices import at_once
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.errors import OffsetOutOfRangeError
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.timestamp_search import KnownPoints
from tidegauge.model_tests.amounts import amount

DIRECTORY = "logs/tide-0"


@attrs.frozen
class Written:
    """One record of the model; `batch` is the offset of the first record of its batch."""

    value: bytes
    epoch: int
    batch: int
    timestamp: int


class LogAgainstList(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 1 << 30),
        segment_bytes=st.sampled_from([500, 900, 4000]),  # a batch of `build` has 460 bytes at most
        interval=st.sampled_from([0, 150]),
    )
    def start(self, seed: int, segment_bytes: int, interval: int) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.model: list[Written] = []
        self.first = 0
        self.epoch = 0
        self.now_ms = 1000
        self.checkpointed = 0
        self.known = KnownPoints(most=20, few=0)
        self.log = self.opened(clean=False)

    def opened(self, *, clean: bool) -> Log:
        return Log.open(
            self.disk,
            DIRECTORY,
            self.config,
            self.now_ms,
            recovery_point=self.checkpointed,
            log_start_offset=self.first,
            clean_shutdown=clean,
            before_lowering=self.lower_checkpoint,
        )

    def lower_checkpoint(self, offset: int) -> None:
        self.checkpointed = min(self.checkpointed, offset)

    @property
    def end(self) -> int:
        return len(self.model)

    def build(self, sizes: list[int], base_offset: int) -> bytes:
        self.now_ms += 1
        start = self.end
        records = [Record(base_offset + n, self.now_ms + n, None, b"%d" % (start + n) * s) for n, s in enumerate(sizes)]
        self.model += [Written(record.value or b"", self.epoch, start, record.timestamp) for record in records]
        return build_batch(records, leader_epoch=self.epoch)

    @rule(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4))
    def append_as_leader(self, sizes: list[int]) -> None:
        info = self.log.append_as_leader(self.build(sizes, 0), self.epoch, self.now_ms)
        assert (info.base_offset, info.last_offset) == (self.end - len(sizes), self.end - 1)

    @rule(batches=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=3), min_size=1, max_size=4))
    def append_as_follower(self, batches: list[list[int]]) -> None:
        self.log.append_as_follower(b"".join(self.build(sizes, self.end) for sizes in batches))

    @rule(by=st.integers(1, 2))
    def new_leader(self, by: int) -> None:
        self.epoch += by

    @precondition(lambda self: self.end > self.first)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.first, self.end - 1))
        del self.model[max(self.model[offset].batch, self.first) :]
        assert self.log.truncate_to(offset) == self.end

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.end

    @rule()
    def checkpoint_recovery_point(self) -> None:
        self.checkpointed = self.log.flushed_end_offset

    @precondition(lambda self: self.end > self.first)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.first = data.draw(st.integers(self.first, self.end))
        self.log.delete_records_before(self.first)
        self.log.prepare_log_start(self.first)  # as its broker does before it writes the log start down
        self.log.retention(self.now_ms)

    @rule(tails=st.sampled_from(CrashOutcome), names=st.sampled_from(CrashOutcome))
    def crash(self, tails: CrashOutcome, names: CrashOutcome) -> None:
        flushed = self.log.flushed_end_offset
        self.disk.crash(tails=tails, names=names)
        self.disk.power_on()
        self.log = self.opened(clean=False)
        kept = self.log.log_end_offset
        assert flushed <= kept <= self.end
        # A log that has lost its segments begins anew where records were deleted up to, in the middle of a batch too.
        is_empty = kept == self.first == self.log.log_start_offset
        assert kept == self.end or is_empty or kept == self.model[kept].batch, "a torn batch was kept"
        assert self.log.recovery.lost_nothing
        del self.model[kept:]
        self.first = min(self.first, kept)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.checkpointed = self.log.flushed_end_offset
        self.log = self.opened(clean=True)

    @rule(data=st.data(), damage=st.sampled_from(["lose", "cut", "rot"]))
    def damage_indexes(self, data: st.DataObject, damage: str) -> None:
        self.log.close()
        self.checkpointed = self.log.flushed_end_offset
        names = [name for name in self.disk.list_directory(DIRECTORY) if name.endswith("index")]
        path = f"{DIRECTORY}/{data.draw(st.sampled_from(names))}"
        if damage == "lose":
            self.disk.remove(path)
        elif damage == "cut" and self.disk.size(path):
            self.disk.open(path).truncate(data.draw(st.integers(0, self.disk.size(path) - 1)))
        elif self.disk.size(path) and not path.endswith("timeindex"):
            self.disk.flip_bit(path, data.draw(st.integers(0, self.disk.size(path) - 1)), data.draw(st.integers(0, 7)))
        self.log = self.opened(clean=True)

    @invariant()
    def every_record_reads_back(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.first, self.end)
        offset, found = self.first, []
        while offset < self.end:
            data = self.log.read(offset, 120)
            checked_headers(data)
            records = [record for record in decode_batches(data) if record.offset >= offset]
            assert records[0].offset == offset
            found += [record.value for record in records]
            offset = records[-1].offset + 1
        assert found == [written.value for written in self.model[self.first :]]

    @invariant()
    def nothing_is_read_outside_the_log(self) -> None:
        assert self.log.read(self.end, 1000) == b""
        for offset in (self.first - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 1)

    @precondition(lambda self: self.end > self.first)
    @rule(data=st.data())
    def read_up_to_an_end(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.first, self.end - 1))
        end = data.draw(st.integers(start, self.end))
        for max_bytes in (1, 300):
            headers = checked_headers(self.log.read(start, max_bytes, end))
            assert all(header.last_offset < end for header in headers)
            assert not headers or headers[0].base_offset == self.model[start].batch
            first_end = next((n for n in range(start, self.end) if self.model[n].batch > start), self.end)
            assert bool(headers) == (first_end <= end)

    @rule(timestamp=st.integers(990, 1100))
    def find_a_timestamp(self, timestamp: int) -> None:
        found = at_once(self.log.offset_for_timestamp(timestamp, self.known))
        expected = [n for n in range(self.first, self.end) if self.model[n].timestamp >= timestamp]
        assert (None if found is None else found.offset) == (expected[0] if expected else None)

    @invariant()
    def the_epochs_are_those_of_the_records(self) -> None:
        found = list(self.log.epochs.entries)
        # The last record that is gone counts too; a log that was cut at its start may have forgotten it.
        assert found in (self.epochs_from(max(0, self.first - 1)), self.epochs_from(self.first))

    def epochs_from(self, start: int) -> list[EpochEntry]:
        entries: list[EpochEntry] = []
        for offset in range(start, self.end):
            if not entries or entries[-1].epoch != self.model[offset].epoch:
                entries.append(EpochEntry(self.model[offset].epoch, offset))
        return entries

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()


LogAgainstList.TestCase.settings = settings(max_examples=amount(80, deep=400), stateful_step_count=30)
TestLogAgainstList = LogAgainstList.TestCase
