"""KAFKA-12984: a claim that is out of date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import Subscription
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class TakesEveryClaim(ClassicGroups):
    """The member that says first that it owns a partition is taken for its owner, of whatever generation that is."""

    def claims(self, members: Sequence[tuple[int, Subscription]]) -> Mapping[int, int]:
        return {partition: member_id for member_id, said in reversed(members) for partition in said.owned}


BUG = Bug(
    name="kafka_12984",
    title="a claim that is out of date",
    reference="KAFKA-12984",
    mechanism=(
        "A member that has missed a generation says what it owned before. The leader gives it that "
        "again, though another member has it by now, and has not given it back."
    ),
    violates=("RevokedBeforeGiven",),
    buggy=TakesEveryClaim,
    model=ClassicGroups(instances=(0, 1), cooperative=True, partitions=3, bounds=Bounds(ExpireRebalance=1)),
)
