"""KAFKA-19233: a fenced member that joins again is fenced."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import Error, Group
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class FencesWhoJoinsAgain(ConsumerGroups):
    """Epoch 0 is held against the member's epoch as any other."""

    def joining_error(self, group: Group, instance: int, member_id: int) -> Error:
        is_member = group.member(member_id) is not None
        return Error.FENCED_MEMBER_EPOCH if is_member else super().joining_error(group, instance, member_id)


BUG = Bug(
    name="kafka_19233",
    title="a fenced member that joins again is fenced",
    reference="KAFKA-19233",
    mechanism=(
        "A member that joins again under its id, as it has to when it is fenced or has lost a response, is refused "
        "because its epoch is 0: it is fenced for ever."
    ),
    violates=("every process that goes on is in the epoch of the group, with its part",),
    buggy=FencesWhoJoinsAgain,
    model=ConsumerGroups(bounds=Bounds(LoseResponse=1)),
)
