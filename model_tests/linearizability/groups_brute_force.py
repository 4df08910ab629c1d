"""The semantics of groups in docs/history.md by brute force, one rule after the other, over small histories.

Written from that page alone, and it shares no code with the checker: rules are quantifiers over rows, and committed
offsets are explained by trying every order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations, product

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import Outcome
from tidegauge.linearizability.log import Level
from tidegauge.model_tests.linearizability.group_rows import GroupRow, Kind

FOREVER = 10**9
Rows = Sequence[GroupRow]


def names(rows: Rows, level: Level, *, once: bool) -> set[Name]:
    """What is wrong. `once`: the application promises that no record is delivered twice."""
    found = set(_of_assignments(rows)) | set(_of_commits(rows)) | set(_of_registers(rows, level))
    return found | set(_of_deliveries(rows, once=once))


def end(row: GroupRow) -> int:
    if row.kind in (Kind.MEMBER, Kind.EXPECT, Kind.RELEASE, Kind.SETTLED):
        return row.call
    return FOREVER if row.returned is None else row.returned


def who(row: GroupRow) -> int:
    return row.process if row.member is None else row.member


def is_members(row: GroupRow) -> bool:
    return row.generation >= 0 or row.member is not None


def done(rows: Rows, kind: Kind) -> list[GroupRow]:
    return [row for row in rows if row.kind is kind and row.outcome is Outcome.OK]


def same(*rows: GroupRow) -> bool:
    return len({(row.generation, row.partition) for row in rows}) == 1


# --- assignments and commits ---------------------------------------------------------------------------------------


def _of_assignments(rows: Rows) -> Iterator[Name]:
    told = done(rows, Kind.ASSIGN)
    given = [row for row in told if row.partition >= 0]
    if any(same(a, b) and a.generation >= 0 and who(a) != who(b) for a, b in combinations(given, 2)):
        yield Name.ASSIGNED_TWICE
    for expected in done(rows, Kind.EXPECT):
        members = [row for row in done(rows, Kind.MEMBER) if row.generation == expected.generation]
        informed = {who(row) for row in told if row.generation == expected.generation}
        is_told = bool(members) and all(who(row) in informed for row in members)
        owned = any(same(row, expected) for row in given) or any(
            row.partition == expected.partition and row.call <= expected.call <= _released(rows, row) for row in given
        )
        if is_told and not owned:
            yield Name.UNASSIGNED


def _released(rows: Rows, owner: GroupRow) -> int:
    ends = [
        row.call
        for row in done(rows, Kind.RELEASE)
        if (row.process, row.partition) == (owner.process, owner.partition) and row.call >= owner.call
    ]
    return min(ends, default=FOREVER)


def _of_commits(rows: Rows) -> Iterator[Name]:
    commits = [row for row in done(rows, Kind.COMMIT) if row.generation >= 0]  # in whatever transaction
    if any(same(a, b) and who(a) != who(b) for a, b in combinations(commits, 2)):
        yield Name.TWO_COMMITTERS
    for known, commit in product([*done(rows, Kind.ASSIGN), *commits], commits):
        if known.generation > commit.generation and end(known) < commit.call:
            yield Name.COMMIT_OF_FORMER_GENERATION


# --- committed offsets ---------------------------------------------------------------------------------------------


def _of_registers(rows: Rows, level: Level) -> Iterator[Name]:
    reads = []
    for read in done(rows, Kind.READ):
        commit = rows[read.commit] if read.commit >= 0 else None
        if commit is not None and became(rows, commit) is Outcome.FAIL:
            yield Name.FAILED_COMMIT_READ
        elif commit is not None and end(read) < max(commit.call, closing(rows, commit)):
            yield Name.COMMIT_READ_TOO_SOON
        elif is_unstable(rows, read, level):
            yield Name.UNSTABLE_OFFSET_READ
        else:
            reads.append(read)
    for partition in {read.partition for read in reads}:
        commits = [row for row in rows if row.kind is Kind.COMMIT and row.partition == partition]
        found = {read.commit for read in reads}
        operations = []
        for row in commits:
            index = _index(rows, row)
            outcome = became(rows, row)
            if outcome is Outcome.OK or (outcome is Outcome.INFO and index in found):
                operations.append((True, index, row.call, end(row) if outcome is Outcome.OK else FOREVER))
        for read in reads:
            if read.partition == partition:
                operations.append((False, read.commit, *span(rows, read, level)))
        if not any(_explains(order) for order in permutations(operations)):
            yield Name.COMMITTED_OFFSET_ORDER


def ending(rows: Rows, commit: GroupRow) -> GroupRow | None:
    """The commit of the transaction of a commit of offsets."""
    ends = [row for row in rows if row.kind is Kind.END and row.transaction == commit.transaction]
    return ends[0] if ends and commit.transaction is not None else None


def became(rows: Rows, commit: GroupRow) -> Outcome:
    """Whether a commit of offsets counts, or a delivery has happened, in a transaction or not."""
    if commit.transaction is None or commit.outcome is Outcome.FAIL:
        return commit.outcome
    last = ending(rows, commit)
    if last is None or last.outcome is Outcome.FAIL:
        return Outcome.FAIL
    mine = [row for row in rows if row.kind is Kind.COMMIT and row.transaction == commit.transaction]
    found = {read.commit for read in done(rows, Kind.READ)}
    is_told = last.outcome is Outcome.OK or any(_index(rows, row) in found for row in mine)
    return commit.outcome if is_told else Outcome.INFO


def closing(rows: Rows, commit: GroupRow) -> int:
    """When the transaction of a commit was about to end; -1 where it is in none."""
    last = ending(rows, commit)
    return -1 if last is None else last.call


def in_transactions(rows: Rows, partition: int) -> list[GroupRow]:
    commits = [row for row in rows if row.kind is Kind.COMMIT and row.partition == partition]
    return [row for row in commits if row.transaction is not None]


def is_trusted(rows: Rows, read: GroupRow, level: Level) -> bool:
    settled = [row.call for row in done(rows, Kind.SETTLED) if row.partition == read.partition]
    if settled and read.call >= max(settled):
        return True
    mixed = any(became(rows, row) is not Outcome.FAIL for row in in_transactions(rows, read.partition))
    return level is Level.STRICT and (read.stable or not mixed)


def span(rows: Rows, read: GroupRow, level: Level) -> tuple[int, int]:
    """From when to when a read took effect."""
    call, returned = read.call if is_trusted(rows, read, level) else -1, end(read)
    source = rows[read.commit].call if read.commit >= 0 else -1
    calls, returns = [call], [returned]
    if read.commit >= 0 and read.stable:
        calls.append(closing(rows, rows[read.commit]))
    for one in in_transactions(rows, read.partition) if read.stable else ():
        if became(rows, one) is not Outcome.OK:
            continue
        if end(one) < max(call, source):
            calls.append(closing(rows, one))
        if returned < closing(rows, one):
            returns.append(end(one))
    return max(calls), min(returns)


def is_unstable(rows: Rows, read: GroupRow, level: Level) -> bool:
    call, returned = span(rows, read, level)
    source = rows[read.commit].call if read.commit >= 0 else -1
    return returned < max(call, source)


def _index(rows: Rows, row: GroupRow) -> int:
    return next(place for place, one in enumerate(rows) if one is row)


def _explains(order: Iterable[tuple[bool, int, int, int]]) -> bool:
    present, latest_call = -1, -1
    for is_commit, commit, call, returned in order:
        if returned < latest_call:
            return False
        latest_call = max(latest_call, call)
        if is_commit:
            present = commit
        elif commit != present:
            return False
    return True


# --- deliveries ----------------------------------------------------------------------------------------------------


def _of_deliveries(rows: Rows, *, once: bool) -> Iterator[Name]:
    for partition in {row.partition for row in rows if row.kind in (Kind.DELIVER, Kind.SETTLED)}:
        yield from _of_partition(rows, [row for row in rows if row.partition == partition], once=once)


def _of_partition(everything: Rows, rows: Rows, *, once: bool) -> Iterator[Name]:
    every = [row for row in rows if row.kind is Kind.DELIVER]
    possible = [row for row in every if became(everything, row) is not Outcome.FAIL]
    deliveries = [row for row in possible if became(everything, row) is Outcome.OK]
    dense = max((row.offset for row in done(rows, Kind.SETTLED)), default=0)
    known = {row.offset for row in every} | set(range(dense))
    for place, row in enumerate(possible):
        later = [one for one in possible[place + 1 :] if _goes_on(everything, row, one)]
        if not later or any(became(everything, one) is not Outcome.OK for one in (row, later[0])):
            continue
        if later[0].offset <= row.offset:
            yield Name.NONMONOTONIC_DELIVERY
        if any(row.offset < offset < later[0].offset for offset in known):
            yield Name.SKIPPED_DELIVERY
    single = [row.offset for row in deliveries if once or row.transaction is not None]
    if len(set(single)) < len(single):
        yield Name.DOUBLED_DELIVERY
    if once:
        return
    if any(offset not in {row.offset for row in possible} for offset in range(dense)):
        yield Name.UNDELIVERED
    for commit in rows:
        if commit.kind is not Kind.COMMIT or became(everything, commit) is not Outcome.OK:
            continue
        for offset in known:
            was = any(row.offset == offset and row.call <= end(commit) for row in possible)
            if is_members(commit) and offset < commit.offset and not was:
                yield Name.LOST_DELIVERY
    for delivery in deliveries:
        since = [row.call for row in done(rows, Kind.ASSIGN) if row.process == delivery.process]
        if _is_known_to_be_beyond(everything, rows, delivery.offset, min(since, default=0)):
            yield Name.DELIVERED_AFTER_COMMIT


def _goes_on(rows: Rows, before: GroupRow, after: GroupRow) -> bool:
    """Whether the one comes after the other in one generation, or in what may be one as far as its process knows."""
    if before.process != after.process or not same(before, after):
        return False
    between = rows[_index(rows, before) : _index(rows, after)]
    changed = any(row.process == before.process and row.kind in (Kind.ASSIGN, Kind.RELEASE) for row in between)
    return before.generation >= 0 or not changed


def _is_known_to_be_beyond(everything: Rows, rows: Rows, offset: int, since: int) -> bool:
    """Whether every offset that may have been the committed one from then on is larger, and there was one."""
    # `everything` says what became of transactions; of these none is surely the present one.
    taken = [row for row in done(rows, Kind.COMMIT) if row.transaction is None and end(row) < since]
    possible = [
        row
        for row in rows
        if row.kind is Kind.COMMIT
        and became(everything, row) is not Outcome.FAIL
        and not (
            row.outcome is Outcome.OK and row.transaction is None and any(end(row) < other.call for other in taken)
        )
    ]
    return bool(taken) and all(row.offset > offset for row in possible)
