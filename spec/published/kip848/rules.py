"""The rules of the published KIP-848 models, and their constants.

`Kip848Rules` are version 2's, the protocol as it was built; `FirstRules` are version 1's where that differs. Both are
ports of Jack Vanlightly's TLA+ (github.com/Vanlightly/kafka-tlaplus, `groupprotocol`), rule by rule, so that this
explorer can be held against TLC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, combinations, product
from typing import Final, TypeVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedMachine
from tidegauge.spec.published.kip848.state import (
    LEAVING_EPOCH,
    UNSAID,
    Client,
    ClientStatus,
    Group,
    GroupStatus,
    HeartbeatRequest,
    HeartbeatResponse,
    Member,
    Members,
    MemberStatus,
    Network,
    Partition,
    Partitions,
    Reconciliation,
    State,
    Topics,
    shared,
    united,
    without,
)

M = TypeVar("M", bound=HeartbeatRequest | HeartbeatResponse)
Counted = tuple[tuple[M, int], ...]
"""Messages, each with how often it is on its way."""

REACHED_FROM: Final[Mapping[ClientStatus, frozenset[ClientStatus]]] = {
    ClientStatus.STABLE: frozenset({ClientStatus.JOINING, ClientStatus.ACKNOWLEDGING, ClientStatus.RECONCILING}),
    ClientStatus.RECONCILING: frozenset({ClientStatus.STABLE, ClientStatus.JOINING, ClientStatus.ACKNOWLEDGING}),
    ClientStatus.ACKNOWLEDGING: frozenset({ClientStatus.RECONCILING}),
    ClientStatus.FENCED: frozenset(ClientStatus) - {ClientStatus.UNSUBSCRIBED},
    ClientStatus.JOINING: frozenset({ClientStatus.FENCED, ClientStatus.UNSUBSCRIBED}),
    ClientStatus.PREPARE_LEAVING: frozenset(ClientStatus) - {ClientStatus.LEAVING},
    ClientStatus.LEAVING: frozenset({ClientStatus.PREPARE_LEAVING}),
    ClientStatus.UNSUBSCRIBED: frozenset({ClientStatus.FENCED, ClientStatus.LEAVING}),
}
"""From where each status of a client may be reached, beside itself."""


def may_become(status: ClientStatus, following: ClientStatus) -> bool:
    return status == following or status in REACHED_FROM[following]


def became(client: Client, following: ClientStatus) -> Client:
    """The client in another status. Raises AssertionError for a transition that the protocol does not have."""
    assert may_become(client.status, following), f"{client.status.name} → {following.name}"
    return evolve(client, status=following)


@attrs.frozen
class Kip848Rules(GuardedMachine[State]):
    """What clients and coordinator decide; the fields are the constants of the TLA+ models."""

    clients: int = 2
    topics: int = 1
    partitions_per_topic: int = 1
    max_perturbations: int = 0
    """How often, in all, a client leaves, crashes, is taken for dead though it lives, or subscribes anew."""

    @cached_property
    def all_topics(self) -> Topics:
        return tuple(range(1, self.topics + 1))

    @cached_property
    def partitions(self) -> Partitions:
        return tuple(product(self.all_topics, range(1, self.partitions_per_topic + 1)))

    def may_perturb(self, state: State) -> bool:
        return state.perturbations < self.max_perturbations

    def has_converged(self, state: State) -> bool:
        """All clients are stable members in the group's epoch, and there is no other member."""
        group = state.group
        return (
            group.status == GroupStatus.STABLE
            and all(
                client.status == ClientStatus.STABLE
                and client.member_epoch == group.epoch
                and group.member(client.member) is not None
                for client in state.clients
            )
            and all(
                member.status == MemberStatus.STABLE and member.member_epoch == group.epoch
                for _, member in group.members
            )
        )

    # --- the network -------------------------------------------------------------------------------------------------

    def put(self, messages: Counted[M], message: M) -> Counted[M]:
        """The messages with one more; what is on its way twice comes once."""
        return tuple(sorted({**dict(messages), message: 1}.items()))

    def taken(self, messages: Counted[M], message: M) -> Counted[M]:
        """The messages without one that has arrived."""
        return tuple(each for each in messages if each[0] != message)

    def noted(self, message: HeartbeatRequest | HeartbeatResponse) -> tuple[HeartbeatRequest | HeartbeatResponse, ...]:
        """What the network remembers of a message that has arrived."""
        return (message,)

    def sent(self, network: Network, request: HeartbeatRequest) -> Network:
        return Network(self.put(network.requests, request), network.responses)

    def received(self, network: Network, response: HeartbeatResponse) -> Network:
        return Network(network.requests, self.taken(network.responses, response), self.noted(response))

    def responded(self, state: State, request: HeartbeatRequest, response: HeartbeatResponse) -> Network:
        """The request has arrived, and the response is on its way if the connection still stands."""
        requests, responses = self.taken(state.network.requests, request), state.network.responses
        if request.connection == state.clients[response.dest].connection:
            responses = self.put(responses, response)
        return Network(requests, responses, self.noted(request))

    # --- clients -----------------------------------------------------------------------------------------------------

    def subscriptions(self, state: State, client: int) -> Iterable[Topics]:
        """What the client's next heartbeat may subscribe to."""
        if not self.may_perturb(state):
            return (state.clients[client].subscribed,)
        counts = range(1, self.topics + 1)
        return chain.from_iterable(combinations(self.all_topics, count) for count in counts)

    def is_perturbed(self, client: Client, subscribed: Topics) -> bool:
        """Whether it perturbs the group that the client subscribes so."""
        return subscribed != client.subscribed

    def tells_partitions(self, client: Client) -> bool:
        """Whether a heartbeat says what the client owns."""
        return client.last_sent != client.assignment or client.assignment != client.assigned

    def is_reconciled(self, client: Client) -> bool:
        """Whether it has all that it was assigned, and no more."""
        return client.assigned == client.assignment

    def reconciled(self, client: Client, reconciliation: Reconciliation) -> Client:
        """The client owns what the reconciliation was for."""
        return evolve(client, assignment=reconciliation.assignment)

    def assignment_unsaid(self, before: Client, client: Client) -> Client:
        """After a response without an assignment. A client that reconciles, and has not begun to, begins."""
        if self.is_reconciled(client):
            return became(client, ClientStatus.STABLE)
        if before.status == ClientStatus.RECONCILING and before.reconciliation is None:
            return self.reconciling(client)
        return client

    def reconciling(self, client: Client) -> Client:
        """It begins to reconcile, unless it is at it."""
        if client.reconciliation is not None:
            return client
        begun = Reconciliation(client.member_epoch, client.assigned)
        return evolve(became(client, ClientStatus.RECONCILING), reconciliation=begun)

    def fenced(self, client: Client) -> Client:
        """The client whose heartbeat was refused: it owns nothing, and is nobody."""
        return evolve(
            became(client, ClientStatus.FENCED),
            member=0,
            member_epoch=0,
            has_inflight=False,
            assignment=(),
            assigned=(),
            last_sent=UNSAID,
        )

    # --- the coordinator ---------------------------------------------------------------------------------------------

    def is_unknown(self, group: Group, request: HeartbeatRequest) -> bool:
        return request.member != 0 and group.member(request.member) is None

    def is_leaving(self, group: Group, request: HeartbeatRequest) -> bool:
        return group.member(request.member) is not None and request.member_epoch == LEAVING_EPOCH

    def is_fenced(self, group: Group, request: HeartbeatRequest) -> bool:
        """Whether it comes with another epoch than the member's."""
        member = group.member(request.member)
        return member is not None and request.member_epoch not in (LEAVING_EPOCH, member.member_epoch)

    def described(self, group: Group, request: HeartbeatRequest) -> Member:
        """The member as its heartbeat describes it, or a new one."""
        member = group.member(request.member)
        if member is None:
            return Member(request.source, request.subscribed)
        reported = member.reported if request.partitions == UNSAID else request.partitions
        return evolve(member, subscribed=request.subscribed, reported=reported)

    def targets(self, group: Group, member: int, one: Member) -> Iterator[tuple[tuple[int, Partitions], ...]]:
        """All ways to give each partition to one member that subscribes to its topic."""
        members = group.members_with(member, one)
        owners = [[known for known, each in members if topic in each.subscribed] for topic, _ in self.partitions]
        for choice in product(*owners):
            given = list(zip(self.partitions, choice, strict=True))
            yield tuple((known, tuple(p for p, owner in given if owner == known)) for known, _ in members)

    def is_free(self, group: Group, partition: Partition) -> bool:
        """Whether no member has it still."""
        return group.partition_epochs[self.partitions.index(partition)] == 0

    def may_take(self, group: Group, partition: Partition) -> bool:
        """Whether a member may be assigned a partition of its target."""
        return self.is_free(group, partition)

    def is_settled(self, group_epoch: int, member: Member) -> bool:
        """Whether the member has got all that the group's epoch is to bring it."""
        return member.status == MemberStatus.STABLE and member.target_epoch == group_epoch

    def advanced(self, group: Group, member: Member, request: HeartbeatRequest, target: Partitions) -> Member:
        """The member one step nearer to its target: first it gives back, then it takes what is free."""
        epoch = group.epoch
        if self.is_settled(epoch, member):
            return member
        if member.target_epoch != epoch:
            return self._retargeted(group, member, target)
        if member.status == MemberStatus.REVOKING:
            return self._assigning(group, member) if self.has_revoked(member) else member
        if any(self.may_take(group, partition) for partition in member.assigning):
            return self._assigning(group, member)
        return member

    def has_revoked(self, member: Member) -> bool:
        """Whether it has said that it owns no more than it is left."""
        return not member.revoking or member.assigned == member.reported

    def _retargeted(self, group: Group, member: Member, target: Partitions) -> Member:
        held = united(member.assigned, member.revoking)
        kept = shared(held, target)
        revoking, assigning = without(held, kept), without(target, kept)
        if revoking:
            return evolve(
                member,
                status=MemberStatus.REVOKING,
                target_epoch=group.epoch,
                assigned=kept,
                revoking=revoking,
                assigning=assigning,
            )
        return self._assigning(group, evolve(member, assigned=kept, assigning=assigning))

    def _assigning(self, group: Group, member: Member) -> Member:
        """It takes what is free of what it waits for, in the group's epoch."""
        free = tuple(partition for partition in member.assigning if self.may_take(group, partition))
        waits_for = without(member.assigning, free)
        return evolve(
            member,
            status=MemberStatus.ASSIGNING if waits_for else MemberStatus.STABLE,
            member_epoch=group.epoch,
            target_epoch=group.epoch,
            assigned=united(member.assigned, free),
            revoking=(),
            assigning=waits_for,
        )

    def tells_assignment(self, request: HeartbeatRequest, before: Member, after: Member) -> bool:
        """Whether a response says what the member is to own."""
        return request.partitions != UNSAID or request.member_epoch == 0 or after != before

    def partition_epochs(self, group: Group, before: Member | None, after: Member | None) -> tuple[int, ...]:
        """Of all partitions, once a member is what it is now: it has what it is assigned, and what it gives back."""
        old = united(before.assigned, before.revoking) if before else ()
        new = united(after.assigned, after.revoking) if after else ()
        epoch = after.member_epoch if after else 0
        return tuple(
            epoch if partition in new else 0 if partition in old else known
            for partition, known in zip(self.partitions, group.partition_epochs, strict=True)
        )

    def status_of(self, members: Members, epoch: int, target_epoch: int) -> GroupStatus:
        if not members:
            return GroupStatus.EMPTY
        if epoch > target_epoch:
            return GroupStatus.ASSIGNING
        settled = all(self.is_settled(epoch, member) for _, member in members)
        return GroupStatus.STABLE if settled else GroupStatus.RECONCILING

    def without_member(self, group: Group, member: int) -> Group:
        """The member is gone: its partitions are free, and the next heartbeat makes a new target."""
        members = tuple((known, one) for known, one in group.members if known != member)
        epoch = group.epoch + 1
        return evolve(
            group,
            members=members,
            epoch=epoch,
            status=self.status_of(members, epoch, group.target_epoch),
            partition_epochs=self.partition_epochs(group, group.member(member), None),
        )


@attrs.frozen
class FirstRules(Kip848Rules):
    """Version 1, a draft of the protocol: a member is told to revoke and acknowledges that before anything else.

    Subscriptions do not change, and the network forgets no message.
    """

    def put(self, messages: Counted[M], message: M) -> Counted[M]:
        counts = dict(messages)
        return tuple(sorted({**counts, message: counts.get(message, 0) + 1}.items()))

    def taken(self, messages: Counted[M], message: M) -> Counted[M]:
        return tuple((each, count - (each == message)) for each, count in messages)

    def noted(self, message: HeartbeatRequest | HeartbeatResponse) -> tuple[HeartbeatRequest | HeartbeatResponse, ...]:
        return ()

    def subscriptions(self, state: State, client: int) -> Iterable[Topics]:
        return (self.all_topics,)

    def is_perturbed(self, client: Client, subscribed: Topics) -> bool:
        return False

    def tells_partitions(self, client: Client) -> bool:
        return client.last_sent != client.assignment

    def is_reconciled(self, client: Client) -> bool:
        return not client.assigned

    def reconciled(self, client: Client, reconciliation: Reconciliation) -> Client:
        owned = reconciliation.assignment
        return evolve(client, assignment=owned, assigned=without(client.assigned, owned))

    def assignment_unsaid(self, before: Client, client: Client) -> Client:
        return became(client, ClientStatus.STABLE) if self.is_reconciled(client) else client

    def described(self, group: Group, request: HeartbeatRequest) -> Member:
        member = group.member(request.member)
        if member is None:
            return Member(request.source, request.subscribed)
        return evolve(member, subscribed=request.subscribed)

    def is_settled(self, group_epoch: int, member: Member) -> bool:
        return member.status == MemberStatus.STABLE and member.member_epoch == group_epoch

    def advanced(self, group: Group, member: Member, request: HeartbeatRequest, target: Partitions) -> Member:
        if member.status == MemberStatus.STABLE and member.member_epoch == group.epoch:
            return member
        if member.status == MemberStatus.UNACKED_ASSIGNMENT and not self.acknowledges(member, request):
            return member
        kept = shared(member.assigned, target)
        revoking, assigning = without(member.assigned, kept), without(target, kept)
        if revoking:
            return evolve(member, status=MemberStatus.UNACKED_ASSIGNMENT, assigned=kept, revoking=revoking)
        free = tuple(partition for partition in assigning if self.may_take(group, partition))
        status = MemberStatus.STABLE if not assigning else MemberStatus.UNREL_PARTITIONS
        if free:
            status = MemberStatus.UNACKED_ASSIGNMENT
        return evolve(member, status=status, member_epoch=group.epoch, assigned=united(kept, free), revoking=())

    def acknowledges(self, member: Member, request: HeartbeatRequest) -> bool:
        """Whether the heartbeat says that the member owns what it was assigned."""
        return request.partitions == member.assigned

    def tells_assignment(self, request: HeartbeatRequest, before: Member, after: Member) -> bool:
        said = request.partitions != UNSAID or request.member_epoch == 0
        return said or after.status == MemberStatus.UNACKED_ASSIGNMENT

    def partition_epochs(self, group: Group, before: Member | None, after: Member | None) -> tuple[int, ...]:
        """Of all partitions: first what the member is assigned is looked at, then what it gives back."""
        if before is None:
            return super().partition_epochs(group, before, after)
        epochs, epoch = group.partition_epochs, after.member_epoch if after else 0
        for old, new in (
            (before.assigned, after.assigned if after else ()),
            (before.revoking, after.revoking if after else ()),
        ):
            if old != new:
                epochs = tuple(
                    epoch if partition in new else 0 if partition in old else known
                    for partition, known in zip(self.partitions, epochs, strict=True)
                )
        return epochs
