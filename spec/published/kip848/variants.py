"""The published KIP-848 models with a rule taken out: what the explorer then finds says what that rule is for."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kip848.rules import Kip848Rules
from tidegauge.spec.published.kip848.state import Client, Group, HeartbeatRequest, Member, Partition


class AssignsHeld(Kip848Rules):
    """A member is assigned what another has still."""

    def may_take(self, group: Group, partition: Partition) -> bool:
        return True


class KeepsWhenFenced(Kip848Rules):
    """A client that is fenced goes on with the partitions that it owns."""

    def fenced(self, client: Client) -> Client:
        return evolve(super().fenced(client), assignment=client.assignment)


@attrs.frozen
class AssignBeforeRevoke(AssignsHeld, Kip848):
    """A member is assigned what another has still: two clients own one partition at once."""


@attrs.frozen
class RevokeWithoutAcknowledgement(Kip848):
    """A member gets the new epoch before it has said what it owns: it may own what is another's in that epoch."""

    def has_revoked(self, member: Member) -> bool:
        return True


@attrs.frozen
class FencedKeepsAssignment(KeepsWhenFenced, Kip848):
    """A client that is fenced goes on with what it owns: the target may have given that to another."""


@attrs.frozen
class FirstAssignBeforeRevoke(AssignsHeld, FirstKip848):
    """In version 1, a member is assigned what another has still: two clients own one partition at once."""


@attrs.frozen
class FirstRevokeWithoutAcknowledgement(FirstKip848):
    """In version 1, a member gets its next assignment before it has acknowledged the one before."""

    def acknowledges(self, member: Member, request: HeartbeatRequest) -> bool:
        return True


@attrs.frozen
class FirstFencedKeepsAssignment(KeepsWhenFenced, FirstKip848):
    """In version 1, a client that is fenced goes on with what it owns."""
