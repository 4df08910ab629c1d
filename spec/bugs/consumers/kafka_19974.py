"""KAFKA-19974: a partition that one member after another has in the same member epoch."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.models import CONSUMER_MODELS
from tidegauge.spec.groups.consumer.state import Member


@attrs.frozen
class RaisesTheEpoch(ConsumerGroups):
    """A member that has given something back, and has more to give back, is in the next epoch."""

    def epoch_while_revoking(self, member: Member) -> int:
        return member.epoch + 1 if member.revoking else member.epoch


BUG = Bug(
    name="kafka_19974",
    title="a partition that one member after another has in the same member epoch",
    reference="KAFKA-19974",
    mechanism=(
        "A member that has given back what it unsubscribed from, and has more to give back, is in the next epoch. That "
        "may be the target's, in which what it has yet to give back is given to another member."
    ),
    violates=("GivenBackBeforeTheEpoch",),
    buggy=RaisesTheEpoch,
    model=CONSUMER_MODELS["consumers-interval-owners"].machine,
)
