"""A simulated member of the classic protocol in a group that goes over to KIP-848's and back.

It says what it wants and owns as consumers do, since the coordinator reads that. Generations may be epochs of a
consumer group, which begin without a leader: so its rows name none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from tidegauge.impl.client.assignors.subscription import Subscription
from tidegauge.impl.client.consumer_protocol import (
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from tidegauge.model_tests.harness.simulation.group_members import GroupMember, Said, shares


@attrs.define(eq=False)
class ClassicConsumer(GroupMember):
    """One life of a client."""

    tells_generation: ClassVar[bool] = False

    def metadata(self) -> bytes:
        """Its subscription."""
        owned = tuple((self.topic, partition) for partition in self.owned)
        return subscription_bytes(Subscription((self.topic,), owned, self.generation, self.instance))

    def assignment(self, partitions: Sequence[int]) -> bytes:
        """What the leader gives to a member."""
        return assignment_bytes([(self.topic, partition) for partition in partitions])

    def given(self, assignment: bytes) -> list[int]:
        """What a member is given."""
        return sorted(partition for _, partition in assignment_of(assignment))

    def share_out(self, joined: Any) -> dict[str, list[int]]:
        """What a member says that it owns nobody else is given, whatever its epoch was when it was told so.

        A group that goes back may have members in several epochs, each of which owns what it has.
        """
        said = {one.member_id: subscription_of(one.metadata) for one in joined.members}
        owned = {name: tuple(partition for _, partition in one.owned) for name, one in said.items()}
        return shares({name: Said(0, 0, has, 0) for name, has in owned.items()}, self.partitions)
