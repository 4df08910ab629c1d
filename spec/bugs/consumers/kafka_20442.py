"""KAFKA-20442: an empty group whose target is of an epoch before."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import Group
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve


@attrs.frozen
class LeavesTheTargetBehind(ConsumerGroups):
    """The last member that goes begins an epoch, and no target is made for it."""

    def removed(self, group: Group, member_id: int) -> Group:
        return evolve(super().removed(group, member_id), target_epoch=group.target_epoch)


BUG = Bug(
    name="kafka_20442",
    title="an empty group whose target is of an epoch before",
    reference="KAFKA-20442",
    mechanism=(
        "When the last member has gone the group is in an epoch for which there is no target, though nobody is "
        "there to make one for: it is not the empty group that it seems."
    ),
    violates=("TargetIsOfTheEmptyGroup",),
    buggy=LeavesTheTargetBehind,
    model=ConsumerGroups(processes=1, bounds=Bounds(Leave=1)),
)
