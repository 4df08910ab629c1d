"""The published KRaft model with a rule taken out: what the explorer then finds says what that rule is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tidegauge.spec.kernel.machine import Invariant
from tidegauge.spec.published.kraft.actions import AcceptFetchRequest, KraftAction
from tidegauge.spec.published.kraft.machine import Kraft, no_illegal_state
from tidegauge.spec.published.kraft.state import (
    FetchRequest,
    FetchResponse,
    Message,
    Position,
    RequestVoteResponse,
    Role,
    Server,
    State,
)


@attrs.frozen
class CountedAsByTlc(Kraft):
    """Steps as TLC counts them: both alternatives of ValidFetchPosition hold of a fetch from the beginning of a log."""

    def _of_message(self, message: Message, count: int) -> Iterable[KraftAction]:
        found = [*super()._of_message(message, count)]
        return found + [one for one in found if isinstance(one, AcceptFetchRequest) and one.message.end == Position()]


@attrs.frozen
class WithIllegalRestarts(Kraft):
    """The invariant that a restart violates is asked all the same."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, "NoIllegalState": no_illegal_state}


@attrs.frozen
class VotesForAll(Kraft):
    """A server votes for everybody who asks: two servers lead in one epoch."""

    def is_free_for(self, voter: Server, candidate: int) -> bool:
        return voter.role in (Role.UNATTACHED, Role.VOTED)


@attrs.frozen
class LeadsWithoutMajority(Kraft):
    """A candidate leads with its own vote: two servers lead in one epoch."""

    def is_majority(self, servers: int) -> bool:
        return True

    def is_replicated(self, servers: int) -> bool:
        return super().is_majority(servers)


@attrs.frozen
class VotesForShorterLogs(Kraft):
    """A server votes for a candidate whose log is behind its own: the next leader lacks what was acknowledged."""

    def is_not_behind(self, end: Position, voter: Server) -> bool:
        return True


@attrs.frozen
class CommitsWithoutMajority(Kraft):
    """A leader commits what it has: an entry is committed that no majority has."""

    def is_replicated(self, servers: int) -> bool:
        return True


@attrs.frozen
class CommitsOnSending(Kraft):
    """A leader counts an entry as a follower's when it sends it: an entry is committed that no majority has."""

    def with_end(self, leader: Server, request: FetchRequest) -> Server:
        ends = [*leader.ends]
        ends[request.source] = request.end.offset + len(self.fetched(leader, request))
        return attrs.evolve(leader, ends=tuple(ends))


@attrs.frozen
class CountsStaleVotes(Kraft):
    """A server takes responses of a former epoch for those of its own: one leads with votes of a former epoch, or is
    told that it leads when it does not any more."""

    def is_stale(self, server: Server, response: RequestVoteResponse | FetchResponse) -> bool:
        return False
