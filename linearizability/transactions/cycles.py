"""Cycles of dependencies between committed transactions, by strongly connected components.

Nodes are the committed transactions, and each send and each read_committed fetch outside of any. Edges (Adya 1999):

- ww: from the writer of a visible record to that of the next one in its partition;
- wr: from the writer of a record to a transaction that read it by read_committed;
- rw: from a transaction that read a partition up to an offset to the writer of the first visible record from there on;
- process: from one that returned to the later ones of its process;
- realtime: from one that returned to all that were called after that.

Order in a process and in real time goes through nodes of their own, one for each return, so that their edges are as
many as the transactions are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice, pairwise

import attrs

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import NEVER, UNKNOWN, Operation, Outcome
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.transactions.components import components
from tidegauge.linearizability.transactions.story import Fetch, Partition, Story, Transaction, where
from tidegauge.linearizability.witness import Finding


class Because(Enum):
    """Why one transaction comes before another."""

    WW = "overwrote"
    WR = "was read by"
    RW = "did not read"
    PROCESS = "came, in its process, before"
    REALTIME = "had returned before the call of"


Instant = tuple[int, int]
"""A time, and what comes first at one time."""
WW, WR, RW = Because.WW, Because.WR, Because.RW


@attrs.frozen
class Edge:
    """`source` comes before `target`; `rows` show it."""

    source: int
    target: int
    because: Because
    rows: tuple[Operation, ...] = attrs.field(default=(), eq=False)


@attrs.frozen
class _Family:
    """Anomalies of one shape: what their cycles may consist of, how many rw edges, and names by order."""

    allowed: frozenset[Because]
    turns_on: Because
    """An edge that the cycle has; the others lead back from its target to its source."""
    back: frozenset[Because]
    names: tuple[Name, Name, Name]


FAMILIES = (
    _Family(frozenset({WW}), WW, frozenset({WW}), (Name.G0, Name.G0_PROCESS, Name.G0_REALTIME)),
    _Family(frozenset({WR}), WR, frozenset({WR}), (Name.G1C, Name.G1C_PROCESS, Name.G1C_REALTIME)),
    _Family(
        frozenset({WW, WR}), WR, frozenset({WW, WR}), (Name.G1C_WW, Name.G1C_WW_PROCESS, Name.G1C_WW_REALTIME)
    ),
    _Family(
        frozenset({WW, WR, RW}), RW, frozenset({WW, WR}),
        (Name.G_SINGLE, Name.G_SINGLE_PROCESS, Name.G_SINGLE_REALTIME),
    ),
    _Family(frozenset({WW, WR, RW}), RW, frozenset({WW, WR, RW}), (Name.G2, Name.G2_PROCESS, Name.G2_REALTIME)),
)  # fmt: skip
READ_DEPENDENCIES = FAMILIES[1:2]
"""What Kafka promises to be free of cycles; transactions may interleave their writes, and a fetch may be late."""
TRIES = 1_000
"""How many anti-dependencies are tried for a cycle that has no other one, before it is told as G2."""
_GENERAL = {Name.G1C_WW: Name.G1C, Name.G2: Name.G_SINGLE}
"""Anomalies that are told only where the more special one is not found."""


def find_cycles(story: Story, level: Level) -> Iterator[Finding]:
    """One cycle of each shape that `level` checks, in the plainest order that has one."""
    yield from _find(story, READ_DEPENDENCIES if level is Level.KAFKA else FAMILIES)


def find_allowed_cycles(story: Story) -> Iterator[Finding]:
    """Likewise of the shapes that Kafka allows."""
    yield from _find(story, [family for family in FAMILIES if family not in READ_DEPENDENCIES])


def _find(story: Story, families: Sequence[_Family]) -> Iterator[Finding]:
    graph = _Graph(story)
    if not graph.data:
        return
    for order, orders in enumerate((graph.data, graph.data + graph.process, graph.data + graph.process + graph.real)):
        for family in families:
            plain = family.names[0]
            special = _GENERAL.get(plain)
            if graph.told.intersection(family.names[:order]):
                continue
            if special in graph.shapes:
                continue
            cycle = _cycle(orders, family)
            if cycle is None:
                continue
            graph.told.add(family.names[order])
            graph.shapes.add(plain)
            yield graph.witness(family.names[order], cycle)


def _cycle(edges: Sequence[Edge], family: _Family) -> list[Edge] | None:
    """A shortest cycle through the first edge of the family's kind that is on one."""
    orders = (Because.PROCESS, Because.REALTIME)
    held = [edge for edge in edges if edge.because in family.allowed or edge.because in orders]
    following: dict[int, list[Edge]] = {}
    for edge in held:
        following.setdefault(edge.source, []).append(edge)
    member = components({source: [edge.target for edge in after] for source, after in following.items()})
    turning = (edge for edge in held if edge.because is family.turns_on and member[edge.source] == member[edge.target])
    for edge in islice(turning, TRIES):
        path = _path(following, edge.target, edge.source, family.back.union(orders), member)
        if path is not None:
            return [edge, *path]
    return None


def _path(
    following: Mapping[int, Sequence[Edge]], start: int, goal: int, kinds: frozenset[Because], member: Mapping[int, int]
) -> list[Edge] | None:
    """A shortest path from `start` to `goal` within their component, by edges of `kinds`."""
    came: dict[int, Edge | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came:
        at = waiting.popleft()
        for edge in following.get(at, ()):
            if edge.target not in came and edge.because in kinds and member[edge.target] == member[goal]:
                came[edge.target] = edge
                waiting.append(edge.target)
    if goal not in came:
        return None
    path: list[Edge] = []
    back = came[goal]
    while back is not None:
        path.append(back)
        back = came[back.source]
    return path[::-1]


class _Graph:
    """The dependencies of a history. Its transactions are nodes from 0 on; nodes of order are below 0."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.told: set[Name] = set()
        self.shapes: set[Name] = set()
        self.nodes: dict[int, Transaction] = {}
        self._numbers: dict[int, int] = {}
        for transaction in story.transactions.values():
            if story.committed(transaction):
                self._add(transaction)
        for record in (record for log in story.visible.values() for record in log.values()):
            self._add(record.transaction)
        self.fetches = [
            fetch for fetch in story.fetches
            if fetch.careful and fetch.begin != UNKNOWN and story.committed(fetch.transaction)
        ]  # fmt: skip
        for fetch in self.fetches:
            self._add(fetch.transaction)
        self.data = [edge for edge in (*self._overwrites(), *self._reads(), *self._misses()) if not _loop(edge)]
        self.process = self._process_order()
        self.real = self._realtime()

    def _add(self, transaction: Transaction) -> int:
        node = self._numbers.setdefault(transaction.rows[0].index, len(self._numbers))
        self.nodes[node] = transaction
        return node

    def _overwrites(self) -> Iterator[Edge]:
        for log in self.story.visible.values():
            held = list(log.values())
            for before, after in pairwise(held):
                yield Edge(
                    self._add(before.transaction), self._add(after.transaction), WW, (before.produce, after.produce)
                )

    def _reads(self) -> Iterator[Edge]:
        for fetch in self.fetches:
            for value in fetch.row.values:
                record = self.story.records.get((where(fetch.row), value))
                if record is None or not self.story.committed(record.transaction):
                    continue
                if record.produce.index not in self.story.bases or record.produce.outcome is Outcome.FAIL:
                    continue
                yield Edge(self._add(record.transaction), self._add(fetch.transaction), WR, (record.produce, fetch.row))

    def _misses(self) -> Iterator[Edge]:
        furthest: dict[tuple[int, Partition], Fetch] = {}
        for fetch in self.fetches:
            key = (self._add(fetch.transaction), where(fetch.row))
            if key not in furthest or fetch.end >= furthest[key].end:
                furthest[key] = fetch
        for (node, partition), fetch in furthest.items():
            offsets = self.story.offsets[True].get(partition, [])
            at = bisect_left(offsets, fetch.end)
            if at < len(offsets):
                record = self.story.visible[partition][offsets[at]]
                yield Edge(node, self._add(record.transaction), RW, (fetch.row, record.produce))

    def _process_order(self) -> list[Edge]:
        """By process, from each that returned to those that were called when it had; at one instant, by their index."""
        edges: list[Edge] = []
        by_process: dict[int, list[tuple[int, Transaction]]] = {}
        for node, transaction in self.nodes.items():
            by_process.setdefault(transaction.rows[0].process, []).append((node, transaction))
        base = 1
        for mine in by_process.values():
            ends = sorted(((one.returned, one.rows[-1].index), node) for node, one in mine if one.returned != NEVER)
            begins = [((one.call, one.rows[0].index), node) for node, one in mine]
            edges += _through(base, ends, begins, Because.PROCESS)
            base += len(ends)
        return edges

    def _realtime(self) -> list[Edge]:
        """From each that returned to those that were called after that."""
        ends = sorted(((one.returned, 0), node) for node, one in self.nodes.items() if one.returned != NEVER)
        begins = [((one.call, 0), node) for node, one in self.nodes.items()]
        return _through(len(self.nodes) + 1, ends, begins, Because.REALTIME)

    def witness(self, name: Name, cycle: Sequence[Edge]) -> Finding:
        """The cycle in words: each step with the operations that show it."""
        steps: list[str] = []
        rows: list[Operation] = []
        at = 0
        while at < len(cycle):
            edge = cycle[at]
            target = edge.target
            # A way through the nodes of order is one step.
            while target < 0:
                at += 1
                target = cycle[at].target
            at += 1
            steps.append(self._step(edge, target))
            rows += edge.rows if edge.rows else (self.nodes[edge.source].rows[-1], self.nodes[target].rows[0])
        shown = list({row.index: row for row in rows}.values())
        return Finding(name, tuple(shown), f"{'; '.join(steps)}. {'; '.join(map(str, shown))}")

    def _step(self, edge: Edge, target: int) -> str:
        first, second = self.nodes[edge.source], self.nodes[target]
        if edge.because is WW:
            before = edge.rows[0]
            return f"{second} wrote to {before.topic}-{before.partition} after {first}"
        if edge.because is WR:
            return f"{second} read what {first} wrote"
        if edge.because is RW:
            return f"{first} read to before what {second} wrote"
        return f"{first} {edge.because.value} {second}"


def _loop(edge: Edge) -> bool:
    return edge.source == edge.target


def _through(
    base: int, ends: Sequence[tuple[Instant, int]], begins: Sequence[tuple[Instant, int]], because: Because
) -> list[Edge]:
    """Edges from each that ends to a node of its end, from that to the next one, and to all that begin after it."""
    times = sorted({time for time, _ in ends})
    place = {time: -(base + number) for number, time in enumerate(times)}
    edges = [Edge(node, place[time], because) for time, node in ends]
    edges += [Edge(place[early], place[late], because) for early, late in pairwise(times)]
    for time, node in begins:
        before = bisect_left(times, time)
        if before:
            edges.append(Edge(place[times[before - 1]], node, because))
    return edges
