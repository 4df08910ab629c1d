"""Whose commits a classic group takes, asked in every state, of requests that nobody has sent.

Of every member, of an id that nobody has and of who names none; in the generations around the present one; by itself
and in a transaction, whose commit is taken while the members have no assignment yet too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset
from tidegauge.model_tests.harness.cores.classic_beside import TOPIC, Beside
from tidegauge.model_tests.harness.cores.classic_times import GROUP
from tidegauge.spec.groups.classic.state import NONE, CommitRequest, Error, State, Status
from tidegauge.spec.kernel.changes import Change

OFFSETS: Final = (NewOffset(TOPIC, 0, 1),)


def commits_differ(cores: Beside, state: State) -> Iterator[Change]:
    """Where the coordinator takes another commit than the specification, or refuses it with another error."""
    if cores.coordinator is None or state.group is None or cores.core.classic.get(GROUP) is None:
        return
    group = state.group
    members = [(one.member_id, one.instance) for one in group.members]
    instances = {NONE, *(one.instance for one in group.members)}
    for member_id, own in (*members, (state.member_ids, NONE)):
        for instance in instances if own == NONE else (NONE, own):
            for generation in (group.generation - 1, group.generation, group.generation + 1):
                if generation >= 0:
                    request = CommitRequest(0, member_id, generation, 0, 1)
                    wanted = cores.machine.commit_error(group, instance, request)
                    yield from _committed(cores, request, instance, wanted)
    yield from _of_nobody(cores, is_empty=group.status is Status.EMPTY)


def _committed(cores: Beside, request: CommitRequest, instance: int, wanted: Error) -> Iterator[Change]:
    """A commit of who says that it is a member."""
    commit = Commit(
        GROUP,
        OFFSETS,
        request.generation,
        cores.name_of(request.member_id),
        None if instance == NONE else f"i{instance}",
    )
    in_transaction = Error.NONE if wanted is Error.REBALANCE_IN_PROGRESS else wanted
    for is_transactional, error in ((False, wanted), (True, in_transaction)):
        found = cores.core.commit(attrs.evolve(commit, is_transactional=is_transactional), 0).error
        if found.value != error.value:
            yield Change(f"{commit}, in a transaction: {is_transactional}", error.name, found.name)


def _of_nobody(cores: Beside, *, is_empty: bool) -> Iterator[Change]:
    """Who names no member commits in an empty group, and in a transaction at any time (before KIP-447)."""
    for is_transactional in (False, True):
        wanted = ErrorCode.none if is_empty or is_transactional else ErrorCode.unknown_member_id
        found = cores.core.commit(Commit(GROUP, OFFSETS, is_transactional=is_transactional), 0).error
        if found is not wanted:
            yield Change(f"a commit of who names no member, in a transaction: {is_transactional}", wanted, found)
    for says in ({"member_id": "nobody"}, {"instance_id": "nobody"}, {"generation": 0}):
        said = Commit(GROUP, OFFSETS, **says, is_transactional=True)
        wanted = ErrorCode.none if is_empty and said.generation < 0 else ErrorCode.unknown_member_id
        if (found := cores.core.commit(said, 0).error) is not wanted:
            yield Change(f"a commit in a transaction of who says {says}", wanted, found)
