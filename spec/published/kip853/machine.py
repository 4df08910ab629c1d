"""The published model of KIP-853: KRaft whose voters change, one at a time.

A port of Jack Vanlightly's TLA+ specification (github.com/Vanlightly/kafka-tlaplus, `kraft/kip_853`), rule by rule and
under its names, so that this explorer can be held against TLC: same states, same levels, same shortest
counterexamples. Its simplifications are therefore kept as they are. A network that loses connections, servers that
lose their disks, and what only its properties of liveness need are not ported.

Theory of operation
-------------------
Voters are a configuration, which is an entry of the log: a server goes by the last one that it has, committed or not,
and by a former one when its log is truncated. A new server starts as an observer, which fetches and does not vote. A
leader that has committed in its epoch, and has no other change under way, adds or removes one voter. Any two
majorities of neighbouring configurations have a voter in common, so no two leaders are elected apart.

A leader that is removed leads on, and is no part of the majorities that it counts; once it has committed its removal,
it knows no leader. A leader from which no majority fetches resigns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.keyed import OfEach
from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.kip853 import actions as protocol
from tidegauge.spec.published.kip853 import messages
from tidegauge.spec.published.kip853.actions import Kip853Action
from tidegauge.spec.published.kip853.messages import Handle
from tidegauge.spec.published.kip853.rules import Kip853Rules
from tidegauge.spec.published.kip853.state import (
    Command,
    Config,
    Entry,
    Fetching,
    Outcome,
    Role,
    Server,
    State,
    Whereabouts,
    messages_of,
)
from tidegauge.spec.published.kraft.state import NOBODY, Message, to


@attrs.frozen
class Kip853(Kip853Rules):
    """KRaft with KIP-853; the fields of its rules are the constants of the TLA+ model."""

    action_base = Kip853Action
    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.RestartWithState,
        protocol.StartNewServer,
        protocol.AcceptAddVoterRequest,
        protocol.AcceptRemoveVoterRequest,
        protocol.SendRequestVote,
        messages.HandleVoteRequest,
        messages.HandleVoteResponse,
        protocol.BecomeLeader,
        messages.AcceptBeginQuorumRequest,
        protocol.CheckQuorumResign,
        protocol.ClientRequest,
        protocol.ObserverFetchTimeout,
        protocol.SendFetchRequest,
        messages.RejectFetchRequest,
        messages.DivergingFetchRequest,
        messages.AcceptFetchRequestFromVoter,
        messages.AcceptFetchRequestFromObserver,
        messages.HandleFetchResponse,
    )

    def initial(self) -> Iterable[State]:
        """The first server leads, and all follow it. Raises ValueError for constants that fit no state."""
        check_processes("servers", self.servers)
        check_processes("hosts", self.hosts)
        check_processes("values", self.values)
        numbers = tuple(range(self.servers))
        servers = tuple(self._begun(number) for number in numbers)
        yield State(servers, numbers, (), (Outcome.UNSENT,) * self.values)

    def _begun(self, number: int) -> Server:
        """A server of the first configuration, whose log has that alone."""
        members = tuple(range(self.servers))
        config, entry = Config(1, members, True), Entry(1, Command.INIT_CLUSTER, config=1, members=members)
        role = Role.FOLLOWER if number else Role.LEADER
        ends = tuple((member, 1) for member in members)
        return Server(config, 1, role, NOBODY, 0, Fetching(), (), (entry,), 1, (), ends)

    def candidate_rules(self) -> Sequence[Callable[[State], Iterable[Kip853Action]]]:
        """Actions whose guards are worth a look: by server that has started, its own, and those of messages on their
        way to it."""

        def own(number: int) -> Callable[[State], Iterable[Kip853Action]]:
            of_servers = [self._of_server(number, count) for count in range(self.max_servers + 1)]
            return lambda state: of_servers[len(state.servers)]

        found: list[Callable[[State], Iterable[Kip853Action]]] = []
        for number in range(self.max_servers):
            found += [own(number), OfEach(messages_of, self._of_message, to(number))]
        return found

    def _of_server(self, number: int, count: int) -> Sequence[Kip853Action]:
        """What a server may do by itself, of so many that have started."""
        found: list[Kip853Action] = []
        for kind in self.action_types if number < count else ():
            if issubclass(kind, protocol.StartNewServer):
                found += [kind(number, host) for host in range(self.hosts)]
            elif issubclass(kind, protocol.ClientRequest):
                found += [kind(number, value) for value in range(self.values)]
            elif issubclass(kind, (protocol.Reconfigure, protocol.SendFetchRequest)):
                found += [kind(number, other) for other in range(count)]
            elif issubclass(kind, protocol.OfServer):
                found.append(kind(number))
        return found

    def _of_message(self, message: Message, at: Whereabouts) -> Sequence[Kip853Action]:
        return handling(self.action_types, message) if at.under_way else ()

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "LeaderHasAllAckedValues": leader_has_all_acked_values,
            "AckedValueNotLost": acked_value_not_lost,
            "NoLogDivergence": no_log_divergence,
            "NeverTwoLeadersInSameEpoch": never_two_leaders_in_same_epoch,
            "NoIllegalState": no_illegal_state,
            "StatesMatchRoles": states_match_roles,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it."""
        goals: dict[str, Invariant[State]] = {}
        if self.servers > 1 and self.values_per_epoch:
            goals["a value is acknowledged"] = lambda s: Outcome.ACKED in s.values
        if self._may_elect():
            goals["a server leads in a later epoch"] = lambda s: any(leads(one) and one.epoch > 1 for one in s.servers)
        if self.max_added and self.max_servers > self.servers:
            goals["a voter is added"] = lambda s: has_committed(s, Command.ADD_VOTER)
        if self.max_removed and self.servers > self.min_voters:
            goals["a voter is removed"] = lambda s: has_committed(s, Command.REMOVE_VOTER)
        return goals

    def _may_elect(self) -> bool:
        return self.servers > 1 and self.max_epoch > 1

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """Who leads in which epoch, the voters, and the logs."""
        return {
            "leaders": [(server.leader, server.epoch) for server in state.servers],
            "voters": [server.members for server in state.servers],
            "logs": [server.log for server in state.servers],
            "high watermarks": [server.hw for server in state.servers],
            "values": state.values,
        }


@cache
def handling(kinds: tuple[type[Action], ...], message: Message) -> Sequence[Kip853Action]:
    """What may become of a message, by actions of these classes."""
    takers = [kind for kind in kinds if issubclass(kind, Handle)]
    return [kind(message) for kind in takers if isinstance(message, kind.takes)]


def leads(server: Server) -> bool:
    return server.role == Role.LEADER


def has_committed(state: State, command: Command) -> bool:
    """A server has such an entry, and knows that it is committed."""
    return any(entry.command == command for server in state.servers for entry in server.log[: server.hw])


def has_values(server: Server, values: set[int]) -> bool:
    return values <= {entry.value for entry in server.log}


def acked(state: State) -> set[int]:
    return {value for value, outcome in enumerate(state.values) if outcome == Outcome.ACKED}


def leader_has_all_acked_values(state: State) -> bool:
    """The leader of the latest epoch has every value that was acknowledged."""
    latest = max(server.epoch for server in state.servers)
    return all(has_values(server, acked(state)) for server in state.servers if leads(server) and server.epoch == latest)


def acked_value_not_lost(state: State) -> bool:
    """A voter has each value that was acknowledged."""
    voters = [server for number, server in enumerate(state.servers) if number in server.members]
    return all(any(has_values(voter, {value}) for voter in voters) for value in acked(state))


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


def states_match_roles(state: State) -> bool:
    """An observer is no candidate and has not resigned; who is unattached knows no leader."""
    observers = (Role.LEADER, Role.FOLLOWER, Role.UNATTACHED, Role.VOTED)
    return all(
        (number in server.members or server.role in observers)
        and (server.role != Role.UNATTACHED or server.leader == NOBODY)
        for number, server in enumerate(state.servers)
    )
