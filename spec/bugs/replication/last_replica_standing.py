"""KIP-966: the last replica of the ISR leads again although it lost its tail."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Invariant, StepInvariant
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Controller, State


@attrs.frozen
class LastReplicaStays(Replication):
    """The rule before KIP-966: the last member always stays in the ISR; there are no eligible leaders."""

    def without(self, controller: Controller, broker: int, *, clean: bool) -> Controller:
        if controller.isr == (broker,):
            return controller
        return evolve(super().without(controller, broker, clean=clean), elr=())

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        """A fenced last member was no fault then."""
        return {name: holds for name, holds in super().invariants.items() if name != "IsrIsUnfenced"}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        """There were no eligible leaders to keep."""
        return {name: holds for name, holds in super().step_invariants.items() if name != "EligibleLeadersKept"}


BUG = Bug(
    name="last_replica_standing",
    title="last replica standing",
    reference="KIP-966",
    mechanism=(
        "The ISR shrinks to one replica; that one crashes, loses records that a departed member still has, and is "
        "elected all the same."
    ),
    violates=("LeaderCandidateCompleteness", "LeaderCompleteness", "StrongIsr"),
    buggy=LastReplicaStays,
    model=Replication(brokers=2, max_records=1, min_insync_replicas=2, bounds=Bounds(ExpireSession=1, Crash=1)),
)
