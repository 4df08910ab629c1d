"""Reassignments with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.replication.extensions.reassignment import Assignment, Reassignment, assigned
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller


@attrs.frozen
class SwapsAtOnce(Reassignment):
    """The old replicas are dropped before the new ones are in sync."""

    def completed(self, machine: ReplicationRules, controller: Controller) -> Controller:
        now = Assignment.of(controller)
        swapped = self.only_on(controller, tuple(b for b in now.replicas if b not in now.removing))
        return evolve(swapped, isr=tuple(sorted(assigned(swapped))))


@attrs.frozen
class CountsTheDeletedReplica(Reassignment):
    """No leader epoch begins when a replica leaves: a fetch that it sent before counts when it is back, empty."""

    def fences_departed(self, old: Controller, new: Controller) -> bool:
        return False


@attrs.frozen
class CancelsForAnOldReplica(Reassignment):
    """When only added replicas are in sync a cancellation puts an old one in their place, as if it had every record."""

    def may_cancel(self, machine: ReplicationRules, controller: Controller) -> bool:
        return True

    def cancelled(self, machine: ReplicationRules, controller: Controller) -> Controller:
        back = super().cancelled(machine, controller)
        return back if back.isr or back.elr else evolve(back, isr=assigned(back)[:1])


def _model(reassignment: Reassignment, brokers: int, bounds: Bounds) -> Replication:
    return Replication(brokers=brokers, max_records=1, bounds=bounds, extensions=(reassignment,))


BUGS: Final = (
    Bug(
        name="swaps_at_once",
        title="a reassignment without the larger list in between",
        reference="KIP-455",
        mechanism="The old replicas are dropped before the new ones are in sync, and committed records with them.",
        violates=("LeaderCandidateCompleteness", "StrongIsr"),
        buggy=SwapsAtOnce,
        model=_model(Reassignment((0,), ((1,),)), 2, Bounds(StartReassignment=1)),
    ),
    Bug(
        name="counts_the_deleted_replica",
        title="no leader epoch when a replica leaves the list",
        reference="KIP-455",
        mechanism="A fetch that a replica sent before it was deleted counts when it is back, empty.",
        violates=("StrongIsr", "LeaderCandidateCompleteness"),
        buggy=CountsTheDeletedReplica,
        model=_model(Reassignment((0, 1), ((0,), (0, 1))), 2, Bounds(StartReassignment=2)),
    ),
    Bug(
        name="cancels_for_an_old_replica",
        title="a cancellation that puts a lagging replica in the ISR",
        reference="KIP-455",
        mechanism="Only added replicas are in sync; the old one that takes their place lacks committed records.",
        violates=("IsrIsUnfenced", "LeaderCandidateCompleteness", "StrongIsr"),
        buggy=CancelsForAnOldReplica,
        model=_model(Reassignment((0,), ((1, 2),)), 3, Bounds(StartReassignment=1, ExpireSession=1)),
    ),
)
"""Each overrides a rule of `Reassignment`."""
