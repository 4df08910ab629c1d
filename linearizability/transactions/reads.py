"""What is wrong with the records of a history with transactions and with those who read them, each with a witness."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise

import attrs

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.evidence import is_strong
from tidegauge.linearizability.history import NEVER, UNKNOWN, Kind, Operation, Outcome
from tidegauge.linearizability.transactions.story import Fetch, Partition, Record, Story, where
from tidegauge.linearizability.witness import Finding, finding


def find_bad_reads(story: Story) -> Iterator[Finding]:
    """Reads of what was never written, or failed, or was aborted."""
    for fetch in story.fetches:
        for value in fetch.row.values:
            record = story.records.get((where(fetch.row), value))
            if record is None:
                yield finding(Name.UNWRITTEN_READ, f"nobody produced the value {value}", fetch.row)
            elif record.produce.outcome is Outcome.FAIL:
                reason = f"the produce of {value} failed, so it did not happen, yet it was read"
                yield finding(Name.ABORTED_READ, reason, record.produce, fetch.row)
            elif fetch.careful and not story.committed(record.transaction):
                end = record.transaction.end
                why = "nobody ever called its commit" if end is None else "it was aborted"
                reason = f"a read_committed fetch returned {value} of {record.transaction}, and {why}"
                ended = () if end is None else (end,)
                yield finding(Name.ABORTED_READ, reason, record.produce, *ended, fetch.row)


def find_misplaced(story: Story) -> Iterator[Finding]:
    """A value at two offsets, two values at one, and batches that are torn."""
    for row in story.produces:
        base, teller = story.bases.get(row.index, (UNKNOWN, row))
        if is_strong(row) and row.placed != tuple(range(row.offset, row.offset + len(row.values))):
            reason = "its response gives its records offsets that are not neighbours from its base offset on"
            yield finding(Name.INT_SEND_SKIP, reason, row)
        if base < 0 and row.index in story.bases:
            reason = "a record of the batch was read so low that there is no room for those before it"
            yield finding(Name.INT_SEND_SKIP, reason, row, teller)
        for number, value in enumerate(row.values):
            for offset, fetch in story.sightings.get((where(row), value), ()):
                if offset == base + number:
                    continue
                own = [at for at, _ in story.sightings[where(row), value]]
                torn = not is_strong(row) and all(at == offset for at in own)
                reason = f"the value {value} is at {base + number} for one and at {offset} for the other"
                yield finding(Name.INT_SEND_SKIP if torn else Name.DUPLICATE, reason, row, teller, fetch.row)
                break
    for log in story.logs.values():
        for offset, held in log.items():
            if len(held) > 1:
                reason = f"at offset {offset} are the values {held[0].value} and {held[1].value}"
                yield finding(Name.INCONSISTENT_OFFSETS, reason, held[0].produce, held[1].produce)


def find_sends_out_of_order(story: Story) -> Iterator[Finding]:
    """Sends of one transaction to a partition of which the later one is at the lower offset."""
    for whole in story.transactions.values():
        before: dict[Partition, Operation] = {}
        for row in whole.rows:
            if row.kind is not Kind.PRODUCE or row.index not in story.bases:
                continue
            last, base = before.get(where(row)), story.bases[row.index][0]
            if last is not None and base < story.bases[last.index][0]:
                reason = f"{whole} sent it after the other one, which is at {story.bases[last.index][0]}, to {base}"
                yield finding(Name.INT_NONMONOTONIC_SEND, reason, last, row)
            before[where(row)] = row


def find_bad_polls(story: Story) -> Iterator[Finding]:
    """Fetches that step back, begin before their position, or pass over a record that is there for them."""
    for fetch in story.fetches:
        placed = fetch.row.placed
        if not placed:
            continue
        for before, after in pairwise(placed):
            if after <= before:
                reason = f"offset {after} comes after {before} in one fetch"
                yield finding(Name.INT_NONMONOTONIC_POLL, reason, fetch.row)
        if placed[0] < fetch.begin:
            reason = f"it read offset {placed[0]} where {fetch.begin} came next"
            yield finding(Name.NONMONOTONIC_POLL, reason, fetch.row)
        yield from _passed_over(story, fetch)


def _passed_over(story: Story, fetch: Fetch) -> Iterator[Finding]:
    mine = (story.visible if fetch.careful else story.there).get(where(fetch.row), {})
    offsets = story.offsets[fetch.careful].get(where(fetch.row), [])
    returned = set(fetch.row.placed)
    for offset in offsets[bisect_left(offsets, fetch.begin) : bisect_left(offsets, fetch.end)]:
        if offset not in returned:
            yield _explained(story, fetch, offset, mine[offset])


def _explained(story: Story, fetch: Fetch, offset: int, record: Record) -> Finding:
    """Why it is wrong to pass over `record`: somebody read it, or another one of its transaction, or it is lost."""
    whole = record.transaction
    seen = [
        by for _, by in story.sightings.get((where(fetch.row), record.value), ()) if by.careful or not fetch.careful
    ]
    passed = f"it passed over offset {offset}, where the value {record.value} is"
    if seen:
        name = Name.INT_POLL_SKIP if offset > fetch.row.placed[0] else Name.POLL_SKIP
        return finding(name, passed, record.produce, seen[0].row, fetch.row)
    if fetch.careful and whole.number in story.readers and not whole.alone:
        other, reader = story.readers[whole.number]
        who = "it" if reader.row is fetch.row else "another fetch"
        reason = f"{passed}, as if {whole} were aborted, while {who} returned its value {other.value}"
        return finding(Name.FRACTURED_TRANSACTION, reason, record.produce, other.produce, reader.row, fetch.row)
    end = () if whole.end is None or not fetch.careful else (whole.end,)
    return finding(Name.LOST_WRITE, f"{passed}, and nobody read it", record.produce, *end, fetch.row)


def find_unstable_reads(story: Story) -> Iterator[Finding]:
    """Reads and last stable offsets beyond an open transaction, or within one that is committed."""
    spans = {key: _Spans.of(mine) for key, mine in _spans(story).items()}
    for fetch in story.fetches:
        yield from _beyond_its_own(story, fetch)
        stable = fetch.row.last_stable_offset or 0
        reach = max(fetch.end if fetch.careful and fetch.row.values else 0, stable)
        mine = spans.get(where(fetch.row))
        for first, last, record in mine.suspects(reach, stable, _returned(fetch.row)) if mine else ():
            whole = record.transaction
            if _returned(fetch.row) < whole.closing:
                yield _unstable(fetch, first, record)
            elif story.tears(where(fetch.row), stable, first, last):
                reason = (
                    f"the last stable offset {stable} is between the first and the last record of {whole}, at {first} "
                    f"and {last}, and no other transaction begins there"
                )
                yield finding(Name.INTERMEDIATE_READ, reason, record.produce, fetch.row)


Span = tuple[int, int, Record]


@attrs.frozen(eq=False)
class _Spans:
    """The first and the last offset of each committed transaction in a partition, by the first."""

    spans: list[Span]
    firsts: list[int]
    closing: list[int]
    """For each, the latest end of it and those before it."""
    lasts: list[int]
    """Likewise the highest last offset."""

    @classmethod
    def of(cls, spans: list[Span]) -> _Spans:
        closing = list(accumulate((span[2].transaction.closing for span in spans), max))
        lasts = list(accumulate((span[1] for span in spans), max))
        return cls(spans, [span[0] for span in spans], closing, lasts)

    def suspects(self, reach: int, stable: int, returned: int) -> list[Span]:
        """Those that begin below `reach`, if one of them may not be stable yet, or is cut by the offset `stable`."""
        count, cut = bisect_left(self.firsts, reach), bisect_left(self.firsts, stable)
        if (count and self.closing[count - 1] > returned) or (cut and self.lasts[cut - 1] >= stable):
            return self.spans[:count]
        return []


def _spans(story: Story) -> dict[Partition, list[Span]]:
    """By partition, the first and last offset of each committed transaction, with its first record, in order."""
    found: dict[Partition, dict[int, Span]] = {}
    for key, log in story.visible.items():
        for offset, record in log.items():
            if not record.transaction.alone:
                mine = found.setdefault(key, {})
                first, _, held = mine.get(record.transaction.number, (offset, offset, record))
                mine[record.transaction.number] = (first, offset, held)
    return {key: sorted(spans.values(), key=lambda span: span[0]) for key, spans in found.items()}


def _beyond_its_own(story: Story, fetch: Fetch) -> Iterator[Finding]:
    row = fetch.row
    stable, mark = row.last_stable_offset, row.high_watermark
    if row.values and mark is not None and row.placed[-1] >= mark:
        reason = f"it read up to {row.placed[-1]}, and the high watermark with it is {mark}"
        yield finding(Name.READ_BEYOND_HIGH_WATERMARK, reason, row)
    if row.values and fetch.careful and stable is not None and row.placed[-1] >= stable:
        reason = f"it read up to {row.placed[-1]}, and the last stable offset with it is {stable}"
        yield finding(Name.READ_BEYOND_LSO, reason, row)
    for value in row.values if fetch.careful and not fetch.transaction.alone else ():
        record = story.records.get((where(row), value))
        if record is not None and record.transaction is fetch.transaction:
            reason = f"{fetch.transaction} read its own value {value} as if it were committed"
            yield finding(Name.PRECOMMITTED_READ, reason, record.produce, row)


def _unstable(fetch: Fetch, first: int, record: Record) -> Finding:
    whole = record.transaction
    assert whole.end is not None, "what is committed has an end"
    returned = {offset for offset in fetch.row.placed if fetch.careful}
    when = f"before the end of {whole} was called at {whole.end.call}"
    if first in returned:
        reason = f"a read_committed fetch returned the record at {first} {when}"
        return finding(Name.PRECOMMITTED_READ, reason, record.produce, fetch.row, whole.end)
    reason = f"it was stable beyond offset {first} {when}, whose first record is there"
    return finding(Name.READ_BEYOND_LSO, reason, record.produce, fetch.row, whole.end)


def find_late_appends(story: Story) -> Iterator[Finding]:
    """Appends that landed below an end of the log that was known before they were called."""
    for key, claims in _lengths(story).items():
        claims.sort(key=lambda claim: claim[0])
        lengths = [length for length, _ in claims]
        earliest: list[Operation] = [row for _, row in claims]
        for at in range(len(earliest) - 2, -1, -1):
            if _returned(earliest[at + 1]) < _returned(earliest[at]):
                earliest[at] = earliest[at + 1]
        for row in story.produces:
            base, teller = story.bases.get(row.index, (UNKNOWN, row))
            at = bisect_left(lengths, base + 1)
            if where(row) != key or base < 0 or at == len(lengths) or _returned(earliest[at]) >= row.call:
                continue
            known = earliest[at]
            same = known.kind is Kind.PRODUCE and is_strong(row) and known.process == row.process
            reason = f"the batch is at {base}, and the log was known to be longer before it was sent"
            told = (teller,) if teller is not row else ()
            yield finding(Name.NONMONOTONIC_SEND if same else Name.APPEND_BELOW_END, reason, known, row, *told)


def _lengths(story: Story) -> dict[Partition, list[tuple[int, Operation]]]:
    """By partition, how long the log was known to be, and by which operation."""
    found: dict[Partition, list[tuple[int, Operation]]] = {}
    for row in story.rows:
        known = [UNKNOWN]
        if row.kind is Kind.PRODUCE and is_strong(row):
            known.append(row.offset + len(row.values))
        if row.kind is Kind.LIST_OFFSETS and row.outcome is Outcome.OK:
            known.append(row.offset)
        if row.kind is Kind.FETCH and row.outcome is Outcome.OK:
            known += [row.placed[-1] + 1 if row.values else UNKNOWN]
            known += [row.high_watermark or UNKNOWN, row.last_stable_offset or UNKNOWN]
        if max(known) > 0:
            found.setdefault(where(row), []).append((max(known), row))
    return found


def _returned(row: Operation) -> int:
    return NEVER if row.returned is None else row.returned
