"""Which rows of a history its groups are checked by, and which the log, or its transactions."""

from __future__ import annotations

import attrs
import numpy as np

from tidegauge.linearizability.history import Flags, Ints, Kind, Operations
from tidegauge.linearizability.membership import NONE, Membership


def with_groups(ops: Operations) -> Flags:
    """Which histories, in their order, have members of groups."""
    starts = ops.history_starts
    whose = np.zeros(len(starts) - 1, np.bool_)
    if ops.transactional is None:
        return whose
    inside = (ops.kind >= Kind.MEMBER) | ((ops.kind == Kind.SETTLED) & (ops.transactional.group != NONE))
    if ops.membership is not None:
        inside |= (ops.membership.generation != NONE) | (ops.membership.member != NONE)
    return np.logical_or.reduceat(inside, starts[:-1]) if inside.any() else whose


def rows_of_groups(ops: Operations, whose: Flags) -> Ints:
    """The rows by which the groups of the histories `whose` are checked."""
    assert ops.transactional is not None, "each has its group"
    inside = np.repeat(whose, np.diff(ops.history_starts))
    return np.flatnonzero(inside & (ops.transactional.group != NONE))


def of_the_log(ops: Operations, whose: Flags) -> Operations:
    """What else is checked: all of other histories, and of the histories `whose` what is not of groups, with the
    deliveries where records are produced, and the commits of offsets where there are transactions.

    A delivery is a fetch from the first record on that it has: where a member may go on its group says.
    """
    extra = ops.transactional
    assert extra is not None, "each row of a group has it"
    starts = ops.history_starts
    sizes = np.diff(starts)

    def where_any(flags: Flags) -> Flags:
        return np.repeat(np.logical_or.reduceat(flags, starts[:-1]), sizes)

    is_delivery = (ops.kind == Kind.DELIVER) & (ops.counts > 0) & where_any(ops.kind == Kind.PRODUCE)
    is_commit = (ops.kind == Kind.COMMIT_OFFSETS) & where_any(extra.transaction != NONE)
    kept = ~np.repeat(whose, sizes) | (extra.group == NONE) | is_delivery | is_commit
    rows = ops.take(np.flatnonzero(kept))
    assert rows.transactional is not None, "as before"
    delivered = np.flatnonzero(rows.kind == Kind.DELIVER)
    kind, offset, group = rows.kind.copy(), rows.offset.copy(), rows.transactional.group.copy()
    if len(delivered):
        offset[delivered] = rows.record_offsets()[rows.starts[delivered]]
    kind[delivered], group[delivered] = Kind.FETCH, NONE
    others = attrs.evolve(rows.transactional, group=group)
    return attrs.evolve(rows, kind=kind, offset=offset, transactional=None if others.empty else others, membership=None)


@attrs.frozen(eq=False)
class Grouped:
    """For each history: how many groups it has, and of how many of them something is not checked."""

    groups: Ints
    unnumbered: Ints
    """Groups of which no row says a generation: who owned what in one nobody knows."""
    unsettled: Ints
    """Groups with deliveries, of which no partition is declared settled: what was never delivered nobody knows."""

    def __len__(self) -> int:
        return len(self.groups)


def count_groups(ops: Operations, whose: Flags) -> Grouped:
    """The groups of all histories; those `whose` have some."""
    number = np.repeat(np.arange(len(whose)), np.diff(ops.history_starts))
    places = rows_of_groups(ops, whose)
    rows, history = ops.take(places), number[places]
    extra, said = rows.transactional, rows.membership or Membership.blank(len(rows))
    assert extra is not None, "each has its group"
    groups, group = np.unique(history * (1 << 32) + extra.group, return_inverse=True)

    def count(which: Flags) -> Ints:
        return np.bincount((groups >> 32)[which], minlength=len(whose))

    def have(flags: Flags) -> Flags:
        there = np.zeros(len(groups), np.bool_)
        there[group[flags]] = True
        return there

    is_numbered, settled = have(said.generation != NONE), have(rows.kind == Kind.SETTLED)
    everything = np.ones(len(groups), np.bool_)
    return Grouped(count(everything), count(~is_numbered), count(have(rows.kind == Kind.DELIVER) & ~settled))
