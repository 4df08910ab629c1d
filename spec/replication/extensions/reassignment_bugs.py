"""Reassignments as they should not be: one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.machine import Bounds
from tidegauge.spec.replication.state import Controller


@attrs.frozen
class SwapsAtOnce(Reassignment):
    """The old replicas are dropped before the new ones are in sync."""

    def completed(self, controller: Controller) -> Controller:
        swapped = self.only_on(controller, tuple(b for b in controller.replicas if b not in controller.removing))
        return attrs.evolve(swapped, isr=tuple(sorted(swapped.replicas)))


@attrs.frozen
class CountsItsFormerLife(Reassignment):
    """No leader epoch begins when a replica leaves: a fetch that it sent before counts when it is back, empty."""

    def fences_departed(self, old: Controller, new: Controller) -> bool:
        return False


@attrs.frozen
class CancelsForAnOldReplica(Reassignment):
    """When only added replicas are in sync a cancellation puts an old one in their place, as if it had every record."""

    def may_cancel(self, controller: Controller) -> bool:
        return True

    def cancelled(self, controller: Controller) -> Controller:
        back = super().cancelled(controller)
        return back if back.isr or back.elr else attrs.evolve(back, isr=back.replicas[:1])


def _bounds(**perturbations: int) -> Bounds:
    return Bounds(**{"shrinks": 0, "lapses": 0, **perturbations})


BUGS: Final[Mapping[str, tuple[type[Reassignment], Mapping[str, Any], tuple[str, ...]]]] = {
    "swaps at once": (
        SwapsAtOnce,
        {"initial_replicas": (0,), "targets": ((1,),), "bounds": _bounds(reassignments=1)},
        ("CompletesInSync", "LeaderCandidateCompleteness", "StrongIsr", "ReplicationQuorumSuperset"),
    ),
    "counts its former life": (
        CountsItsFormerLife,
        {"initial_replicas": (0, 1), "targets": ((0,), (0, 1)), "bounds": _bounds(reassignments=2)},
        ("StrongIsr", "LeaderCandidateCompleteness"),
    ),
    "cancels for an old replica": (
        CancelsForAnOldReplica,
        {
            "brokers": 3,
            "initial_replicas": (0,),
            "targets": ((1, 2),),
            "bounds": _bounds(reassignments=1, lapses=1),
        },
        ("IsrIsUnfenced", "LeaderCandidateCompleteness", "StrongIsr"),
    ),
}
"""Name -> (machine, constants beyond two brokers and one record, invariants of which one falls)."""


def buggy(name: str) -> Reassignment:
    """The machine with the bug."""
    kind, constants, _ = BUGS[name]
    return kind(**{"brokers": 2, "max_records": 1, **constants})


def correct(name: str) -> Reassignment:
    """The same model without it."""
    return Reassignment(**{"brokers": 2, "max_records": 1, **BUGS[name][1]})
