"""A transaction's life as a history has recorded it: what its clients were told, and what each reader was given.

A history has no coordinator and no log in it. What is drawn of them is what responses tell: that a transaction was
asked to end and has ended, at which offset a record is, where the last stable offset was. Between records there are
offsets that no client has named: markers, and records of attempts that nobody was told of.

Of a history one stretch is drawn: from the first request of a transaction that wrote to most partitions until a
reader of committed records was given it, or as many steps as a person reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from tidegauge.linearizability.history import UNKNOWN, Isolation, Kind, Operation, Outcome
from tidegauge.linearizability.transactions.story import Fetch, Partition, Story, Transaction, where
from tidegauge.model_tests.harness.report.model import Arrow, PartyView, Passage, Recorded, Step

MOST: Final = 30
"""Steps of a figure."""
PROCESSES: Final = 4
"""Lanes of clients: its own, and those that come first."""
SHOWN: Final = 12
"""Records of a log that a card has room for."""
COORDINATOR: Final = "coordinator, as clients were told"
WRITES: Final = (Kind.PRODUCE, Kind.COMMIT_OFFSETS)
ENDS: Final = (Kind.COMMIT, Kind.ABORT)


def drawn(rows: Sequence[Operation], replay: str) -> Recorded | None:
    """The figure of a history; None for one in which no transaction has written. `replay`: what records it again."""
    story = Story(rows)
    chosen = max(story.transactions.values(), key=lambda one: worth(story, one), default=None)
    if chosen is None or not partitions_of(chosen):
        return None
    stretch = stretch_of(story, chosen)
    is_read, partitions, _ = worth(story, chosen)
    return Recorded(
        title=f"{chosen}, and what was done meanwhile to the partitions that it wrote to",
        steps=tuple(_Drawing(story, chosen, stretch).steps()),
        replay=replay,
        worth=100 * is_read + 10 * partitions + len(stretch),
    )


def worth(story: Story, one: Transaction) -> tuple[bool, int, int]:
    """How much there is to see: that its records were read, in how many partitions, and how early."""
    return one.number in story.readers, len(partitions_of(one)), -one.call


def partitions_of(transaction: Transaction) -> tuple[Partition, ...]:
    """Where it has written, or tried to."""
    return tuple(sorted({where(row) for row in transaction.rows if row.kind is Kind.PRODUCE}))


def moment(row: Operation) -> int:
    """When a row is drawn: as its response came, or as it was called if none did."""
    return row.call if row.returned is None else row.returned


def stretch_of(story: Story, chosen: Transaction) -> list[Operation]:
    """The rows that concern the partitions of the transaction, from its first request on."""
    own, given = set(partitions_of(chosen)), False
    found: list[Operation] = []
    writers = {row.process for row in chosen.rows}
    shown = dict.fromkeys(sorted(writers))
    readers = {fetch.row.index: fetch for fetch in story.fetches}
    for row in sorted(story.rows, key=moment):
        if moment(row) < chosen.call or len(found) == MOST or given:
            continue
        concerns = row.kind in (*WRITES, Kind.FETCH) and where(row) in own
        ends = row.kind in ENDS and row.transaction is not None and not own.isdisjoint(_written(story, row))
        if row.kind is Kind.FETCH and not row.values:
            continue
        if concerns or ends or (row.kind is Kind.COMMIT_OFFSETS and row.process in writers):
            if row.process not in shown and len(shown) == PROCESSES:
                continue
            shown[row.process] = None
            found.append(row)
            fetch = readers.get(row.index)
            given = fetch is not None and fetch.careful and _holds(story, fetch, chosen)
    return found


def _written(story: Story, row: Operation) -> tuple[Partition, ...]:
    assert row.transaction is not None
    return partitions_of(story.transactions[row.transaction])


def _holds(story: Story, fetch: Fetch, transaction: Transaction) -> bool:
    records = (story.records.get((where(fetch.row), value)) for value in fetch.row.values)
    return any(record is not None and record.transaction is transaction for record in records)


@attrs.define
class _Drawing:
    """The lanes, as they are filled step by step."""

    story: Story
    chosen: Transaction
    rows: list[Operation]
    states: dict[int, str] = attrs.field(factory=dict)
    logs: dict[Partition, dict[int, str]] = attrs.field(factory=dict)
    stable: dict[Partition, int] = attrs.field(factory=dict)
    seen: dict[tuple[Partition, Isolation], str] = attrs.field(factory=dict)
    doing: dict[int, str] = attrs.field(factory=dict)

    def steps(self) -> Iterator[Step]:
        yield Step("the stretch begins", f"{self.chosen} has sent nothing yet", (), parties=self.views())
        for row in self.rows:
            self.take(row)
            yield Step(action_of(row), outcome_of(row), (), arrows=tuple(self.arrows(row)), parties=self.views())

    def take(self, row: Operation) -> None:
        """What a row tells."""
        place, whole = where(row), name_of(row)
        self.doing[row.process] = f"{word(row.kind)} of {whole}: {told(row)}"
        if row.transaction is not None and row.kind is not Kind.FETCH:
            self.states[row.transaction] = f"{word(row.kind)}: {told(row)}" if row.kind in ENDS else "open"
        if row.kind is Kind.PRODUCE:
            base = self.story.bases.get(row.index)
            for number, _ in enumerate(row.values if base is not None else ()):
                assert base is not None
                self.logs.setdefault(place, {})[base[0] + number] = whole
        if row.kind is Kind.FETCH:
            for offset, value in zip(row.placed, row.values, strict=True):
                record = self.story.records.get((place, value))
                known = name_of(record.produce) if record is not None else "?"
                self.logs.setdefault(place, {})[offset] = known
            self.seen[place, row.isolation] = ", ".join(map(str, row.placed[-SHOWN:])) or "nothing"
            if row.last_stable_offset is not None:
                self.stable[place] = max(row.last_stable_offset, self.stable.get(place, 0))

    def arrows(self, row: Operation) -> Iterator[Arrow]:
        process = process_lane(row.process)
        passage = Passage.DELIVERED if row.outcome is not Outcome.INFO else Passage.LOST
        if row.kind in ENDS:
            yield Arrow(process, COORDINATOR, f"{word(row.kind)} {name_of(row)}", passage)
        elif row.kind is Kind.FETCH:
            yield Arrow(partition_lane(where(row)), process, f"{len(row.values)} records", passage)
        elif where(row) in self.places:
            label = f"offset {row.offset}" if row.kind is Kind.COMMIT_OFFSETS else name_of(row)
            yield Arrow(process, partition_lane(where(row)), label, passage)

    @property
    def places(self) -> tuple[Partition, ...]:
        """The partitions with a lane."""
        return partitions_of(self.chosen)

    def views(self) -> tuple[PartyView, ...]:
        processes = sorted({row.process for row in self.rows})
        states = {f"T{number}": state for number, state in sorted(self.states.items())}
        return (
            *(PartyView(process_lane(one), {"last": self.doing.get(one, "nothing yet")}) for one in processes),
            PartyView(COORDINATOR, states or {"knows": "nothing yet"}),
            *(PartyView(partition_lane(place), dict(self.of_partition(place))) for place in self.places),
        )

    def of_partition(self, place: Partition) -> Iterator[tuple[str, str]]:
        log = self.logs.get(place, {})
        shown = sorted(log)[-SHOWN:]
        known = [f"{offset}: {log[offset]}" for offset in shown]
        unnamed = [offset for offset in range(shown[0], shown[-1]) if offset not in log] if shown else []
        yield "log, as told", ", ".join(known) or "nothing yet"
        if unnamed:
            yield "markers, or not told", ", ".join(map(str, unnamed))
        yield "LSO, as told", str(self.stable[place]) if place in self.stable else "not told"
        for isolation in (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED):
            yield f"{isolation.name.lower()} was given", self.seen.get((place, isolation), "nothing yet")


def name_of(row: Operation) -> str:
    """The transaction of a row, or the row itself where there is none."""
    return f"#{row.index}" if row.transaction is None else f"T{row.transaction}"


def action_of(row: Operation) -> str:
    at = "" if row.kind in ENDS else f" at {partition_lane(where(row))}"
    return f"{word(row.kind)} of {name_of(row)}{at}"


def outcome_of(row: Operation) -> str:
    at = f", offset {row.offset}" if row.offset != UNKNOWN else ""
    return f"operation {row.index}: {told(row)}{at}"


def word(kind: Kind) -> str:
    return kind.name.lower().replace("_", " ")


def told(row: Operation) -> str:
    """What became of it, as its client knows."""
    return {Outcome.OK: "ok", Outcome.FAIL: "failed", Outcome.INFO: "nobody knows"}[row.outcome]


def process_lane(process: int) -> str:
    return f"process {process}"


def partition_lane(place: Partition) -> str:
    return f"{place[0]}-{place[1]}"
