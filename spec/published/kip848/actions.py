"""The actions of the published KIP-848 models (see `spec.published.kip848.machine`): each has a guard and an effect.

A guard returns what is missing, or "" when the action may happen. Where the versions differ, the action asks the
machine.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.published.kip848.rules import Kip848Rules, became, may_become
from tidegauge.spec.published.kip848.state import (
    LEAVING_EPOCH,
    UNSAID,
    Client,
    ClientStatus,
    Error,
    HeartbeatRequest,
    HeartbeatResponse,
    Partitions,
    State,
    Topics,
)

AWAY = (ClientStatus.UNSUBSCRIBED, ClientStatus.PREPARE_LEAVING, ClientStatus.LEAVING)


@attrs.frozen
class Kip848Action(GuardedAction[Kip848Rules, State]):
    """An action of the models: one guard, one effect."""


# --- clients -------------------------------------------------------------------------------------------------------


@attrs.frozen
class SendHeartbeatRequest(Kip848Action):
    """A client without a heartbeat on its way sends one, as long as the group has not converged."""

    client: int
    subscribed: Topics

    def guard(self, machine: Kip848Rules, state: State) -> str:
        if state.clients[self.client].has_inflight:
            return "no heartbeat is on its way"
        if machine.has_converged(state):
            return "the group has not converged"
        allowed = machine.subscriptions(state, self.client)
        return "" if self.subscribed in allowed else "the client may subscribe so"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        client = state.clients[self.client]
        connection = client.connection or state.last_connection + 1
        tells = machine.tells_partitions(client)
        request = HeartbeatRequest(
            source=self.client,
            connection=connection,
            member=client.member,
            member_epoch=client.member_epoch,
            subscribed=self.subscribed,
            partitions=client.assignment if tells else UNSAID,
        )
        after = evolve(
            client,
            status=self._status(machine, client),
            subscribed=self.subscribed,
            last_sent=client.assignment if tells else client.last_sent,
            connection=connection,
            has_inflight=True,
        )
        if after.status == ClientStatus.UNSUBSCRIBED:
            after = evolve(after, member=0, member_epoch=0)
        return evolve(
            state.with_client(self.client, after),
            network=machine.sent(state.network, request),
            last_connection=max(state.last_connection, connection),
            perturbations=state.perturbations + machine.is_perturbed(client, self.subscribed),
        )

    def _status(self, machine: Kip848Rules, client: Client) -> ClientStatus:
        """The client's status once it has sent."""
        if client.status == ClientStatus.UNSUBSCRIBED:
            return ClientStatus.JOINING
        if client.status == ClientStatus.ACKNOWLEDGING:
            return ClientStatus.STABLE if machine.is_reconciled(client) else ClientStatus.RECONCILING
        return ClientStatus.UNSUBSCRIBED if client.status == ClientStatus.LEAVING else client.status


@attrs.frozen
class Receive(Kip848Action):
    """A response arrives at its client, over the connection that the request went by."""

    response: HeartbeatResponse

    failed: ClassVar[bool]

    def guard(self, machine: Kip848Rules, state: State) -> str:
        if not dict(state.network.responses).get(self.response):
            return "the response is on its way"
        if state.clients[self.response.dest].connection != self.response.connection:
            return "the connection stands"
        if (self.response.error != Error.NONE) != self.failed:
            return "the response has an error" if self.failed else "the response has no error"
        return ""

    def effect(self, machine: Kip848Rules, state: State) -> State:
        client = self.received(machine, state.clients[self.response.dest])
        after = state.with_client(self.response.dest, client)
        return evolve(after, network=machine.received(state.network, self.response))

    def received(self, machine: Kip848Rules, client: Client) -> Client:
        """The client once it has the response."""
        raise NotImplementedError


@attrs.frozen
class ReceiveErrorResponse(Receive):
    """The client was fenced, or is not known: it owns nothing from now on, and joins again unless it was to leave."""

    failed = True

    def received(self, machine: Kip848Rules, client: Client) -> Client:
        if client.status == ClientStatus.UNSUBSCRIBED:
            return evolve(client, has_inflight=False)
        leaves = client.status in (ClientStatus.PREPARE_LEAVING, ClientStatus.LEAVING)
        following = ClientStatus.UNSUBSCRIBED if leaves else ClientStatus.JOINING
        return became(machine.fenced(client), following)


@attrs.frozen
class ReceiveSuccessResponse(Receive):
    """The client takes its epoch from the response, and begins to reconcile what it is assigned."""

    failed = False

    def received(self, machine: Kip848Rules, client: Client) -> Client:
        response = self.response
        if client.status in AWAY:
            return evolve(client, has_inflight=False)
        member = evolve(client, member=response.member, member_epoch=response.member_epoch, has_inflight=False)
        if response.assignment == UNSAID:
            return machine.assignment_unsaid(client, member)
        if not may_become(client.status, ClientStatus.RECONCILING):
            return member
        if response.assignment != client.assignment:
            return machine.reconciling(evolve(member, assigned=response.assignment))
        if client.status in (ClientStatus.JOINING, ClientStatus.RECONCILING):
            return became(member, ClientStatus.STABLE)
        return member


@attrs.frozen
class CompleteReconciliation(Kip848Action):
    """A client has given back and taken up what it was to; that counts only in the epoch in which it began."""

    client: int

    def guard(self, machine: Kip848Rules, state: State) -> str:
        return "" if state.clients[self.client].reconciliation else "the client reconciles"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        client = state.clients[self.client]
        ended = client.reconciliation
        assert ended is not None
        after = evolve(client, reconciliation=None)
        if client.status == ClientStatus.RECONCILING and ended.epoch == client.member_epoch:
            after = machine.reconciled(became(after, ClientStatus.ACKNOWLEDGING), ended)
        return state.with_client(self.client, after)


@attrs.frozen
class StartLeaveGroup(Kip848Action):
    """A member is to leave: it gives its partitions back first."""

    client: int

    fair = False

    def guard(self, machine: Kip848Rules, state: State) -> str:
        client = state.clients[self.client]
        if not machine.may_perturb(state):
            return "a perturbation is left"
        return "" if client.member_epoch > 0 and client.status not in AWAY else "the client is a member"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        client = state.clients[self.client]
        leaving = evolve(became(client, ClientStatus.PREPARE_LEAVING), leaving_with=client.assignment)
        return evolve(state.with_client(self.client, leaving), perturbations=state.perturbations + 1)


@attrs.frozen
class CompleteLeaveGroup(Kip848Action):
    """It has given them back: its next heartbeat leaves, unless it was fenced meanwhile."""

    client: int

    def guard(self, machine: Kip848Rules, state: State) -> str:
        return "" if state.clients[self.client].leaving_with is not None else "the client is to leave"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        client = evolve(state.clients[self.client], leaving_with=None)
        if client.status == ClientStatus.PREPARE_LEAVING:
            client = evolve(
                became(client, ClientStatus.LEAVING),
                member_epoch=LEAVING_EPOCH,
                subscribed=(),
                assignment=(),
                assigned=(),
                last_sent=UNSAID,
            )
        return state.with_client(self.client, client)


@attrs.frozen
class ClientCrash(Kip848Action):
    """A client dies, and starts anew, as somebody else."""

    client: int

    fair = False

    def guard(self, machine: Kip848Rules, state: State) -> str:
        if not machine.may_perturb(state):
            return "a perturbation is left"
        return "" if state.clients[self.client].member_epoch > 0 else "the client is a member"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        after = state.with_client(self.client, Client(machine.all_topics))
        return evolve(after, perturbations=state.perturbations + 1)


# --- the coordinator -------------------------------------------------------------------------------------------------


@attrs.frozen
class Handle(Kip848Action):
    """A request arrives at the coordinator."""

    request: HeartbeatRequest

    def guard(self, machine: Kip848Rules, state: State) -> str:
        if not dict(state.network.requests).get(self.request):
            return "the request is on its way"
        return self.missing(machine, state)

    def missing(self, machine: Kip848Rules, state: State) -> str:
        """What the request is not."""
        raise NotImplementedError

    def response(self, error: Error, member: int, member_epoch: int, assignment: Partitions) -> HeartbeatResponse:
        return HeartbeatResponse(self.request.source, self.request.connection, error, member, member_epoch, assignment)


@attrs.frozen
class ReceiveRegularHeartbeatRequest(Handle):
    """A heartbeat that joins or goes on; the first after a change chooses the target that the group is to get to."""

    target: tuple[tuple[int, Partitions], ...] = ()
    """The new target; nothing where there is none to choose."""

    def missing(self, machine: Kip848Rules, state: State) -> str:
        group, request = state.group, self.request
        if machine.is_unknown(group, request) or machine.is_fenced(group, request):
            return "the member is known in this epoch, or joins"
        if machine.is_leaving(group, request):
            return "the member does not leave"
        return "" if self.target in targets(machine, state, request) else "the target is one to choose"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        group, request = state.group, self.request
        number, before = request.member or state.last_member + 1, group.member(request.member)
        described = machine.described(group, request)
        epoch = epoch_after(machine, state, request)
        target = self.target or group.target
        group = evolve(group, epoch=epoch, target=target, target_epoch=epoch if self.target else group.target_epoch)
        member = machine.advanced(group, described, request, group.target_of(number))
        members = group.members_with(number, member)
        told = member.assigned if machine.tells_assignment(request, described, member) else UNSAID
        return evolve(
            state,
            group=evolve(
                group,
                members=members,
                status=machine.status_of(members, epoch, epoch),
                partition_epochs=machine.partition_epochs(group, before, member),
            ),
            network=machine.responded(state, request, self.response(Error.NONE, number, member.member_epoch, told)),
            last_member=max(state.last_member, number),
        )


def epoch_after(machine: Kip848Rules, state: State, request: HeartbeatRequest) -> int:
    """The group's epoch after this request: one more for a new member, and for another subscription."""
    known = state.group.member(request.member)
    return state.group.epoch + (known is None or known.subscribed != request.subscribed)


def targets(machine: Kip848Rules, state: State, request: HeartbeatRequest) -> list[tuple[tuple[int, Partitions], ...]]:
    """The targets that may be chosen as the request comes; nothing is all that may be where the last one stands."""
    group = state.group
    if epoch_after(machine, state, request) <= group.target_epoch:
        return [()]
    number = request.member or state.last_member + 1
    return list(machine.targets(group, number, machine.described(group, request)))


@attrs.frozen
class ReceiveLeaveHeartbeatRequest(Handle):
    """A member leaves."""

    def missing(self, machine: Kip848Rules, state: State) -> str:
        return "" if machine.is_leaving(state.group, self.request) else "a member leaves"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        response = self.response(Error.NONE, self.request.member, LEAVING_EPOCH, UNSAID)
        return evolve(
            state,
            group=machine.without_member(state.group, self.request.member),
            network=machine.responded(state, self.request, response),
        )


@attrs.frozen
class ReceiveBadHeartbeatRequest(Handle):
    """A heartbeat of nobody that the coordinator knows; or of a member in another epoch, which is fenced."""

    def missing(self, machine: Kip848Rules, state: State) -> str:
        group, request = state.group, self.request
        bad = machine.is_unknown(group, request) or machine.is_fenced(group, request)
        return "" if bad else "the member is not known, or in another epoch"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        group, error = state.group, Error.UNKNOWN_MEMBER_ID
        if machine.is_fenced(group, self.request):
            group, error = machine.without_member(group, self.request.member), Error.FENCED_MEMBER_EPOCH
        response = self.response(error, 0, 0, UNSAID)
        return evolve(state, group=group, network=machine.responded(state, self.request, response))


@attrs.frozen
class DeadMemberExpired(Kip848Action):
    """A member's session ends whose client is another member by now."""

    member: int

    def guard(self, machine: Kip848Rules, state: State) -> str:
        member = state.group.member(self.member)
        if member is None:
            return "the member is known"
        client = state.clients[member.host]
        if client.member in (self.member, 0) or client.status == ClientStatus.JOINING:
            return "its client is another member"
        return ""

    def effect(self, machine: Kip848Rules, state: State) -> State:
        return evolve(state, group=machine.without_member(state.group, self.member))


@attrs.frozen
class LiveMemberExpired(Kip848Action):
    """The coordinator takes a member for dead."""

    member: int

    fair = False

    def guard(self, machine: Kip848Rules, state: State) -> str:
        if not machine.may_perturb(state):
            return "a perturbation is left"
        return "" if state.group.member(self.member) is not None else "the member is known"

    def effect(self, machine: Kip848Rules, state: State) -> State:
        group = machine.without_member(state.group, self.member)
        return evolve(state, group=group, perturbations=state.perturbations + 1)
