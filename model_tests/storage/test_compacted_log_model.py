"""A log with gaps against a list of batches: appended, copied, compacted, cut, crashed and reopened in any order.

The model is the list of batches, each with the offsets that it stands for and the records that are left of it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidegauge.impl.ports.simulated_disk import CrashOutcome, SimulatedDisk
from tidegauge.impl.records.batches import checked_headers
from tidegauge.impl.records.payload import decode_batches
from tidegauge.impl.storage.appends import AppendedBatch
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.storage.log import Log
from tidegauge.impl.storage.segment import Segment
from tidegauge.impl.storage.segment_names import CLEANED_SUFFIX
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.storage.compacted_batches import compacted_batch

DIRECTORY = "logs/tide-0"


@attrs.frozen
class Batch:
    """Offsets [base, end) of one epoch, and the values that are left of them."""

    base: int
    end: int
    epoch: int
    values: dict[int, bytes]

    def encoded(self) -> bytes:
        return compacted_batch(self.base, self.end, self.epoch, self.values)


class CompactedLogAgainstList(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 30), interval=st.sampled_from([0, 150]))
    def start(self, seed: int, interval: int) -> None:
        self.disk = SimulatedDisk(random.Random(seed))
        self.config = LogConfig(segment_bytes=400, index_interval_bytes=interval, file_delete_delay_ms=5)
        self.batches: list[Batch] = []
        self.end = 0
        self.epoch = 0
        self.now_ms = 0
        self.checkpointed = 0
        self.log = self.opened(clean=False)

    def opened(self, *, clean: bool) -> Log:
        return Log.open(
            self.disk,
            DIRECTORY,
            self.config,
            self.now_ms,
            recovery_point=self.checkpointed,
            clean_shutdown=clean,
            before_lowering=self.lower_checkpoint,
        )

    def lower_checkpoint(self, offset: int) -> None:
        self.checkpointed = min(self.checkpointed, offset)

    def new_batch(self, base: int, sizes: Sequence[int]) -> Batch:
        values = {base + n: b"%d" % (base + n) * size for n, size in enumerate(sizes) if size}
        return Batch(base, base + len(sizes), self.epoch, values)

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.end = batch.end

    @rule(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=4))
    def append_as_leader(self, sizes: list[int]) -> None:
        batch = self.new_batch(self.end, sizes)
        assert self.log.append_as_leader(batch.encoded(), self.epoch, 0).base_offset == self.end
        self.add(batch)

    @rule(gaps=st.lists(st.integers(0, 4), min_size=1, max_size=3), sizes=st.lists(st.integers(0, 20), min_size=1))
    def copy_what_the_leader_has_compacted(self, gaps: list[int], sizes: list[int]) -> None:
        fresh = []
        for gap in gaps:
            fresh.append(self.new_batch(self.end + gap, sizes[:4]))
            self.add(fresh[-1])
        self.log.append_as_follower(b"".join(batch.encoded() for batch in fresh))

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.end

    @rule()
    def checkpoint_recovery_point(self) -> None:
        self.checkpointed = self.log.flushed_end_offset

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end - 1))
        among = [batch.base for batch in self.batches if batch.base < offset < batch.end and batch.values]
        self.end = among[0] if among else offset
        assert self.log.truncate_to(offset) == self.end
        self.batches = [batch for batch in self.batches if batch.end <= self.end]

    @precondition(lambda self: len(self.log.closed_segments) > 0)
    @rule(data=st.data(), crash=st.booleans())
    def compact(self, data: st.DataObject, crash: bool) -> None:
        closed = self.log.closed_segments
        first = data.draw(st.integers(0, len(closed) - 1))
        replaced = closed[first : data.draw(st.integers(first + 1, len(closed)))]
        start, end = replaced[0].base_offset, replaced[-1].next_offset
        chosen = [batch for batch in self.batches if start <= batch.base < end]
        keep = data.draw(st.sets(st.integers(start, end - 1)))
        kept = [attrs.evolve(b, values={o: v for o, v in b.values.items() if o in keep}) for b in chosen]
        kept = [batch for batch in kept if batch.values or batch.end == end]
        cleaned = Segment(self.disk, DIRECTORY, start, 100, 0, suffix=CLEANED_SUFFIX)
        for batch in kept or [Batch(start, end, chosen[-1].epoch, {})]:
            encoded = batch.encoded()
            cleaned.append((encoded,), (AppendedBatch(batch.end - 1, len(encoded), 0),))
        self.log.replace_segments(replaced, cleaned, self.now_ms)
        self.batches = [b for b in self.batches if b not in chosen] + kept
        self.batches.sort(key=lambda batch: batch.base)
        if crash:
            self.crash(CrashOutcome.LOST, CrashOutcome.LOST)

    @rule(tails=st.sampled_from(CrashOutcome), names=st.sampled_from(CrashOutcome))
    def crash(self, tails: CrashOutcome, names: CrashOutcome) -> None:
        flushed = self.log.flushed_end_offset
        self.disk.crash(tails=tails, names=names)
        self.disk.power_on()
        self.log = self.opened(clean=False)
        kept = self.log.log_end_offset
        assert flushed <= kept <= self.end
        assert self.log.recovery.lost_nothing
        self.batches = [batch for batch in self.batches if batch.end <= kept]
        self.end = kept

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.checkpointed = self.log.flushed_end_offset
        self.log = self.opened(clean=True)

    @rule(data=st.data())
    def lose_an_index(self, data: st.DataObject) -> None:
        self.log.close()
        self.checkpointed = self.log.flushed_end_offset
        names = [name for name in self.disk.list_directory(DIRECTORY) if name.endswith("index")]
        self.disk.remove(f"{DIRECTORY}/{data.draw(st.sampled_from(names))}")
        self.log = self.opened(clean=True)

    @rule(ms=st.integers(1, 5))
    def free_deleted(self, ms: int) -> None:
        self.now_ms += ms
        self.log.free_deleted(self.now_ms)

    @invariant()
    def from_every_offset_the_next_record_that_is_left_is_read(self) -> None:
        assert self.log.log_end_offset == self.end
        values = {offset: value for batch in self.batches for offset, value in batch.values.items()}
        for start in range(self.log.log_start_offset, self.end):
            position, found = start, None
            while found is None and position < self.end:
                data = self.log.read(position, 1)
                assert checked_headers(data), f"nothing is read at {position}"
                found = next(((r.offset, r.value) for r in decode_batches(data) if r.offset >= start), None)
                position = checked_headers(data)[-1].next_offset
            expected = min((offset for offset in values if offset >= start), default=None)
            assert found == (None if expected is None else (expected, values[expected]))
        data = self.log.read(self.log.log_start_offset, 1 << 20)
        assert {record.offset: record.value for record in decode_batches(data)}.items() <= values.items()

    @invariant()
    def epochs_grow_along_the_log(self) -> None:
        for batch in self.batches:
            assert self.log.epochs.epoch_for_offset(batch.base) == batch.epoch

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()


CompactedLogAgainstList.TestCase.settings = settings(max_examples=amount(40, deep=120), stateful_step_count=20)
TestCompactedLogAgainstList = CompactedLogAgainstList.TestCase
