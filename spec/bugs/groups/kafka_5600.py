"""KAFKA-5600: a coordinator that loads a group as it once was."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import Group, Log
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class LoadsTheFirstRecord(ClassicGroups):
    """The first record of a group that is read counts, and later ones are left aside."""

    def loaded(self, log: Log) -> Group:
        return super().loaded(evolve(log, groups=log.groups[:1]))


BUG = Bug(
    name="kafka_5600",
    title="a coordinator that loads a group as it once was",
    reference="KAFKA-5600",
    mechanism=(
        "Records were taken over after each part of the log that was read, and not at its end: a group "
        "that was known already stayed as it was."
    ),
    violates=("GenerationsRise",),
    buggy=LoadsTheFirstRecord,
    model=ClassicGroups(processes=1, bounds=Bounds(Leave=1, FailOver=1)),
)
