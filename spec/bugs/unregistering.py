"""Brokers that are removed, with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.extensions.unregistering import Unregistering
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller


@attrs.frozen
class StaysEligible(Unregistering):
    """A broker that is removed is treated as one whose session has expired."""

    def unregistered(self, machine: ReplicationRules, controller: Controller, broker: int) -> Controller:
        return machine.without(controller, broker, clean=True)


@attrs.frozen
class StaysInSync(Unregistering):
    """A broker that is removed stays where it was."""

    def unregistered(self, machine: ReplicationRules, controller: Controller, broker: int) -> Controller:
        return controller


_MODEL: Final = Replication(
    brokers=2,
    max_records=1,
    min_insync_replicas=2,
    bounds=Bounds(Unregister=1),
    extensions=(Unregistering(),),
)

BUGS: Final = (
    Bug(
        name="stays_eligible",
        title="a partition waits for a broker that was removed",
        reference="KIP-631, KIP-966",
        mechanism="A broker that is gone for good stays in the ELR, and nobody else is elected.",
        violates=("UnregisteredIsNotEligible",),
        buggy=StaysEligible,
        model=_MODEL,
    ),
    Bug(
        name="stays_in_sync",
        title="a leader waits for a broker that was removed",
        reference="KIP-631",
        mechanism="A broker that is gone for good stays in the ISR: nothing is committed without it.",
        violates=("IsrIsUnfenced", "UnregisteredIsNotEligible"),
        buggy=StaysInSync,
        model=_MODEL,
    ),
)
"""Each overrides a rule of `Unregistering`."""
