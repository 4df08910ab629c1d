"""Variant 2 of the published model of PullRaft: a follower pulls once it is told who leads.

A port of Jack Vanlightly's TLA+ specification (github.com/Vanlightly/raft-tlaplus, `pull-raft/PullRaftVariant2`), rule
by rule and under its names, so that this explorer can be held against TLC; see `spec.published.pull_raft.machine`.

Theory of operation
-------------------
A server keeps whom it has voted for apart from whom it takes for the leader, and pulls from nobody before a leader has
told it that it leads. A vote names the voter's last entry. So a leader knows the logs of its voters, and tells each of
them at once the last entry that both logs have; the others learn it when their first pull is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import ClassVar, Final

import attrs

from tidegauge.spec.kernel.machine import Action, check_processes
from tidegauge.spec.published.kraft.state import NOBODY, Message
from tidegauge.spec.published.pull_raft.actions import PullRaftAction
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft.state import Role, State
from tidegauge.spec.published.pull_raft_2 import actions as protocol
from tidegauge.spec.published.pull_raft_2.rules import PullRaft2Rules
from tidegauge.spec.published.pull_raft_2.state import UNKNOWN, VotingServer, VotingState

_KINDS: Final[Mapping[str, type[PullRaftAction]]] = {
    kind.__name__: kind
    for kind in (
        protocol.Restart,
        protocol.UpdateTerm,
        protocol.RequestVote,
        protocol.HandleRequestVoteRequest,
        protocol.HandleRequestVoteResponse,
        protocol.BecomeLeader,
        protocol.LearnOfLeader,
    )
}
"""By name: the actions that differ."""


@attrs.frozen
class PullRaft2(PullRaft2Rules, PullRaft):
    """Variant 2 of PullRaft; the fields of its rules are the constants of the TLA+ model."""

    action_types: ClassVar[tuple[type[Action], ...]] = tuple(
        _KINDS.get(kind.__name__, kind) for kind in PullRaft.action_types
    )

    def initial(self) -> Iterable[State]:
        """Nobody has voted. Raises ValueError for constants that fit no state."""
        check_processes("servers", self.servers)
        check_processes("values", self.values)
        unknown = (UNKNOWN,) * self.servers
        server = VotingServer(1, Role.FOLLOWER, NOBODY, (), 0, (), (0,) * self.servers, NOBODY, unknown)
        yield VotingState((server,) * self.servers, (), (None,) * self.values)

    def _of_server(self, number: int, state: State) -> Iterable[PullRaftAction]:
        return map(_own, super()._of_server(number, state))

    def _updating(self, message: Message) -> Iterable[PullRaftAction]:
        return map(_own, super()._updating(message))

    def _handling(self, message: Message) -> Iterable[PullRaftAction]:
        return map(_own, super()._handling(message))


@cache
def _own(action: PullRaftAction) -> PullRaftAction:
    """The action of this variant."""
    return _KINDS.get(action.name, type(action))(*attrs.astuple(action, recurse=False))
