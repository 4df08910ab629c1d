"""The published models of KIP-848: one group whose coordinator assigns, and clients that reconcile what they own.

Ports of Jack Vanlightly's TLA+ specifications (github.com/Vanlightly/kafka-tlaplus, `groupprotocol`), rule by rule and
under their names, so that this explorer can be held against TLC: same states, same levels, same shortest
counterexamples. Their simplifications are therefore kept as they are.

Theory of operation
-------------------
A client sends one heartbeat at a time, which joins, acknowledges and leaves. A client that joins, leaves, is fenced or
subscribes anew raises the group's epoch, and the next heartbeat chooses a target for it: who is to have which
partition. Each member then goes to its target by its own heartbeats, in two steps: it gives back what is not in its
target, in its old epoch, and only when its client has said that it owns no more than is left does it get the new
epoch, with what nobody else has still (each partition has the epoch of the member that has it, or 0). So no two
members own a partition at once, though no moment is common to all, and nobody waits for the slowest.

`Kip848` is version 2, the protocol as it was built; `FirstKip848` is version 1, a draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, check_processes
from tidegauge.spec.published.kip848 import actions as protocol
from tidegauge.spec.published.kip848.actions import Kip848Action
from tidegauge.spec.published.kip848.rules import FirstRules, Kip848Rules
from tidegauge.spec.published.kip848.state import Client, Group, GroupStatus, MemberStatus, State, shared


@attrs.frozen
class Kip848(Kip848Rules):
    """The published model of KIP-848, version 2: one group whose coordinator assigns, with epochs of partitions.

    The fields of its rules are the constants of the TLA+ model.
    """

    action_base = Kip848Action
    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.SendHeartbeatRequest,
        protocol.ReceiveErrorResponse,
        protocol.ReceiveSuccessResponse,
        protocol.CompleteReconciliation,
        protocol.StartLeaveGroup,
        protocol.CompleteLeaveGroup,
        protocol.ClientCrash,
        protocol.ReceiveRegularHeartbeatRequest,
        protocol.ReceiveLeaveHeartbeatRequest,
        protocol.ReceiveBadHeartbeatRequest,
        protocol.LiveMemberExpired,
        protocol.DeadMemberExpired,
    )

    def initial(self) -> Iterable[State]:
        """Nobody is a member; all are to join. Raises ValueError for constants that fit no state."""
        check_processes("clients", self.clients)
        check_processes("topics", self.topics)
        check_processes("partitions_per_topic", self.partitions_per_topic)
        clients = (Client(self.all_topics),) * self.clients
        yield State(clients, Group((), (0,) * len(self.partitions)))

    def candidates(self, state: State) -> list[Kip848Action]:
        """Actions whose guards are worth a look."""
        found: list[Kip848Action] = []
        for number in range(self.clients):
            found += [protocol.SendHeartbeatRequest(number, chosen) for chosen in self.subscriptions(state, number)]
            found += [protocol.CompleteReconciliation(number), protocol.CompleteLeaveGroup(number)]
            if self.may_perturb(state):
                found += [protocol.StartLeaveGroup(number), protocol.ClientCrash(number)]
        for response, count in state.network.responses:
            if count:
                found += [protocol.ReceiveErrorResponse(response), protocol.ReceiveSuccessResponse(response)]
        for request, count in state.network.requests:
            if count:
                found += [
                    *(
                        protocol.ReceiveRegularHeartbeatRequest(request, target)
                        for target in protocol.targets(self, state, request)
                    ),
                    protocol.ReceiveLeaveHeartbeatRequest(request),
                    protocol.ReceiveBadHeartbeatRequest(request),
                ]
        for member, _ in state.group.members:
            found += [protocol.LiveMemberExpired(member), protocol.DeadMemberExpired(member)]
        return found

    def is_fair(self, before: State, action: Action, after: State) -> bool:
        return super().is_fair(before, action, after) and before.perturbations == after.perturbations

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "LegalTargetAssignment": self.legal_target_assignment,
            "NoDoubleClientAssignment": no_double_client_assignment,
            "ValidPartitionEpoch": self.valid_partition_epoch,
            "ValidStableGroupState": valid_stable_group_state,
            "ValidMemberEpoch": valid_member_epoch,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        """What a search must have reached, as far as the constants let it."""
        goals: dict[str, Invariant[State]] = {"the group has converged": self.has_converged}
        if self.clients > 1:
            goals["a member gives partitions back"] = lambda s: any(one.revoking for _, one in s.group.members)
            goals["a member waits for another's partition"] = waits_for_anothers_partition
        return goals

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        """What the models call EventuallyConverges."""
        return {"the group has converged": self.has_converged}

    def legal_target_assignment(self, state: State) -> bool:
        """Each partition is some member's, and nobody else's."""
        given = sorted(partition for _, owned in state.group.target for partition in owned)
        return not state.group.target or given == list(self.partitions)

    def valid_partition_epoch(self, state: State) -> bool:
        """Nobody has a partition without an epoch."""
        held = {p for _, member in state.group.members for p in (*member.assigned, *member.revoking)}
        return not any(self.is_free(state.group, partition) for partition in held)

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        """What the clients own, and what they are to."""
        return {
            "owned": [client.assignment for client in state.clients],
            "epochs": [client.member_epoch for client in state.clients],
            "target": state.group.target,
        }


@attrs.frozen
class FirstKip848(FirstRules, Kip848):
    """The published model of KIP-848, version 1: one group whose coordinator assigns, without epochs of partitions."""

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        """Those of version 1, which has none on the epochs of partitions."""
        return {name: holds for name, holds in super().invariants.items() if name != "ValidPartitionEpoch"}


def waits_for_anothers_partition(state: State) -> bool:
    waiting = (MemberStatus.ASSIGNING, MemberStatus.UNREL_PARTITIONS)
    return any(member.status in waiting for _, member in state.group.members)


def no_double_client_assignment(state: State) -> bool:
    """No two clients that are members believe that they own the same partition."""
    members = [client for client in state.clients if state.group.member(client.member) is not None]
    return not any(shared(one.assignment, other.assignment) for one, other in combinations(members, 2))


def valid_member_epoch(state: State) -> bool:
    """Who has got to the target's epoch owns nothing that is another's in the target."""
    for client in state.clients:
        if client.member_epoch == state.group.target_epoch:
            for member, owned in state.group.target:
                if member != client.member and shared(client.assignment, owned):
                    return False
    return True


def valid_stable_group_state(state: State) -> bool:
    """All members of a stable group have reached its epoch and their targets."""
    group = state.group
    return group.status != GroupStatus.STABLE or all(
        member.status == MemberStatus.STABLE
        and member.member_epoch == group.epoch
        and not member.revoking
        and member.assigned == group.target_of(number)
        for number, member in group.members
    )
