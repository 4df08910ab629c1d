"""The actions of the published KIP-853 model that a server takes by itself: each has a guard and an effect.

A guard returns what is missing, or "" when the action may happen. `messages` has those that take a message in.
"""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.kip853.rules import Kip853Rules, unattached
from tidegauge.spec.published.kip853.state import (
    FIRST,
    BeginQuorumEpochRequest,
    Command,
    Entry,
    Fetching,
    FetchRequest,
    Outcome,
    RequestVoteRequest,
    Role,
    Server,
    State,
    sent,
    was_sent,
)
from tidegauge.spec.published.kraft.state import NOBODY, Message


@attrs.frozen
class Kip853Action(GuardedAction[Kip853Rules, State]):
    """An action of the model: one guard, one effect."""


@attrs.frozen
class OfServer(Kip853Action):
    """A server does something by itself."""

    server: int

    def guard(self, machine: Kip853Rules, state: State) -> str:
        if max(self.named()) >= len(state.servers):
            return "the server has started"
        return self.lacks(machine, state)

    def named(self) -> tuple[int, ...]:
        """The servers that it is about."""
        return (self.server,)

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        """What is missing, where these have started."""
        raise NotImplementedError

    def own(self, state: State) -> Server:
        return state.servers[self.server]

    def is_voter(self, state: State) -> bool:
        return self.server in self.own(state).members

    def others(self, state: State) -> list[int]:
        """All other voters."""
        return [member for member in self.own(state).members if member != self.server]


def sending(state: State, *messages: Message) -> State:
    """The state with these on their way."""
    after = state.messages
    for message in messages:
        after = sent(after, message)
    return evolve(state, messages=after)


@attrs.frozen
class RestartWithState(OfServer):
    """A server restarts: it has its configuration, epoch, leader, vote and log. A leader has resigned."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if state.restarts >= machine.max_restarts:
            return "restarts are left"
        has_voted = self.own(state).voted_for != NOBODY
        is_stuck = self.own(state).role == Role.LEADER and not self.is_voter(state) and has_voted
        return "a leader that is no voter has not voted" if is_stuck else ""

    def restarted(self, machine: Kip853Rules, state: State) -> Server:
        own = self.own(state)
        if own.role != Role.LEADER:
            return own
        return machine.resigned(self.server, own) if self.is_voter(state) else unattached(own, own.epoch)

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        server = evolve(self.restarted(machine, state), hw=0, fetching=Fetching())
        server = server.with_no_ends(tuple(member for member, _ in own.ends))
        return evolve(state.with_server(self.server, server).failing(self.server), restarts=state.restarts + 1)


@attrs.frozen
class StartNewServer(OfServer):
    """An observer starts with nothing on its disk, and asks a leader, whose configuration it has."""

    host: int

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if len(state.servers) >= machine.max_servers:
            return "servers are left"
        return "" if self.own(state).role == Role.LEADER else "the server that it asks leads"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        number = len(state.servers)
        server = Server(self.own(state).config, 0, Role.UNATTACHED, NOBODY, NOBODY, Fetching(), (), (), 0, (), ())
        after = evolve(state, servers=(*state.servers, server), hosts=(*state.hosts, self.host))
        return sending(after, FetchRequest(number, self.server, 0, FIRST, True))


# --- voters ----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Reconfigure(OfServer):
    """A leader is asked to change the voters."""

    asked: int

    def named(self) -> tuple[int, ...]:
        return self.server, self.asked

    def reconfigurable(self, machine: Kip853Rules, state: State) -> str:
        own = self.own(state)
        if own.role != Role.LEADER:
            return "it leads"
        return "" if machine.may_reconfigure(own) else "no change is under way, and it has committed in its epoch"


@attrs.frozen
class AcceptAddVoterRequest(Reconfigure):
    """A leader adds a voter, and tells it that it leads."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if state.added >= machine.max_added:
            return "additions are left"
        if self.asked in self.own(state).members:
            return "that server is no voter"
        if len(self.own(state).members) >= machine.max_voters:
            return "there may be one more voter"
        return self.reconfigurable(machine, state)

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        members = tuple(sorted((*own.members, self.asked)))
        leader = machine.reconfigured(own, Command.ADD_VOTER, self.asked, members)
        after = sending(state, BeginQuorumEpochRequest(self.server, self.asked, own.epoch))
        return evolve(after.with_server(self.server, leader), added=state.added + 1)


@attrs.frozen
class AcceptRemoveVoterRequest(Reconfigure):
    """A leader removes a voter, which may be itself: then it leads on until that is committed."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if state.removed >= machine.max_removed:
            return "removals are left"
        if self.asked not in self.own(state).members:
            return "that server is a voter"
        if len(self.own(state).members) <= machine.min_voters:
            return "there may be one voter less"
        return self.reconfigurable(machine, state)

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        members = tuple(member for member in own.members if member != self.asked)
        leader = machine.reconfigured(own, Command.REMOVE_VOTER, self.asked, members)
        return evolve(state.with_server(self.server, leader), removed=state.removed + 1)


# --- elections -------------------------------------------------------------------------------------------------------


@attrs.frozen
class SendRequestVote(OfServer):
    """A voter that does not lead is a candidate: it votes for itself and asks all others."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if not self.is_voter(state):
            return "it is a voter"
        if self.own(state).role in (Role.LEADER, Role.ILLEGAL):
            return "it does not lead"
        return "" if self.own(state).epoch < machine.max_epoch else "epochs are left"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        server = evolve(
            own,
            role=Role.CANDIDATE,
            epoch=own.epoch + 1,
            leader=NOBODY,
            votes=(self.server,),
            voted_for=self.server,
            fetching=Fetching(),
        )
        asked = [RequestVoteRequest(self.server, other, server.epoch, own.end) for other in self.others(state)]
        return sending(state.with_server(self.server, server), *asked)


@attrs.frozen
class BecomeLeader(OfServer):
    """A candidate with the votes of a majority leads, and tells all others. As published, nobody leads alone."""

    def told(self, state: State) -> list[Message]:
        epoch = self.own(state).epoch
        return [BeginQuorumEpochRequest(self.server, other, epoch) for other in self.others(state)]

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        own = self.own(state)
        if own.role != Role.CANDIDATE:
            return "it is a candidate"
        if not machine.is_elected(own):
            return "a majority has voted for it"
        if len(own.members) == 1:
            return "there is another voter"
        return "none of its messages was sent before" if self.was_told(state) else ""

    def was_told(self, state: State) -> bool:
        return any(was_sent(state.messages, each) for each in self.told(state))

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        server = evolve(machine.elected(self.server, own), fetching=Fetching()).with_no_ends(own.members)
        return sending(state.with_server(self.server, server), *self.told(state))


@attrs.frozen
class CheckQuorumResign(OfServer):
    """A leader resigns, for no majority fetches from it; in the model it may at any time."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        return "" if self.own(state).role == Role.LEADER else "it leads"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        resigned = machine.resigned(self.server, own) if self.is_voter(state) else unattached(own, own.epoch)
        return state.with_server(self.server, resigned)


# --- values and fetches ----------------------------------------------------------------------------------------------


@attrs.frozen
class ClientRequest(OfServer):
    """A leader writes a client's value to its log; each value is sent once."""

    value: int

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        own = self.own(state)
        if own.role != Role.LEADER:
            return "it leads"
        if state.values[self.value] != Outcome.UNSENT:
            return "the value was not sent before"
        written = sum(entry.epoch == own.epoch and entry.command == Command.APPEND for entry in own.log)
        return "" if written < machine.values_per_epoch else "values of this epoch are left"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        log = (*own.log, Entry(own.epoch, Command.APPEND, self.value))
        hw = len(log) if len(own.members) == 1 else own.hw
        server = evolve(own, log=log, hw=hw, unacked=tuple(sorted((*own.unacked, self.value))))
        return state.with_server(self.server, server).with_outcomes((self.value,), Outcome.SENT)


@attrs.frozen
class ObserverFetchTimeout(OfServer):
    """An observer does not know any more who leads; in the model at any time."""

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        return "it is an observer" if self.is_voter(state) else ""

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        return state.with_server(self.server, evolve(unattached(own, own.epoch), fetching=Fetching()))


@attrs.frozen
class SendFetchRequest(OfServer):
    """A follower that waits for no response asks its leader; an observer without one asks a voter that knows it."""

    peer: int

    def named(self) -> tuple[int, ...]:
        return self.server, self.peer

    def lacks(self, machine: Kip853Rules, state: State) -> str:
        if self.server == self.peer:
            return "the peer is another server"
        if self.own(state).fetching.pending is not None:
            return "it waits for no response"
        return self.lacks_peer(machine, state)

    def lacks_peer(self, machine: Kip853Rules, state: State) -> str:
        own, peer = self.own(state), state.servers[self.peer]
        if own.role == Role.FOLLOWER:
            return "" if own.leader == self.peer else "the peer is its leader"
        if self.is_voter(state) or own.role not in (Role.UNATTACHED, Role.VOTED):
            return "it follows, or is an observer without a leader"
        return "" if self.peer in peer.members and peer.leader != NOBODY else "the peer is a voter that knows who leads"

    def effect(self, machine: Kip853Rules, state: State) -> State:
        own = self.own(state)
        request = FetchRequest(self.server, self.peer, own.epoch, own.end, self.says_observer(state))
        server = evolve(own, fetching=evolve(own.fetching, pending=request))
        return sending(state.with_server(self.server, server), request)

    def says_observer(self, state: State) -> bool:
        return not self.is_voter(state)
