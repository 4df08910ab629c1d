"""The published model of KRaft: Raft in which followers fetch, and in which transitions may be illegal.

A port of Jack Vanlightly's TLA+ specification (github.com/Vanlightly/raft-tlaplus, `pull-raft/KRaft`), rule by rule and
under its names, so that this explorer can be held against TLC: same states, same levels, same shortest
counterexamples. Its simplifications are therefore kept as they are.

Theory of operation
-------------------
A server that knows no leader raises its epoch, votes for itself and asks all others for their votes. Each votes once
in an epoch, for a candidate whose log is not behind its own. Who has the votes of a majority leads, and tells so
(BeginQuorum); a server may also learn it from the response to anything that it sends.

A follower has one fetch on its way, which names its last entry. If the leader does not have that entry, it tells where
the logs diverge, and the follower truncates its log. Else it gives the next entry, and knows what the follower has. An
entry of its own epoch that a majority has is committed, with all before it.

No message is sent twice that would repeat an election or an empty fetch: `State.messages` has all that were ever sent.
As published, a restart may lead to an illegal state: a leader that has restarted follows nobody in the epoch in which
the others follow it. TLC finds that too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.keyed import OfEach
from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.kraft import actions as protocol
from tidegauge.spec.published.kraft.actions import KraftAction
from tidegauge.spec.published.kraft.rules import KraftRules
from tidegauge.spec.published.kraft.state import (
    NOBODY,
    BeginQuorumRequest,
    FetchRequest,
    FetchResponse,
    Message,
    RequestVoteRequest,
    RequestVoteResponse,
    Role,
    Server,
    State,
    messages_of,
    to,
)


@attrs.frozen
class Kraft(KraftRules):
    """KRaft; the fields of its rules are the constants of the TLA+ model."""

    action_base = KraftAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.Restart,
        protocol.RequestVote,
        protocol.HandleRequestVoteRequest,
        protocol.HandleRequestVoteResponse,
        protocol.BecomeLeader,
        protocol.ClientRequest,
        protocol.RejectFetchRequest,
        protocol.DivergingFetchRequest,
        protocol.AcceptFetchRequest,
        protocol.HandleBeginQuorumRequest,
        protocol.SendFetchRequest,
        protocol.HandleSuccessFetchResponse,
        protocol.HandleDivergingFetchResponse,
        protocol.HandleErrorFetchResponse,
    )

    def initial(self) -> Iterable[State]:
        """Nobody has voted. Raises ValueError for constants that fit no state."""
        check_processes("servers", self.servers)
        check_processes("values", self.values)
        server = Server(1, Role.UNATTACHED, NOBODY, NOBODY, None, (), 0, (), (0,) * self.servers)
        yield State((server,) * self.servers, (), (None,) * self.values)

    def candidate_rules(self) -> Sequence[Callable[[State], Iterable[KraftAction]]]:
        """Actions whose guards are worth a look: by server, its own, and those of messages on their way to it."""
        found: list[Callable[[State], Iterable[KraftAction]]] = []
        for number in range(self.servers):
            found += [partial(self._of_server, number), OfEach(messages_of, self._of_message, to(number))]
        return found

    def _of_server(self, number: int, state: State) -> Iterable[KraftAction]:
        return (
            protocol.Restart(number),
            protocol.RequestVote(number),
            protocol.BecomeLeader(number),
            *[protocol.ClientRequest(number, value) for value in range(self.values)],
            protocol.SendFetchRequest(number),
        )

    def _of_message(self, message: Message, count: int) -> Iterable[KraftAction]:
        return handling(message) if count else ()

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "LeaderHasAllAckedValues": leader_has_all_acked_values,
            "NoLogDivergence": no_log_divergence,
            "NeverTwoLeadersInSameEpoch": never_two_leaders_in_same_epoch,
            **({} if self.max_restarts else {"NoIllegalState": no_illegal_state}),
            "CommittedEntriesReachMajority": self.committed_entries_reach_majority,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it."""
        if not self.max_elections:
            return {}
        goals: dict[str, Invariant[State]] = {"a server leads": lambda s: any(map(leads, s.servers))}
        if self.servers > 1:
            goals["a value is acknowledged"] = lambda s: True in s.acked
        if self.max_elections > 1 and self.servers > 1:
            goals["two servers lead, in two epochs"] = lambda s: sum(map(leads, s.servers)) > 1
        return goals

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        """What the model calls ValuesNotStuck."""
        return {"each value is in every log or in none": self.is_settled}

    def is_settled(self, state: State) -> bool:
        """The last election may have failed: then nobody is left to settle it."""
        if state.elections == self.max_elections and not any(map(leads, state.servers)):
            return True
        having = ({entry.value for entry in server.log} for server in state.servers)
        return len({frozenset(values) for values in having}) == 1

    def committed_entries_reach_majority(self, state: State) -> bool:
        """If leaders have committed, then for one of them a majority has its last committed entry."""
        leaders = [server for server in state.servers if leads(server) and server.hw]
        return not leaders or any(
            2 * sum(has_committed(one, own) for one in state.servers) > self.servers for own in leaders
        )

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """Who leads in which epoch, and the logs."""
        return {
            "leaders": [(server.leader, server.epoch) for server in state.servers],
            "logs": [server.log for server in state.servers],
            "high watermarks": [server.hw for server in state.servers],
            "acknowledged": [value for value, acked in enumerate(state.acked) if acked],
        }

    @property
    def interchangeable(self) -> int:
        return self.servers

    def permute(self, state: State, permutation: tuple[int, ...]) -> State:
        return state.renamed(permutation)


@cache
def handling(message: Message) -> Sequence[KraftAction]:
    """What may become of a message."""
    match message:
        case RequestVoteRequest():
            return [protocol.HandleRequestVoteRequest(message)]
        case RequestVoteResponse():
            return [protocol.HandleRequestVoteResponse(message)]
        case BeginQuorumRequest():
            return [protocol.HandleBeginQuorumRequest(message)]
        case FetchRequest():
            fetched = (protocol.RejectFetchRequest, protocol.DivergingFetchRequest, protocol.AcceptFetchRequest)
            return [kind(message) for kind in fetched]
        case FetchResponse():
            return [
                protocol.HandleSuccessFetchResponse(message),
                protocol.HandleDivergingFetchResponse(message),
                protocol.HandleErrorFetchResponse(message),
            ]
    return []


def has_committed(server: Server, leader: Server) -> bool:
    """The server has the leader's last committed entry."""
    return server.log[leader.hw - 1 : leader.hw] == leader.log[leader.hw - 1 : leader.hw] != ()


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
        one.log[: min(one.hw, other.hw)] == other.log[: min(one.hw, other.hw)]
        for one, other in combinations(state.servers, 2)
    )


def never_two_leaders_in_same_epoch(state: State) -> bool:
    """No two servers take two others for the leader of one epoch."""
    return not any(
        NOBODY not in (one.leader, other.leader) and one.leader != other.leader and one.epoch == other.epoch
        for one, other in combinations(state.servers, 2)
    )


def no_illegal_state(state: State) -> bool:
    """No server has gone where the protocol does not go."""
    return not any(server.role == Role.ILLEGAL for server in state.servers)
