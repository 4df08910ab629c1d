"""Histories by the million, valid but for anomalies injected at a known rate: for benchmarks and for tests at scale.

A block of histories is a matrix: a row is a history, a column an operation, in the order in which they take effect.
Everything is drawn and derived for the whole block at once; at the end each history is put in order of invocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import NEVER, UNKNOWN, Flags, Ints, Kind, Operations, Outcome

STEP = 1_000
"""Nanoseconds between two effects."""
BLOCK_OPERATIONS = 1 << 20
MOST_READ = 3
UNWRITTEN_VALUE = 1 << 20
"""A value that no operation produces."""

INJECTED = (
    Name.LOST_WRITE,
    Name.INCONSISTENT_OFFSETS,
    Name.DUPLICATE,
    Name.ABORTED_READ,
    Name.UNWRITTEN_READ,
    Name.OFFSET_HOLE,
)
"""What is injected, in equal parts; each is found at every level."""


@attrs.frozen(eq=False)
class Truth:
    """The histories that have an anomaly, and which one was injected (an index into INJECTED)."""

    histories: Ints
    anomalies: Ints

    def names(self) -> dict[int, Name]:
        """The injected anomaly of each spoiled history."""
        return {int(key): INJECTED[int(one)] for key, one in zip(self.histories, self.anomalies, strict=True)}


def generate(
    histories: int,
    operations: int,
    seed: int,
    anomaly_rate: float = 0.0,
    *,
    partitions: int = 2,
    clients: int = 5,
    unknown_rate: float = 0.01,
    first_history: int = 0,
) -> Iterator[tuple[Operations, Truth]]:
    """Blocks of whole histories of `operations` rows each, and what was injected into them.

    Histories are numbered from `first_history`; a share of `anomaly_rate` of them is spoiled (where they have the
    operations that it takes). `clients` is how many operations overlap at most. The same arguments give the same rows.
    """
    if histories < 0 or operations < 1 or partitions < 1 or clients < 1:
        raise ValueError(
            f"histories={histories}, operations={operations}, partitions={partitions}, clients={clients}: "
            "all but histories must be at least 1"
        )
    size = max(1, BLOCK_OPERATIONS // operations)
    for number, start in enumerate(range(0, histories, size)):
        draws = np.random.default_rng([seed, number])
        block = _Block(draws, min(size, histories - start), operations, partitions, clients, unknown_rate)
        block.choose_spoiled(anomaly_rate)
        block.apply()
        block.spoil_responses()
        yield block.rows(first_history + start), block.truth(first_history + start)


class _Block:
    def __init__(
        self,
        draws: np.random.Generator,
        histories: int,
        operations: int,
        partitions: int,
        clients: int,
        unknown: float,
    ) -> None:
        self.draws = draws
        self.shape = (histories, operations)
        self.partitions = partitions
        self.clients = clients
        self.partition: npt.NDArray[np.int32] = draws.integers(0, partitions, self.shape, np.int32)
        kind = draws.random(self.shape, np.float32)
        self.produce: Flags = kind < 0.5
        self.fetch: Flags = (kind >= 0.5) & (kind < 0.9)
        outcome = draws.random(self.shape, np.float32)
        self.fail: Flags = self.produce & (outcome < 0.005)
        self.info: Flags = self.produce & (outcome >= 1 - unknown)
        happened = draws.random(self.shape, np.float32) < 0.5
        self.happened: Flags = self.produce & ~self.fail & (~self.info | happened)
        self.spoiled = np.full(histories, -1, np.int64)
        self.extra: Flags = np.zeros(self.shape, np.bool_)

    def choose_spoiled(self, rate: float) -> None:
        """Pick the histories, and those of their operations whose effect differs from their response."""
        chosen = np.flatnonzero(self.draws.random(self.shape[0]) < rate)
        kinds = self.draws.integers(0, len(INJECTED), len(chosen))
        self.chosen = {name: chosen[kinds == number] for number, name in enumerate(INJECTED)}
        lost = self._pick(Name.LOST_WRITE, self._followed_by_strong(self.chosen[Name.LOST_WRITE]))
        self.lost = lost
        self.happened[lost] = False
        holed = self.chosen[Name.OFFSET_HOLE]
        # Without unknown produces nothing can fill the hole.
        self.happened[holed] |= self.info[holed]
        self.info[holed] = False
        strong = self.happened[holed] & ~self.info[holed]
        later = np.zeros_like(strong)
        for number in range(self.partitions):
            mine = strong & (self.partition[holed] == number)
            later |= mine & (np.cumsum(mine, axis=1) > 1)
        rows, at = self._pick(Name.OFFSET_HOLE, later)
        self.extra[rows, at] = True

    def _followed_by_strong(self, histories: Ints) -> Flags:
        """Acknowledged produces after which the next record in the partition is an acknowledged one too."""
        good = np.zeros((len(histories), self.shape[1]), np.bool_)
        for number in range(self.partitions):
            here = self.partition[histories] == number
            records = self.happened[histories] & here
            strong = records & ~self.info[histories]
            at = np.where(records, np.arange(self.shape[1]), self.shape[1])
            following = np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1]
            next_one = np.full_like(following, self.shape[1])
            next_one[:, :-1] = following[:, 1:]
            padded = np.concatenate((strong, np.zeros((len(histories), 1), np.bool_)), axis=1)
            good |= strong & np.take_along_axis(padded, next_one, axis=1)
        return good

    def _pick(self, name: Name, eligible: Flags) -> tuple[Ints, Ints]:
        """One eligible operation in each chosen history that has any; they count as spoiled."""
        histories = self.chosen[name]
        weight = self.draws.random(eligible.shape) * eligible
        at = weight.argmax(axis=1) if len(histories) else np.zeros(0, np.int64)
        has = eligible.any(axis=1)
        self.spoiled[histories[has]] = INJECTED.index(name)
        return histories[has], at[has].astype(np.int64)

    def apply(self) -> None:
        """Run the logs: the length that each operation meets, and what the fetches read."""
        self.length = np.zeros(self.shape, np.int64)
        for number in range(self.partitions):
            here = self.partition == number
            # A hole takes an offset just before the record that comes after it.
            record = (self.happened & here).astype(np.int64)
            grown = np.cumsum(record + (self.extra & here), axis=1)
            self.length[here] = (grown - record)[here]
        histories, operations = self.shape
        rows = np.arange(histories)[:, None]
        self.base = (rows * self.partitions + self.partition) * (operations + 2)
        self.log = np.full(histories * self.partitions * (operations + 2), -1, np.int32)
        self.log[(self.base + self.length)[self.happened]] = np.nonzero(self.happened)[1]
        back = self.draws.integers(0, MOST_READ + 1, self.shape)
        count = self.draws.integers(0, MOST_READ + 1, self.shape)
        self.position = np.maximum(self.length - back, 0)
        self.counts: Ints = np.where(self.fetch, np.minimum(count, self.length - self.position), 0)
        self._read_no_holes()

    def _read_no_holes(self) -> None:
        """Fetches near a hole read nothing: the hole is to be the only anomaly."""
        holed = self.spoiled == INJECTED.index(Name.OFFSET_HOLE)
        self.counts[holed] = 0

    def spoil_responses(self) -> None:
        """Change the responses in the histories picked for it."""
        self.offset = np.where(self.produce, np.where(self.info | self.fail, UNKNOWN, self.length), self.length)
        self.offset = np.where(self.fetch, self.position, self.offset)
        strong = self.happened & ~self.info
        clash = self.chosen[Name.INCONSISTENT_OFFSETS]
        later = strong[clash] & (self.length[clash] > 0)
        before = self.log[self.base[clash] + np.maximum(self.length[clash] - 1, 0)]
        later &= np.take_along_axis(strong[clash], np.maximum(before, 0), axis=1)
        rows, at = self._pick(Name.INCONSISTENT_OFFSETS, later)
        self.offset[rows, at] -= 1
        self.swaps: list[tuple[Ints, Ints, Ints]] = []
        reads = self.fetch & (self.counts > 0)
        several = reads[self.chosen[Name.DUPLICATE]] & (self.counts[self.chosen[Name.DUPLICATE]] > 1)
        rows, at = self._pick(Name.DUPLICATE, several)
        self.swaps.append((rows, at, self.log[self.base[rows, at] + self.position[rows, at] + 1].astype(np.int64)))
        rows, at = self._pick(Name.UNWRITTEN_READ, reads[self.chosen[Name.UNWRITTEN_READ]])
        self.swaps.append((rows, at, np.full(len(rows), UNWRITTEN_VALUE, np.int64)))
        rows, at = self._pick(Name.ABORTED_READ, reads[self.chosen[Name.ABORTED_READ]])
        writer = self.log[self.base[rows, at] + self.position[rows, at]]
        self.fail[rows, writer], self.info[rows, writer], self.offset[rows, writer] = True, False, UNKNOWN

    def rows(self, first_history: int) -> Operations:
        """The block as operations, each history in order of invocation."""
        histories, operations = self.shape
        effect = STEP * self.clients + STEP * np.arange(operations)
        reach = STEP * self.clients // 2
        call = effect - self.draws.integers(0, reach, self.shape)
        returned = effect + self.draws.integers(0, reach, self.shape)
        order = np.argsort(call, axis=1, kind="stable")
        flat = (order + np.arange(histories)[:, None] * operations).ravel()

        def column(matrix: npt.NDArray[Any], dtype: type[np.generic] = np.int64) -> Any:
            return matrix.ravel()[flat].astype(dtype, copy=False)

        kind = np.where(self.produce, Kind.PRODUCE, np.where(self.fetch, Kind.FETCH, Kind.LIST_OFFSETS))
        outcome = np.where(self.fail, Outcome.FAIL, np.where(self.info, Outcome.INFO, Outcome.OK))
        process = np.broadcast_to(np.arange(operations) % self.clients, self.shape)
        counts = np.where(self.produce, 1, self.counts).ravel()[flat]
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return Operations(
            history=np.repeat(np.arange(first_history, first_history + histories, dtype=np.int64), operations),
            index=np.tile(np.arange(operations, dtype=np.int32), histories),
            process=column(process, np.int32),
            kind=column(kind, np.int8),
            outcome=column(outcome, np.int8),
            topic=np.zeros(histories * operations, np.int32),
            partition=column(self.partition, np.int32),
            offset=column(self.offset),
            starts=starts,
            values=self._values(flat, counts, starts),
            offsets=None,
            high_watermark=column(np.where(self.fetch, self.length, UNKNOWN)),
            isolation=np.zeros(histories * operations, np.int8),
            acks=np.full(histories * operations, -1, np.int8),
            call=column(call),
            returned=column(np.where(self.info, NEVER, returned)),
            topics=("topic",),
        )

    def _values(self, flat: Ints, counts: Ints, starts: Ints) -> Ints:
        """A value is the number of the operation that produced it; fetches look it up in the log."""
        row = np.repeat(flat, counts)
        within = np.arange(int(starts[-1])) - np.repeat(starts[:-1], counts)
        produced = self.produce.ravel()[row]
        slot = np.where(produced, 0, (self.base + self.position).ravel()[row] + within)
        values: Ints = np.where(produced, row % self.shape[1], self.log[slot]).astype(np.int64)
        place = np.empty(len(flat), np.int64)
        place[flat] = starts[:-1]
        for histories, at, value in self.swaps:
            values[place[histories * self.shape[1] + at]] = value
        return values

    def truth(self, first_history: int) -> Truth:
        """What was injected."""
        spoiled = np.flatnonzero(self.spoiled >= 0)
        return Truth(spoiled + first_history, self.spoiled[spoiled])
