"""KAFKA-13419: a member that forgets its id with its generation."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import Error, Process
from tidegauge.spec.kernel.bounds import Bounds


@attrs.frozen
class ForgetsItsId(ClassicGroups):
    """A member that is told that its generation is over forgets its member id too."""

    def after_error(self, process: Process, error: Error) -> Process:
        forgets = error is Error.ILLEGAL_GENERATION
        return super().after_error(process, Error.UNKNOWN_MEMBER_ID if forgets else error)


BUG = Bug(
    name="kafka_13419",
    title="a member that forgets its id with its generation",
    reference="KAFKA-13419",
    mechanism=(
        "It joins again as somebody else, while the group waits for the member that it was: what it "
        "owned is nobody's until the session of that ends."
    ),
    violates=("OnlyTheStaleAreReset",),
    buggy=ForgetsItsId,
    model=ClassicGroups(partitions=1, bounds=Bounds(FailOver=1)),
)
