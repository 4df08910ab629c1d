"""KAFKA-13636: offsets expire while their group rebalances."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import Membership, State


@attrs.frozen
class LetsGoWhileTheyRejoin(Offsets):
    """Only a group that is stable says what it reads; of any other nothing seems to be read."""

    def has_members(self, state: State) -> bool:
        return state.membership is Membership.STABLE


BUG = Bug(
    name="kafka_13636",
    title="offsets expire while their group rebalances",
    reference="KAFKA-13636",
    mechanism=(
        "An offset has not been committed for long. A member joins, and as long as nobody is assigned, no partition "
        "counts as read: the offset expires, and the group begins anew wherever its members are set to."
    ),
    violates=("MembersKeepTheirOffsets",),
    buggy=LetsGoWhileTheyRejoin,
    model=Offsets(producers=1, max_entries=2, max_failures=0, max_rebalances=1),
)
