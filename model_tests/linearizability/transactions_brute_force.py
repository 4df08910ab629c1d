"""The semantics of transactions in docs/history.md by brute force: every outcome of every transaction is tried.

Written from that page alone, and it shares no code with the checker. It takes one small history at a time, as rows of
plain fields, and asks of each assignment of outcomes whether every claim of the page holds. Dependencies are a matrix,
and a cycle is a node that reaches itself in its closure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, product

from tidegauge.linearizability.history import Operation

PRODUCE, FETCH, LIST, COMMIT, ABORT, COMMIT_OFFSETS = 0, 1, 2, 6, 7, 8
OK, FAIL, INFO = 0, 1, 2
FOREVER = 10**9
NOWHERE = -1
Node = tuple[str, int]
"""("t", its number), or ("o", the index of an operation by itself)."""


class Reading:
    """What the page defines before it says what holds."""

    def __init__(self, rows: Sequence[Operation]) -> None:
        self.rows = rows
        self.sends = [row for row in rows if row.kind == PRODUCE]
        self.fetches = [row for row in rows if row.kind == FETCH and row.outcome == OK]
        self.numbers = sorted({row.transaction for row in rows if row.transaction is not None})
        self.ends = {row.transaction: row for row in rows if row.kind in (COMMIT, ABORT)}
        self.began = {row.index: began(rows, row, self.commit_is_ok) for row in self.fetches}
        self.covers = {row.index: range(self.began[row.index], last(row) + 1) for row in self.fetches if row.values}
        self.base = {row.index: self._base(row) for row in self.sends}

    def commit_is_ok(self, number: int | None) -> bool:
        end = self.ends.get(number)
        return end is not None and end.kind == COMMIT and end.outcome == OK

    def commit_may_be(self, number: int | None) -> bool:
        end = self.ends.get(number)
        return end is not None and end.kind == COMMIT and end.outcome != FAIL

    def _base(self, send: Operation) -> int:
        if send.outcome == OK and send.acks == -1:
            return send.offset
        for fetch in self.fetches:
            for value, offset in zip(fetch.values, fetch.placed, strict=True):
                if same_log(fetch, send) and value in send.values:
                    return offset - send.values.index(value)
        return NOWHERE

    def placed(self) -> Iterator[tuple[Operation, int, int]]:
        """(produce, value, offset) of every placed record."""
        for send in self.sends:
            known = any(same_log(f, send) and set(f.values) & set(send.values) for f in self.fetches)
            if known or (send.outcome == OK and send.acks == -1):
                for number, value in enumerate(send.values):
                    yield send, value, self.base[send.index] + number

    def known_to_be_committed(self, number: int | None) -> bool:
        if number is None or self.commit_is_ok(number):
            return True
        mine = [(one, value) for one in self.sends if one.transaction == number for value in one.values]
        read = any(same_log(f, one) and value in f.values for f in careful(self.fetches) for one, value in mine)
        return self.commit_may_be(number) and read

    def visible(self, like: Operation) -> list[int]:
        """Offsets of visible records in the partition of `like`."""
        offsets = (
            offset
            for send, _, offset in self.placed()
            if same_log(send, like) and self.known_to_be_committed(send.transaction)
        )
        return sorted(set(offsets))


def same_log(one: Operation, other: Operation) -> bool:
    return (one.topic, one.partition) == (other.topic, other.partition)


def careful(fetches: Sequence[Operation]) -> list[Operation]:
    return [one for one in fetches if one.isolation == 1]


def last(fetch: Operation) -> int:
    return fetch.placed[-1]


def began(rows: Sequence[Operation], fetch: Operation, commit_is_ok: Callable[[int | None], bool]) -> int:
    """Where a fetch began; NOWHERE if nobody knows."""
    first = fetch.placed[0] if fetch.values else NOWHERE
    if fetch.offset != NOWHERE:
        return fetch.offset
    for row in reversed([one for one in rows if one.index < fetch.index]):
        if row.kind != FETCH or row.outcome == FAIL or row.process != fetch.process or not same_log(row, fetch):
            continue
        if row.outcome == INFO or (row.transaction is not None and not commit_is_ok(row.transaction)):
            return first
        if row.values:
            return last(row) + 1
        if row.offset != NOWHERE:
            return row.offset
    return first


def valid(rows: Sequence[Operation], strict: bool) -> bool:
    """Whether the page calls the history valid at the level."""
    said = Reading(rows)
    if not (places(said) and in_order(said) and appends(said) and acyclic(said, strict)):
        return False
    choices = [
        (True,) if said.commit_is_ok(number) else (True, False) if said.commit_may_be(number) else (False,)
        for number in said.numbers
    ]
    outcomes = (dict(zip(said.numbers, chosen, strict=True)) for chosen in product(*choices))
    return any(reads(said, one) and stability(said, one) and offsets(said, one) for one in outcomes)


def places(said: Reading) -> bool:
    for fetch in said.fetches:
        for value, offset in zip(fetch.values, fetch.placed, strict=True):
            senders = [one for one in said.sends if same_log(one, fetch) and value in one.values]
            if not senders or senders[0].outcome == FAIL:
                return False
            if said.base[senders[0].index] + senders[0].values.index(value) != offset:
                return False
    held: dict[tuple[str, int, int], int] = {}
    for send, value, offset in said.placed():
        if offset < 0 or held.setdefault((send.topic, send.partition, offset), value) != value:
            return False
        if send.outcome == OK and send.acks == -1 and send.placed[send.values.index(value)] != offset:
            return False
    return True


def in_order(said: Reading) -> bool:
    """Whether what a transaction has sent to a partition is there in the order of its sends."""
    for number in said.numbers:
        placed = [(send, at) for send, _, at in said.placed() if send.transaction == number]
        for (one, at), (other, below) in combinations(placed, 2):
            if same_log(one, other) and one.index < other.index and below < at:
                return False
    return True


def appends(said: Reading) -> bool:
    known: list[tuple[Operation, int]] = []
    for row in said.rows:
        if row.outcome == OK and row.kind == PRODUCE and row.acks == -1:
            known.append((row, row.offset + len(row.values)))
        if row.outcome == OK and row.kind == LIST:
            known.append((row, row.offset))
        if row.outcome == OK and row.kind == FETCH:
            known += [(row, last(row) + 1)] if row.values else []
            known += [(row, mark) for mark in (row.high_watermark, row.last_stable_offset) if mark is not None]
            if row.values and row.high_watermark is not None and last(row) >= row.high_watermark:
                return False
    firsts = [(send, offset) for send, value, offset in said.placed() if value == send.values[0]]
    return not any(
        same_log(row, send) and over(row) < send.call and base < length
        for row, length in known
        for send, base in firsts
    )


def over(row: Operation) -> int:
    return FOREVER if row.returned is None else row.returned


def reads(said: Reading, committed: dict[int, bool]) -> bool:
    for fetch in said.fetches:
        if not fetch.values:
            continue
        if fetch.placed[0] < said.began[fetch.index] or any(b <= a for a, b in pairwise(fetch.placed)):
            return False
        for send, value, offset in said.placed():
            if not same_log(send, fetch):
                continue
            shows = fetch.isolation == 0 or send.transaction is None or committed[send.transaction]
            if value in fetch.values and not shows:
                return False
            if value not in fetch.values and shows and offset in said.covers[fetch.index]:
                return False
    return True


def stability(said: Reading, committed: dict[int, bool]) -> bool:
    for fetch in said.fetches:
        stable = [] if fetch.last_stable_offset is None else [fetch.last_stable_offset]
        if fetch.isolation == 1 and fetch.values:
            if stable and last(fetch) >= stable[0]:
                return False
            own = [one for one in said.sends if one.transaction is not None and one.transaction == fetch.transaction]
            if any(same_log(one, fetch) and set(one.values) & set(fetch.values) for one in own):
                return False
        beyond = [*stable, last(fetch) + 1] if fetch.isolation == 1 and fetch.values else stable
        for number in said.numbers:
            mine = [at for one, _, at in said.placed() if one.transaction == number and same_log(one, fetch)]
            if not committed[number] or not mine:
                continue
            if over(fetch) < said.ends[number].call and any(at > min(mine) for at in beyond):
                return False
            if any(min(mine) < at <= max(mine) and not may_begin(said, fetch, at) for at in stable):
                return False
    return True


def may_begin(said: Reading, fetch: Operation, offset: int) -> bool:
    """Whether the first placed record of a transaction, or nothing that is known, is at an offset."""
    placed = [(one, at) for one, _, at in said.placed() if same_log(one, fetch)]
    holders = [one for one, at in placed if at == offset]
    if not holders:
        return True
    number = holders[0].transaction
    return number is not None and min(at for one, at in placed if one.transaction == number) == offset


def offsets(said: Reading, committed: dict[int, bool]) -> bool:
    rows = [row for row in said.rows if row.kind == COMMIT_OFFSETS and row.outcome != FAIL]
    rows = [row for row in rows if row.transaction is None or said.commit_may_be(row.transaction)]
    return all(
        divided(said, committed, [row for row in rows if (row.group, row.topic, row.partition) == pair])
        for pair in {(row.group, row.topic, row.partition) for row in rows}
    )


def divided(said: Reading, committed: dict[int, bool], rows: Sequence[Operation]) -> bool:
    """Whether those who committed offsets of one group in one partition divide its records."""
    consumed = []
    for number in {row.transaction for row in rows}:
        mine = [row for row in rows if row.transaction == number]
        fetched = [
            one
            for one in said.fetches
            if one.transaction == number and same_log(one, mine[0]) and said.began[one.index] != NOWHERE
        ]
        if number is None or not fetched or any(row.outcome == INFO for row in mine):
            return True
        begin = said.began[fetched[0].index]
        end = last(fetched[-1]) + 1 if fetched[-1].values else said.began[fetched[-1].index]
        if not committed[number]:
            continue
        until = mine[-1].offset
        seen = said.visible(mine[0])
        if any(end <= at < until for at in seen):
            return False
        consumed.append([at for at in seen if begin <= at < until])
    held = sorted(one for one in consumed if one)
    together = [at for one in held for at in one]
    between = [at for at in said.visible(rows[0]) if together and together[0] <= at <= max(together)]
    return together == between


def acyclic(said: Reading, strict: bool) -> bool:
    nodes: list[Node] = [("t", number) for number in said.numbers if said.known_to_be_committed(number)]
    alone = [row for row in said.rows if row.transaction is None]
    there = {send.index for send, _, _ in said.placed()}
    nodes += [("o", row.index) for row in alone if row.index in there]
    nodes += [("o", row.index) for row in alone if row in careful(said.fetches) and said.began[row.index] != NOWHERE]
    rows = {node: [row for row in said.rows if node == node_of(row)] for node in nodes}
    before = {(a, b) for a in nodes for b in nodes if a != b and ordered(rows[a], rows[b])}
    wrote = {(send.topic, send.partition, at): node_of(send) for send, _, at in said.placed()}
    for fetch in careful(said.fetches):
        for value in fetch.values:
            before |= {(node_of(s), node_of(fetch)) for s in said.sends if same_log(s, fetch) and value in s.values}
    if strict:
        before |= written_in_order(said, wrote) | read_before(said, wrote)
    before = {(a, b) for a, b in before if a in nodes and b in nodes and a != b}
    reach = {node: {b for a, b in before if a == node} for node in nodes}
    for middle in nodes:
        for node in nodes:
            if middle in reach[node]:
                reach[node] |= reach[middle]
    return not any(node in reach[node] for node in nodes)


def node_of(row: Operation) -> Node:
    return ("o", row.index) if row.transaction is None else ("t", row.transaction)


def ordered(first: Sequence[Operation], second: Sequence[Operation]) -> bool:
    """Process and real time."""
    end = first[0] if first[0].transaction is None else next(row for row in first if row.kind == COMMIT)
    if end.outcome != OK or (end.kind == PRODUCE and end.acks != -1):
        return False
    called = min(row.call for row in second)
    at_once = over(end) == called and first[-1].index < second[0].index
    return over(end) < called or (first[0].process == second[0].process and at_once)


def written_in_order(said: Reading, wrote: dict[tuple[str, int, int], Node]) -> set[tuple[Node, Node]]:
    return {
        (wrote[send.topic, send.partition, a], wrote[send.topic, send.partition, b])
        for send in said.sends
        for a, b in pairwise(said.visible(send))
    }


def read_before(said: Reading, wrote: dict[tuple[str, int, int], Node]) -> set[tuple[Node, Node]]:
    found = set()
    for fetch in careful(said.fetches):
        node = node_of(fetch)
        mine = [one for one in careful(said.fetches) if node_of(one) == node and same_log(one, fetch)]
        ends = [last(one) + 1 if one.values else said.began[one.index] for one in mine]
        following = [at for at in said.visible(fetch) if at >= max(ends)]
        if following and max(ends) != NOWHERE:
            found.add((node, wrote[fetch.topic, fetch.partition, following[0]]))
    return found
