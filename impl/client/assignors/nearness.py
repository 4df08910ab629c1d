"""Which members are near to which partitions, and how an even assignment has most of those together (KIP-881).

Theory of operation
-------------------
A member is near to a partition if a replica of it is in the member's rack; one without a rack is near to everything.
An assignment that is as even as can be is made better along *rounds*: a member gives a partition to another one that
wants it, which gives one to the next, and so on, back to the first. Or a member gives one more than it gets, to one
that has one fewer: then these two have changed their numbers, and the loads are as even as before. A round is worth
taking if more partitions are near to their members after it. Where there is none, no assignment that is as even has
more: rounds are the negative cycles of a flow of least cost, and a flow without one is the cheapest.

Partitions that the same members want and that are in the same racks are of one *kind*: which of them goes is no matter
to a round. So a search goes from members to kinds, to racks of takers, and to members again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tidegauge.impl.client.assignors.subscription import Members, Partition, Racks

_NOWHERE: Final[frozenset[str]] = frozenset()


class Kind(NamedTuple):
    """Partitions that are alike."""

    takers: tuple[str, ...]
    racks: frozenset[str]


Node = tuple[str, object, object]
"""A member, a kind, a rack of a kind's takers, or who has so many."""
Edge = tuple[Node, Node, int]
"""From, to, and how many fewer partitions are near by it."""
Move = tuple[str, Kind, str]
"""(giver, kind, taker)."""


class Nearness:
    """What is near to whom, of the partitions that are shared out."""

    def __init__(self, takers: Mapping[str, Sequence[str]], members: Members, racks: Racks) -> None:
        self._racks: Final = racks
        self._takers: Final = {topic: tuple(those) for topic, those in takers.items()}
        self._rack_of: Final = {member_id: one.rack for member_id, one in members.items()}

    def kind(self, partition: Partition) -> Kind:
        topic, number = partition
        known = self._racks.get(topic, ())
        return Kind(self._takers[topic], known[number] if number < len(known) else _NOWHERE)

    def is_near(self, member_id: str, racks: frozenset[str]) -> bool:
        rack = self._rack_of[member_id]
        return not rack or rack in racks

    def counts(self, kinds: Iterable[Kind]) -> bool:
        """Whether it is any matter who gets what."""
        return any(len({self.is_near(one, kind.racks) for one in kind.takers}) > 1 for kind in kinds)

    def first_round(self, held: Mapping[str, Mapping[Kind, int]], loads: Mapping[str, int]) -> list[Move]:
        """The moves of a round that has more partitions near to their members; none where there is no such round."""
        round_of = _cheaper_cycle(self._edges(held, loads))
        moves = []
        for place, (what, giver, _) in enumerate(round_of):
            if what == "kind":
                before, after = round_of[place - 1], round_of[(place + 2) % len(round_of)]
                assert isinstance(giver, Kind), "it is a kind"
                moves.append((str(before[1]), giver, str(after[1])))
        return moves

    def _edges(self, held: Mapping[str, Mapping[Kind, int]], loads: Mapping[str, int]) -> list[Edge]:
        edges: list[Edge] = []
        kinds: dict[Kind, None] = {}
        for member_id, those in held.items():
            node = ("member", member_id, "")
            edges.append((node, ("load", loads[member_id], ""), 0))
            edges.append((("load", loads[member_id] - 1, ""), node, 0))
            for kind, count in those.items():
                if count:
                    kinds[kind] = None
                    edges.append((node, ("kind", kind, ""), int(self.is_near(member_id, kind.racks))))
        groups: dict[tuple[str, ...], set[str]] = {}
        for kind in kinds:
            if kind.takers not in groups:
                groups[kind.takers] = {self._rack_of[one] for one in kind.takers}
            for rack in sorted(groups[kind.takers]):
                near = not rack or rack in kind.racks
                edges.append((("kind", kind, ""), ("rack", kind.takers, rack), -int(near)))
        for takers in groups:
            edges += ((("rack", takers, self._rack_of[one]), ("member", one, ""), 0) for one in takers)
        return edges


def _cheaper_cycle(edges: Sequence[Edge]) -> list[Node]:
    """A cycle whose edges come to less than 0, node by node; none if there is none (Bellman and Ford)."""
    cost: dict[Node, int] = defaultdict(int)
    came: dict[Node, Node] = {}
    is_changed = True
    while is_changed:
        is_changed = False
        for begin, end, more in edges:
            if cost[begin] + more < cost[end]:
                cost[end] = cost[begin] + more
                came[end] = begin
                is_changed = True
        if is_changed and (found := _cycle_in(came)):
            return found
    return []


def _cycle_in(came: Mapping[Node, Node]) -> list[Node]:
    """A cycle of those from which each node was reached, in the order of the edges."""
    done: set[Node] = set()
    for first in came:
        path: dict[Node, None] = {}
        node: Node | None = first
        while node is not None and node not in done and node not in path:
            path[node] = None
            node = came.get(node)
        if node is not None and node in path:
            nodes = list(path)
            return nodes[nodes.index(node) :][::-1]
        done.update(path)
    return []
