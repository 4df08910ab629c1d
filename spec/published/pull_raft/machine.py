"""The published model of Raft in which followers pull from whom they have voted for.

A port of Jack Vanlightly's TLA+ specification (github.com/Vanlightly/raft-tlaplus, `pull-raft/PullRaft`), rule by rule
and under its names (but with Kafka's epochs for terms), so that this explorer can be held against TLC: same states,
same levels, same shortest counterexamples. Its simplifications are therefore kept as they are.

Theory of operation
-------------------
A server raises its epoch, votes for itself and asks all others for their votes. Each votes once in an epoch, for a
candidate whose log is not behind its own, and pulls from that one at once. Who has the votes of a majority leads, and
tells so those that have not voted for it (LeaderNotify).

A pull names the follower's last entry, and waits until its receiver leads and has more. If the leader does not have
that entry, it tells the last one that both have, and the follower truncates its log. Else it gives the next entry, and
knows what the follower has. An entry of its own epoch that a majority has is committed, with all before it.

No message is sent twice: `State.messages` has all that were ever sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.keyed import OfEach
from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.kraft.state import NOBODY, Message, messages_of, to
from tidegauge.spec.published.pull_raft import actions as protocol
from tidegauge.spec.published.pull_raft.actions import PullRaftAction
from tidegauge.spec.published.pull_raft.rules import PullRaftRules
from tidegauge.spec.published.pull_raft.state import (
    LeaderNotifyRequest,
    PullEntriesRequest,
    PullEntriesResponse,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
)


@attrs.frozen
class PullRaft(PullRaftRules):
    """PullRaft; the fields of its rules are the constants of the TLA+ model."""

    action_base = PullRaftAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.Restart,
        protocol.UpdateTerm,
        protocol.RequestVote,
        protocol.HandleRequestVoteRequest,
        protocol.HandleRequestVoteResponse,
        protocol.BecomeLeader,
        protocol.ClientRequest,
        protocol.RejectPullEntriesRequest,
        protocol.AcceptPullEntriesRequest,
        protocol.LearnOfLeader,
        protocol.SendPullEntriesRequest,
        protocol.HandleSuccessPullEntriesResponse,
        protocol.HandleFailPullEntriesResponse,
    )

    def initial(self) -> Iterable[State]:
        """Nobody has voted. Raises ValueError for constants that fit no state."""
        check_processes("servers", self.servers)
        check_processes("values", self.values)
        server = Server(1, Role.FOLLOWER, NOBODY, (), 0, (), (0,) * self.servers)
        yield State((server,) * self.servers, (), (None,) * self.values)

    def candidate_rules(self) -> Sequence[Callable[[State], Iterable[PullRaftAction]]]:
        """Actions whose guards are worth a look: by server, its own, and those of messages to it.

        UpdateTerm looks at all that were ever sent, the others at those on their way.
        """
        found: list[Callable[[State], Iterable[PullRaftAction]]] = []
        for number in range(self.servers):
            found += [
                partial(self._of_server, number),
                OfEach(messages_of, lambda message, count: self._updating(message), to(number)),
                OfEach(messages_of, lambda message, count: self._handling(message) if count else (), to(number)),
            ]
        return found

    def _of_server(self, number: int, state: State) -> Iterable[PullRaftAction]:
        return (
            protocol.Restart(number),
            protocol.RequestVote(number),
            protocol.BecomeLeader(number),
            *[protocol.ClientRequest(number, value) for value in range(self.values)],
            protocol.SendPullEntriesRequest(number),
        )

    def _updating(self, message: Message) -> Iterable[PullRaftAction]:
        return (protocol.UpdateTerm(message),)

    def _handling(self, message: Message) -> Iterable[PullRaftAction]:
        return handling(message)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "LeaderHasAllAckedValues": leader_has_all_acked_values,
            "NoLogDivergence": no_log_divergence,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it."""
        if not self.max_elections:
            return {}
        goals: dict[str, Invariant[State]] = {"a server leads": lambda s: any(map(leads, s.servers))}
        if self.servers > 1:
            goals["a server has pulled a value"] = lambda s: sum(bool(server.log) for server in s.servers) > 1
        if self.servers > 1 and self.values > 1:
            goals["a value is acknowledged"] = lambda s: True in s.acked
        return goals

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """Who leads in which epoch, and the logs."""
        return {
            "leaders": [(server.leader, server.epoch) for server in state.servers],
            "logs": [server.log for server in state.servers],
            "commit indexes": [server.commit_index for server in state.servers],
            "acknowledged": [value for value, acked in enumerate(state.acked) if acked],
        }

    @property
    def interchangeable(self) -> int:
        return self.servers

    def permute(self, state: State, permutation: tuple[int, ...]) -> State:
        return state.renamed(permutation)


@cache
def handling(message: Message) -> Sequence[PullRaftAction]:
    """What may become of a message, besides that its epoch is learned."""
    match message:
        case RequestVoteRequest():
            return [protocol.HandleRequestVoteRequest(message)]
        case RequestVoteResponse():
            return [protocol.HandleRequestVoteResponse(message)]
        case LeaderNotifyRequest():
            return [protocol.LearnOfLeader(message)]
        case PullEntriesRequest():
            return [protocol.RejectPullEntriesRequest(message), protocol.AcceptPullEntriesRequest(message)]
        case PullEntriesResponse():
            return [
                protocol.HandleSuccessPullEntriesResponse(message),
                protocol.HandleFailPullEntriesResponse(message),
            ]
    return []


def leads(server: Server) -> bool:
    return server.role == Role.LEADER


def leader_has_all_acked_values(state: State) -> bool:
    """The leader of the latest epoch has every value that was acknowledged."""
    latest = max(server.epoch for server in state.servers)
    acked = {value for value, acked in enumerate(state.acked) if acked}
    return all(
        acked <= {entry.value for entry in server.log}
        for server in state.servers
        if leads(server) and server.epoch == latest
    )


def no_log_divergence(state: State) -> bool:
    """Two logs are the same as far as both servers have them committed."""
    return all(
        one.log[: min(one.commit_index, other.commit_index)] == other.log[: min(one.commit_index, other.commit_index)]
        for one, other in combinations(state.servers, 2)
    )
