"""What a row of a group must be before it can be checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegauge.linearizability.history import OF_GROUPS, OF_MANY, UNKNOWN, Flags, Ints, Kind, Operations, Outcome
from tidegauge.linearizability.membership import NONE, Membership
from tidegauge.linearizability.transactional import Transactional

_INDICES = 1 << 32
_NUMBERS = 1 << 31
"""Partitions are below it."""


def group_faults(ops: Operations) -> Iterator[tuple[Flags, str]]:
    """Each rule that a row of a group may break, and how to say so."""
    extra, said = ops.transactional or Transactional.blank(len(ops)), ops.membership or Membership.blank(len(ops))
    kind = ops.kind
    group, generation = extra.group, said.generation
    inside = np.isin(kind, OF_GROUPS)
    yield group < NONE, "group is {group}: number groups from 0"
    yield inside & (group == NONE), "no group: a row of this kind says the number of its group"
    yield (
        inside & (kind != Kind.DELIVER) & (extra.transaction != NONE),
        "it is in transaction {transaction}: of a group only its commits and deliveries can be",
    )
    yield generation < NONE, "generation is {generation}: number generations from 0, or leave it out"
    yield said.member < NONE, "member is {member}: number members from 0, or leave it out"
    stray = (group == NONE) & ((generation != NONE) | (said.member != NONE))
    yield stray, "generation {generation} and member {member}, and no group: say the number of the group"
    yield (
        np.isin(kind, (Kind.MEMBER, Kind.EXPECT)) & (generation == NONE),
        "no generation: a member or expect says of which one it is",
    )
    yield (kind == Kind.SETTLED) & (group != NONE) & (ops.offset == UNKNOWN), "no offset: say up to where it settled"
    delivered = kind == Kind.DELIVER
    yield delivered & (ops.outcome != Outcome.OK), "a delivery has happened: make its outcome ok"
    yield (
        delivered & (ops.counts == 0) & (ops.offset == UNKNOWN),
        "no offset: say where the record is that it was given",
    )
    rows = np.flatnonzero(delivered & (ops.counts > 0) & (ops.offset != UNKNOWN))
    first = ops.record_offsets()[ops.starts[rows]] if len(rows) else rows
    differs = rows[first != ops.offset[rows]]
    yield _flags(ops, differs), "offset is {offset}, and the first of its offsets is another: leave one of them out"
    yield from _partitions(ops)
    yield from _commits_found(ops, said.found.astype(np.int64), group.astype(np.int64))


def _partitions(ops: Operations) -> Iterator[tuple[Flags, str]]:
    """Faults of the partitions that a row lists."""
    many = np.isin(ops.kind, OF_MANY)
    if not many.any():
        return
    wild: Ints = np.concatenate(([0], np.cumsum((ops.values < 0) | (ops.values >= _NUMBERS))))
    lists_wild = wild[ops.starts[1:]] > wild[ops.starts[:-1]]
    yield many & lists_wild, "a partition in values is negative, or 2**31 or more: number partitions from 0"
    lacking = many & (ops.kind != Kind.ASSIGN) & (ops.counts == 0)
    yield lacking, "no partition in values: an expect or release lists which ones"


def _commits_found(ops: Operations, found: Ints, group: Ints) -> Iterator[tuple[Flags, str]]:
    """Faults of reads of committed offsets: what they have found must be a commit of the same offset."""
    reads = ops.kind == Kind.READ_OFFSETS
    yield found < NONE, "found is {found}: give the index of the commit, or leave it out"
    yield ~reads & (found != NONE), "found is {found}: only a read_offsets has found a commit"
    yield reads & (found == NONE) & (ops.offset != UNKNOWN), "offset is {offset}, and no commit: say in found which one"
    chosen = np.flatnonzero(reads & (found >= 0))
    history = np.zeros(len(ops), np.int64)
    np.cumsum(ops.history[1:] != ops.history[:-1], out=history[1:])
    commits = np.flatnonzero(ops.kind == Kind.COMMIT_OFFSETS)
    keys = history[commits] * _INDICES + ops.index[commits]
    order = np.argsort(keys, kind="stable")
    wanted = history[chosen] * _INDICES + found[chosen]
    at = np.searchsorted(keys[order], wanted)
    is_there = at < len(commits)
    is_there[is_there] = keys[order][at[is_there]] == wanted[is_there]
    yield _flags(ops, chosen[~is_there]), "it has found commit {found}, and the history has no such commit_offsets"
    chosen, source = chosen[is_there], commits[order[at[is_there]]]
    differs = (group[chosen] != group[source]) | (ops.partition[chosen] != ops.partition[source])
    differs |= (ops.topic[chosen] != ops.topic[source]) | (ops.offset[chosen] != ops.offset[source])
    yield _flags(ops, chosen[differs]), "it has found commit {found}, which is of another group, partition or offset"


def _flags(ops: Operations, rows: Ints) -> Flags:
    flags = np.zeros(len(ops), np.bool_)
    flags[rows] = True
    return flags
