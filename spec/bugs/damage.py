"""Damaged logs with one rule wrong each, and the small model in which it shows."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Replica


@attrs.frozen
class KeepsTheNote(Damage):
    """A broker that finds damage registers as one that stopped cleanly."""

    def found(self, replica: Replica) -> Replica:
        return replica


BUGS: Final = (
    Bug(
        name="keeps_the_note",
        title="a damaged log taken for one that was closed",
        reference="KIP-966",
        mechanism="A broker finds damage and registers as one that stopped cleanly: eligible, it is never repaired.",
        violates=("a live broker is registered and not fenced", "a live broker has the metadata"),
        buggy=KeepsTheNote,
        model=Replication(
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(BeginShutdown=1, DamageLog=1),
            extensions=(ControlledShutdown(), Damage()),
        ),
    ),
    Bug(
        name="believes_the_sync",
        title="a log that was cut short taken for one that was closed",
        reference="KIP-966",
        mechanism="A sync has lied, the log ends early, and the broker registers as one that stopped cleanly.",
        violates=("LeaderCandidateCompleteness",),
        buggy=KeepsTheNote,
        model=Replication(
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(BeginShutdown=1, LoseEnd=1),
            extensions=(ControlledShutdown(), Damage()),
        ),
    ),
)
