"""One partition that loses, doubles, moves or brings back records, and what its clients see: seen from outside.

Unlike the other random histories these come from a log that is broken in earnest, as brokers break: its state says
what was lost, whatever its clients could notice.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import attrs

from tidegauge.linearizability.history import UNKNOWN, Operation, Outcome
from tidegauge.model_tests.linearizability.rows import election, end, fetch, produce, settled

FAULTS = ("truncate", "forget the start", "replace", "bring back", "double", "swap", "elect")


@attrs.define
class LossyLog:
    """The log, its clients and the rows that they recorded. `late`: reads may be late until it has settled."""

    random: Random
    late: bool
    start: int = 0
    log: list[int] = attrs.field(factory=list)
    before: list[int] = attrs.field(factory=list)
    """The log before it was truncated last."""
    kept: dict[int, int] = attrs.field(factory=dict)
    """The offset of each value that was acknowledged with acks=all or read, and that no declared loss excuses."""
    bases: list[int] = attrs.field(factory=list)
    """Where batches begin."""
    rows: list[Operation] = attrs.field(factory=list)
    positions: dict[int, int] = attrs.field(factory=dict)
    clock: int = 0
    values: int = 0
    has_settled: bool = False

    def interval(self) -> tuple[int, int]:
        """An interval around the next effect: it may overlap the one before and the one after."""
        self.clock += 10
        return self.clock - self.random.choice((0, 5)), self.clock + self.random.choice((1, 5, 12))

    def produce(self) -> None:
        values = tuple(range(self.values, self.values + self.random.choice((1, 1, 1, 2, 3))))
        self.values += len(values)
        call, returned = self.interval()
        acks, chance = self.random.choice((-1, -1, -1, 0, 1)), self.random.random()
        row = produce(call, returned, len(self.log), *values, acks=acks, process=self.random.choice((3, 4)))
        if chance < 0.2:
            # It timed out, and took effect or not.
            row = attrs.evolve(row, outcome=Outcome.INFO, offset=UNKNOWN, returned=None)
        elif chance < 0.3:
            row = attrs.evolve(row, outcome=Outcome.FAIL, offset=UNKNOWN)
        elif acks == 0:
            row = attrs.evolve(row, offset=UNKNOWN)
        elif acks == -1:
            self.kept.update({value: len(self.log) + number for number, value in enumerate(values)})
        self.rows.append(row)
        strong = row.outcome is Outcome.OK and acks == -1
        if strong or (row.outcome is not Outcome.FAIL and self.random.random() < 0.6):
            self.bases.append(len(self.log))
            self.log.extend(values)

    def fetch(self) -> None:
        process = self.random.choice((0, 1, 2))
        polls = process in self.positions and self.random.random() < 0.5
        asked = self.random.choice((self.start, self.start, 0, 1, 2, len(self.log)))
        position = self.positions[process] if polls else asked
        call, returned = self.interval()
        if not self.start <= position <= len(self.log):
            # Out of range: a consumer begins anew where its reset policy says.
            self.rows.append(attrs.evolve(fetch(call, returned, UNKNOWN, process=process), outcome=Outcome.FAIL))
            self.positions.pop(process, None)
            return
        values = tuple(self.log[position : position + self.random.choice((1, 2, 9))])
        length = len(self.log)
        if self.late and not self.has_settled and self.random.random() < 0.3:
            values = values[: self.random.randint(0, len(values))]
            length = self.random.randint(position + len(values), len(self.log))
        mark = self.random.choice((None, None, length))
        row = fetch(
            call, returned, UNKNOWN if polls else position, *values, mark=mark, process=process,
            offsets=range(position, position + len(values)),
        )  # fmt: skip
        self.rows.append(row)
        self.positions[process] = position + len(values)
        self.kept.update({value: position + number for number, value in enumerate(values)})

    def list_offsets(self) -> None:
        length = len(self.log)
        if self.late and not self.has_settled and self.random.random() < 0.3:
            length = self.random.randint(self.start, length)
        self.rows.append(end(*self.interval(), length))

    def settle(self) -> None:
        self.clock += 30
        self.rows.append(settled(self.clock))
        self.clock += 30
        self.has_settled = True

    def fault(self, name: str) -> None:
        self.clock += 10
        at = self.random.randint(0, len(self.log))
        match name:
            case "truncate":
                self.before, self.log = self.log, self.log[:at]
            case "elect":
                # A replica has whole batches.
                at = max(base for base in (0, *self.bases) if base <= at)
                self.before = self.log
                self.bases, self.log = self.elected(at)
                # What overlaps the election may have seen the old log or the new one.
                self.rows.append(election(self.clock, self.clock, at))
                self.kept = {value: offset for value, offset in self.kept.items() if offset < at}
                self.positions = {process: where for process, where in self.positions.items() if where <= at}
                self.clock += 30
            case "forget the start":
                self.start = max(self.start, at)
            case "replace" if at < len(self.log):
                self.log[at] = self.values + 1_000
                self.values += 1
            case "bring back":
                self.log = self.log + self.before[len(self.log) :]
            case "double" if at < len(self.log):
                self.log.append(self.log[at])
            case "swap" if at + 1 < len(self.log):
                self.log[at : at + 2] = self.log[at + 1], self.log[at]
        self.start = min(self.start, len(self.log))

    def elected(self, at: int) -> tuple[list[int], list[int]]:
        """The batches' bases and the log of a new leader: beyond `at` it has copies of what is lost, in its own order.

        It has them of a former epoch: the producer had sent them to the next leader again.
        """
        bases = sorted({base for base in self.bases if base < len(self.log)})
        lost = [self.log[one:end] for one, end in pairwise([*(base for base in bases if base >= at), len(self.log)])]
        self.random.shuffle(lost)
        bases, log = [base for base in bases if base < at], self.log[:at]
        for batch in lost[: self.random.choice((0, self.random.randint(0, len(lost))))]:
            if set(batch).isdisjoint(log):
                bases.append(len(log))
                log = log + batch
        return bases, log

    def is_there(self, value: int) -> bool:
        """Whether a reader would get the value where it was."""
        offset = self.kept[value]
        return self.start <= offset < len(self.log) and self.log[offset] == value


def run(random: Random, faults: tuple[str, ...], *, late: bool) -> LossyLog:
    """Clients and `faults` in random order, then perhaps a settled end that is read in part or whole."""
    log = LossyLog(random, late)
    steps = [log.produce] * 3 + [log.fetch] * 2 + [log.list_offsets]
    todo = list(faults)
    for _ in range(random.randint(3, 8)):
        random.choice(steps)()
        if todo and random.random() < 0.4:
            log.fault(todo.pop())
    for fault in todo:
        log.fault(fault)
    if random.random() < 0.8:
        log.settle()
    for _ in range(random.randint(0, 4)):
        random.choice([log.fetch, log.fetch, log.list_offsets])()
    return log
