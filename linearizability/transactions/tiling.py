"""Do the offsets that groups commit in transactions divide the records that they read: none twice, none left out?

A committed transaction stands for the visible records of a partition from where its first fetch there began to the
offset that it committed. Those of a group must join. A transaction of unknown outcome that nobody read may fill a gap
between two others: which ones do is searched for, up to a limit. For a group and a partition that also has offsets
committed outside of transactions, or with an unknown outcome, or by a transaction that did not fetch there, nothing is
checked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import pairwise

import attrs

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import UNKNOWN, Kind, Operation, Outcome
from tidegauge.linearizability.transactions.story import Fetch, Partition, Result, Story, Transaction, where
from tidegauge.linearizability.witness import Finding, finding

Pair = tuple[int, Partition]
"""A group and a partition."""
STEPS = 500
"""How many transactions of unknown outcome are tried before the search gives up: the verdict is then unknown."""


@attrs.frozen
class Stretch:
    """What a transaction consumed of a partition, counted in visible records."""

    low: int
    high: int
    read: int
    """To where it had read."""
    commit: Operation


Ranges = Mapping[Pair, Mapping[int, Stretch]]


@attrs.frozen(eq=False)
class Ledger:
    """By group and partition, what each transaction consumed; `unchecked` are the ones that cannot be checked."""

    ranges: Ranges
    unchecked: frozenset[Pair]

    @classmethod
    def of(cls, story: Story) -> Ledger:
        ranges: dict[Pair, dict[int, Stretch]] = {}
        unchecked: set[Pair] = set()
        consumed = _consumed(story)
        for row in story.rows:
            if row.kind is not Kind.COMMIT_OFFSETS or row.outcome is Outcome.FAIL:
                continue
            assert row.group is not None, "a well-formed commit of offsets has a group"
            pair = (row.group, where(row))
            whole = story.whole(row)
            if not whole.alone and whole.result is Result.ABORTED:
                continue
            if whole.alone or row.outcome is Outcome.INFO or (whole.number, where(row)) not in consumed:
                unchecked.add(pair)
                continue
            offsets = story.offsets[True].get(where(row), [])
            low, read, high = (bisect_left(offsets, at) for at in (*consumed[whole.number, where(row)], row.offset))
            ranges.setdefault(pair, {})[whole.number] = Stretch(low, high, read, row)
        return cls({pair: mine for pair, mine in ranges.items() if pair not in unchecked}, frozenset(unchecked))


def _consumed(story: Story) -> dict[tuple[int, Partition], tuple[int, int]]:
    """By transaction and partition, where its first fetch began and its last one ended."""
    found: dict[tuple[int, Partition], tuple[int, int]] = {}
    for fetch in story.fetches:
        if not fetch.transaction.alone and fetch.begin != UNKNOWN:
            key = (fetch.transaction.number, where(fetch.row))
            found[key] = (found.get(key, (fetch.begin, 0))[0], fetch.end)
    return found


def find_offset_faults(story: Story, steps: int = STEPS) -> Iterator[Finding]:
    """Records that two transactions of a group worked on, or none, and offsets beyond what was read."""
    ledger = Ledger.of(story)
    chosen = {number for number, whole in story.transactions.items() if story.committed(whole)}
    faults = list(_faults(story, ledger.ranges, chosen))
    gaps = [one for one in faults if one.name is Name.OFFSETS_SKIP]
    if not gaps or len(gaps) < len(faults):
        yield from faults
        return
    options = {number for number in story.transactions if number not in chosen and may_be_committed(story, number)}
    filled = _Search(ledger.ranges, options, steps).fill(frozenset(chosen))
    if filled is None:
        reason = "too many transactions of unknown outcome may have consumed what lies between"
        yield finding(Name.UNDECIDED, reason, *gaps[0].operations)
    elif not filled:
        yield from gaps


def _faults(story: Story, ranges: Ranges, chosen: set[int]) -> Iterator[Finding]:
    for (group, partition), mine in ranges.items():
        offsets = story.offsets[True].get(partition, [])
        held = sorted((one for number, one in mine.items() if number in chosen), key=lambda one: (one.low, one.high))
        for one in held:
            if one.high > one.read:
                reason = (
                    f"group {group} commits beyond offset {offsets[one.read]}, which its transaction did not read to"
                )
                yield finding(Name.OFFSETS_BEYOND_READS, reason, one.commit)
        full = [one for one in held if one.high > one.low]
        for before, after in pairwise(full):
            if after.low < before.high:
                reason = f"group {group} worked on the record at offset {offsets[after.low]} in two transactions"
                yield finding(Name.OFFSETS_OVERLAP, reason, before.commit, after.commit)
            elif after.low > before.high:
                reason = f"group {group} worked on the record at offset {offsets[before.high]} in no transaction"
                yield finding(Name.OFFSETS_SKIP, reason, before.commit, after.commit)


def may_be_committed(story: Story, number: int) -> bool:
    """Whether nothing that was read says that a transaction of unknown outcome is aborted."""
    whole = story.transactions[number]
    if whole.result is not Result.UNKNOWN:
        return False
    spans: dict[Partition, list[int]] = {}
    for key, log in story.there.items():
        for offset, record in log.items():
            if record.transaction is whole:
                spans.setdefault(key, []).append(offset)
    return not any(
        _denies(story, fetch, spans[where(fetch.row)], whole) for fetch in story.fetches if where(fetch.row) in spans
    )


def _denies(story: Story, fetch: Fetch, places: list[int], whole: Transaction) -> bool:
    """Whether a fetch passed over a record of `whole`, or what was stable with it says that it is not committed."""
    row = fetch.row
    full = fetch.careful and bool(row.values)
    if full and any(fetch.begin <= offset < fetch.end for offset in places):
        return True
    stable = row.last_stable_offset or 0
    reach = max(fetch.end if full else 0, stable)
    early = row.returned is not None and row.returned < whole.closing
    return (early and places[0] < reach) or story.tears(where(row), stable, places[0], places[-1])


class _Search:
    """Fills gaps with transactions of unknown outcome."""

    def __init__(self, ranges: Ranges, options: set[int], steps: int) -> None:
        self.ranges = ranges
        self.options = {
            number for number in options
            if all(mine[number].high <= mine[number].read for mine in ranges.values() if number in mine)
        }  # fmt: skip
        self.steps = steps

    def fill(self, chosen: frozenset[int]) -> bool | None:
        """Whether some of the options, together with `chosen`, leave no gap; None if the search gave up."""
        fault = self._fault(chosen)
        if fault is None:
            return True
        pair, low, high = fault
        gave_up = False
        for number, one in self.ranges[pair].items():
            fits = one.low == low < one.high <= high
            if number not in self.options or number in chosen or not fits:
                continue
            if not self.steps:
                return None
            self.steps -= 1
            found = self.fill(chosen | {number})
            if found:
                return True
            gave_up |= found is None
        return None if gave_up else False

    def _fault(self, chosen: frozenset[int]) -> tuple[Pair, int, int] | None:
        """A gap, from where to where; one without room stands for an overlap, which nothing fills."""
        for pair, mine in self.ranges.items():
            full = sorted(
                (one.low, one.high) for number, one in mine.items() if number in chosen and one.high > one.low
            )
            for (_, end), (begin, _) in pairwise(full):
                if begin != end:
                    return pair, end, begin
        return None
